//! When connections end that were allowed: another policy, a released slot, limits.

use std::time::Duration;

use cabana_egress::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{World, ask, eventually, get, limits, plain_echo, read_response, server};

async fn mirror() -> std::net::SocketAddr {
    server(|mut stream| async move {
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    })
    .await
}

async fn round_trip(stream: &mut TcpStream) {
    stream.write_all(b"ping").await.expect("write");
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes).await.expect("echo");
    assert_eq!(&bytes, b"ping");
}

async fn has_ended(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = tokio::time::timeout(crate::support::PATIENCE, stream.read(&mut byte)).await.expect("in time");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[tokio::test]
async fn a_new_policy_cuts_what_it_does_not_allow() {
    let world = World::start(json!({"allowOut": ["9.9.9.0/24", "a.com"], "denyOut": ["0.0.0.0/0"]})).await;
    world.name("a.com", &["1.1.1.1"]);
    world.serve("1.1.1.1:80", plain_echo("a").await);
    world.serve("9.9.9.8:443", mirror().await);
    world.serve("9.9.9.9:443", mirror().await);
    let (mut kept, mut cut) = (world.connect("9.9.9.9:443").await, world.connect("9.9.9.8:443").await);
    round_trip(&mut kept).await;
    round_trip(&mut cut).await;
    let mut http = world.connect("1.1.1.1:80").await;
    http.write_all(b"GET / HTTP/1.1\r\nHost: a.com\r\n\r\n").await.expect("write");
    read_response(&mut http).await;

    world.set_policy(json!({"allowOut": ["9.9.9.9", "b.com"], "denyOut": ["0.0.0.0/0"]}));
    has_ended(&mut cut).await;
    has_ended(&mut http).await;
    round_trip(&mut kept).await;
    assert_eq!(world.denied().len(), 2);

    // The sandbox leaves its slot.
    drop(world.policy.lock().expect("lock").take());
    has_ended(&mut kept).await;
    let mut late = world.connect("9.9.9.9:443").await;
    has_ended(&mut late).await;
}

#[tokio::test]
async fn connections_are_limited() {
    let limits = Limits { per_sandbox: 2, ..limits() };
    let world = World::start_with(json!({"allowOut": ["9.9.9.9", "a.com"], "denyOut": ["0.0.0.0/0"]}), limits).await;
    world.serve("9.9.9.9:443", mirror().await);
    let (mut a, mut b) = (world.connect("9.9.9.9:443").await, world.connect("9.9.9.9:443").await);
    round_trip(&mut a).await;
    round_trip(&mut b).await;
    has_ended(&mut world.connect("9.9.9.9:443").await).await;
    assert_eq!(world.denied(), [("9.9.9.9:443".to_owned(), "too many connections".to_owned())]);
    drop(a);
    eventually("a permit comes back", || world.dialled().len() == 2).await;
    let again = async {
        loop {
            let mut stream = world.connect("9.9.9.9:443").await;
            let mut bytes = [0; 4];
            if stream.write_all(b"ping").await.is_ok() && stream.read_exact(&mut bytes).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, again).await.expect("a permit");
}

#[tokio::test]
async fn silent_connections_end() {
    let limits = Limits { idle: Duration::from_millis(300), head: Duration::from_millis(300), ..limits() };
    let world = World::start_with(json!({"allowOut": ["9.9.9.9", "a.com"], "denyOut": ["0.0.0.0/0"]}), limits).await;
    world.serve("9.9.9.9:443", mirror().await);
    let mut stream = world.connect("9.9.9.9:443").await;
    round_trip(&mut stream).await;
    has_ended(&mut stream).await;
    // A ClientHello that never ends.
    let mut slow = world.connect("9.9.9.9:443").await;
    slow.write_all(&[22, 3, 1, 2, 0, 1]).await.expect("write");
    has_ended(&mut slow).await;
    let mut http = world.connect("9.9.9.9:80").await;
    http.write_all(b"GET / HTTP/1.1\r\n").await.expect("write");
    has_ended(&mut http).await;
}

#[tokio::test]
async fn connections_that_were_not_redirected_are_closed() {
    let world = World::start(json!({"allowOut": ["*", "0.0.0.0/0"], "denyOut": ["0.0.0.0/0"]})).await;
    let address = *world.address.lock().expect("lock");
    let stream = TcpStream::connect(address).await.expect("connect");
    assert_eq!(ask(stream, &get("a.com")).await, "");
    assert!(world.dialled().is_empty() && world.denied().is_empty());
}
