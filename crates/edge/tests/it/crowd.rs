//! Many connections: one client cannot take the places of the others.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use cabana_edge::listener::Limits;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::world::*;

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

/// A body that never ends, in large parts.
fn endless() -> Handler {
    handler(|_| async {
        let parts = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 64 * 1024])));
        Response::new(Body::from_stream(parts))
    })
}

/// A body that has begun and says no more.
fn silent() -> Handler {
    handler(|_| async {
        let first = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"begun"))]);
        Response::new(Body::from_stream(first.chain(futures_util::stream::pending())))
    })
}

impl World {
    /// A connection from another loopback address.
    async fn connect_from(&self, client: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("socket");
        socket.bind(([127, 77, 0, client], 0).into()).expect("bind");
        within(socket.connect(self.address)).await.expect("connect")
    }

    async fn idle_from(&self, client: u8) -> TcpStream {
        let mut stream = self.connect_from(client).await;
        stream.write_all(HEALTH).await.expect("write");
        read_until(&mut stream, "the API").await;
        stream
    }

    /// A connection with a response in flight.
    async fn busy_from(&self, client: u8, sandbox: &Box) -> TcpStream {
        let mut stream = self.connect_from(client).await;
        let request = format!("GET / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n\r\n", sandbox.id);
        stream.write_all(request.as_bytes()).await.expect("write");
        read_until(&mut stream, "begun").await;
        stream
    }
}

/// Whether the server has closed the connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let end = tokio::time::timeout(Duration::from_millis(200), stream.read(&mut [0; 64])).await;
    matches!(end, Ok(Ok(0) | Err(_)))
}

fn limits(connections: usize, client_connections: usize) -> Limits {
    Limits { connections, client_connections, unlimited: vec![], ..Limits::default() }
}

#[tokio::test]
async fn connections_are_bounded() {
    let world = World::with(None, Limits { connections: 4, ..Limits::default() }).await;
    let sandbox = world.sandbox(silent());
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(world.busy_from(1, &sandbox).await);
    }
    let mut waiting = world.connect().await;
    waiting.write_all(HEALTH).await.expect("write");
    let early = tokio::time::timeout(Duration::from_millis(100), waiting.read_u8()).await;
    assert!(early.is_err(), "the fifth waits");
    open.pop();
    read_until(&mut waiting, "the API").await;
}

#[tokio::test]
async fn a_client_has_its_own_limit() {
    let world = World::with(None, limits(64, 4)).await;
    let sandbox = world.sandbox(silent());
    let mut busy = Vec::new();
    for _ in 0..4 {
        busy.push(world.busy_from(1, &sandbox).await);
    }
    assert!(is_closed(&mut world.connect_from(1).await).await, "none of its connections is useless");
    let mut other = world.idle_from(2).await;
    for stream in &mut busy {
        assert!(!is_closed(stream).await);
    }
    busy.pop();
    sandbox.guest.until_open(3).await;
    world.idle_from(1).await;
    assert!(!is_closed(&mut other).await);
}

#[tokio::test]
async fn a_client_at_its_limit_loses_its_oldest_useless_connection() {
    let world = World::with(None, limits(64, 4)).await;
    let mut half = world.connect_from(1).await;
    half.write_all(b"GET / HT").await.expect("write");
    let mut kept = Vec::new();
    for _ in 0..3 {
        kept.push(world.idle_from(1).await);
    }
    // The oldest counts as useless only after a moment.
    let mut newest = within(async {
        loop {
            let mut stream = world.connect_from(1).await;
            let _ = stream.write_all(HEALTH).await;
            if matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {
                return stream;
            }
        }
    })
    .await;
    assert!(is_closed(&mut half).await);
    for stream in kept.iter_mut().chain([&mut newest]) {
        assert!(!is_closed(stream).await);
    }
}

#[tokio::test]
async fn idle_connections_of_one_client_do_not_lock_out_others() {
    let world = World::with(None, limits(64, 60)).await;
    let mut patient = world.idle_from(2).await;
    let mut flood = Vec::new();
    for n in 0..200 {
        // Some idle, some with half a head, some with nothing.
        let mut stream = world.connect_from(1).await;
        if n % 3 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: ").await.expect("write");
        }
        flood.push(stream);
    }
    for client in 3..40 {
        world.idle_from(client).await;
    }
    assert!(!is_closed(&mut patient).await, "the client with the most connections loses first");
}

