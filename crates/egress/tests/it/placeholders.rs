//! Placeholders in headers, which are replaced by secrets.

use std::sync::Arc;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::{World, ask, get, is_signed_by, plain_echo, read_response};

const VALUE: &str = "sk-canary-9035";
const TEXT: &str = "novita_secret_000102030405060708090a0b0c0d0e0f";
const OTHER: &str = "novita_secret_f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

/// One placeholder for hosts below `example.com`, and one for another host.
async fn world() -> Arc<World> {
    let world = World::start(json!({"placeholders": [
        {"text": TEXT, "secret": "Key", "hosts": ["*.example.com"]},
        {"text": OTHER, "secret": "other", "hosts": ["other.com"]},
    ]}))
    .await;
    world.name("api.example.com", &["93.184.216.34"]);
    world.name("elsewhere.com", &["5.5.5.5"]);
    world.serve("93.184.216.34:443", world.tls_echo("api.example.com", "api").await);
    world.serve("93.184.216.34:80", plain_echo("plain").await);
    world.serve("5.5.5.5:443", world.tls_echo("elsewhere.com", "elsewhere").await);
    world.secrets.lock().expect("lock").insert(TEXT.to_owned(), VALUE.to_owned());
    world
}

fn request(host: &str, more: &str) -> String {
    format!("GET /{TEXT} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TEXT}\r\nX-Other: {OTHER}\r\n{more}\r\n")
}

#[tokio::test]
async fn only_headers_of_https_requests_to_its_hosts() {
    let world = world().await;
    // An address that the sandbox made up: the connection goes to the name's own.
    let stream = world.connect_tls("6.6.6.6:443", "api.example.com").await.expect("TLS");
    assert!(is_signed_by(&stream, &world.authority), "it is intercepted");
    let answer = ask(stream, &request("api.example.com", "Connection: close\r\n")).await;
    assert!(answer.contains(&format!("authorization: Bearer {VALUE}\n")), "{answer}");
    assert!(answer.contains(&format!("x-other: {OTHER}\n")), "that of another host stays: {answer}");
    assert_eq!(answer.matches(VALUE).count(), 1, "{answer}");

    let plain =
        ask(world.connect("93.184.216.34:80").await, &request("api.example.com", "Connection: close\r\n")).await;
    assert!(plain.contains("server: plain") && plain.contains(TEXT) && !plain.contains(VALUE), "{plain}");

    let stream = world.connect_tls("5.5.5.5:443", "elsewhere.com").await.expect("TLS");
    assert!(is_signed_by(&stream, &world.internet), "another host is not intercepted");
    let answer = ask(stream, &request("elsewhere.com", "Connection: close\r\n")).await;
    assert!(answer.contains(TEXT) && !answer.contains(VALUE), "{answer}");
    assert_eq!(world.dialled(), ["93.184.216.34:443", "93.184.216.34:80", "5.5.5.5:443"]);
}

#[tokio::test]
async fn switches_of_protocols_get_nothing() {
    let world = world().await;
    let mut stream = world.connect_tls("93.184.216.34:443", "api.example.com").await.expect("TLS");
    let asked = request("api.example.com", "Connection: upgrade\r\nUpgrade: websocket\r\n");
    stream.write_all(asked.as_bytes()).await.expect("write");
    let answer = read_response(&mut stream).await;
    assert!(answer.contains(TEXT) && !answer.contains(VALUE), "{answer}");
}

#[tokio::test]
async fn no_value_is_in_an_error() {
    for (value, reason) in [
        (None, "the secret Key cannot be filled in: it does not exist"),
        (Some("sk-canary-9035\r\nx-injected: b".to_owned()), "a line break"),
        (Some(VALUE.repeat(4000)), "longer than"),
    ] {
        let world = world().await;
        match value {
            Some(value) => world.secrets.lock().expect("lock").insert(TEXT.to_owned(), value),
            None => world.secrets.lock().expect("lock").remove(TEXT),
        };
        let stream = world.connect_tls("93.184.216.34:443", "api.example.com").await.expect("TLS");
        let answer = ask(stream, &request("api.example.com", "")).await;
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains(reason), "{answer}");
        assert!(!answer.contains(VALUE), "{answer}");
        assert!(world.dialled().is_empty(), "nothing was sent");
        // Requests without it go through.
        let stream = world.connect_tls("93.184.216.34:443", "api.example.com").await.expect("TLS");
        assert!(ask(stream, &get("api.example.com")).await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn a_server_is_not_asked_to_repeat_them() {
    let world = world().await;
    let stream = world.connect_tls("93.184.216.34:443", "api.example.com").await.expect("TLS");
    let trace = request("api.example.com", "").replace("GET", "TRACE");
    assert!(ask(stream, &trace).await.starts_with("HTTP/1.1 400"));
    assert!(world.dialled().is_empty());
}

#[tokio::test]
async fn placeholders_open_no_egress() {
    let world = World::start(json!({
        "denyOut": ["0.0.0.0/0"],
        "allowOut": ["elsewhere.com"],
        "placeholders": [{"text": TEXT, "secret": "key", "hosts": ["api.example.com"]}],
    }))
    .await;
    world.name("api.example.com", &["93.184.216.34"]);
    world.connect_tls("93.184.216.34:443", "api.example.com").await.expect_err("denied");
    assert!(world.dialled().is_empty());
}
