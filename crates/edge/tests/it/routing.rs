//! Which requests go where, and what they carry.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use cabana_edge::listener::Limits;
use sha2::{Digest, Sha256};

use axum::body::Body;
use http::{Response, StatusCode};

use crate::world::*;

#[tokio::test]
async fn by_host_by_headers_or_to_the_api() {
    let world = World::new().await;
    let sandbox = world.sandbox(says("the guest"));
    let (port, _, _task) = open_port(&sandbox, says("the port")).await;
    let id = &sandbox.id;
    assert_eq!(body(&world.get(id.as_str(), 49983, "/x", "").await), "the guest");
    assert_eq!(body(&world.get(id.as_str(), port, "/x", "").await), "the port");
    for (kind, wanted, expected) in [("E2b", 49983, "the guest"), ("Novita", port, "the port")] {
        let request = format!(
            "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}-Sandbox-Id: {id}\r\n{kind}-Sandbox-Port: {wanted}\r\n\r\n"
        );
        assert_eq!(body(&world.ask(&request).await), expected);
    }
    let api = world.ask("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert_eq!(body(&api), "the API");
    // HTTP/1.0 without a host is for the API as well.
    assert_eq!(body(&world.ask("GET /health HTTP/1.0\r\n\r\n").await), "the API");
}

#[tokio::test]
async fn a_token_identifies_its_sandbox_if_nothing_else_does() {
    let world = World::new().await;
    let (one, two) = (world.sandbox(says("one")), world.sandbox(says("two")));
    let ask = async |headers: String| {
        world.ask(&format!("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n\r\n")).await
    };
    assert_eq!(body(&ask(format!("X-Access-Token: token-of-{}", one.id)).await), "one");
    assert_eq!(body(&ask(format!("X-Access-Token: token-of-{}", two.id)).await), "two");
    for not_a_guest in ["X-Access-Token: token-of-nobody".to_owned(), "X-Access-Token:".to_owned()] {
        assert_eq!(body(&ask(not_a_guest).await), "the API");
    }
    let with_key = format!("X-Access-Token: token-of-{}\r\nX-API-Key: k", one.id);
    assert_eq!(body(&ask(with_key).await), "the API");
}

#[tokio::test]
async fn impossible_addresses() {
    let world = World::new().await;
    for (head, expected) in [
        ("Host: 0-iabc.e2b.test", "Invalid sandbox port"),
        ("Host: 80-i_bc.e2b.test", "Invalid host"),
        ("Host: localhost\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: 99999", "Invalid sandbox port"),
        ("Host: localhost\r\nE2b-Sandbox-Id: ../x\r\nE2b-Sandbox-Port: 80", "Invalid sandbox id"),
    ] {
        let answer = world.ask(&format!("GET / HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n")).await;
        assert_eq!((status(&answer), body(&answer)), (400, expected));
    }
}

#[tokio::test]
async fn only_the_own_domain_counts() {
    let world = World::with(Some("E2B.test:8443"), Limits::default()).await;
    let sandbox = world.sandbox(says("the guest"));
    assert_eq!(body(&world.get(sandbox.id.as_str(), 49983, "/health", "").await), "the guest");
    let foreign = format!("GET /health HTTP/1.1\r\nHost: 49983-{}.evil.test\r\nConnection: close\r\n\r\n", sandbox.id);
    assert_eq!(body(&world.ask(&foreign).await), "the API");
}

#[tokio::test]
async fn an_unknown_sandbox_is_not_found() {
    let world = World::new().await;
    let never = world.get("inever", 80, "/", "").await;
    assert_eq!(status(&never), 502);
    assert_eq!(
        body(&never),
        r#"{"sandboxId":"inever","message":"The sandbox was not found","code":502,"error_code":"sandbox_not_found"}"#
    );
    assert!(never.contains("access-control-allow-origin: *"));
    let ended = world.get("iended", 49983, "/health", "").await;
    assert_eq!(
        body(&ended),
        r#"{"sandboxId":"iended","message":"The sandbox was not found","code":502,"reason":"it <expired>","error_code":"sandbox_not_found"}"#
    );
    let browser = "User-Agent: Mozilla/5.0\r\nAccept: text/html,*/*\r\n";
    let page = world.get("iended", 80, "/", browser).await;
    assert_eq!(status(&page), 502);
    assert!(page.contains("content-type: text/html") && page.contains("<h1>The sandbox was not found</h1>"));
    assert!(page.contains("it &lt;expired&gt;") && !page.contains("http://") && !page.contains("src="));
    let script = world.get("iended", 80, "/", "User-Agent: Mozilla/5.0\r\nAccept: */*\r\n").await;
    assert!(script.contains("application/json"));
}

#[tokio::test]
async fn signed_links_find_their_sandbox() {
    let world = World::new().await;
    let sandboxes: Vec<_> = (0..20).map(|_| world.sandbox(echo())).collect();
    let id = &sandboxes[13].id;
    let sign = |text: String| format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)).replace('+', "%2B"));
    let read = sign(format!("/a:read::token-of-{id}"));
    let ask = async |method: &str, target: &str| {
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: localhost:3000\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        world.ask(&request).await
    };
    let answer = ask("GET", &format!("/files?path=/a&signature={read}")).await;
    assert!(body(&answer).starts_with("GET /files?path=/a&signature=v1_"), "{answer}");
    assert_eq!(sandboxes[13].guest.opened(), 1);
    assert_eq!(sandboxes.iter().map(|s| s.guest.opened()).sum::<usize>(), 1);
    let write = sign(format!("/a:write:root:token-of-{id}:99"));
    let target = format!("/files?path=%2Fa&username=root&signature={write}&signature_expiration=99");
    assert_eq!(status(&ask("POST", &target).await), 200);
    let wrong = ask("GET", &format!("/files?path=/b&signature={read}")).await;
    assert_eq!(
        (status(&wrong), body(&wrong)),
        (401, r#"{"code":401,"message":"invalid signature","error_code":"unauthorized"}"#)
    );
    assert_eq!(status(&ask("GET", "/files?path=/a").await), 404, "without a signature it is the API's");
}

