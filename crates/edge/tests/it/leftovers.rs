//! Responses that are sent before the request's body was read: the connection stays usable, or the response says
//! `connection: close`.

use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::*;

const LARGE: usize = 5_000_000;

/// Responds without reading the body, and closes the connection if `close`.
fn refusing(close: bool) -> Handler {
    handler(move |_| async move {
        let mut response = Response::new(Body::from("no"));
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        if close {
            response.headers_mut().insert("connection", HeaderValue::from_static("close"));
        }
        response
    })
}

/// Sends the head in its own packet, as most clients do, and then the body. Write errors are ignored: the response
/// explains them.
async fn post(client: &mut TcpStream, host: &str, path: &str, headers: &str, body: &[u8]) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n\r\n");
    client.write_all(head.as_bytes()).await.expect("write");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let _ = client.write_all(body).await;
}

/// One answer with a `content-length`, and its status.
async fn answer(client: &mut TcpStream) -> (u16, String) {
    let mut text = read_until(client, "\r\n\r\n").await;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("length");
    let mut body = vec![0; length.parse().expect("number")];
    within(client.read_exact(&mut body)).await.expect("body");
    text.push_str(&String::from_utf8(body).expect("text"));
    (status(&text), text)
}

fn chunked(size: usize) -> Vec<u8> {
    let mut body = format!("{size:x}\r\n").into_bytes();
    body.resize(body.len() + size, b'x');
    body.extend_from_slice(b"\r\n0\r\n\r\n");
    body
}

/// All early refusals: host, path, status.
async fn refusals(world: &World) -> (Vec<(String, &'static str, u16)>, Vec<crate::world::Box>) {
    let (guest, closing) = (world.sandbox(refusing(false)), world.sandbox(refusing(true)));
    let id = "iearlierversion1".parse().expect("id");
    let earlier = world.publish_earlier(id, std::net::Ipv4Addr::LOCALHOST, refusing(false));
    let cases = vec![
        ("localhost".to_owned(), "/nothing", 404),
        ("localhost".to_owned(), "/health", 405),
        ("80-inever.e2b.test".to_owned(), "/", 502),
        (format!("1-{}.e2b.test", guest.id), "/", 502),
        (format!("49983-{}.e2b.test", earlier.id), "/init", 404),
        ("0-iabc.e2b.test".to_owned(), "/", 400),
        (format!("49983-{}.e2b.test", guest.id), "/", 401),
        (format!("49983-{}.e2b.test", closing.id), "/", 401),
    ];
    (cases, vec![guest, closing, earlier])
}

#[tokio::test]
async fn a_refused_request_with_a_small_body_leaves_the_connection_usable() {
    let world = World::new().await;
    let (cases, _sandboxes) = refusals(&world).await;
    let mut client = world.connect().await;
    for (host, path, expected) in &cases[..7] {
        for (headers, body) in [
            ("Content-Length: 2", b"{}".to_vec()),
            ("Content-Length: 200000", vec![b'x'; 200_000]),
            ("Transfer-Encoding: chunked", chunked(2)),
            ("Transfer-Encoding: chunked", chunked(200_000)),
        ] {
            post(&mut client, host, path, headers, &body).await;
            let (status, text) = answer(&mut client).await;
            assert_eq!(status, *expected, "{host}{path} {headers}: {text}");
            assert!(!text.contains("connection: close"), "{host}{path} {headers}: {text}");
        }
        client.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("write");
        read_until(&mut client, "the API").await;
    }
}

#[tokio::test]
async fn a_refused_request_with_a_large_body_is_answered_and_the_connection_says_that_it_closes() {
    let world = World::new().await;
    let (cases, _sandboxes) = refusals(&world).await;
    for (host, path, expected) in &cases {
        let sized = format!("Content-Length: {LARGE}");
        for (headers, body) in [(sized.as_str(), vec![b'x'; LARGE]), ("Transfer-Encoding: chunked", chunked(LARGE))] {
            // A server that stops reading without saying so cannot be detected in time.
            if headers.starts_with("Transfer") && *expected == 401 && host == &cases[6].0 {
                continue;
            }
            let mut client = world.connect().await;
            post(&mut client, host, path, headers, &body).await;
            let (status, text) = answer(&mut client).await;
            assert_eq!(status, *expected, "{host}{path} {headers}: {text}");
            assert!(text.contains("connection: close"), "{host}{path} {headers}: {text}");
            // It closes without a reset, which could discard the response.
            assert_eq!(within(client.read(&mut [0; 16])).await.expect("end"), 0);
        }
    }
}

#[tokio::test]
async fn a_missing_body_times_out() {
    let world = World::new().await;
    let mut client = world.connect().await;
    client.write_all(b"POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab").await.expect("write");
    let (status, text) = answer(&mut client).await;
    assert_eq!(status, 404);
    assert!(text.contains("connection: close"), "{text}");
}

#[tokio::test]
async fn a_refused_request_gets_no_100_continue() {
    let world = World::new().await;
    let mut client = world.connect().await;
    let head = "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(head.as_bytes()).await.expect("write");
    let (status, text) = answer(&mut client).await;
    assert_eq!(status, 404, "{text}");
    assert!(text.contains("connection: close"), "{text}");
    // An accepted body gets `100 Continue`.
    let mut client = world.connect().await;
    client.write_all(head.replace("/nothing", "/upload").as_bytes()).await.expect("write");
    assert_eq!(read_until(&mut client, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"12345").await.expect("write");
    let (status, text) = answer(&mut client).await;
    assert_eq!((status, body(&text)), (200, "5"));
}
