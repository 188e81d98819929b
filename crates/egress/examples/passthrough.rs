//! What the egress proxy costs: the same requests directly and through it, in turns, to the same servers on loopback.

#![allow(clippy::print_stdout, reason = "its output is a table")]
#![allow(dead_code, reason = "the tests use more of it")]

#[path = "../tests/it/support.rs"]
mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use serde_json::json;
use support::{World, certificate, connector, plain_echo, server};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const ROUNDS: usize = 5;
const REQUESTS: usize = 1500;
const CONNECTIONS: usize = 150;
const BYTES: usize = 256 << 20;
const HOST: &str = "a.com";

#[tokio::main(worker_threads = 2)]
async fn main() {
    let world = World::start(json!({
        "allowOut": [HOST, "ruled.com", "9.9.9.9"],
        "denyOut": ["0.0.0.0/0"],
        "rules": {"ruled.com": {"x-key": "${e2b.secrets.key}"}},
    }))
    .await;
    world.secrets.lock().expect("lock").insert("key".to_owned(), "value".to_owned());
    world.name(HOST, &["1.1.1.1"]);
    world.name("ruled.com", &["2.2.2.2"]);
    let (secure, ruled, plain) =
        (world.tls_echo(HOST, "a").await, world.tls_echo("ruled.com", "r").await, plain_echo("p").await);
    let sink = server(|mut stream| async move {
        let mut buffer = vec![0; 1 << 16];
        let mut left = BYTES;
        while left > 0 {
            left -= stream.read(&mut buffer).await.expect("read").max(1);
        }
        let _ = stream.write_all(b"!").await;
    })
    .await;
    world.serve("1.1.1.1:443", secure);
    world.serve("1.1.1.1:80", plain);
    world.serve("2.2.2.2:443", ruled);
    world.serve("9.9.9.9:443", sink);

    println!("| | direct | through the proxy |\n|---|---|---|");
    let mut rows: Vec<(&str, Vec<[f64; 2]>)> = Vec::new();
    for (what, server, original, host, tls) in [
        ("HTTPS passed through", secure, "1.1.1.1:443", HOST, true),
        ("HTTPS intercepted, a header set", ruled, "2.2.2.2:443", "ruled.com", true),
        ("plain HTTP", plain, "1.1.1.1:80", HOST, false),
    ] {
        let (mut kept, mut new) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let direct = requests(open(&world, Some(server), original, host, tls).await, host).await;
            let proxied = requests(open(&world, None, original, host, tls).await, host).await;
            kept.push([direct, proxied]);
            let direct = connections(&world, Some(server), original, host, tls).await;
            new.push([direct, connections(&world, None, original, host, tls).await]);
        }
        rows.push((Box::leak(format!("{what}: requests on one connection, µs each").into_boxed_str()), kept));
        rows.push((Box::leak(format!("{what}: a new connection and a request, µs each").into_boxed_str()), new));
    }
    let mut throughput = Vec::new();
    for _ in 0..ROUNDS {
        let direct = upload(TcpStream::connect(sink).await.expect("connect")).await;
        throughput.push([direct, upload(world.connect("9.9.9.9:443").await).await]);
    }
    rows.push(("one connection, MiB/s", throughput));
    for (what, mut samples) in rows {
        let mut median = |side: usize| {
            samples.sort_by(|a, b| a[side].total_cmp(&b[side]));
            samples[ROUNDS / 2][side]
        };
        println!("| {what} | {:.0} | {:.0} |", median(0), median(1));
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Connects to a server, directly or as a sandbox.
async fn open(
    world: &Arc<World>,
    direct: Option<SocketAddr>,
    original: &str,
    host: &str,
    tls: bool,
) -> Box<dyn Stream> {
    let stream = match direct {
        Some(server) => TcpStream::connect(server).await.expect("connect"),
        None => world.connect(original).await,
    };
    stream.set_nodelay(true).expect("option");
    if !tls {
        return Box::new(stream);
    }
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&world.internet)).expect("root");
    roots.add(certificate(&world.authority)).expect("root");
    let name = ServerName::try_from(host.to_owned()).expect("name");
    Box::new(connector(roots).connect(name, stream).await.expect("TLS"))
}

async fn requests(mut stream: Box<dyn Stream>, host: &str) -> f64 {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut buffer = vec![0; 4096];
    let begin = Instant::now();
    for _ in 0..REQUESTS {
        stream.write_all(request.as_bytes()).await.expect("write");
        // TLS may keep what it could not send at once.
        stream.flush().await.expect("flush");
        // The response fits into one read.
        assert!(stream.read(&mut buffer).await.expect("read") > 0);
    }
    each(begin.elapsed(), REQUESTS)
}

async fn connections(world: &Arc<World>, direct: Option<SocketAddr>, original: &str, host: &str, tls: bool) -> f64 {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let mut buffer = vec![0; 4096];
    let begin = Instant::now();
    for _ in 0..CONNECTIONS {
        let mut stream = open(world, direct, original, host, tls).await;
        stream.write_all(request.as_bytes()).await.expect("write");
        stream.flush().await.expect("flush");
        assert!(stream.read(&mut buffer).await.expect("read") > 0);
    }
    each(begin.elapsed(), CONNECTIONS)
}

async fn upload(mut stream: TcpStream) -> f64 {
    let chunk = vec![b'x'; 1 << 16];
    let begin = Instant::now();
    for _ in 0..BYTES / chunk.len() {
        stream.write_all(&chunk).await.expect("write");
    }
    assert_eq!(stream.read_u8().await.expect("end"), b'!');
    (BYTES >> 20) as f64 / begin.elapsed().as_secs_f64()
}

fn each(whole: Duration, count: usize) -> f64 {
    whole.as_secs_f64() * 1e6 / count as f64
}
