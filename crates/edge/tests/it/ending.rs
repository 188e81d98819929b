//! What happens to streams when a sandbox, a client or the server ends.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use cabana_edge::listener::Limits;
use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::world::*;

/// A stream that sends `tick` at once, and then nothing, or endlessly.
fn ticking(endless: bool) -> Handler {
    handler(move |_| async move {
        let stream = futures_util::stream::unfold(0u64, move |n| async move {
            if n > 0 && !endless {
                std::future::pending::<()>().await;
            }
            let piece = if endless { Bytes::from(vec![b'x'; 64 * 1024]) } else { Bytes::from_static(b"tick") };
            Some((Ok::<_, std::io::Error>(piece), n + 1))
        });
        Response::new(Body::from_stream(stream))
    })
}

async fn rest(stream: &mut tokio::net::TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // The end may be a reset.
    let _ = within(stream.read_to_end(&mut rest)).await;
    rest
}

#[tokio::test]
async fn streams_of_a_sandbox_that_ends_have_no_end() {
    let world = World::new().await;
    let sandbox = world.sandbox(ticking(false));
    let mut client = world.connect().await;
    let request = format!("GET / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n\r\n", sandbox.id);
    client.write_all(request.as_bytes()).await.expect("write");
    let head = read_until(&mut client, "tick\r\n").await;
    assert!(head.contains("transfer-encoding: chunked"));
    world.directory.remove(&sandbox.id);
    assert_eq!(rest(&mut client).await, b"", "no last chunk, only the end of the connection");
    let next = world.get(sandbox.id.as_str(), 49983, "/health", "").await;
    assert_eq!(status(&next), 502);
    assert!(next.contains("The sandbox was not found"));
    sandbox.guest.until_open(0).await;
}

#[tokio::test]
async fn even_when_the_client_does_not_read() {
    let world = World::new().await;
    let sandbox = world.sandbox(ticking(true));
    let mut client = world.connect().await;
    let request = format!("GET / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n\r\n", sandbox.id);
    client.write_all(request.as_bytes()).await.expect("write");
    read_until(&mut client, "xxxx").await;
    // Fill all buffers in between.
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.directory.remove(&sandbox.id);
    sandbox.guest.until_open(0).await;
    let rest = rest(&mut client).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}

#[tokio::test]
async fn pending_requests_get_an_error() {
    let world = World::new().await;
    let asked = Arc::new(Notify::new());
    let notified = asked.clone();
    let sandbox = world.sandbox(handler(move |_| {
        notified.notify_one();
        std::future::pending()
    }));
    let id = sandbox.id.clone();
    let (answer, ()) = tokio::join!(world.get(id.as_str(), 49983, "/slow", ""), async {
        asked.notified().await;
        world.directory.remove(&id);
    });
    assert_eq!(status(&answer), 502);
    assert!(answer.contains("The sandbox was not found") && answer.contains("it <expired>"));
}

#[tokio::test]
async fn idle_connections_and_tunnels_close_with_the_sandbox() {
    let world = World::new().await;
    let sandbox = world.sandbox(says("the guest"));
    let id = sandbox.id.as_str();
    let (port, counter, _task) = open_port(&sandbox, crate::streams::upgrading_echo()).await;
    assert_eq!(status(&world.get(id, 49983, "/", "").await), 200);
    let mut tunnel = crate::streams::open_tunnel(&world, id, port).await;
    sandbox.guest.until_open(1).await;
    world.directory.remove(&sandbox.id);
    assert_eq!(rest(&mut tunnel).await, b"");
    sandbox.guest.until_open(0).await;
    counter.until_open(0).await;

    // The same id returns at another address: old connections are not reused.
    let again = world.publish(sandbox.id.clone(), sandbox.address, says("another guest"));
    assert_eq!(body(&world.get(id, 49983, "/", "").await), "another guest");
    assert_eq!(again.guest.opened(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_in_the_sandbox() {
    let world = World::new().await;
    let sandbox = world.sandbox(ticking(false));
    let mut client = world.connect().await;
    let request = format!("GET / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n\r\n", sandbox.id);
    client.write_all(request.as_bytes()).await.expect("write");
    read_until(&mut client, "tick").await;
    sandbox.guest.until_open(1).await;
    drop(client);
    sandbox.guest.until_open(0).await;
}

#[tokio::test]
async fn a_broken_upload_is_not_mistaken_for_a_complete_one() {
    let world = World::new().await;
    let (tell, mut notified) = tokio::sync::mpsc::channel(1);
    let (begin, mut begun) = tokio::sync::mpsc::channel(4);
    let sandbox = world.sandbox(handler(move |request| {
        let (tell, begin) = (tell.clone(), begin.clone());
        async move {
            let mut body = request.into_body();
            let first = http_body_util::BodyExt::frame(&mut body).await;
            begin.send(()).await.expect("test is there");
            let whole =
                first.is_some_and(|frame| frame.is_ok()) && http_body_util::BodyExt::collect(body).await.is_ok();
            tell.send(whole).await.expect("test is there");
            Response::new(Body::empty())
        }
    }));
    for (framing, part) in [("Transfer-Encoding: chunked", "5\r\nhello\r\n"), ("Content-Length: 10", "hello")] {
        let mut client = world.connect().await;
        let request = format!("POST / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n{framing}\r\n\r\n{part}", sandbox.id);
        client.write_all(request.as_bytes()).await.expect("write");
        within(begun.recv()).await.expect("its beginning has arrived");
        drop(client);
        assert_eq!(within(notified.recv()).await, Some(false), "{framing}");
    }
    // An invalid chunk breaks it as well.
    let mut client = world.connect().await;
    let head = format!("POST / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\nTransfer-Encoding: chunked\r\n\r\n", sandbox.id);
    client.write_all(format!("{head}5\r\nhello\r\nzz\r\n{head}").as_bytes()).await.expect("write");
    assert_eq!(within(notified.recv()).await, Some(false));
    assert!(!String::from_utf8_lossy(&rest(&mut client).await).contains("200 OK"));
}

#[tokio::test]
async fn the_server_closes_quickly_and_lets_answers_end() {
    let limits = Limits { grace: Duration::from_millis(500), ..Limits::default() };
    let mut world = World::with(None, limits).await;
    let go = Arc::new(Notify::new());
    let (asked, may) = (Arc::new(Notify::new()), go.clone());
    let notified = asked.clone();
    let slow = world.sandbox(handler(move |_| {
        let (notified, may) = (notified.clone(), may.clone());
        async move {
            notified.notify_one();
            may.notified().await;
            Response::new(Body::from("done"))
        }
    }));
    let endless = world.sandbox(ticking(false));
    let mut idle = world.connect().await;
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("write");
    read_until(&mut idle, "the API").await;
    let mut fresh = world.connect().await;
    let mut stream = world.connect().await;
    let request = format!("GET / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n\r\n", endless.id);
    stream.write_all(request.as_bytes()).await.expect("write");
    read_until(&mut stream, "tick").await;
    let (answer, ()) = tokio::join!(world.get(slow.id.as_str(), 49983, "/", ""), async {
        asked.notified().await;
        world.shutdown.cancel();
        assert_eq!(rest(&mut idle).await, b"");
        assert_eq!(rest(&mut fresh).await, b"");
        go.notify_one();
    });
    assert_eq!(body(&answer), "done");
    assert_eq!(rest(&mut stream).await, b"\r\n");
    within(&mut world.server).await.expect("task").expect("served");
    assert!(tokio::net::TcpStream::connect(world.address).await.is_err());
}
