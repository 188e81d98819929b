//! What passes between a browser and a service: hosts, frames, the script of the console's frames, and pages of ours.

use std::sync::Arc;

use axum::body::Body;
use cabana_edge::preview::ServiceStatus;
use cabana_types::service::{Access, HostMode, ServiceState};
use http::Response;
use tokio_util::sync::CancellationToken;

use crate::preview_world::*;
use crate::world::*;

fn page(headers: &'static [(&'static str, &'static str)], text: &'static str) -> Handler {
    handler(move |_| async move {
        let mut builder = Response::builder();
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Body::from(text)).expect("response")
    })
}

#[tokio::test]
async fn the_program_believes_to_be_on_this_machine() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    shown.service(&sandbox.id, port, Access::Private);
    let host = local(&sandbox, port);
    let own = format!("Origin: http://{host}\r\nReferer: http://{host}/a?b\r\nX-Forwarded-Host: evil.test\r\n{VIEW}");
    let answer = shown.get(&host, "/", &own).await;
    for line in [
        &*format!("\nhost: localhost:{port}"),
        &*format!("\norigin: http://localhost:{port}"),
        &*format!("\nreferer: http://localhost:{port}/a?b"),
        &*format!("\nx-forwarded-host: {host}"),
        "\nx-forwarded-proto: http",
        "\nx-forwarded-for: 127.0.0.1",
        "\ncookie: a=b; c=d",
    ] {
        assert!(body(&answer).contains(line), "{line} in {answer}");
    }
    let other = format!("Origin: http://evil.test\r\nReferer: http://{host}/.cabana/enter?ticket=t\r\n{VIEW}");
    let answer = shown.get(&host, "/", &other).await;
    assert!(body(&answer).contains("\norigin: http://evil.test") && !body(&answer).contains("ticket"), "{answer}");

    shown.service_with(&sandbox.id, port, Access::Private, HostMode::Public);
    let answer = shown.get(&host, "/", &own).await;
    for line in [format!("\nhost: {host}"), format!("\norigin: http://{host}"), format!("\nreferer: http://{host}/a?b")]
    {
        assert!(body(&answer).contains(&line), "{line} in {answer}");
    }
}

#[tokio::test]
async fn responses_lead_to_the_own_host() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let leads = handler(|request| async move {
        let host = request.headers()["host"].to_str().expect("text").to_owned();
        Response::builder()
            .header("location", format!("http://{host}/next"))
            .header("access-control-allow-origin", format!("http://{host}"))
            .header("set-cookie", "a=b; Domain=localhost; Path=/")
            .header("set-cookie", "cabana_view_3000=evil; Path=/")
            .header("set-cookie", "__Host-cabana_view=evil; Path=/; Secure")
            .header("clear-site-data", "\"cookies\"")
            .body(Body::empty())
            .expect("response")
    });
    let (port, _, _task) = open_port(&sandbox, leads).await;
    shown.service(&sandbox.id, port, Access::Private);
    let host = local(&sandbox, port);
    let answer = shown.get(&host, "/", VIEW).await;
    assert_eq!(header(&answer, "location"), Some(&*format!("http://{host}/next")));
    assert_eq!(header(&answer, "access-control-allow-origin"), Some(&*format!("http://{host}")));
    assert_eq!(header(&answer, "set-cookie"), Some("a=b; Path=/"));
    assert!(!answer.contains("cabana_view") && !answer.contains("clear-site-data"), "{answer}");
}

const FRAMED: &[(&str, &str)] = &[
    ("content-type", "text/html"),
    ("x-frame-options", "DENY"),
    ("content-security-policy", "default-src 'self'; frame-ancestors 'none'"),
    ("etag", "\"1\""),
];

