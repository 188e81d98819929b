//! A policy with a SOCKS5 proxy: all connections go through it, and none without it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cabana_egress::Limits;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::support::{World, ask, get, is_signed_by, limits, plain_echo, server};

/// How a SOCKS5 proxy of a test behaves.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Open,
    Password,
    Hangs,
    Refuses,
    Lies,
    Closes,
    LongName,
}

/// What a SOCKS5 proxy was asked for.
type Asked = Arc<Mutex<Vec<String>>>;

async fn socks(mut stream: impl AsyncRead + AsyncWrite + Unpin, manner: Manner, target: SocketAddr, asked: Asked) {
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).await.expect("greeting");
    let mut methods = vec![0; usize::from(greeting[1])];
    stream.read_exact(&mut methods).await.expect("methods");
    match manner {
        Manner::Hangs => std::future::pending().await,
        Manner::Closes => return,
        Manner::Lies => return stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("write"),
        Manner::Password => {
            let _ = stream.write_all(&[5, if methods.contains(&2) { 2 } else { 0xff }]).await;
            let mut login = [0; 1 + 1 + 4 + 1 + 4];
            if stream.read_exact(&mut login).await.is_err() {
                return;
            }
            let right = &login[..] == b"\x01\x04user\x04pass";
            let _ = stream.write_all(&[1, u8::from(!right)]).await;
            if !right {
                return;
            }
        }
        _ => stream.write_all(&[5, 0]).await.expect("write"),
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await.expect("request");
    assert_eq!(request[..3], [5, 1, 0]);
    let host = if request[3] == 3 {
        let mut name = vec![0; usize::from(stream.read_u8().await.expect("length"))];
        stream.read_exact(&mut name).await.expect("name");
        String::from_utf8(name).expect("text")
    } else {
        let mut address = [0; 4];
        stream.read_exact(&mut address).await.expect("address");
        std::net::Ipv4Addr::from(address).to_string()
    };
    let port = stream.read_u16().await.expect("port");
    asked.lock().expect("lock").push(format!("{host}:{port}"));
    match manner {
        Manner::Refuses => return stream.write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]).await.expect("write"),
        Manner::LongName => {
            let mut reply = vec![5, 0, 0, 3, 255];
            reply.extend([b'x'; 255 + 2]);
            stream.write_all(&reply).await.expect("write");
        }
        _ => stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.expect("write"),
    }
    let mut server = TcpStream::connect(target).await.expect("connect");
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
}

/// A world whose SOCKS5 proxy has the address 4.4.4.4:1080.
async fn world(manner: Manner, proxy: serde_json::Value, limits: Limits) -> (Arc<World>, Asked) {
    let mut policy = json!({"allowOut": ["a.com", "9.9.9.9"], "denyOut": ["0.0.0.0/0"]});
    policy["egressProxy"] = proxy;
    let world = World::start_with(policy, limits).await;
    let (target, asked) = (plain_echo("through").await, Asked::default());
    let log = Arc::clone(&asked);
    let proxy = server(move |stream| socks(stream, manner, target, Arc::clone(&log))).await;
    world.serve("4.4.4.4:1080", proxy);
    world.name("proxy.net", &["4.4.4.4"]);
    world.name("a.com", &["1.1.1.1"]);
    world.serve("1.1.1.1:80", plain_echo("direct").await);
    world.serve("9.9.9.9:8080", plain_echo("direct").await);
    (world, asked)
}

#[tokio::test]
async fn names_and_addresses_go_through_it() {
    for (manner, proxy) in [
        (Manner::Open, json!({"address": "4.4.4.4:1080"})),
        (Manner::LongName, json!({"address": "proxy.net:1080"})),
        (Manner::Password, json!({"address": "proxy.net:1080", "username": "user", "password": "pass"})),
        (Manner::Open, json!({"address": "proxy.net:1080", "username": "user", "password": "pass"})),
    ] {
        let (world, asked) = world(manner, proxy, limits()).await;
        let answer = ask(world.connect("6.6.6.6:80").await, &get("a.com")).await;
        assert!(answer.contains("server: through"), "{answer}");
        let answer = ask(world.connect("9.9.9.9:8080").await, &get("whatever")).await;
        assert!(answer.contains("server: through"), "{answer}");
        assert_eq!(*asked.lock().expect("lock"), ["a.com:80", "9.9.9.9:8080"]);
        assert_eq!(world.dialled(), ["4.4.4.4:1080", "4.4.4.4:1080"]);
        // The policy decides before.
        assert_eq!(ask(world.connect("9.9.9.8:8080").await, &get("whatever")).await, "");
        assert_eq!(asked.lock().expect("lock").len(), 2);
    }
}

