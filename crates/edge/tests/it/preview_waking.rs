//! Which requests wake a service's sandbox and keep it awake, which wait for its port, and what ends with the right to see it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use cabana_types::service::{Access, ServiceState};
use futures_util::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::preview_world::*;
use crate::streams::upgrading_echo;
use crate::world::*;

#[tokio::test]
async fn pages_and_programs_wake_and_nothing_else_does() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, says("awake")).await;
    let preview = shown.service(&sandbox.id, port, Access::Private);
    let host = local(&sandbox, port);
    shown.fake.pause(&sandbox.id);

    let prefetch = format!("{NAVIGATE}Sec-Purpose: prefetch;prerender\r\n");
    let socket = "Connection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://x.test\r\n";
    for background in [FETCH, &prefetch, socket] {
        let answer = shown.get(&host, "/", &format!("{background}{VIEW}")).await;
        assert_eq!(status(&answer), 503, "{background}: {answer}");
        assert!(body(&answer).contains(r#""error_code":"service_suspended""#), "{answer}");
    }
    assert_eq!(status(&shown.get(&host, "/", NAVIGATE).await), 302, "strangers do not wake it");
    assert_eq!((shown.fake.resumes(), preview.touched.is_recent()), (0, false));

    assert_eq!(body(&shown.get(&host, "/", &format!("{NAVIGATE}{VIEW}")).await), "awake");
    assert_eq!((shown.fake.resumes(), preview.touched.is_recent()), (1, true));
    shown.fake.pause(&sandbox.id);
    assert_eq!(body(&shown.get(&host, "/", "X-API-Key: team-key\r\n").await), "awake");
    assert_eq!(shown.fake.resumes(), 2);
    let preview = shown.service(&sandbox.id, port, Access::Private);
    shown.get(&host, "/", "X-API-Key: team-key\r\n").await;
    assert!(!preview.touched.is_recent(), "a program does not look");
    shown.get(&host, "/", &format!("User-Agent: Mozilla/5.0\r\nAccept: text/html\r\n{VIEW}")).await;
    assert!(preview.touched.is_recent(), "an old browser does");
}

/// A request whose head has arrived at the client, of a response without end.
async fn endless(shown: &Shown, host: &str, headers: &str) -> TcpStream {
    let mut client = shown.world.connect().await;
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
    client.write_all(request.as_bytes()).await.expect("write");
    read_until(&mut client, "data: 1\n\n").await;
    client
}

/// Sends one event and then nothing.
fn events() -> Handler {
    handler(|_| async {
        let first = stream::iter([Ok::<_, std::io::Error>("data: 1\n\n")]);
        let body = Body::from_stream(first.chain(stream::pending()));
        Response::builder().header("content-type", "text/event-stream").body(body).expect("response")
    })
}

/// Fails unless the server ends the connection, without an orderly end of the response.
async fn is_cut(mut client: TcpStream) {
    let mut rest = Vec::new();
    let _ = within(client.read_to_end(&mut rest)).await;
    assert!(!String::from_utf8_lossy(&rest).ends_with("0\r\n\r\n"), "it looks complete");
}

#[tokio::test]
async fn what_a_page_does_by_itself_holds_only_while_somebody_looks() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, events()).await;
    let preview = shown.service(&sandbox.id, port, Access::Private);
    let (host, fetch) = (local(&sandbox, port), format!("{FETCH}{VIEW}"));
    let in_flight = shown.world.directory.get(&sandbox.id).expect("a route").in_flight.clone();

    let quiet = endless(&shown, &host, &fetch).await;
    assert!(!in_flight.take_busy(), "it neither counts nor holds");
    preview.touched.touch();
    let counted = endless(&shown, &host, &fetch).await;
    assert!(in_flight.take_busy() && in_flight.take_busy(), "somebody looks");
    drop(counted);
    within(async {
        while in_flight.take_busy() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(in_flight.close_if_idle(), "the quiet one does not keep it awake");
    let answer = shown.get(&host, "/", &fetch).await;
    assert_eq!(status(&answer), 503, "it is about to be paused: {answer}");
    assert_eq!(shown.fake.resumes(), 0);
    shown.fake.pause(&sandbox.id);
    is_cut(quiet).await;

    let program = endless(&shown, &host, "X-API-Key: team-key\r\n").await;
    let in_flight = shown.world.directory.get(&sandbox.id).expect("a route").in_flight.clone();
    assert!(in_flight.take_busy() && !in_flight.close_if_idle(), "a program counts");
    drop(program);
}

#[tokio::test]
async fn the_end_of_a_session_cuts_what_it_sees() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, _, _a) = open_port(&sandbox, events()).await;
    let (sockets, _, _b) = open_port(&sandbox, upgrading_echo()).await;
    let (silent, _, _c) = open_port(&sandbox, handler(|_| std::future::pending())).await;
    for port in [port, sockets, silent] {
        shown.service(&sandbox.id, port, Access::Private);
    }
    let stream = endless(&shown, &local(&sandbox, port), VIEW).await;
    let mut socket = shown.world.connect().await;
    let host = local(&sandbox, sockets);
    let upgrade = format!(
        "GET /ws HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{VIEW}\r\n"
    );
    socket.write_all(upgrade.as_bytes()).await.expect("write");
    assert!(read_until(&mut socket, "\r\n\r\n").await.starts_with("HTTP/1.1 101 "));
    socket.write_all(b"hello").await.expect("write");
    read_until(&mut socket, "hello").await;
    let host = local(&sandbox, silent);
    let waiting = shown.get(&host, "/", VIEW);
    let ended = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        shown.fake.session.cancel();
    };
    let (waiting, ()) = tokio::join!(waiting, ended);
    assert_eq!(status(&waiting), 403, "before there was an answer: {waiting}");
    is_cut(stream).await;
    is_cut(socket).await;
    assert!(!shown.world.directory.get(&sandbox.id).expect("a route").gone.is_cancelled(), "others go on");
}

