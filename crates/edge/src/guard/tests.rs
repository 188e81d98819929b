//! The guard on byte streams cut at random places.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::framing::{Framing, Remainder};
use super::*;
use crate::clients::Clients;
use crate::connection::Peer;
use crate::limits::Limits;

/// Feeds a stream in pieces, as the guard does; what passed, and the verdict that ended it.
fn feed(stream: &[u8], cuts: &[usize]) -> (Vec<u8>, Remainder) {
    let mut framing = Framing::new();
    let (mut passed, mut held) = (Vec::new(), Vec::new());
    let mut last = Remainder::None;
    let mut pieces: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    pieces.extend([0, stream.len()]);
    pieces.sort_unstable();
    for piece in pieces.windows(2) {
        held.extend_from_slice(&stream[piece[0]..piece[1]]);
        loop {
            let (good, rest) = framing.follow(&held);
            passed.extend(held.drain(..good));
            last = rest;
            if matches!(rest, Remainder::Reject(_) | Remainder::BrokenBody(_)) {
                return (passed, rest);
            }
            if good == 0 {
                break;
            }
        }
    }
    (passed, last)
}

/// A sound request.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let head = ("(GET|POST|PUT|OPTIONS)", "/[a-z0-9/?=&%+.-]{0,30}", "[a-z0-9.-]{1,20}(:[0-9]{1,4})?");
    let headers = prop::collection::vec(("x-[a-z]{1,8}", "[ -~]{0,20}"), 0..6);
    let body = prop_oneof![
        Just(None),
        prop::collection::vec(any::<u8>(), 0..200).prop_map(|body| Some((body, 0))),
        (prop::collection::vec(any::<u8>(), 0..200), 1usize..50).prop_map(Some),
    ];
    (head, headers, body, any::<bool>()).prop_map(|((method, path, host), headers, body, blank)| {
        let mut out = Vec::new();
        if blank {
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n").as_bytes());
        for (name, value) in headers {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        match body {
            None => out.extend_from_slice(b"\r\n"),
            Some((body, 0)) => {
                out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
                out.extend_from_slice(&body);
            }
            Some((body, chunk)) => {
                out.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
                for chunk in body.chunks(chunk) {
                    out.extend_from_slice(
                        format!("{:x}{}\r\n", chunk.len(), if blank { ";a=b" } else { "" }).as_bytes(),
                    );
                    out.extend_from_slice(chunk);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(if blank { b"0\r\nx-sum: 1\r\n\r\n" } else { b"000\r\n\r\n" });
            }
        }
        out
    })
}

/// Heads that another parser could interpret differently.
const AMBIGUOUS: &[&str] = &[
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET / HTTP/1.1\nHost: a\n\n",
    "GET / HTTP/1.1\r\nHost: a\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\rY: c\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: b\rContent-Length: 5\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: b\0\r\n\r\n",
    "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tfolded\r\n\r\n",
    "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "GET / HTTP/1.1\r\nX y: a\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\n: a\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost a\r\n\r\n",
    "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n",
    "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET a/b HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
    "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
    "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "GET /\r\n\r\n",
    "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03\r\n\r\n",
];

/// Bodies that break off where the last byte is; everything up to there passes.
const BROKEN: &[&str] = &[
    "x",
    "-",
    "\r",
    "\n",
    " ",
    ";",
    "+",
    "5 ",
    "5\n",
    "5\rx",
    "0x",
    "5;a\n",
    "5;\0",
    "1234567890abcdef",
    "1\r\nab",
    "1\r\na\n",
    "1\r\na\rb",
    "0\r\n\n",
    "0\r\n ",
    "0\r\n:",
    "0\r\na ",
    "0\r\na:b\n",
    "0\r\na:b\rc",
    "0\r\n\rx",
    "g",
];

const SOUND: &str = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n";
const CHUNKED: &str = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

proptest! {
    #[test]
    fn sound_requests_pass_unchanged(
        requests in prop::collection::vec(request(), 1..5),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let stream = requests.concat();
        let (passed, rest) = feed(&stream, &cuts);
        prop_assert_eq!(rest, Remainder::None);
        prop_assert_eq!(passed, stream);
    }

    #[test]
    fn ambiguous_requests_never_pass(
        which in 0..AMBIGUOUS.len(),
        after in any::<bool>(),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let before = if after { SOUND } else { "" };
        let stream = format!("{before}{}GET /next HTTP/1.1\r\nHost: a\r\n\r\n", AMBIGUOUS[which]);
        let (passed, rest) = feed(stream.as_bytes(), &cuts);
        prop_assert!(matches!(rest, Remainder::Reject(_)), "{:?}: {rest:?}", AMBIGUOUS[which]);
        prop_assert_eq!(passed, before.as_bytes());
    }

    #[test]
    fn broken_bodies_stop_where_they_break(which in 0..BROKEN.len(), cuts in prop::collection::vec(any::<usize>(), 0..40)) {
        let body = BROKEN[which];
        let stream = format!("{CHUNKED}{body}GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        let (passed, rest) = feed(stream.as_bytes(), &cuts);
        prop_assert!(matches!(rest, Remainder::BrokenBody(_)), "{body:?}: {rest:?}");
        prop_assert_eq!(passed, &stream.as_bytes()[..CHUNKED.len() + body.len() - 1]);
    }

    #[test]
    fn nothing_makes_it_panic(
        stream in prop::collection::vec(any::<u8>(), 0..2000),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
        start in prop_oneof![Just(""), Just(CHUNKED), Just(SOUND)],
    ) {
        let stream = [start.as_bytes(), &stream].concat();
        let (passed, _) = feed(&stream, &cuts);
        prop_assert!(stream.starts_with(&passed));
        let (whole, _) = feed(&stream, &[]);
        prop_assert_eq!(passed, whole);
    }

    #[test]
    fn damaged_requests_are_cut_alike_at_any_split(
        request in request(),
        at in any::<usize>(),
        byte in any::<u8>(),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let mut stream = request;
        let at = at % stream.len();
        stream[at] = byte;
        let (passed, rest) = feed(&stream, &cuts);
        prop_assert_eq!((passed, rest), feed(&stream, &[]));
    }

    #[test]
    fn the_stream_passes_through_the_guard_unchanged(
        requests in prop::collection::vec(request(), 1..4),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
        room in 1usize..300,
    ) {
        let stream = requests.concat();
        let expected = stream.clone();
        let passed = block_on(async move {
            let (client, mut guard, _connection) = guarded(room);
            let writer = tokio::spawn(write_in_pieces(client, stream, cuts));
            let mut passed = Vec::new();
            guard.read_to_end(&mut passed).await.expect("read");
            writer.await.expect("writer");
            passed
        });
        prop_assert_eq!(passed, expected);
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("runtime").block_on(future)
}

async fn write_in_pieces(mut client: DuplexStream, stream: Vec<u8>, cuts: Vec<usize>) {
    let mut pieces: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).chain([0, stream.len()]).collect();
    pieces.sort_unstable();
    for piece in pieces.windows(2) {
        client.write_all(&stream[piece[0]..piece[1]]).await.expect("write");
        tokio::task::yield_now().await;
    }
}

fn guarded(room: usize) -> (DuplexStream, Guard<DuplexStream>, Arc<Connection>) {
    let (client, server) = duplex(room);
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("permit");
    let peer = Peer { address: "127.0.0.1:9".parse().expect("address"), secure: false };
    let place = Arc::new(Clients::new(&Limits::default())).enter(peer.address, permit).expect("place");
    let connection = Arc::new(Connection::new(peer, &CancellationToken::new(), place));
    let timeouts = Timeouts { head: Duration::from_secs(15), idle: Duration::from_secs(60) };
    (client, Guard::new(server, connection.clone(), timeouts), connection)
}

#[tokio::test]
async fn a_refused_head_becomes_the_stand_in_and_nothing_follows() {
    for ambiguous in AMBIGUOUS {
        let (mut client, mut guard, connection) = guarded(64 * 1024);
        client.write_all(format!("{SOUND}{ambiguous}{SOUND}").as_bytes()).await.expect("write");
        drop(client);
        let mut passed = Vec::new();
        guard.read_to_end(&mut passed).await.expect("read");
        assert_eq!(passed, [SOUND.as_bytes(), PLACEHOLDER].concat(), "{ambiguous:?}");
        assert!(connection.rejection().is_some());
    }
}

#[tokio::test]
async fn a_broken_chunk_is_an_error() {
    let (mut client, mut guard, _connection) = guarded(64 * 1024);
    client.write_all(format!("{CHUNKED}3\r\nabc\r\nzz\r\n{SOUND}").as_bytes()).await.expect("write");
    let mut passed = Vec::new();
    let error = guard.read_to_end(&mut passed).await.expect_err("broken");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(passed, format!("{CHUNKED}3\r\nabc\r\n").as_bytes());
}

#[tokio::test]
async fn heads_are_bounded() {
    let huge = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(64 * 1024));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(100));
    let endless = "a".repeat(70 * 1024);
    for head in [huge, many, endless] {
        assert_eq!(feed(head.as_bytes(), &[]), (Vec::new(), Remainder::Reject(Rejection::HEAD_TOO_LARGE)));
    }
    let full = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(99));
    assert_eq!(feed(full.as_bytes(), &[]), (full.into_bytes(), Remainder::None));
    // 100,000 one-byte pieces of a chunk extension.
    let extension = format!("{CHUNKED}5;{}", "a".repeat(100_000));
    assert!(matches!(feed(extension.as_bytes(), &[]).1, Remainder::BrokenBody(_)));
}

