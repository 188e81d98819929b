//! Bytes that no honest program sends, and servers that do wrong.

use std::time::Duration;

use cabana_egress::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{World, ask, get, limits, server};

/// A ClientHello for a host, as rustls sends it.
fn hello(host: &str) -> Vec<u8> {
    let config =
        rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(host.to_owned()).expect("name");
    let mut connection = rustls::ClientConnection::new(std::sync::Arc::new(config), name).expect("client");
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).expect("hello");
    bytes
}

/// The same hello in several records.
fn cut(hello: &[u8], size: usize) -> Vec<u8> {
    hello[5..].chunks(size).fold(Vec::new(), |mut bytes, chunk| {
        bytes.extend([22, 3, 1]);
        bytes.extend(u16::try_from(chunk.len()).expect("small").to_be_bytes());
        bytes.extend(chunk);
        bytes
    })
}

#[tokio::test]
async fn cut_hellos_are_read_and_malformed_ones_refused() {
    let world = World::start(json!({"allowOut": ["a.com", "9.9.9.9"], "denyOut": ["0.0.0.0/0"]})).await;
    world.name("a.com", &["1.1.1.1"]);
    // Says how many bytes came first.
    let counter = server(|mut stream| async move {
        let mut bytes = vec![0; 100_000];
        let mut all = 0;
        while let Ok(1..) = tokio::time::timeout(Duration::from_millis(300), stream.read(&mut bytes))
            .await
            .unwrap_or(Ok(0))
            .inspect(|n| all += n)
        {}
        let _ = stream.write_all(all.to_string().as_bytes()).await;
    })
    .await;
    world.serve("1.1.1.1:443", counter);
    world.serve("9.9.9.9:443", counter);
    let whole = hello("a.com");
    for bytes in [whole.clone(), cut(&whole, 60)] {
        let mut stream = world.connect("6.6.6.6:443").await;
        // One byte first: the rest comes later.
        stream.write_all(&bytes[..1]).await.expect("write");
        stream.flush().await.expect("flush");
        tokio::task::yield_now().await;
        stream.write_all(&bytes[1..]).await.expect("write");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("answer");
        assert_eq!(answer, bytes.len().to_string());
    }
    assert_eq!(world.dialled(), ["1.1.1.1:443", "1.1.1.1:443"]);
    let evil = hello("evil.com");
    let mut twice = whole.clone();
    twice.extend(&evil);
    for (what, bytes) in [
        ("another name", evil.clone()),
        ("cut into too many records", cut(&whole, 8)),
        ("an empty record first", [&[22, 3, 1, 0, 0][..], &whole].concat()),
        ("an alert", vec![21, 3, 1, 0, 2, 1, 0]),
        ("SSL 2", vec![0x80, 0x2e, 1, 0, 2]),
        ("a giant", vec![22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff]),
    ] {
        let mut stream = world.connect("6.6.6.6:443").await;
        stream.write_all(&bytes).await.expect("write");
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(crate::support::PATIENCE, stream.read_to_end(&mut answer)).await.expect(what);
        assert!(answer.is_empty(), "{what}");
    }
    assert_eq!(world.dialled().len(), 2);
    // A malformed hello is refused although the address is allowed: another parser could find a name in it.
    let mut stream = world.connect("9.9.9.9:443").await;
    stream.write_all(&cut(&whole, 8)).await.expect("write");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() && world.dialled().len() == 2);
}

#[tokio::test]
async fn servers_that_do_wrong_are_an_error() {
    let world = World::start_with(
        json!({"allowOut": ["a.com"], "denyOut": ["0.0.0.0/0"]}),
        Limits { idle: Duration::from_millis(800), ..limits() },
    )
    .await;
    world.name("a.com", &["1.1.1.1"]);
    let endless = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
    let giant = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200_000));
    for (what, response) in [
        ("nothing", String::new()),
        ("garbage", "\u{1}\u{2}garbage\r\n\r\n".to_owned()),
        ("a head without end", "HTTP/1.1 200 OK\r\nx: y\r\n".to_owned()),
        (
            "an unasked switch",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".to_owned(),
        ),
        ("only interim responses", endless),
        ("a giant head", giant),
        ("too many headers", format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(500))),
        ("two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned()),
    ] {
        let wrong = server(move |mut stream| {
            let response = response.clone();
            async move {
                let mut bytes = [0; 4096];
                let _ = stream.read(&mut bytes).await;
                let _ = stream.write_all(response.as_bytes()).await;
            }
        })
        .await;
        world.serve("1.1.1.1:80", wrong);
        let answer = ask(world.connect("1.1.1.1:80").await, &get("a.com")).await;
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("egress_upstream_failed"), "{what}: {answer}");
    }
    // Silent: the sandbox's connection ends.
    world.serve("1.1.1.1:80", server(|stream| async move { std::mem::forget(stream) }).await);
    let answer = ask(world.connect("1.1.1.1:80").await, &get("a.com")).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 502"), "{answer}");
}

/// hyper skips informational responses without end, in a loop that keeps a thread of the whole server busy.
#[tokio::test]
async fn endless_informational_responses_are_cut() {
    let world = World::start(json!({"allowOut": ["a.com"], "denyOut": ["0.0.0.0/0"]})).await;
    world.name("a.com", &["1.1.1.1"]);
    let endless = server(|mut stream| async move {
        let mut bytes = [0; 4096];
        let _ = stream.read(&mut bytes).await;
        while stream.write_all(&b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000)).await.is_ok() {}
    })
    .await;
    world.serve("1.1.1.1:80", endless);
    let answer = ask(world.connect("1.1.1.1:80").await, &get("a.com")).await;
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("informational"), "{answer}");
}
