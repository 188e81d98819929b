//! The listener with TLS and a real TLS client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use cabana_edge::listener::Limits;
use cabana_edge::tls::Tls;
use futures_util::StreamExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::world::*;

const DAY: Duration = Duration::from_secs(24 * 3600);
const OFTEN: Duration = Duration::from_millis(20);

fn names() -> Vec<String> {
    ["e2b.test", "*.e2b.test", "localhost", "127.0.0.1"].map(str::to_owned).to_vec()
}

/// A client configuration that trusts `ca`.
fn trusting(ca: &Path, alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).expect("certificate")).expect("root");
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// A server with its own authority.
struct Secure {
    world: World,
    dir: TempDir,
}

impl Secure {
    async fn new(limits: Limits) -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let tls = Tls::internal(dir.path(), names(), 90 * DAY, OFTEN).expect("tls");
        Self { world: World::serving(Some("e2b.test"), limits, Some(Arc::new(tls))).await, dir }
    }

    async fn connect(&self, name: &str, alpn: &[&[u8]]) -> std::io::Result<TlsStream<TcpStream>> {
        connect(&self.world, trusting(&self.dir.path().join("ca.pem"), alpn), name).await
    }

    async fn ask(&self, host: &str, rest: &str) -> String {
        let mut stream = self.connect("api.e2b.test", &[b"http/1.1"]).await.expect("handshake");
        let request = format!("GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{rest}\r\n");
        stream.write_all(request.as_bytes()).await.expect("write");
        let mut answer = Vec::new();
        let _ = within(stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn http2(&self) -> http2::SendRequest<Empty<Bytes>> {
        let stream = self.connect("api.e2b.test", &[b"h2", b"http/1.1"]).await.expect("handshake");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let io = TokioIo::new(stream);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("handshake");
        tokio::spawn(connection);
        sender
    }
}

async fn connect(world: &World, config: Arc<ClientConfig>, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).expect("name");
    within(TlsConnector::from(config).connect(name, world.connect().await)).await
}

fn request(method: Method, url: &str, headers: &[(&str, &str)]) -> Request<Empty<Bytes>> {
    let builder = Request::builder().method(method).uri(url);
    headers.iter().fold(builder, |b, (n, v)| b.header(*n, *v)).body(Empty::new()).expect("request")
}

#[tokio::test]
async fn names_route_to_the_api_to_sandboxes_or_nowhere() {
    let secure = Secure::new(Limits::default()).await;
    let sandbox = secure.world.sandbox(says("the guest"));
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    for name in ["api.e2b.test", "e2b.test", "49983-iabc.e2b.test", "localhost", "127.0.0.1"] {
        let stream = secure.connect(name, &[b"h2", b"http/1.1"]).await.expect(name);
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "{name}");
    }
    assert!(secure.connect("evil.test", &[]).await.is_err(), "the certificate is not for everyone");
    for host in ["api.e2b.test:8443", "127.0.0.1:8443", "localhost", "e2b.test"] {
        assert_eq!(body(&secure.ask(host, "").await), "the API", "{host}");
    }
    let id = sandbox.id.as_str();
    assert_eq!(body(&secure.ask(&format!("49983-{id}.e2b.test:8443"), "").await), "the guest");
    let seen = secure.ask(&format!("{port}-{id}.e2b.test"), "").await;
    assert!(body(&seen).contains("x-forwarded-proto: https"), "{seen}");
    let routing = format!("E2b-Sandbox-Id: {id}\r\nE2b-Sandbox-Port: 49983\r\n");
    assert_eq!(body(&secure.ask("sandbox.e2b.test", &routing).await), "the guest");
    for (host, code) in [("evil.test", 421), (&format!("49983-{id}.evil.test"), 421), ("www.e2b.test", 404)] {
        let answer = secure.ask(host, "").await;
        assert_eq!(status(&answer), code, "{host}");
        assert!(body(&answer).starts_with(&format!("{{\"code\":{code},\"message\":")), "{answer}");
    }
    let page = secure.ask("80-iended.e2b.test", "User-Agent: Mozilla/5.0\r\nAccept: text/html\r\n").await;
    assert!(status(&page) == 502 && page.contains("<h1>The sandbox was not found</h1>"), "{page}");
}