/// The total without limits per client: all come from this machine.
#[tokio::test]
async fn idle_connections_make_room_when_all_places_are_taken() {
    let world = World::with(None, Limits { connections: 32, ..Limits::default() }).await;
    let mut flood = Vec::new();
    for _ in 0..100 {
        flood.push(world.connect().await);
    }
    for _ in 0..10 {
        let answer = world.ask("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert_eq!(status(&answer), 200);
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let world = World::with(None, Limits { unread: Duration::from_millis(400), ..Limits::default() }).await;
    let (sandbox, quiet) = (world.sandbox(endless()), world.sandbox(silent()));
    let mut silent = world.busy_from(1, &quiet).await;
    let mut stuck = world.connect().await;
    let request = format!("GET / HTTP/1.1\r\nHost: 49983-{}.e2b.test\r\n\r\n", sandbox.id);
    stuck.write_all(request.as_bytes()).await.expect("write");
    sandbox.guest.until_open(1).await;
    sandbox.guest.until_open(0).await;
    // A server that says nothing is not the client's fault.
    assert!(!is_closed(&mut silent).await);
    // Nor is a client cut off that reads slowly.
    let mut slow = world.connect().await;
    slow.write_all(request.as_bytes()).await.expect("write");
    let mut part = vec![0; 4 << 20];
    for _ in 0..8 {
        within(slow.read_exact(&mut part)).await.expect("read");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn streams_that_are_not_read_are_cut_off() {
    let limits = Limits { unread: Duration::from_millis(400), ..Limits::default() };
    let world = World::with(None, limits).await;
    let sandbox = world.sandbox(endless());
    let (mut sender, task) = http2(&world).await;
    let request = || {
        let uri = format!("http://49983-{}.e2b.test/", sandbox.id);
        Request::get(uri).body(Empty::<Bytes>::new()).expect("request")
    };
    let responses = [sender.send_request(request()).await, sender.send_request(request()).await];
    assert!(responses.iter().all(Result::is_ok));
    within(task).await.expect("the connection ends");
    sandbox.guest.until_open(0).await;
}

#[tokio::test]
async fn streams_of_one_client_are_bounded() {
    let world = World::with(None, limits(64, 4)).await;
    let sandbox = world.sandbox(silent());
    let (mut sender, _task) = http2(&world).await;
    let request =
        |host: &str| Request::get(format!("http://{host}/health")).body(Empty::<Bytes>::new()).expect("request");
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(sender.send_request(request(&format!("49983-{}.e2b.test", sandbox.id))).await.expect("a response"));
    }
    assert!(sender.send_request(request("localhost")).await.is_err(), "the ninth");
    open.pop();
    within(async {
        while sender.send_request(request("localhost")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let body = open.pop().expect("open").into_body().frame().await.expect("frame").expect("data");
    assert_eq!(body.into_data().expect("data"), "begun", "the others go on");
}

type Sender = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

async fn http2(world: &World) -> (Sender, tokio::task::JoinHandle<()>) {
    let io = TokioIo::new(world.connect().await);
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("handshake");
    let task = tokio::spawn(async move {
        let _ = connection.await;
    });
    (sender, task)
}

/// The receive window of streams that the server announces on a new connection with HTTP/2.
async fn window_of(stream: &mut TcpStream) -> u32 {
    // The preface, and empty settings.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("write");
    let mut head = [0; 9];
    within(stream.read_exact(&mut head)).await.expect("the head of the settings");
    assert_eq!(head[3], 4, "settings");
    let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    within(stream.read_exact(&mut settings)).await.expect("the settings");
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    let window = settings.chunks(6).find(|setting| number(&setting[..2]) == 4);
    // The protocol's own default is not announced.
    window.map_or(65_535, |setting| number(&setting[2..]))
}

#[tokio::test]
async fn many_connections_of_a_client_may_hold_little_each() {
    let world = World::with(None, limits(256, 128)).await;
    let mut open = Vec::new();
    for _ in 0..65 {
        let mut stream = world.connect_from(1).await;
        let window = window_of(&mut stream).await;
        open.push((stream, window));
    }
    assert!(open[..64].iter().all(|(_, window)| *window == 1024 * 1024));
    assert_eq!(open[64].1, 65_535);
    assert_eq!(window_of(&mut world.connect_from(2).await).await, 1024 * 1024, "another client");
}
