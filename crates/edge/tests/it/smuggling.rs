//! Ambiguous requests through a raw socket: the answer is an error, the connection closes, and nothing arrives anywhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use cabana_edge::listener::Limits;
use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::*;

#[tokio::test]
async fn nothing_ambiguous_arrives() {
    let world = World::new().await;
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    let sandbox = world.sandbox(handler(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Response::new(Body::from("arrived")) }
    }));
    let host = format!("49983-{}.e2b.test", sandbox.id);
    let smuggled = format!("GET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut table = vec![
        format!("GET / HTTP/1.1\nHost: {host}\n\n"),
        format!("GET / HTTP/1.1\r\nHost: {host}\nX: y\r\n\r\n"),
        format!("GET http://other/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\nHost: 80-iother.e2b.test\r\n\r\n"),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: a\r\n b\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost : {host}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\n\r\n"),
    ];
    for framing in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4, 4",
        "Content-Length: +4",
        "Content-Length: 4 4",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding:\u{b}chunked",
        "Transfer-Encoding : chunked",
        "X: y\r\n Transfer-Encoding: chunked",
    ] {
        table.push(format!("POST / HTTP/1.1\r\nHost: {host}\r\n{framing}\r\n\r\n0\r\n\r\n"));
    }
    for ambiguous in &table {
        // At once, and byte by byte.
        for split in [false, true] {
            let mut client = world.connect().await;
            client.set_nodelay(true).expect("option");
            let stream = format!("{ambiguous}{smuggled}");
            if split {
                for byte in stream.as_bytes() {
                    if client.write_all(&[*byte]).await.is_err() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            } else {
                client.write_all(stream.as_bytes()).await.expect("write");
            }
            let mut answer = Vec::new();
            let _ = within(client.read_to_end(&mut answer)).await;
            let answer = String::from_utf8_lossy(&answer);
            assert_eq!(status(&answer), 400, "{ambiguous:?}: {answer}");
            assert!(body(&answer).starts_with(r#"{"code":400,"message":""#), "{answer}");
            assert!(answer.contains("connection: close"));
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        }
    }
    assert_eq!(seen.load(Ordering::SeqCst), 0);

    // Requests before it are answered first, in order.
    let sound = format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n\r\nab");
    for ambiguous in &table {
        let answer = world.ask(&format!("{sound}{sound}{ambiguous}{smuggled}")).await;
        assert_eq!(answer.matches("arrived").count(), 2, "{answer}");
        assert_eq!(answer.matches("HTTP/1.1 400").count(), 1, "{answer}");
    }
    assert_eq!(seen.load(Ordering::SeqCst), 2 * table.len());
    // The path of the stand-in has no meaning for other requests.
    let stand_in = world.ask("GET /.cabana/refused HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n").await;
    assert_eq!(status(&stand_in), 404);
}

#[tokio::test]
async fn pipelined_requests_for_two_sandboxes_stay_apart() {
    let world = World::new().await;
    let (one, two) = (world.sandbox(says("one")), world.sandbox(says("two")));
    let to = |id, close| {
        let close = if close { "Connection: close\r\n" } else { "" };
        format!(
            "POST / HTTP/1.1\r\nHost: 49983-{id}.e2b.test\r\n{close}Transfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n"
        )
    };
    let pipeline = [to(&one.id, false), to(&two.id, false), to(&one.id, false), to(&two.id, true)].concat();
    let answer = world.ask(&pipeline).await;
    let order: Vec<_> = answer.match_indices("one").chain(answer.match_indices("two")).collect();
    assert_eq!(order.len(), 4);
    let first_two = answer.find("two").expect("two");
    assert!(answer.find("one").expect("one") < first_two && first_two < answer.rfind("one").expect("one"));
}

#[tokio::test]
async fn slow_and_huge_heads() {
    let limits = Limits { head: Duration::from_millis(300), idle: Duration::from_millis(600), ..Limits::default() };
    let world = World::with(None, limits).await;
    let slow = world.ask("GET / HTTP/1.1\r\nHost: a\r\nX: ").await;
    assert_eq!(status(&slow), 408);
    assert_eq!(world.ask("").await, "", "an idle connection is closed without a response");
    let huge = world.ask(&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(1 << 20))).await;
    assert_eq!(status(&huge), 431);
    let many = world.ask(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(100_000))).await;
    assert_eq!(status(&many), 431);
    // A silent stream is neither slow nor idle.
    let sandbox = world.sandbox(handler(|_| async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        Response::new(Body::from("at last"))
    }));
    assert_eq!(body(&world.get(sandbox.id.as_str(), 49983, "/", "").await), "at last");
}

#[tokio::test]
async fn an_early_answer_is_not_lost_to_a_reset() {
    let world = World::new().await;
    let sandbox = world.sandbox(handler(|_| async {
        let mut response = Response::new(Body::from("no"));
        *response.status_mut() = http::StatusCode::UNAUTHORIZED;
        response
    }));
    let mut client = world.connect().await;
    let head = format!("POST / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\nContent-Length: 50000000\r\n\r\n", sandbox.id);
    client.write_all(head.as_bytes()).await.expect("write");
    let piece = vec![0; 1 << 20];
    for _ in 0..20 {
        if client.write_all(&piece).await.is_err() {
            break;
        }
    }
    assert_eq!(status(&read_until(&mut client, "no").await), 401);
}