#[tokio::test]
async fn cors_requests_work_over_http2() {
    let secure = Secure::new(Limits::default()).await;
    let sandbox = secure.world.sandbox(handler(|request| async move {
        assert_ne!(request.method(), Method::OPTIONS, "the edge answers for the guest");
        Response::new(Body::from("the guest"))
    }));
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    let mut sender = secure.http2().await;
    let asks = [
        ("origin", "https://app.test"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,x-access-token"),
    ];
    let guest = format!("https://49983-{}.e2b.test/process.Process/Start", sandbox.id);
    let answer = within(sender.send_request(request(Method::OPTIONS, &guest, &asks))).await.expect("answer");
    assert_eq!(answer.status(), 204);
    assert_eq!(answer.headers()["access-control-allow-origin"], "*");
    assert_eq!(answer.headers()["access-control-allow-headers"], "authorization,x-access-token");
    let answer = within(sender.send_request(request(Method::POST, &guest, &asks[..1]))).await.expect("answer");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["access-control-allow-origin"]),
        (200, &"*".parse().expect("value"))
    );
    // Ports of users handle CORS themselves; the edge's own responses are readable by every page.
    let own = format!("https://{port}-{}.e2b.test/", sandbox.id);
    let answer = within(sender.send_request(request(Method::OPTIONS, &own, &asks))).await.expect("answer");
    assert_eq!((answer.status().as_u16(), answer.headers().get("access-control-allow-origin")), (200, None));
    let gone = request(Method::GET, "https://80-inever.e2b.test/", &asks[..1]);
    let answer = within(sender.send_request(gone)).await.expect("answer");
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["access-control-allow-origin"]),
        (502, &"*".parse().expect("value"))
    );
}

#[tokio::test]
async fn slow_tls_handshakes_time_out() {
    let limits = Limits { handshake: Duration::from_millis(100), ..Limits::default() };
    let secure = Secure::new(limits).await;
    let mut silent = secure.world.connect().await;
    assert_eq!(within(silent.read(&mut [0; 16])).await.expect("end"), 0);
    let mut half = secure.world.connect().await;
    half.write_all(&[22, 3, 1, 2, 0]).await.expect("write");
    let mut rest = Vec::new();
    let _ = within(half.read_to_end(&mut rest)).await;
    let plain = secure.world.ask("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(status(&plain), 400);
    assert!(body(&plain).contains("This port speaks TLS"), "{plain}");
    assert_eq!(body(&secure.ask("localhost", "").await), "the API", "others are still served");
}

#[tokio::test]
async fn the_certificate_is_renewed_while_it_serves() {
    let dir = tempfile::tempdir().expect("directory");
    let tls = Tls::internal(dir.path(), names(), Duration::from_secs(4), OFTEN).expect("tls");
    let world = World::serving(Some("e2b.test"), Limits::default(), Some(Arc::new(tls))).await;
    let shown = async || {
        let stream = connect(&world, trusting(&dir.path().join("ca.pem"), &[]), "api.e2b.test").await.expect("trusted");
        stream.get_ref().1.peer_certificates().expect("certificates")[0].clone().into_owned()
    };
    let first = shown().await;
    within(async {
        while shown().await == first {
            tokio::time::sleep(OFTEN).await;
        }
    })
    .await;
}

/// A pair of files as an operator has them.
fn write_pair(dir: &Path, name: &str) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("certificate");
    std::fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).expect("write");
    std::fs::write(dir.join("cert.pem"), made.cert.pem()).expect("write");
}