#[tokio::test]
async fn http2_passes_whole() {
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nanything\n\n\0";
    for cut in 0..preface.len() {
        assert_eq!(feed(preface.as_bytes(), &[cut]), (preface.as_bytes().to_vec(), Remainder::None));
    }
    // Only at the start of a connection.
    let later = format!("{SOUND}{preface}");
    assert!(matches!(feed(later.as_bytes(), &[]).1, Remainder::Reject(_)));
}

#[tokio::test]
async fn what_follows_an_upgrade_waits_for_its_outcome() {
    const ASK: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
    for accepted in [true, false] {
        let (mut client, mut guard, connection) = guarded(64 * 1024);
        let early = if accepted { "\0\n\nraw" } else { "GET / HTTP/1.1\r\nHost: a\r\n\r\nrest" };
        client.write_all(format!("{ASK}{early}").as_bytes()).await.expect("write");
        let mut ask = vec![0; ASK.len()];
        guard.read_exact(&mut ask).await.expect("head");
        assert_eq!(ask, ASK.as_bytes());
        let mut byte = [0];
        let waited = tokio::time::timeout(Duration::from_millis(20), guard.read(&mut byte)).await;
        assert!(waited.is_err(), "nothing passes before the outcome");
        connection.decide_upgrade(accepted);
        drop(client);
        let mut passed = Vec::new();
        guard.read_to_end(&mut passed).await.expect("read");
        let expected = if accepted { early } else { early.strip_suffix("rest").expect("suffix") };
        assert_eq!(passed, expected.as_bytes());
    }
    // h2c upgrades are not supported, so requesting one changes nothing.
    let h2c = ASK.replace("websocket", "h2c") + SOUND;
    assert_eq!(feed(h2c.as_bytes(), &[]), (h2c.into_bytes(), Remainder::None));
}

