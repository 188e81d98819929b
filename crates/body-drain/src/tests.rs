//! A hyper server on an in-memory connection, and a client that writes bytes.

use std::convert::Infallible;

use http_body_util::Empty;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::*;

/// What the handler does with the body.
#[derive(Debug, Clone, Copy)]
enum Handler {
    /// Drops it unread.
    Drops,
    /// Reads one frame, then drops it.
    ReadsOne,
    /// Reads it to its end.
    ReadsAll,
    /// Hands it to the test, which holds it beyond the response.
    Holds { abandoned: bool },
}

fn serve(handler: Handler) -> (DuplexStream, mpsc::UnboundedReceiver<TrackedBody>) {
    let (client, server) = duplex(1024);
    let (bodies, held) = mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<Incoming>| {
        let bodies = bodies.clone();
        async move {
            let (request, drain) = track(request);
            let mut body = request.into_body();
            let mut abandoned_by_holder = false;
            match handler {
                Handler::Drops => drop(body),
                Handler::ReadsOne => drop(body.frame().await),
                Handler::ReadsAll => drop(body.collect().await.expect("body")),
                Handler::Holds { abandoned } => {
                    abandoned_by_holder = abandoned;
                    bodies.send(body).expect("the test receives");
                }
            }
            Ok::<_, Infallible>(drain.finish(Response::new(Empty::<Bytes>::new()), abandoned_by_holder).await)
        }
    });
    tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(server), service));
    (client, held)
}

/// Reads one response head.
async fn head(client: &mut (impl AsyncRead + Unpin)) -> String {
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        got.push(client.read_u8().await.expect("a response"));
    }
    String::from_utf8(got).expect("text").to_ascii_lowercase()
}

fn post(length: usize, sent: usize) -> Vec<u8> {
    let mut request = format!("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    request.resize(request.len() + sent, b'x');
    request
}

#[tokio::test]
async fn a_connection_survives_an_unread_body() {
    for handler in [Handler::Drops, Handler::ReadsOne, Handler::ReadsAll] {
        let (mut client, _) = serve(handler);
        for length in [0, 1, 200 * 1024, 256 * 1024] {
            let (mut from, mut to) = tokio::io::split(&mut client);
            let sent = async { to.write_all(&post(length, length)).await.expect("the server reads on") };
            let ((), head) = tokio::join!(sent, head(&mut from));
            assert!(head.starts_with("http/1.1 200"), "{handler:?} {length}: {head}");
            assert!(!head.contains("close"), "{handler:?} {length}: {head}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_too_long_closes_the_connection_with_notice() {
    let (mut client, _) = serve(Handler::Drops);
    client.write_all(&post(256 * 1024 + 1, 0)).await.expect("write");
    assert!(head(&mut client).await.contains("connection: close"));
    assert_eq!(client.read(&mut [0; 1]).await.expect("read"), 0, "the connection ends");
}

#[tokio::test]
async fn a_chunked_body_without_end_closes_the_connection_with_notice() {
    let (client, _) = serve(Handler::Drops);
    let (mut from, mut to) = tokio::io::split(client);
    to.write_all(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n").await.expect("write");
    let flood = tokio::spawn(async move { while to.write_all(b"5\r\nhello\r\n").await.is_ok() {} });
    let mut answer = String::new();
    from.read_to_string(&mut answer).await.expect("the connection ends");
    assert!(answer.to_ascii_lowercase().contains("connection: close"), "{answer}");
    flood.await.expect("the server stops reading");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_waited_for_one_second() {
    let (mut client, _) = serve(Handler::Drops);
    let start = tokio::time::Instant::now();
    client.write_all(&post(2, 1)).await.expect("write");
    assert!(head(&mut client).await.contains("connection: close"));
    assert_eq!(start.elapsed().as_secs(), DRAIN_TIMEOUT.as_secs());
}

#[tokio::test]
async fn a_client_that_waits_for_continue_is_not_asked_for_an_unwanted_body() {
    let request = b"POST / HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n";
    let (mut client, _) = serve(Handler::Drops);
    client.write_all(request).await.expect("write");
    let refused = head(&mut client).await;
    assert!(refused.starts_with("http/1.1 200") && refused.contains("connection: close"), "{refused}");

    let (mut client, _) = serve(Handler::ReadsAll);
    client.write_all(request).await.expect("write");
    assert!(head(&mut client).await.starts_with("http/1.1 100"));
    client.write_all(b"abc").await.expect("write");
    let answer = head(&mut client).await;
    assert!(answer.starts_with("http/1.1 200") && !answer.contains("close"), "{answer}");
}

#[tokio::test]
async fn a_body_dropped_after_the_response_is_drained_too() {
    let (mut client, mut held) = serve(Handler::Holds { abandoned: false });
    for _ in 0..2 {
        client.write_all(&post(10, 4)).await.expect("write");
        let body = held.recv().await.expect("held");
        let answer = head(&mut client).await;
        assert!(answer.starts_with("http/1.1 200") && !answer.contains("close"), "{answer}");
        drop(body);
        client.write_all(b"xxxxxx").await.expect("write");
    }
}

#[tokio::test]
async fn an_abandoned_body_closes_the_connection_with_notice() {
    let (mut client, mut held) = serve(Handler::Holds { abandoned: true });
    client.write_all(&post(10, 4)).await.expect("write");
    let _body = held.recv().await.expect("held");
    assert!(head(&mut client).await.contains("connection: close"));
}