#[tokio::test]
async fn certificate_files_are_reloaded_when_they_change() {
    let dir = tempfile::tempdir().expect("directory");
    write_pair(dir.path(), "api.e2b.test");
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let tls = Tls::files(certificate.clone(), key.clone(), OFTEN).expect("tls");
    let world = World::serving(Some("e2b.test"), Limits::default(), Some(Arc::new(tls))).await;
    let old = trusting(&certificate, &[]);
    connect(&world, old.clone(), "api.e2b.test").await.expect("the first");
    // Invalid files, or a key of another certificate, change nothing.
    let kept = std::fs::read(&certificate).expect("read");
    std::fs::write(&certificate, "-----BEGIN").expect("write");
    tokio::time::sleep(OFTEN * 5).await;
    connect(&world, old.clone(), "api.e2b.test").await.expect("still the first");
    std::fs::write(&certificate, kept).expect("write");
    write_pair(dir.path(), "other.e2b.test");
    let new = trusting(&certificate, &[]);
    within(async {
        while connect(&world, new.clone(), "other.e2b.test").await.is_err() {
            tokio::time::sleep(OFTEN).await;
        }
    })
    .await;
    assert!(Tls::files(certificate, dir.path().join("none.pem"), OFTEN).is_err());
}

#[tokio::test]
async fn half_an_hour_of_silence_breaks_no_stream() {
    let secure = Secure::new(Limits::default()).await;
    let speak = Arc::new(Notify::new());
    let heard = speak.clone();
    let sandbox = secure.world.sandbox(handler(move |_| {
        let heard = heard.clone();
        async move {
            let first = futures_util::stream::once(async { Ok::<_, std::io::Error>("tick") });
            let second = futures_util::stream::once(async move {
                heard.notified().await;
                Ok("tock")
            });
            Response::new(Body::from_stream(first.chain(second)))
        }
    }));
    let (port, _, _task) = open_port(&sandbox, crate::streams::upgrading_echo()).await;
    let id = &sandbox.id;
    let mut one = secure.connect("api.e2b.test", &[b"http/1.1"]).await.expect("handshake");
    let head = format!("GET / HTTP/1.1\r\nHost: 49983-{id}.e2b.test\r\n\r\n");
    one.write_all(head.as_bytes()).await.expect("write");
    read_until(&mut one, "tick").await;
    let mut sender = secure.http2().await;
    let ask = request(Method::GET, &format!("https://49983-{id}.e2b.test/"), &[]);
    let mut two = within(sender.send_request(ask)).await.expect("answer").into_body();
    assert_eq!(within(two.frame()).await.expect("frame").expect("data").into_data().expect("data"), "tick");
    let mut socket = secure.connect("api.e2b.test", &[b"http/1.1"]).await.expect("handshake");
    let head =
        format!("GET / HTTP/1.1\r\nHost: {port}-{id}.e2b.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    socket.write_all(head.as_bytes()).await.expect("write");
    read_until(&mut socket, "\r\n\r\n").await;

    // Thirty minutes in steps, with real time in between for pings.
    for _ in 0..180 {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::time::resume();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    speak.notify_waiters();
    read_until(&mut one, "tock\r\n0\r\n\r\n").await;
    assert_eq!(within(two.frame()).await.expect("frame").expect("data").into_data().expect("data"), "tock");
    socket.write_all(b"still there").await.expect("write");
    read_until(&mut socket, "still there").await;
    // The end of a sandbox must not look like the end of a stream, encrypted or not.
    let mut last = secure.connect("api.e2b.test", &[b"http/1.1"]).await.expect("handshake");
    let head = format!("GET / HTTP/1.1\r\nHost: 49983-{id}.e2b.test\r\n\r\n");
    last.write_all(head.as_bytes()).await.expect("write");
    read_until(&mut last, "tick\r\n").await;
    secure.world.directory.remove(id);
    let mut rest = Vec::new();
    let _ = within(last.read_to_end(&mut rest)).await;
    assert_eq!(rest, b"");
}