#[tokio::test]
async fn only_the_console_frames_what_is_not_public() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, page(FRAMED, "<head></head>")).await;
    let host = local(&sandbox, port);
    let ancestors = format!("frame-ancestors 'self' {CONSOLE}");
    shown.service(&sandbox.id, port, Access::Private);
    let answer = shown.get(&host, "/", &format!("{NAVIGATE}{VIEW}")).await;
    assert!(header(&answer, "x-frame-options").is_none() && !answer.contains("'none'"), "{answer}");
    assert!(answer.contains("content-security-policy: default-src 'self'\r\n"), "{answer}");
    assert!(answer.contains(&format!("content-security-policy: {ancestors}\r\n")), "{answer}");
    assert_eq!(body(&answer), "<head></head>", "not in a frame");
    assert_eq!(header(&answer, "etag"), Some("\"1\""));

    let public = shown.service(&sandbox.id, port, Access::Public);
    for headers in [NAVIGATE, FRAME, "", &*format!("{NAVIGATE}{VIEW}")] {
        let answer = shown.get(&host, "/", headers).await;
        assert_eq!(header(&answer, "x-frame-options"), Some("DENY"), "{answer}");
        assert!(answer.contains("default-src 'self'; frame-ancestors 'none'\r\n"), "{answer}");
        assert_eq!(body(&answer), "<head></head>");
    }
    let answer = shown.get(&host, "/", &format!("{FRAME}{VIEW}")).await;
    assert!(answer.contains(&ancestors) && answer.contains("bridge.js"), "the console's own frame: {answer}");
    shown.fake.name("shop", &public, false, &CancellationToken::new());
    let answer = shown.get("shop.localhost:3000", "/", FRAME).await;
    assert_eq!(header(&answer, "x-frame-options"), Some("DENY"), "{answer}");
}

#[tokio::test]
async fn documents_in_frames_of_the_console_get_the_bridge() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let seen = handler(|request| async move {
        let asked = |name: &str| request.headers().get(name).map(|v| v.to_str().expect("text").to_owned());
        let text = format!(
            "<!doctype html><html><head><title>{:?} {:?}</title>",
            asked("accept-encoding"),
            asked("if-none-match")
        );
        Response::builder()
            .status(404)
            .header("content-type", "text/html; charset=utf-8")
            .header("content-length", text.len())
            .header("content-security-policy", "script-src 'strict-dynamic' 'nonce-theirs'")
            .header("etag", "\"1\"")
            .body(Body::from(text))
            .expect("response")
    });
    let (port, _, _task) = open_port(&sandbox, seen).await;
    let preview = shown.service(&sandbox.id, port, Access::Link);
    let browser = "Accept-Encoding: gzip, br\r\nIf-None-Match: \"1\"\r\n";
    shown.fake.name(GRANT, &preview, true, &CancellationToken::new());
    let grant = format!("{GRANT}.localhost:3000");
    for (host, headers) in
        [(&local(&sandbox, port), format!("{FRAME}{VIEW}{browser}")), (&grant, format!("{FRAME}{browser}"))]
    {
        let answer = shown.get(host, "/", &headers).await;
        assert_eq!(status(&answer), 404, "error pages, too: {answer}");
        let policy = header(&answer, "content-security-policy").expect("a policy");
        let nonce = policy.rsplit_once("'nonce-").expect("a nonce").1.trim_end_matches('\'');
        assert!(nonce != "theirs" && nonce.len() >= 22, "{policy}");
        let tag = format!(
            "<head><script src=\"/.cabana/bridge.js\" data-origin=\"{CONSOLE}\" nonce=\"{nonce}\"></script><title>Some(\"identity\") None"
        );
        assert!(answer.contains(&tag), "{answer}");
        assert!(header(&answer, "etag").is_none() && header(&answer, "vary") == Some("Sec-Fetch-Dest"), "{answer}");
        assert!(header(&answer, "cache-control").is_some_and(|cache| cache.contains("no-cache")));
    }
    // Links are for people without a console.
    shown.fake.name(GRANT, &preview, false, &CancellationToken::new());
    for (host, headers) in [(&grant, FRAME), (&grant, NAVIGATE), (&local(&sandbox, port), VIEW)] {
        let answer = shown.get(host, "/", &format!("{headers}{browser}")).await;
        assert!(body(&answer).contains("Some(\"gzip, br\") Some(\"\\\"1\\\"\")"), "byte-exact: {answer}");
        assert!(!answer.contains("bridge.js") && header(&answer, "etag").is_some(), "{answer}");
    }
}