#[tokio::test]
async fn headers_that_are_removed() {
    let world = World::new().await;
    let sandbox = world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    let id = sandbox.id.as_str();
    let sent = "X-API-Key: e2b_secret\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nForwarded: for=6.6.6.6\r\n\
        X-Real-IP: 6.6.6.6\r\nCabana-Disk-Used: 1\r\nConnection: x-internal\r\nX-Internal: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
        X-Access-Token: t\r\nUpgrade: h2c\r\n";
    let port_saw = world.get(id, port, "/a/../b?c=%20", sent).await;
    let mut lines: Vec<_> = body(&port_saw).lines().collect();
    lines[1..].sort_unstable();
    assert_eq!(
        lines,
        [
            "GET /a/../b?c=%20".to_owned(),
            format!("host: {port}-{id}.e2b.test"),
            "x-access-token: t".to_owned(),
            "x-forwarded-for: 127.0.0.1".to_owned(),
            format!("x-forwarded-host: {port}-{id}.e2b.test"),
            "x-forwarded-proto: http".to_owned(),
        ]
    );
    let guest_saw = world.get(id, 49983, "/metrics", sent).await;
    assert!(guest_saw.contains("cabana-disk-used: 4242") && guest_saw.contains("x-access-token: t"));
    assert!(!guest_saw.contains("6.6.6.6") && !guest_saw.contains("e2b_secret") && !guest_saw.contains("x-internal"));
    assert!(!world.get(id, 49983, "/health", "").await.contains("cabana-disk-used"));
}

#[tokio::test]
async fn control_paths_and_preflights() {
    let world = World::new().await;
    // Like the real guest: control paths are unknown on its traffic socket.
    let sandbox = world.sandbox(handler(|request| async move {
        let mut response = Response::new(Body::from("the guest"));
        if !["/health", "/files"].contains(&request.uri().path()) {
            *response.status_mut() = StatusCode::NOT_FOUND;
        }
        response
    }));
    let id = sandbox.id.as_str();
    for path in ["/init", "/bridge?port=22", "/%69nit", "//freeze", "/x/../collapse"] {
        assert_eq!(status(&world.get(id, 49983, path, "").await), 404, "{path}");
    }
    assert_eq!(sandbox.control.opened(), 0, "no request of a client gets to the control socket");
    let (port, _, _task) = open_port(&sandbox, says("a path like any other")).await;
    assert_eq!(body(&world.get(id, port, "/init", "").await), "a path like any other");

    let preflight = format!(
        "OPTIONS /files HTTP/1.1\r\nHost: 49983-{id}.e2b.test\r\nConnection: close\r\nOrigin: https://x.test\r\n\
         Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,x-access-token\r\n\r\n"
    );
    let answer = world.ask(&preflight).await;
    assert_eq!(status(&answer), 204);
    assert!(answer.contains("access-control-allow-origin: *"));
    assert!(answer.contains("access-control-allow-headers: authorization,x-access-token"));
    assert!(world.get(id, 49983, "/health", "").await.contains("access-control-allow-origin: *"));
    assert!(!world.get(id, port, "/", "").await.contains("access-control"));
}

#[tokio::test]
async fn control_paths_of_a_guest_with_one_socket_are_closed() {
    let world = World::new().await;
    let id = "iearlierversion0".parse().expect("id");
    let sandbox = world.publish_earlier(id, std::net::Ipv4Addr::LOCALHOST, says("the guest"));
    let id = sandbox.id.as_str();
    for path in ["/init", "/bridge?port=22", "/freeze", "/collapse", "/stop", "/journal"] {
        let answer = world.get(id, 49983, path, "").await;
        assert_eq!(
            (status(&answer), body(&answer)),
            (404, r#"{"code":404,"message":"not found","error_code":"route_not_found"}"#),
            "{path}"
        );
    }
    assert_eq!(sandbox.guest.opened(), 0);
    assert_eq!(body(&world.get(id, 49983, "/health", "").await), "the guest");
}
