//! What the edge costs. `cargo test --release --test edge -- --ignored --nocapture`

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::*;

/// Median and 99th percentile of requests one after another on one connection.
async fn measure(mut client: TcpStream, request: &[u8], answer: usize) -> (Duration, Duration) {
    client.set_nodelay(true).expect("option");
    let mut times = Vec::new();
    let mut buffer = vec![0; answer];
    for round in 0..12_000 {
        let started = Instant::now();
        client.write_all(request).await.expect("write");
        client.read_exact(&mut buffer).await.expect("read");
        if round >= 2000 {
            times.push(started.elapsed());
        }
    }
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn added_latency() {
    let world = World::new().await;
    let sandbox = world.sandbox(says("hello"));
    let (port, _, _task) = open_port(&sandbox, says("hello")).await;
    let request = |port| format!("GET / HTTP/1.1\r\nhost: {port}-{}.e2b.test\r\n\r\n", sandbox.id).into_bytes();
    let length = async |mut client: TcpStream, request: Vec<u8>| {
        client.write_all(&request).await.expect("write");
        read_until(&mut client, "hello").await.len()
    };
    let direct = async || TcpStream::connect((sandbox.address, port)).await.expect("connect");
    let answer = length(direct().await, request(port)).await;
    let (base, base99) = measure(direct().await, &request(port), answer).await;
    println!("direct: {base:?} (p99 {base99:?})");
    for (name, port) in [("port", port), ("guest", 49983)] {
        let answer = length(world.connect().await, request(port)).await;
        let (median, p99) = measure(world.connect().await, &request(port), answer).await;
        let ratio = median.as_secs_f64() / base.as_secs_f64();
        println!("{name} through the edge: {median:?} (p99 {p99:?}), {ratio:.2} times direct");
    }
    let api = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec();
    let mut client = world.connect().await;
    client.write_all(&api).await.expect("write");
    let answer = read_until(&mut client, "the API").await.len();
    let (median, p99) = measure(world.connect().await, &api, answer).await;
    println!("API on the same listener: {median:?} (p99 {p99:?})");
}
