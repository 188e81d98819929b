//! Servers in a sandbox that send heads without end: each request is answered, and others are not delayed.

use std::time::Duration;

use cabana_guest_link::GuestLink;
use cabana_types::Traffic;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};

use crate::world::*;

/// What a hostile server sends after each request: `first`, and then `again` until the connection is closed.
#[derive(Clone, Copy)]
struct Script {
    first: &'static str,
    again: &'static str,
    /// Delay before each `again`.
    pause: Duration,
}

impl Script {
    const fn fast(first: &'static str, again: &'static str) -> Self {
        Self { first, again, pause: Duration::ZERO }
    }

    async fn play(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        read_until(&mut stream, "\r\n\r\n").await;
        let again = if self.pause.is_zero() { self.again.repeat(1000) } else { self.again.to_owned() };
        let _ = stream.write_all(self.first.as_bytes()).await;
        while stream.write_all(again.as_bytes()).await.is_ok() {
            tokio::time::sleep(self.pause).await;
        }
    }
}

const CONTINUE: Script = Script::fast("", "HTTP/1.1 100 Continue\r\n\r\n");
const HINTS: Script = Script::fast("", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n");
const ENDLESS_HEAD: Script = Script::fast("HTTP/1.1 200 OK\r\nx: ", "a");
const ENDLESS_HEADERS: Script = Script::fast("HTTP/1.1 200 OK\r\n", "x: a\r\n");
const BETWEEN: Script = Script::fast("", "HTTP/1.1 100 Continue\r\nx: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n");

/// A port of the sandbox with a hostile server.
async fn port(sandbox: &Box, script: Script) -> u16 {
    let listener = TcpListener::bind((sandbox.address, 0)).await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(script.play(stream));
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_heads_are_answered_and_delay_nobody() {
    let world = World::new().await;
    let sandbox = world.sandbox(says(""));
    for (script, reason) in [
        (CONTINUE, "more than 64 informational (1xx) responses"),
        (HINTS, "more than 64 informational (1xx) responses"),
        (BETWEEN, "more than 64 informational (1xx) responses"),
        (ENDLESS_HEAD, "the head of its response is too large"),
        (ENDLESS_HEADERS, "the head of its response is too large"),
    ] {
        let port = port(&sandbox, script).await;
        let asked = (0..16).map(|_| world.get(sandbox.id.as_str(), port, "/", ""));
        let (answers, health) = tokio::join!(
            futures_util::future::join_all(asked),
            world.ask("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        );
        assert_eq!(status(&health), 200);
        for answer in answers {
            assert_eq!(status(&answer), 502, "{answer}");
            assert!(answer.contains("\"error_code\":\"port_bad_response\"") && answer.contains(reason), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_few_informational_answers_are_skipped() {
    let world = World::new().await;
    let sandbox = world.sandbox(says(""));
    let script = Script {
        first: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes",
        again: "",
        pause: Duration::from_secs(3600),
    };
    let port = port(&sandbox, script).await;
    let answer = world.get(sandbox.id.as_str(), port, "/", "").await;
    assert_eq!((status(&answer), body(&answer)), (200, "yes"));
}

/// Time is simulated: the runtime is idle between two bytes.
#[tokio::test(start_paused = true)]
async fn slow_heads_time_out() {
    let world = World::new().await;
    let sandbox = world.sandbox(says(""));
    for (first, again) in [
        ("H", ""),
        ("HTTP/1.1 200 OK\r\nx: ", "a"),
        ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n", "x: a\r\n"),
    ] {
        let port = port(&sandbox, Script { first, again, pause: Duration::from_secs(1) }).await;
        let answer = world.get(sandbox.id.as_str(), port, "/", "").await;
        assert_eq!(status(&answer), 502, "{first:?}: {answer}");
        assert!(answer.contains("not complete 30 s after its first byte"), "{answer}");
    }
}

/// Root inside a sandbox may take the guest's place.
#[tokio::test]
async fn a_hostile_guest_is_bounded_too() {
    let world = World::new().await;
    let dir = tempfile::tempdir().expect("directory");
    let [control, traffic] = ["control", "traffic"].map(|name| dir.path().join(name));
    for path in [&control, &traffic] {
        let listener = UnixListener::bind(path).expect("bind");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(CONTINUE.play(stream));
            }
        });
    }
    let link = GuestLink::Unix { control, traffic, address: std::net::Ipv4Addr::new(127, 9, 9, 9) };
    world.insert("ihostile".parse().expect("id"), link.clone(), Traffic::default());
    let answer = world.get("ihostile", 49983, "/health", "").await;
    assert_eq!(status(&answer), 502, "{answer}");
    assert!(answer.contains("informational"), "{answer}");
    // The bridge to a port on loopback is a request to the guest as well.
    let answer = world.get("ihostile", 1, "/", "").await;
    assert!(answer.contains("port_closed"), "{answer}");
    assert!(!link.is_healthy().await);
}
