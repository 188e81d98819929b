//! Plain HTTP: every request of a connection is checked on its own.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{World, ask, get, plain_echo, read_response, server};

async fn world() -> std::sync::Arc<World> {
    let world = World::start(json!({"allowOut": ["a.com", "b.com"], "denyOut": ["0.0.0.0/0"]})).await;
    world.name("a.com", &["1.1.1.1"]);
    world.name("b.com", &["2.2.2.2"]);
    world.name("evil.com", &["6.6.6.6"]);
    world.serve("1.1.1.1:80", plain_echo("a").await);
    world.serve("2.2.2.2:80", plain_echo("b").await);
    world.serve("6.6.6.6:80", plain_echo("evil").await);
    world
}

#[tokio::test]
async fn each_request_of_a_connection_goes_to_its_own_host() {
    let world = world().await;
    let mut stream = world.connect("1.1.1.1:80").await;
    for (host, tag) in [("a.com", "a"), ("A.com:80", "a"), ("b.com", "b"), ("a.com", "a")] {
        let request = format!("POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\n\r\nbody");
        stream.write_all(request.as_bytes()).await.expect("write");
        let response = read_response(&mut stream).await;
        assert!(
            response.contains(&format!("server: {tag}\nPOST /x\n")) && response.ends_with("\n\nbody"),
            "{response}"
        );
    }
    assert_eq!(world.dialled(), ["1.1.1.1:80", "2.2.2.2:80", "1.1.1.1:80"], "the second used the first connection");
    stream.write_all(get("evil.com").as_bytes()).await.expect("write");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    assert_eq!(world.denied()[0].0, "evil.com:80");
    assert_eq!(world.dialled().len(), 3);
}

#[tokio::test]
async fn pipelined_requests_are_checked_too() {
    let world = world().await;
    let first = "GET /1 HTTP/1.1\r\nHost: a.com\r\n\r\n";
    let answer = ask(world.connect("1.1.1.1:80").await, &format!("{first}{}", get("evil.com"))).await;
    assert!(answer.contains("GET /1") && !answer.contains("evil"), "{answer}");
    let answer = ask(world.connect("1.1.1.1:80").await, &format!("{first}{}", get("b.com"))).await;
    assert!(answer.contains("server: a") && answer.contains("server: b"), "{answer}");
    assert!(!world.dialled().contains(&"6.6.6.6:80".to_owned()));
}

