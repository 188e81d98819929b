//! Who may see a service, and what is ours on its host.

use std::sync::atomic::Ordering;

use axum::body::Body;
use bytes::Bytes;
use cabana_types::service::{Access, ServiceState};
use cabana_types::{Secret, Traffic};
use http::{Request, Response};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_util::sync::CancellationToken;

use crate::preview_world::*;
use crate::world::*;

#[tokio::test]
async fn private_services_are_for_the_team() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, counter, _task) = open_port(&sandbox, echo()).await;
    for access in [Access::Private, Access::Link] {
        shown.service(&sandbox.id, port, access);
        let host = local(&sandbox, port);
        let answer = shown.get(&host, "/a?b=c&d", NAVIGATE).await;
        assert_eq!(status(&answer), 302, "{answer}");
        let back =
            format!("{CONSOLE}/console/preview?to=http%3A%2F%2F{port}-{}.localhost%3A3000%2Fa%3Fb%3Dc%26d", sandbox.id);
        assert_eq!(header(&answer, "location"), Some(&*back));
        assert_eq!(header(&answer, "cache-control"), Some("no-store"));

        let answer = shown.get(&host, "/", FRAME).await;
        assert_eq!(status(&answer), 403);
        assert!(body(&answer).contains("Sign in to see this"), "{answer}");
        let policy = header(&answer, "content-security-policy").expect("a policy");
        assert!(policy.ends_with(&format!("frame-ancestors 'self' {CONSOLE}")), "{policy}");

        let wrong =
            "Cookie: cabana_view_80=good; __Host-cabana_view=good; cabana_view_3000=bad\r\nX-API-KEY: other\r\n";
        for headers in ["", FETCH, wrong, "E2b-Traffic-Access-Token: x\r\n", "X-API-Key: team-key\r\nX-API-Key: x\r\n"]
        {
            let answer = shown.get(&host, "/", headers).await;
            assert_eq!(status(&answer), 403, "{headers}: {answer}");
            assert!(body(&answer).contains(r#""error_code":"preview_forbidden""#), "{answer}");
        }
        let by_headers = format!("E2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: {port}\r\n{NAVIGATE}{VIEW}", sandbox.id);
        let answer = shown.get("localhost:3000", "/", &by_headers).await;
        assert_eq!(status(&answer), 403, "a cookie counts only at its host: {answer}");
    }
    assert_eq!(counter.opened(), 0, "nothing reached the program");

    let by_headers = format!("E2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: {port}\r\nX-API-Key: team-key\r\n", sandbox.id);
    assert_eq!(status(&shown.get("localhost:3000", "/", &by_headers).await), 200);
    assert_eq!(status(&shown.get("localhost:3000", "/.cabana/status", &by_headers).await), 404);
    let two = "Cookie: cabana_view_3000=bad; cabana_view_3000=good\r\n";
    for headers in [VIEW, two, "X-API-KEY: team-key\r\n"] {
        let answer = shown.get(&local(&sandbox, port), "/x", headers).await;
        assert_eq!(status(&answer), 200, "{answer}");
        for ours in ["cabana_view", "good", "team-key"] {
            assert!(!body(&answer).contains(ours), "{answer}");
        }
    }
    shown.fake.session.cancel();
    assert_eq!(status(&shown.get(&local(&sandbox, port), "/x", VIEW).await), 403, "signed out");
}

#[tokio::test]
async fn the_traffic_token_and_public_traffic() {
    let shown = Shown::new().await;
    let traffic = Traffic { token: Some(Secret::new("t0ken")), ..Traffic::default() };
    let sandbox =
        shown.world.publish_with("ipreviewtoken".parse().expect("id"), [127, 19, 7, 1].into(), traffic, echo());
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    shown.service(&sandbox.id, port, Access::Private);
    let host = local(&sandbox, port);
    let answer = shown.get(&host, "/", "E2b-Traffic-Access-Token: t0ken\r\n").await;
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(!answer.contains("t0ken"), "{answer}");
    assert_eq!(status(&shown.get(&host, "/", "E2b-Traffic-Access-Token: other\r\n").await), 403);
    shown.service(&sandbox.id, port, Access::Public);
    assert_eq!(status(&shown.get(&host, "/", "").await), 200, "a public service in a sandbox that is not");

    let open = shown.world.sandbox(echo());
    let (private, _, _a) = open_port(&open, echo()).await;
    let (other, _, _b) = open_port(&open, echo()).await;
    shown.service(&open.id, private, Access::Private);
    assert_eq!(
        status(&shown.get(&local(&open, private), "/", "").await),
        403,
        "a private service in a sandbox that is public"
    );
    let before = shown.fake.lookups.load(Ordering::SeqCst);
    let answer = shown.get(&local(&open, other), "/.cabana/x", "Origin: http://a.test\r\n").await;
    assert_eq!(status(&answer), 200, "ports without a service are as ever");
    assert!(body(&answer).contains(&format!("host: {}", local(&open, other))), "{answer}");
    assert_eq!(shown.fake.lookups.load(Ordering::SeqCst), before + 1);
    assert_eq!(status(&shown.get(&format!("49983-{}.localhost", open.id), "/health", "").await), 200);
    assert_eq!(shown.fake.lookups.load(Ordering::SeqCst), before + 1, "the guest has no service");
}

#[tokio::test]
async fn a_ticket_gives_a_cookie_once() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, counter, _task) = open_port(&sandbox, echo()).await;
    shown.service(&sandbox.id, port, Access::Private);
    let host = local(&sandbox, port);
    shown.fake.ticket("first", None);
    let answer = shown.get(&host, "/.cabana/enter?ticket=first&to=%2Fa%3Fb", NAVIGATE).await;
    assert_eq!((status(&answer), header(&answer, "location")), (302, Some("/a?b")));
    let cookie = "cabana_view_3000=good; Path=/; Max-Age=600; HttpOnly; SameSite=Lax";
    assert_eq!(header(&answer, "set-cookie"), Some(cookie));
    assert_eq!(header(&answer, "cache-control"), Some("no-store"));
    assert_eq!(header(&answer, "referrer-policy"), Some("no-referrer"));

    let again = shown.get(&host, "/.cabana/enter?ticket=first&to=/a", NAVIGATE).await;
    assert!(header(&again, "location").is_some_and(|to| to.starts_with(CONSOLE)), "{again}");
    assert!(header(&again, "set-cookie").is_none());
    let back = shown.get(&host, "/.cabana/enter?ticket=first&to=/a", &format!("{NAVIGATE}{VIEW}")).await;
    assert_eq!(header(&back, "location"), Some("/a"));

    for hostile in
        ["//evil.test", "/%5Cevil.test", "https://evil.test", "/%0d%0aX-Evil:1", "/%09/evil.test", "/.cabana/enter"]
    {
        shown.fake.ticket("hostile", None);
        let answer = shown.get(&host, &format!("/.cabana/enter?ticket=hostile&to={hostile}"), NAVIGATE).await;
        assert_eq!(header(&answer, "location"), Some("/"), "{hostile}");
        assert!(header(&answer, "x-evil").is_none());
    }
    // In a frame, it is found out whether the browser keeps the cookie.
    shown.fake.ticket("frame", Some("second"));
    let answer = shown.get(&host, "/.cabana/enter?ticket=frame&to=/x%20y", FRAME).await;
    let check = header(&answer, "location").expect("a location").to_owned();
    assert_eq!(check, "/.cabana/check?ticket=second&to=%2Fx%2520y");
    assert_eq!(header(&shown.get(&host, &check, &format!("{FRAME}{VIEW}")).await, "location"), Some("/x%20y"));
    let without = shown.get(&host, &check, FRAME).await;
    assert_eq!(header(&without, "location"), Some(&*format!("http://{GRANT}.localhost:3000/x%20y")));
    let neither = shown.get(&host, "/.cabana/check?ticket=x&to=/", FRAME).await;
    assert!(status(&neither) == 403 && body(&neither).contains("Sign in"), "{neither}");
    assert_eq!(counter.opened(), 0, "none of this reached the program");
}

