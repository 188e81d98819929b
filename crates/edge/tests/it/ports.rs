//! Ports that listen on loopback inside, ports that do not listen, and connections that are reused.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;

use crate::world::*;

#[tokio::test]
async fn loopback_listeners_are_bridged_and_the_route_is_cached() {
    let world = World::new().await;
    let inside = world.sandbox(says("")).address;
    let sandbox = world.sandbox(bridging_guest(inside));
    let id = sandbox.id.as_str();
    let (port, counter, task) = open_at(inside, says("from loopback")).await;
    for _ in 0..3 {
        assert_eq!(body(&world.get(id, port, "/", "").await), "from loopback");
    }
    assert_eq!(counter.opened(), 1, "the bridged connection is reused");
    assert_eq!((sandbox.control.opened(), sandbox.guest.opened()), (1, 0), "a bridge is control");

    // The server moves to all addresses: the bridge fails, and the direct route is used again.
    drop(task);
    counter.until_open(0).await;
    let listener = tokio::net::TcpListener::bind((sandbox.address, port)).await.expect("bind");
    let moved = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("accept");
        let service = hyper::service::service_fn(|_| async {
            Ok::<_, std::convert::Infallible>(Response::new(axum::body::Body::from("from everywhere")))
        });
        let io = hyper_util::rt::TokioIo::new(stream);
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
    });
    assert_eq!(body(&world.get(id, port, "/", "").await), "from everywhere");
    moved.abort();
}

#[tokio::test]
async fn a_closed_port_says_so() {
    let world = World::new().await;
    let free = {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        listener.local_addr().expect("address").port()
    };
    let quiet = world.sandbox(says("")).address;
    let sandbox = world.sandbox(bridging_guest(quiet));
    let id = sandbox.id.as_str();
    let answer = world.get(id, free, "/", "").await;
    assert_eq!(status(&answer), 502);
    let expected = format!(
        r#"{{"sandboxId":"{id}","message":"The sandbox is running but port is not open","port":{free},"code":502,"error_code":"port_closed"}}"#
    );
    assert_eq!(body(&answer), expected);
    let browser = "User-Agent: Mozilla/5.0\r\nAccept: text/html\r\n";
    assert!(world.get(id, free, "/", browser).await.contains("<h1>The sandbox is running but port is not open</h1>"));
}

#[tokio::test]
async fn connections_are_reused() {
    let world = World::new().await;
    let sandbox = world.sandbox(says("the guest"));
    let (port, counter, _task) = open_port(&sandbox, says("the port")).await;
    let mut client = world.connect().await;
    for _ in 0..50 {
        for port in [49983, port] {
            let request =
                format!("POST / HTTP/1.1\r\nHost: {port}-{}.e2b.test\r\nContent-Length: 2\r\n\r\nab", sandbox.id);
            client.write_all(request.as_bytes()).await.expect("write");
            read_until(&mut client, if port == 49983 { "the guest" } else { "the port" }).await;
        }
    }
    assert!(sandbox.guest.opened() <= 2, "{}", sandbox.guest.opened());
    assert!(counter.opened() <= 2, "{}", counter.opened());
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let world = World::new().await;
    let sandbox = world.sandbox(says(""));
    // Each connection responds once and then closes without `connection: close`.
    let listener = tokio::net::TcpListener::bind((sandbox.address, 0)).await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_until(&mut stream, "\r\n\r\n").await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.expect("write");
        }
    });
    let mut client = world.connect().await;
    for _ in 0..20 {
        let request = format!("GET / HTTP/1.1\r\nHost: {port}-{}.e2b.test\r\n\r\n", sandbox.id);
        client.write_all(request.as_bytes()).await.expect("write");
        let answer = read_until(&mut client, "ok").await;
        assert_eq!(status(&answer), 200);
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_disconnects_or_sends_garbage() {
    let world = World::new().await;
    let sandbox = world.sandbox(says(""));
    for nonsense in
        ["", "SSH-2.0-x\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"]
    {
        let listener = tokio::net::TcpListener::bind((sandbox.address, 0)).await.expect("bind");
        let port = listener.local_addr().expect("address").port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accept");
            read_until(&mut stream, "\r\n\r\n").await;
            stream.write_all(nonsense.as_bytes()).await.expect("write");
        });
        let answer = world.get(sandbox.id.as_str(), port, "/", "").await;
        assert_eq!(status(&answer), 502, "{nonsense:?}: {answer}");
        assert!(answer.contains("without an answer"), "{answer}");
    }
}

#[tokio::test]
async fn header_names_are_spelled_as_usual() {
    let world = World::new().await;
    let sandbox = world.sandbox(says(""));
    let listener = tokio::net::TcpListener::bind((sandbox.address, 0)).await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    let (heads, mut seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            heads.send(read_until(&mut stream, "\r\n\r\n").await).expect("send");
            let answer = b"HTTP/1.1 200 OK\r\nX-oDD: 1\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
            stream.write_all(answer).await.expect("write");
        }
    });
    let host = format!("{port}-{}.e2b.test", sandbox.id);

    let odd = "Content-Type: a/b\r\nX-MiXed-name: 1\r\nx-lower: 2\r\nx-Forwarded-for: 1.2.3.4\r\nKeep-Alive: 5\r\n";
    let answer = world.get(sandbox.id.as_str(), port, "/", odd).await;
    assert!(answer.contains("\r\nX-oDD: 1\r\n"), "{answer}");
    let head = within(seen.recv()).await.expect("head");
    for line in
        [&format!("Host: {host}"), "Content-Type: a/b", "X-MiXed-name: 1", "x-lower: 2", "X-Forwarded-Proto: http"]
    {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
    }
    let lower = head.to_ascii_lowercase();
    assert!(!lower.contains("keep-alive") && !lower.contains("1.2.3.4"), "removed and replaced as before: {head}");
    assert_eq!(lower.matches("\r\nx-forwarded-for:").count(), 1, "{head}");

    // HTTP/2 knows only lower case.
    let io = TokioIo::new(world.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("handshake");
    let driver = tokio::spawn(connection);
    let request = Request::get(format!("http://{host}/")).header("x-custom-name", "1").body(Empty::<Bytes>::new());
    let answer = within(sender.send_request(request.expect("request"))).await.expect("answer");
    assert_eq!(answer.headers()["x-odd"], "1");
    let head = within(seen.recv()).await.expect("head");
    for line in [&format!("Host: {host}"), "X-Custom-Name: 1", "X-Forwarded-For: 127.0.0.1"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
    }
    driver.abort();
}