#[tokio::test]
async fn the_end_of_a_grant_cuts_streams_of_http_2() {
    let shown = Shown::new().await;
    let sandbox = shown.world.sandbox(echo());
    let (port, _, _task) = open_port(&sandbox, events()).await;
    let preview = shown.service(&sandbox.id, port, Access::Link);
    let until = CancellationToken::new();
    shown.fake.name(GRANT, &preview, false, &until);
    let io = TokioIo::new(shown.world.connect().await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("handshake");
    let driver = tokio::spawn(connection);
    let request = Request::get(format!("http://{GRANT}.localhost:3000/")).body(Empty::<Bytes>::new()).expect("request");
    let mut response = within(sender.send_request(request)).await.expect("answer");
    assert!(within(response.body_mut().frame()).await.expect("a frame").is_ok());
    until.cancel();
    assert!(within(response.body_mut().frame()).await.expect("an error").is_err(), "cut, not ended");
    driver.abort();
}

/// A guest that tells when it is asked about a port, and answers when it may.
fn telling_guest(asked: Arc<Notify>, go_on: Arc<Notify>) -> Handler {
    handler(move |request| {
        let (asked, go_on) = (asked.clone(), go_on.clone());
        async move {
            let mut response = Response::new(Body::empty());
            if request.uri().path() != "/listening" {
                *response.status_mut() = StatusCode::NOT_FOUND;
                return response;
            }
            let query = request.uri().query().expect("a query").to_owned();
            let port = query.split('&').find_map(|pair| pair.strip_prefix("port=")).expect("a port").to_owned();
            asked.notify_one();
            go_on.notified().await;
            Response::new(Body::from(format!(r#"{{"boot":"b","port":{port}}}"#)))
        }
    })
}

fn free_port(sandbox: &Box) -> u16 {
    let listener = std::net::TcpListener::bind((sandbox.address, 0)).expect("bind");
    listener.local_addr().expect("address").port()
}

/// A server, until it is dropped.
struct Late {
    _task: AbortOnDropHandle<()>,
}

/// Serves one port that was free.
fn open_late(sandbox: &Box, port: u16, text: &'static str) -> Late {
    let address = (sandbox.address, port);
    let listener = std::net::TcpListener::bind(address).expect("bind");
    listener.set_nonblocking(true).expect("nonblocking");
    let listener = tokio::net::TcpListener::from_std(listener).expect("listener");
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            read_until(&mut stream, "\r\n\r\n").await;
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
            stream.write_all(answer.as_bytes()).await.expect("write");
        }
    });
    Late { _task: AbortOnDropHandle::new(task) }
}

#[tokio::test]
async fn a_port_that_is_about_to_open_is_waited_for() {
    let shown = Shown::new().await;
    let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let sandbox = shown.world.sandbox(telling_guest(asked.clone(), go_on.clone()));
    let port = free_port(&sandbox);
    shown.service(&sandbox.id, port, Access::Private);
    shown.fake.set_state(ServiceState::Starting);
    let host = local(&sandbox, port);
    let opens = async {
        asked.notified().await;
        let server = open_late(&sandbox, port, "open");
        go_on.notify_one();
        server
    };
    let body_and_head =
        format!("POST / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 2\r\n{VIEW}\r\nab");
    let (answer, server) = tokio::join!(shown.world.ask(&body_and_head), opens);
    assert_eq!((status(&answer), body(&answer)), (200, "open"));
    drop(server);

    // A service that is not about to open anything is not waited for.
    let closed = free_port(&sandbox);
    shown.service(&sandbox.id, closed, Access::Private);
    for state in [ServiceState::Stopped, ServiceState::Error] {
        shown.fake.set_state(state);
        let answer = shown.get(&local(&sandbox, closed), "/", VIEW).await;
        assert!(status(&answer) == 502 && body(&answer).contains("port_closed"), "{answer}");
    }
    // It stops waiting when there is no hope any more.
    shown.fake.set_state(ServiceState::Starting);
    let fails = async {
        asked.notified().await;
        shown.fake.set_state(ServiceState::Error);
        go_on.notify_one();
    };
    let host = local(&sandbox, closed);
    let headers = format!("{NAVIGATE}{VIEW}");
    let (answer, ()) = tokio::join!(shown.get(&host, "/", &headers), fails);
    assert!(status(&answer) == 502 && body(&answer).contains("web: Failed"), "{answer}");
}

#[tokio::test]
async fn ports_of_a_sandbox_that_has_just_booted_are_waited_for() {
    let shown = Shown::new().await;
    let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let sandbox = shown.world.sandbox(telling_guest(asked.clone(), go_on.clone()));
    let port = free_port(&sandbox);
    let host = local(&sandbox, port);
    assert_eq!(status(&shown.get(&host, "/", "").await), 502, "resumed with its memory");
    let route = shown.world.directory.get(&sandbox.id).expect("a route");
    shown.world.directory.insert(route_like(&route, true));
    let opens = async {
        asked.notified().await;
        let server = open_late(&sandbox, port, "open");
        go_on.notify_one();
        server
    };
    let (answer, server) = tokio::join!(shown.get(&host, "/", ""), opens);
    assert_eq!(body(&answer), "open");
    drop(server);
    let mut old = route_like(&route, true);
    old.since -= Duration::from_secs(6);
    shown.world.directory.insert(old);
    assert_eq!(status(&shown.get(&host, "/", "").await), 502, "it has had its time");
}