#[tokio::test]
async fn there_is_no_way_around_it() {
    let quick = Limits { connect: Duration::from_millis(500), ..limits() };
    let user = json!({"address": "4.4.4.4:1080", "username": "user", "password": "wrong"});
    for (manner, proxy, reason) in [
        (Manner::Hangs, json!({"address": "4.4.4.4:1080"}), "in time"),
        (Manner::Refuses, json!({"address": "4.4.4.4:1080"}), "not allowed by its rules"),
        (Manner::Lies, json!({"address": "4.4.4.4:1080"}), "does not speak SOCKS5"),
        (Manner::Closes, json!({"address": "4.4.4.4:1080"}), "early eof"),
        (Manner::Password, json!({"address": "4.4.4.4:1080"}), "none of our ways"),
        (
            Manner::Password,
            json!({"address": "4.4.4.4:1080", "username": "user", "password": "word"}),
            "refuses user name",
        ),
        (Manner::Open, json!({"address": "4.4.4.5:1080"}), "cannot connect"),
        (Manner::Open, json!({"address": "unknown.net:1080"}), "cannot be resolved"),
        (Manner::Open, json!({"address": "nonsense"}), "has no port"),
    ] {
        let (world, _) = world(manner, proxy, quick).await;
        let answer = ask(world.connect("1.1.1.1:80").await, &get("a.com")).await;
        assert!(answer.starts_with("HTTP/1.1 502") && answer.contains(reason), "{reason}: {answer}");
        assert_eq!(ask(world.connect("9.9.9.9:8080").await, &get("a.com")).await, "", "{reason}");
        assert!(world.dialled().iter().all(|address| address.starts_with("4.4.4.")), "{:?}", world.dialled());
    }
    let (world, _) = world(Manner::Open, user, quick).await;
    assert!(ask(world.connect("1.1.1.1:80").await, &get("a.com")).await.contains("server: through"));
}

#[tokio::test]
async fn it_must_be_public_and_so_must_its_targets() {
    let (world, asked) = world(Manner::Open, json!({"address": "proxy.net:1080"}), limits()).await;
    world.name("a.com", &["1.1.1.1", "10.0.0.1"]);
    assert_eq!(ask(world.connect("1.1.1.1:80").await, &get("a.com")).await, "", "the proxy could choose 10.0.0.1");
    world.name("a.com", &["1.1.1.1"]);
    for address in ["10.0.0.1", "127.0.0.1", "169.254.169.254"] {
        world.name("proxy.net", &[address]);
        let answer = ask(world.connect("1.1.1.1:80").await, &get("a.com")).await;
        assert!(answer.contains("is not public"), "{answer}");
    }
    assert!(world.dialled().is_empty() && asked.lock().expect("lock").is_empty());
}

#[tokio::test]
async fn tls_to_it_is_verified() {
    let proxy = json!({"address": "4.4.4.4:1080", "tls": {"enabled": true, "serverName": "proxy.net"}});
    let (world, asked) = world(Manner::Open, proxy, limits()).await;
    let target = plain_echo("through TLS").await;
    let acceptor =
        TlsAcceptor::from(world.internet.server_config(&"proxy.net".parse().expect("name")).expect("config"));
    let log = Arc::clone(&asked);
    let secure = server(move |stream| {
        let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                socks(stream, Manner::Open, target, log).await;
            }
        }
    })
    .await;
    world.serve("4.4.4.4:1080", secure);
    assert!(ask(world.connect("1.1.1.1:80").await, &get("a.com")).await.contains("server: through TLS"));
    let set = |tls: serde_json::Value| {
        world.set_policy(json!({
            "allowOut": ["a.com"], "denyOut": ["0.0.0.0/0"],
            "egressProxy": {"address": "4.4.4.4:1080", "tls": tls},
        }));
    };
    for (tls, works) in [
        (json!({"enabled": true, "serverName": "proxy.net", "caCert": world.internet.certificate_pem()}), true),
        (json!({"enabled": true, "serverName": "proxy.net", "caCert": world.authority.certificate_pem()}), false),
        (json!({"enabled": true, "serverName": "other.net"}), false),
        (json!({"enabled": true}), false),
        (json!({"enabled": true, "serverName": "proxy.net", "caCert": "nonsense"}), false),
    ] {
        set(tls.clone());
        let answer = ask(world.connect("1.1.1.1:80").await, &get("a.com")).await;
        assert_eq!(answer.contains("server: through TLS"), works, "{tls}: {answer}");
        assert!(works || answer.contains("TLS to the SOCKS5 proxy"), "{answer}");
    }
    assert_eq!(asked.lock().expect("lock").len(), 2);
}

#[tokio::test]
async fn tls_of_the_sandbox_passes_through_it() {
    let (world, asked) = world(Manner::Open, json!({"address": "4.4.4.4:1080"}), limits()).await;
    let target = world.tls_echo("a.com", "end to end").await;
    let log = Arc::clone(&asked);
    let proxy = server(move |stream| socks(stream, Manner::Open, target, Arc::clone(&log))).await;
    world.serve("4.4.4.4:1080", proxy);
    let stream = world.connect_tls("6.6.6.6:443", "a.com").await.expect("TLS");
    assert!(is_signed_by(&stream, &world.internet));
    assert!(ask(stream, &get("a.com")).await.contains("server: end to end"));
    assert_eq!(*asked.lock().expect("lock"), ["a.com:443"]);
}

#[tokio::test]
async fn another_proxy_cuts_connections_of_the_old_one() {
    let (world, _) = world(Manner::Open, json!({"address": "4.4.4.4:1080"}), limits()).await;
    let mut stream = world.connect("9.9.9.9:8080").await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("write");
    crate::support::read_response(&mut stream).await;
    world.set_policy(json!({
        "allowOut": ["a.com", "9.9.9.9"], "denyOut": ["0.0.0.0/0"], "egressProxy": {"address": "4.4.4.5:1080"},
    }));
    let mut byte = [0];
    let read = tokio::time::timeout(crate::support::PATIENCE, stream.read(&mut byte)).await.expect("in time");
    assert!(matches!(read, Ok(0) | Err(_)));
}