#[tokio::test]
async fn ambiguous_requests_are_refused() {
    let world = world().await;
    for (what, request) in [
        ("two hosts", "GET / HTTP/1.1\r\nHost: a.com\r\nHost: evil.com\r\n\r\n"),
        ("no host", "GET / HTTP/1.1\r\nAccept: */*\r\n\r\n"),
        ("no host, 1.0", "GET / HTTP/1.0\r\n\r\n"),
        ("another host in the target", "GET http://evil.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n"),
        ("a user name", "GET / HTTP/1.1\r\nHost: a.com@evil.com\r\n\r\n"),
        ("a list", "GET / HTTP/1.1\r\nHost: a.com, evil.com\r\n\r\n"),
        ("a path", "GET / HTTP/1.1\r\nHost: a.com/evil.com\r\n\r\n"),
        ("a port of letters", "GET / HTTP/1.1\r\nHost: a.com:http\r\n\r\n"),
        ("an empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        ("CONNECT", "CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com:443\r\n\r\n"),
        ("CONNECT to an allowed host", "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com:443\r\n\r\n"),
        ("two lengths", "POST / HTTP/1.1\r\nHost: a.com\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!"),
        ("an unknown coding", "POST / HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n"),
        ("a folded header", "GET / HTTP/1.1\r\nHost: a.com\r\n evil.com\r\n\r\n"),
        ("a space in a name", "GET / HTTP/1.1\r\nHost : evil.com\r\nHost: a.com\r\n\r\n"),
        ("no HTTP", "\x01\x02\x03\r\n\r\n"),
    ] {
        let answer = ask(world.connect("1.1.1.1:80").await, request).await;
        assert!(answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.0 400"), "{what}: {answer}");
    }
    let answer = ask(world.connect("1.1.1.1:80").await, "GET / HTTP/1.1\r\nHost: a.com:8080\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    // HTTP/2 without TLS carries requests that nobody checks.
    let answer = ask(world.connect("1.1.1.1:80").await, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(!answer.contains("server:"), "{answer}");
    assert!(world.dialled().is_empty());
}

#[tokio::test]
async fn a_server_gets_what_was_checked() {
    let world = world().await;
    // Only after the empty line of a server that accepts a bare LF this would be a request to another host.
    let hidden = "GET / HTTP/1.1\nHost: a.com\nConnection: close, host, x-secret\nX-Secret: 1\nUpgrade: h2c\n\n";
    let answer = ask(world.connect("1.1.1.1:80").await, hidden).await;
    assert!(answer.contains("server: a") && answer.contains("host: a.com"), "{answer}");
    assert!(!answer.contains("x-secret") && !answer.contains("upgrade"), "{answer}");
    let absolute = "GET http://a.com/p?q HTTP/1.1\r\nHost: a.com\r\nConnection: close\r\n\r\n";
    assert!(ask(world.connect("1.1.1.1:80").await, absolute).await.contains("GET /p?q\n"));
    let old = "GET /old HTTP/1.0\r\nHost: a.com\r\n\r\n";
    assert!(ask(world.connect("1.1.1.1:80").await, old).await.contains("GET /old\n"));
    let chunked = "POST /c HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                   5\r\nhello\r\n0\r\n\r\n";
    assert!(ask(world.connect("1.1.1.1:80").await, chunked).await.contains("\n\nhello"));
    // The two lengths disagree: only one of them arrives, and nothing after it.
    let both = "POST /d HTTP/1.1\r\nHost: a.com\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let answer = ask(world.connect("1.1.1.1:80").await, &format!("{both}{}", get("evil.com"))).await;
    assert!(answer.contains("POST /d\n") && !answer.contains("content-length: 60"), "{answer}");
    assert!(!answer.contains("evil"), "{answer}");
}

#[tokio::test]
async fn websockets_pass() {
    let world = world().await;
    let echo = server(|mut stream| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("head"));
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        assert!(head.contains("upgrade: websocket") && head.contains("connection: upgrade"), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nearly";
        stream.write_all(answer.as_bytes()).await.expect("write");
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    })
    .await;
    world.serve("1.1.1.1:80", echo);
    let mut stream = world.connect("1.1.1.1:80").await;
    let request = "GET /ws HTTP/1.1\r\nHost: a.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("write");
    let head = read_response(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).await.expect("early bytes");
    assert_eq!(&bytes, b"early");
    stream.write_all(b"12345").await.expect("write");
    stream.read_exact(&mut bytes).await.expect("echo");
    assert_eq!(&bytes, b"12345");
    // The sandbox loses the host: the tunnel is cut.
    world.set_policy(json!({"denyOut": ["0.0.0.0/0"], "allowOut": ["b.com"]}));
    assert!(matches!(stream.read(&mut bytes).await, Ok(0) | Err(_)));
    assert_eq!(world.denied()[0].0, "a.com:80");
}

/// A request with a body that is sent while nobody reads it; the response, if it arrives.
async fn upload(world: &World, host: &str) -> String {
    let stream = world.connect("1.1.1.1:80").await;
    let (mut read, mut write) = stream.into_split();
    let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 67108864\r\n\r\n");
    let sending = tokio::spawn(async move {
        write.write_all(head.as_bytes()).await?;
        write.write_all(&vec![b'x'; 64 << 20]).await
    });
    let mut response = Vec::new();
    let reading = async {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = read.read(&mut bytes).await {
            response.extend_from_slice(&bytes[..length]);
        }
    };
    tokio::time::timeout(crate::support::PATIENCE, reading).await.expect("in time");
    sending.abort();
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn responses_before_the_end_of_the_body_arrive() {
    let world = world().await;
    let full = server(|mut stream| async move {
        let mut bytes = [0; 1024];
        let _ = stream.read(&mut bytes).await;
        let answer = "HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfull";
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    world.serve("1.1.1.1:80", full);
    for _ in 0..5 {
        let response = upload(&world, "a.com").await;
        assert!(response.starts_with("HTTP/1.1 413") && response.ends_with("full"), "{response}");
        let response = upload(&world, "a.com:81").await;
        assert!(response.starts_with("HTTP/1.1 421"), "{response}");
    }
}