#[tokio::test(start_paused = true)]
async fn slow_heads_and_idle_connections_run_out_of_time() {
    let (mut client, mut guard, connection) = guarded(1024);
    let feeder = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if client.write_all(b"a").await.is_err() {
                break;
            }
        }
    });
    let started = Instant::now();
    let mut head = vec![0; PLACEHOLDER.len()];
    guard.read_exact(&mut head).await.expect("read");
    assert_eq!(head, PLACEHOLDER);
    assert_eq!(connection.rejection(), Some(Rejection::HEAD_TOO_SLOW));
    assert_eq!(started.elapsed().as_secs(), 16, "one second to the first byte, then 15");
    drop(guard);
    feeder.await.expect("feeder");

    let (_client, mut guard, connection) = guarded(1024);
    let started = Instant::now();
    connection.begin();
    let mut byte = [0];
    let busy = tokio::time::timeout(Duration::from_secs(3600), guard.read(&mut byte)).await;
    assert!(busy.is_err(), "an answer is under way");
    connection.end();
    assert_eq!(guard.read(&mut byte).await.expect("read"), 0);
    assert_eq!(started.elapsed().as_secs(), 3660);
}

/// However a stream is cut into reads, the guard lets the same bytes pass and comes to the same verdict.
#[test]
fn fuzz_streams() {
    cabana_fuzz_driver::Fuzz::new("guard").run(|input| {
        let Some((size, stream)) = input.split_first() else { return String::new() };
        let cuts: Vec<usize> = (0..stream.len()).step_by(usize::from(*size).max(1)).collect();
        let (whole, pieces) = (feed(stream, &[]), feed(stream, &cuts));
        assert_eq!(whole, pieces);
        format!("{:?}", whole.1)
    });
}