#[tokio::test]
async fn paths_of_ours_never_reach_the_program() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, counter, _task) = open_port(&sandbox, echo()).await;
    shown.service(&sandbox.id, port, Access::Private);
    let host = local(&sandbox, port);
    for path in ["/.cabana", "/.cabana/", "/.cabana/x", "/.cabana/refused", "/.cabana/../x", "/.cabana/bridge.js/x"] {
        let answer = shown.get(&host, path, VIEW).await;
        assert_eq!(status(&answer), 404, "{path}: {answer}");
        assert_eq!(header(&answer, "cache-control"), Some("no-store"));
    }
    let post = format!(
        "POST /.cabana/enter?ticket=a HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(status(&shown.world.ask(&post).await), 404);

    let script = shown.get(&host, "/.cabana/bridge.js", FETCH).await;
    assert_eq!(body(&script), "// bridge.js");
    assert_eq!(header(&script, "etag"), Some("\"bridge.js-1\""));
    assert_eq!(header(&script, "content-type"), Some("text/javascript; charset=utf-8"));
    let known = shown.get(&host, "/.cabana/capture.js", "If-None-Match: \"x\", W/\"capture.js-1\"\r\n").await;
    assert_eq!((status(&known), body(&known)), (304, ""));

    let worker = shown.get(&host, "/.cabana/bridge.js", "Service-Worker: script\r\n").await;
    assert_eq!(status(&worker), 404, "nobody installs it");

    assert_eq!(status(&shown.get(&host, "/.cabana/status", FETCH).await), 403);
    shown.fake.pause(&sandbox.id);
    shown.fake.set_state(ServiceState::Starting);
    let answer = shown.get(&host, "/.cabana/status", &format!("{FETCH}{VIEW}")).await;
    assert_eq!(body(&answer), r#"{"state":"starting"}"#);
    assert_eq!(header(&answer, "cache-control"), Some("no-store"));
    assert_eq!(shown.fake.resumes(), 0, "it never wakes");
    assert_eq!(counter.opened(), 0);
}

#[tokio::test]
async fn grants_and_slugs_are_names_of_services() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    let private = shown.service(&sandbox.id, port, Access::Link);
    let host = format!("{GRANT}.localhost:3000");
    let unknown = shown.get(&host, "/", NAVIGATE).await;
    assert!(status(&unknown) == 404 && body(&unknown).contains("This link is not valid"), "{unknown}");
    assert!(body(&shown.get(&host, "/", "").await).contains("route_not_found"));

    shown.fake.name(GRANT, &private, false, &CancellationToken::new());
    let answer = shown.get(&host, "/x", NAVIGATE).await;
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(
        body(&answer).starts_with("GET /x") && body(&answer).contains(&format!("\nhost: localhost:{port}")),
        "{answer}"
    );
    assert_eq!(header(&answer, "referrer-policy"), Some("same-origin"), "the name stays a secret");
    assert_eq!(shown.fake.opened.load(Ordering::SeqCst), 1);
    shown.get(&host, "/y.js", FETCH).await;
    shown.get(&host, "/inner", FRAME).await;
    assert_eq!(shown.fake.opened.load(Ordering::SeqCst), 1, "only pages are counted");
    assert_eq!(status(&shown.get(&host, "/.cabana/enter?ticket=x", NAVIGATE).await), 404);
    assert_eq!(status(&shown.get(&host, "/.cabana/status", FETCH).await), 200);
    let routed = format!("E2b-Sandbox-Id: {}\r\nE2b-Sandbox-Port: 1\r\n", sandbox.id);
    assert_eq!(status(&shown.get(&host, "/", &routed).await), 200, "the host wins over headers");
    shown.fake.forget_name(GRANT);
    assert_eq!(status(&shown.get(&host, "/", "").await), 404);

    assert_eq!(body(&shown.get("shop.localhost:3000", "/health", "").await), "the API", "as ever");
    shown.fake.name("shop", &private, false, &CancellationToken::new());
    assert_eq!(
        body(&shown.get("shop.localhost:3000", "/health", "").await),
        "the API",
        "a slug is for public services"
    );
    let public = shown.service(&sandbox.id, port, Access::Public);
    shown.fake.name("shop", &public, false, &CancellationToken::new());
    assert!(body(&shown.get("shop.localhost:3000", "/health", "").await).starts_with("GET /health"));
    assert_eq!(body(&shown.get("localhost:3000", "/health", "").await), "the API");
}

