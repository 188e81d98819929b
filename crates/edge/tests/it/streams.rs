//! Large and long streams, other protocols, HTTP/2, and many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::*;

const MIB: u64 = 1024 * 1024;
const PIECE: usize = 1024 * 1024;
const LARGE: u64 = 200 * MIB;

/// Accepts any protocol and echoes every byte.
pub(crate) fn upgrading_echo() -> Handler {
    handler(|mut request| async move {
        let mut response = Response::new(Body::empty());
        let Some(protocol) = request.headers().get("upgrade").cloned() else {
            *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
            return response;
        };
        let key = request.headers().get("sec-websocket-key").cloned();
        let upgraded = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded.await.expect("upgrade")));
            let _ = tokio::io::copy(&mut read, &mut write).await;
            let _ = write.shutdown().await;
        });
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("upgrade", protocol);
        response.headers_mut().insert("connection", "Upgrade".parse().expect("value"));
        if let Some(key) = key {
            response.headers_mut().insert("sec-websocket-accept", key);
        }
        response
    })
}

pub(crate) async fn open_tunnel(world: &World, id: &str, port: u16) -> tokio::net::TcpStream {
    let mut client = world.connect().await;
    let request = format!(
        "GET /ws HTTP/1.1\r\nHost: {port}-{id}.e2b.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\nearly"
    );
    client.write_all(request.as_bytes()).await.expect("write");
    let head = read_until(&mut client, "\r\n\r\n").await.to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    assert!(head.contains("upgrade: websocket") && head.contains("sec-websocket-accept: k"), "{head}");
    let mut early = [0; 5];
    within(client.read_exact(&mut early)).await.expect("early bytes");
    assert_eq!(&early, b"early", "bytes before the response are not lost");
    client
}

#[tokio::test]
async fn other_protocols_pass_both_ways() {
    let world = World::new().await;
    let sandbox = world.sandbox(upgrading_echo());
    let (port, _, _task) = open_port(&sandbox, upgrading_echo()).await;
    for port in [port, 49983] {
        let mut client = open_tunnel(&world, sandbox.id.as_str(), port).await;
        // Not HTTP, and of every byte value.
        let message: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).chain(*b"\0\n\nGET / HTTP/1.1\n\n").collect();
        let expected = message.clone();
        let (mut read, mut write) = client.split();
        let (sent, received) = tokio::join!(
            async {
                write.write_all(&message).await?;
                write.shutdown().await
            },
            async {
                let mut received = Vec::new();
                within(read.read_to_end(&mut received)).await.map(|_| received)
            }
        );
        sent.expect("write");
        assert!(received.expect("read") == expected);
    }
}

#[tokio::test]
async fn after_a_declined_upgrade_the_connection_stays_usable() {
    let world = World::new().await;
    let sandbox = world.sandbox(says("no"));
    let ask = format!(
        "GET / HTTP/1.1\r\nHost: 49983-{0}.e2b.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\
         GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        sandbox.id
    );
    let answer = world.ask(&ask).await;
    assert!(answer.contains("no") && answer.ends_with("the API"), "{answer}");
}

fn rss() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages * 4096
}

