//! Rate limits of keys and addresses, and the names that a server on loopback answers to.

use crate::http::{Answer, send};
use crate::server::TestServer;

const WRONG: &str = "e2b_ffffffffffffffffffffffffffffffffffffffff";

fn retry_after(answer: &Answer) -> u64 {
    answer.header("retry-after").and_then(|seconds| seconds.parse().ok()).expect("seconds to wait")
}

#[test]
fn requests_with_one_key_are_limited() {
    let server = TestServer::with(&[("rates.key_requests", "5"), ("rates.key_seconds", "3000")]);
    let other = server.post("/api-keys", serde_json::json!({"name": "other"})).is(201).member("key");
    for _ in 0..4 {
        server.get("/teams").is(200);
    }
    let refused = server.get("/teams");
    let message = refused.error(429, "rate_limited");
    assert!(message.contains("with this API key"), "{message}");
    let seconds = retry_after(&refused);
    assert!((590..=600).contains(&seconds), "{seconds}");
    send(server.address, "GET", "/teams", &[("x-api-key", &other)], None).expect("answer").is(200);
    send(server.address, "GET", "/health", &[], None).expect("answer").is(204);
}

#[test]
fn requests_without_a_valid_key_are_limited_and_valid_keys_are_not() {
    let server = TestServer::with(&[("rates.failed_requests", "3"), ("connections.trusted_proxies", "127.0.0.1")]);
    let ask = |key: &str, client: &str| {
        let headers = [("x-api-key", key), ("x-forwarded-for", client)];
        send(server.address, "GET", "/teams", &headers, None).expect("answer")
    };
    for _ in 0..3 {
        ask(WRONG, "192.0.2.1").error(401, "unauthorized");
    }
    let refused = ask(WRONG, "192.0.2.1");
    refused.error(429, "rate_limited");
    assert!(retry_after(&refused) > 0);
    ask("", "192.0.2.1").error(429, "rate_limited");
    ask(WRONG, "192.0.2.2").error(401, "unauthorized");
    ask(&server.key, "192.0.2.1").is(200);
}

#[test]
fn programs_on_this_machine_are_not_limited_by_their_address() {
    let server = TestServer::with(&[("rates.failed_requests", "3"), ("rates.address_requests", "3")]);
    for _ in 0..10 {
        send(server.address, "GET", "/teams", &[("x-api-key", WRONG)], None)
            .expect("answer")
            .error(401, "unauthorized");
    }
}

#[test]
fn no_limits_if_they_are_off() {
    let settings = [("rates.key_requests", "0"), ("rates.failed_requests", "0"), ("rates.address_requests", "0")];
    let server = TestServer::with(&settings);
    for _ in 0..10 {
        server.get("/teams").is(200);
    }
}

#[test]
fn a_server_on_loopback_refuses_other_names() {
    let ask = |server: &TestServer, host: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(server.address).expect("connect");
        write!(stream, "GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("write");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("read");
        text
    };
    let server = TestServer::start();
    assert!(ask(&server, "localhost:3000").starts_with("HTTP/1.1 204"));
    let refused = ask(&server, "page.evil.test");
    assert!(refused.starts_with("HTTP/1.1 421") && refused.contains("CABANA_HOSTS"), "{refused}");
    let server = TestServer::with(&[("connections.hosts", "cabana.lan, proxy.lan")]);
    assert!(ask(&server, "proxy.lan").starts_with("HTTP/1.1 204"));
    assert!(ask(&server, "page.evil.test").starts_with("HTTP/1.1 421"));
    let server = TestServer::with(&[("domain", "e2b.test")]);
    assert!(ask(&server, "api.e2b.test").starts_with("HTTP/1.1 204"));
    let server = TestServer::with(&[("connections.hosts", "*")]);
    assert!(ask(&server, "page.evil.test").starts_with("HTTP/1.1 204"));
}