#[tokio::test]
async fn pages_of_ours_say_what_is_the_matter() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let port = {
        let listener = std::net::TcpListener::bind((sandbox.address, 0)).expect("bind");
        listener.local_addr().expect("address").port()
    };
    let preview = shown.service(&sandbox.id, port, Access::Link);
    shown.fake.name(GRANT, &preview, false, &CancellationToken::new());
    let hostile = "</pre><script>alert(1)</script>\u{1b}[31m&amp;";
    let lines = (0..30).map(|n| format!("line {n}")).chain([hostile.to_owned(), "x".repeat(5000)]).collect();
    let reason = Some("exit status <1>".to_owned());
    *shown.fake.status.lock().expect("lock") = ServiceStatus { state: ServiceState::Error, reason, last_lines: lines };

    let host = local(&sandbox, port);
    let answer = shown.get(&host, "/", &format!("{NAVIGATE}{VIEW}")).await;
    assert_eq!(status(&answer), 502, "{answer}");
    assert_eq!(header(&answer, "cache-control"), Some("no-store"));
    let text = body(&answer);
    assert!(text.contains("web: Failed") && text.contains("exit status &lt;1&gt;"), "{answer}");
    assert!(text.contains("&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{fffd}[31m&amp;amp;"), "{answer}");
    assert!(!text.contains("<script") && !text.contains("line 11\n") && text.contains("line 12\n"), "{answer}");
    assert!(text.len() < 8000, "{}", text.len());
    let link = format!(
        "<a href=\"{CONSOLE}/console/sandboxes/{}/ports?service={}\" target=\"_top\" rel=\"noreferrer\">Restart service</a>",
        sandbox.id, preview.service
    );
    assert!(text.contains(&link), "{answer}");
    let policy = header(&answer, "content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("script-src"), "{policy}");

    let stranger = shown.get(&format!("{GRANT}.localhost:3000"), "/", NAVIGATE).await;
    for kept in ["line 12", "exit status", "Restart"] {
        assert!(!stranger.contains(kept), "output is for the team: {stranger}");
    }
    assert!(body(&stranger).contains("web: Failed"), "{stranger}");
    let program = shown.get(&host, "/", VIEW).await;
    assert!(status(&program) == 502 && body(&program).contains(r#""error_code":"port_closed""#), "{program}");

    shown.fake.set_state(ServiceState::Stopped);
    let answer = shown.get(&host, "/", &format!("{FRAME}{VIEW}")).await;
    assert!(status(&answer) == 503 && body(&answer).contains("web: Stopped"), "{answer}");
    shown.world.directory.remove(&sandbox.id);
    shown.fake.set_state(ServiceState::Suspended);
    let answer = shown.get(&host, "/", &format!("{NAVIGATE}{VIEW}")).await;
    assert!(status(&answer) == 503 && body(&answer).contains("web: Suspended"), "{answer}");
    let answer = shown.get(&host, "/", "X-API-Key: team-key\r\n").await;
    assert!(status(&answer) == 502 && body(&answer).contains("sandbox_not_found"), "{answer}");
}

#[tokio::test]
async fn a_page_of_a_starting_service_looks_again() {
    let shown = Shown::new().await;
    // The sandbox goes away while the port is waited for.
    let asked = Arc::new(tokio::sync::Notify::new());
    let tells = asked.clone();
    let sandbox = shown.world.sandbox(handler(move |request| {
        let tells = tells.clone();
        async move {
            if request.uri().path() == "/listening" {
                tells.notify_one();
                std::future::pending::<()>().await;
            }
            Response::builder().status(404).body(Body::empty()).expect("response")
        }
    }));
    let port = 1;
    shown.service(&sandbox.id, port, Access::Private);
    shown.fake.set_state(ServiceState::Starting);
    let (host, headers) = (local(&sandbox, port), format!("{FRAME}{VIEW}"));
    let ends = async {
        asked.notified().await;
        shown.world.directory.remove(&sandbox.id);
    };
    let (answer, ()) = tokio::join!(shown.get(&host, "/", &headers), ends);
    assert!(status(&answer) == 503 && body(&answer).contains("web: Starting"), "{answer}");
    let policy = header(&answer, "content-security-policy").expect("a policy");
    let nonce = policy.split("'nonce-").nth(1).and_then(|rest| rest.split('\'').next()).expect("a nonce");
    assert!(body(&answer).contains(&format!("<script nonce=\"{nonce}\">")), "{answer}");
    assert!(body(&answer).contains("fetch('/.cabana/status'") && policy.contains("connect-src 'self'"), "{answer}");
    assert!(policy.ends_with(&format!("frame-ancestors 'self' {CONSOLE}")), "{policy}");
    let again = shown.get(&host, "/", "").await;
    assert_eq!(status(&again), 403);
}