/// Runs `work`, and returns the peak growth of memory.
async fn growth(work: impl Future<Output = ()>) -> u64 {
    let before = rss();
    let peak = Arc::new(AtomicU64::new(0));
    let seen = peak.clone();
    let watcher = tokio::spawn(async move {
        loop {
            seen.fetch_max(rss(), Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    work.await;
    watcher.abort();
    peak.load(Ordering::SeqCst).saturating_sub(before)
}

fn large_and_counting() -> Handler {
    handler(|request| async move {
        if request.method() == "POST" {
            let mut body = request.into_body().into_data_stream();
            let mut sum = 0;
            while let Some(Ok(piece)) = body.next().await {
                sum += piece.len() as u64;
            }
            return Response::new(Body::from(format!("received {sum}.")));
        }
        let piece = Bytes::from(vec![b'x'; 64 * 1024]);
        let pieces = futures_util::stream::repeat(piece).take((LARGE / (64 * 1024)) as usize);
        let mut response = Response::new(Body::from_stream(pieces.map(Ok::<_, std::io::Error>)));
        if request.uri().path() == "/sized" {
            response.headers_mut().insert("content-length", LARGE.into());
        }
        response
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_both_ways_in_little_memory() {
    let world = World::new().await;
    let sandbox = world.sandbox(large_and_counting());
    let (port, _, _task) = open_port(&sandbox, large_and_counting()).await;
    let grown = growth(async {
        for (port, chunked) in [(49983, false), (49983, true), (port, false), (port, true)] {
            let mut client = world.connect().await;
            let framing =
                if chunked { "Transfer-Encoding: chunked".to_owned() } else { format!("Content-Length: {LARGE}") };
            let head = format!("POST / HTTP/1.1\r\nHost: {port}-{}.e2b.test\r\n{framing}\r\n\r\n", sandbox.id);
            client.write_all(head.as_bytes()).await.expect("write");
            let piece = vec![b'y'; PIECE];
            for _ in 0..LARGE / MIB {
                if chunked {
                    client.write_all(b"100000\r\n").await.expect("write");
                }
                client.write_all(&piece).await.expect("write");
                if chunked {
                    client.write_all(b"\r\n").await.expect("write");
                }
            }
            if chunked {
                client.write_all(b"0\r\n\r\n").await.expect("write");
            }
            let answer = read_until(&mut client, ".").await + &read_until(&mut client, &format!("{LARGE}.")).await;
            assert_eq!(status(&answer), 200);

            let path = if chunked { "/" } else { "/sized" };
            let head =
                format!("GET {path} HTTP/1.1\r\nHost: {port}-{}.e2b.test\r\nConnection: close\r\n\r\n", sandbox.id);
            client.write_all(head.as_bytes()).await.expect("write");
            read_until(&mut client, "\r\n\r\n").await;
            let mut buffer = vec![0; 256 * 1024];
            let mut read = 0;
            loop {
                match within(client.read(&mut buffer)).await.expect("read") {
                    0 => break,
                    n => read += n as u64,
                }
            }
            if chunked {
                assert!(read > LARGE);
            } else {
                assert_eq!(read, LARGE);
            }
        }
    })
    .await;
    assert!(grown < 64 * MIB, "memory grew by {} MiB", grown / MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_holds_the_writer_back() {
    let world = World::new().await;
    let made = Arc::new(AtomicU64::new(0));
    let counted = made.clone();
    let sandbox = world.sandbox(handler(move |_| {
        let counted = counted.clone();
        async move {
            let pieces = futures_util::stream::repeat(Bytes::from(vec![b'x'; 64 * 1024])).map(move |piece| {
                counted.fetch_add(piece.len() as u64, Ordering::SeqCst);
                Ok::<_, std::io::Error>(piece)
            });
            Response::new(Body::from_stream(pieces))
        }
    }));
    let mut client = world.connect().await;
    let head = format!("GET / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n\r\n", sandbox.id);
    client.write_all(head.as_bytes()).await.expect("write");
    read_until(&mut client, "xxx").await;
    let mut last = 0;
    within(async {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = made.load(Ordering::SeqCst);
            if now == last {
                break;
            }
            last = now;
        }
    })
    .await;
    assert!(last < 32 * MIB, "{} MiB were taken from the sandbox and not by the client", last / MIB);
    // When the client continues, so does the stream.
    let mut buffer = vec![0; PIECE];
    for _ in 0..64 {
        within(client.read_exact(&mut buffer)).await.expect("read");
    }
    assert!(made.load(Ordering::SeqCst) > 60 * MIB);
}

#[tokio::test]
async fn http2_clients_are_served() {
    let world = World::new().await;
    let sandbox = world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, large_and_counting()).await;
    let io = TokioIo::new(world.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("handshake");
    let driver = tokio::spawn(connection);
    let get = |host: String| {
        Request::get(format!("http://{host}/a?b"))
            .header("x-api-key", "secret")
            .body(http_body_util::Either::Left(Empty::<Bytes>::new()))
            .expect("request")
    };
    let answer = within(sender.send_request(get(format!("49983-{}.e2b.test", sandbox.id)))).await.expect("answer");
    assert_eq!(answer.status(), 200);
    let seen = String::from_utf8(answer.into_body().collect().await.expect("body").to_bytes().to_vec()).expect("text");
    assert_eq!(seen, format!("GET /a?b\nhost: 49983-{}.e2b.test", sandbox.id));
    // Without a length, upstream gets chunks.
    let pieces = futures_util::stream::iter(
        (0..10).map(|_| Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from(vec![0; 10_000])))),
    );
    let post = Request::post(format!("http://{port}-{}.e2b.test/", sandbox.id))
        .body(http_body_util::Either::Right(StreamBody::new(pieces)))
        .expect("request");
    let answer = within(sender.send_request(post)).await.expect("answer");
    assert_eq!(answer.into_body().collect().await.expect("body").to_bytes(), "received 100000.");
    let gone = within(sender.send_request(get("80-inever.e2b.test".to_owned()))).await.expect("answer");
    assert_eq!(gone.status(), 502);

    // The end of a sandbox resets its streams, and only them.
    let other = world.sandbox(echo());
    let endless = world.sandbox(handler(|_| async {
        let silent = futures_util::stream::once(async { Ok::<_, std::io::Error>("tick") })
            .chain(futures_util::stream::pending());
        Response::new(Body::from_stream(silent))
    }));
    let answer = within(sender.send_request(get(format!("49983-{}.e2b.test", endless.id)))).await.expect("answer");
    let mut stream = answer.into_body();
    stream.frame().await.expect("frame").expect("tick");
    world.directory.remove(&endless.id);
    assert!(within(stream.frame()).await.is_some_and(|frame| frame.is_err()));
    let answer = within(sender.send_request(get(format!("49983-{}.e2b.test", other.id)))).await.expect("answer");
    assert_eq!(answer.status(), 200);
    driver.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_streams_at_once() {
    const STREAMS: usize = 400;
    let world = World::new().await;
    let sandbox = world.sandbox(handler(|_| async {
        let ticks = futures_util::stream::unfold(0, |n| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            (n < 20).then(|| (Ok::<_, std::io::Error>(format!("tick {n}\n")), n + 1))
        });
        Response::new(Body::from_stream(ticks))
    }));
    let request = format!("GET / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n\r\n", sandbox.id);
    let clients = (0..STREAMS).map(async |_| {
        let mut client = world.connect().await;
        client.write_all(request.as_bytes()).await.expect("write");
        let answer = read_until(&mut client, "0\r\n\r\n").await;
        assert_eq!(answer.matches("tick").count(), 20);
    });
    futures_util::future::join_all(clients).await;
    // Of the connections that are idle now, only a few are kept.
    within(async {
        while sandbox.guest.open.load(Ordering::SeqCst) > 32 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