#[tokio::test]
async fn names_below_a_domain() {
    let shown = Shown::secure().await;
    let sandbox = shown.world.sandbox(handler(|_| async { Response::new(Body::empty()) }));
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    let preview = shown.service(&sandbox.id, port, Access::Private);
    shown.fake.name(GRANT, &preview, true, &CancellationToken::new());
    assert_eq!(status(&shown.get(&format!("{GRANT}.e2b.test"), "/", "").await), 200, "TLS does not refuse the name");
    assert_eq!(status(&shown.get(&format!("{}.e2b.test", GRANT.replace('a', "b")), "/", "").await), 404);
    assert_eq!(status(&shown.get(&format!("{GRANT}.localhost"), "/", "").await), 421);
    assert_eq!(status(&shown.get("shop.e2b.test", "/", "").await), 404);
    assert_eq!(body(&shown.get("api.e2b.test", "/", "").await), "the API");

    let host = format!("{port}-{}.e2b.test", sandbox.id);
    shown.fake.ticket("first", None);
    let answer = shown.get(&host, "/.cabana/enter?ticket=first", NAVIGATE).await;
    let cookie = "__Host-cabana_view=good; Path=/; Max-Age=600; HttpOnly; Secure; SameSite=None; Partitioned";
    assert_eq!(header(&answer, "set-cookie"), Some(cookie));
    assert_eq!(status(&shown.get(&host, "/", "Cookie: __Host-cabana_view=good\r\n").await), 200);
    assert_eq!(status(&shown.get(&host, "/", "Cookie: cabana_view_80=good\r\n").await), 403);
    let answer = shown.get(&host, "/a", NAVIGATE).await;
    let to = header(&answer, "location").expect("a location");
    assert!(to.ends_with(&format!("to=https%3A%2F%2F{port}-{}.e2b.test%2Fa", sandbox.id)), "{to}");
}

#[tokio::test]
async fn a_flood_of_cookies_is_cleared() {
    let world = World::new().await;
    let flood = format!("GET /console/ HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n", "a=b; ".repeat(20_000));
    let answer = world.ask(&flood).await;
    assert_eq!((status(&answer), header(&answer, "clear-site-data")), (431, Some("\"cookies\"")));
    let io = TokioIo::new(world.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("handshake");
    let driver = tokio::spawn(connection);
    let request = Request::get("http://localhost/health").header("cookie", "a=b; ".repeat(20_000));
    let answer =
        within(sender.send_request(request.body(Empty::<Bytes>::new()).expect("request"))).await.expect("answer");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["clear-site-data"]),
        (431, &"\"cookies\"".parse().expect("value"))
    );
    let request = Request::get("http://localhost/health").header("cookie", "a=b; ".repeat(10_000));
    let answer =
        within(sender.send_request(request.body(Empty::<Bytes>::new()).expect("request"))).await.expect("answer");
    assert_eq!(answer.status().as_u16(), 200);
    driver.abort();
    let answer = world.ask("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").await;
    assert!(status(&answer) == 400 && header(&answer, "clear-site-data").is_none(), "{answer}");
}
