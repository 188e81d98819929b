//! Tests with servers on loopback and in a network namespace: nothing is sent elsewhere.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http_body_util::Full;
use nix::sched::{CloneFlags, unshare};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;

use super::*;
use crate::address::is_own;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn config() -> Config {
    Config {
        trust: Trust::default(),
        addresses: AddressPolicy::Any,
        timeouts: Timeouts::default(),
        limits: Limits::default(),
        pooled: false,
    }
}

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).expect("request")
}

async fn status(client: &Client<Full<Bytes>>, url: &str) -> Result<StatusCode, Kind> {
    let response = client.send(get(url)).await.map_err(|error| error.kind)?;
    let status = response.status();
    read(response, 1 << 20).await.map_err(|error| error.kind)?;
    Ok(status)
}

/// Reads one request; `false` at the end of the connection.
async fn request(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => got.push(byte),
            Err(_) => return false,
        }
    }
    true
}

/// Sends the same response to every request; counts connections.
async fn serve(answer: &'static str) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let (address, connections) = (listener.local_addr().expect("address"), Arc::new(AtomicU32::new(0)));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                while request(&mut stream).await && stream.write_all(answer.as_bytes()).await.is_ok() {}
            });
        }
    });
    (address, connections)
}

/// Sends `first` and then `again` until the client closes the connection.
async fn flood(first: &'static str, again: &'static str) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accept");
        request(&mut stream).await;
        stream.write_all(first.as_bytes()).await.expect("write");
        while stream.write_all(again.as_bytes()).await.is_ok() {}
    });
    (address, task)
}

#[tokio::test]
async fn private_addresses_need_a_configured_host() {
    let (address, connections) = serve(OK).await;
    let with = |addresses| Client::new(Config { addresses, ..config() });
    let (literal, name) = (format!("http://{address}/"), format!("http://localhost:{}/", address.port()));
    let public = with(AddressPolicy::public());
    for url in [&literal, &name, "http://10.0.0.1/", "http://[::1]/", "http://[::ffff:192.168.0.1]/"] {
        let refused = status(&public, url).await;
        assert!(matches!(refused, Err(Kind::Refused { reason: Refusal::Internal, .. })), "{url}: {refused:?}");
    }
    let named = with(AddressPolicy::Public { internal_hosts: [address.to_string()].into() });
    assert!(matches!(status(&named, &name).await, Err(Kind::Refused { .. })), "another host");
    for policy in [AddressPolicy::Any, AddressPolicy::Internal, AddressPolicy::public()] {
        let client = with(policy.clone());
        let forbidden = status(&client, "http://255.255.255.255:1/").await;
        match policy {
            AddressPolicy::Any => assert!(matches!(forbidden, Err(Kind::Connect { .. })), "{forbidden:?}"),
            _ => assert!(matches!(forbidden, Err(Kind::Refused { reason: Refusal::Forbidden, .. })), "{forbidden:?}"),
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0, "no connection was made");
    assert_eq!(status(&named, &literal).await.expect("allowed"), 200);
    assert_eq!(status(&with(AddressPolicy::Internal), &name).await.expect("allowed"), 200);
}

/// An isolated machine with a public address and no route out.
fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("this test needs root");
        let hosts = tempfile::NamedTempFile::new().expect("file");
        std::fs::write(hosts.path(), format!("{OWN} registry.test\n")).expect("write");
        let script = format!(
            "mount --make-rprivate / && mount --bind {} /etc/hosts && ip link set lo up && ip addr add {OWN}/32 dev lo",
            hosts.path().display()
        );
        let done = std::process::Command::new("sh").args(["-ec", &script]).output().expect("sh");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        // Threads of this runtime are started here and live in the namespace.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("runtime").block_on(test());
    })
    .join()
    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Of a public class.
const OWN: Ipv4Addr = Ipv4Addr::new(9, 9, 9, 9);

#[test]
fn the_machines_own_public_address_is_refused() {
    in_namespace(async || {
        let listener = TcpListener::bind((OWN, 0)).await.expect("bind");
        let port = listener.local_addr().expect("address").port();
        let client = Client::new(Config { addresses: AddressPolicy::public(), ..config() });
        for host in ["9.9.9.9", "registry.test", "[::ffff:9.9.9.9]", "[64:ff9b::909:909]", "[2002:909:909::1]"] {
            let refused = status(&client, &format!("http://{host}:{port}/")).await;
            assert!(matches!(refused, Err(Kind::Refused { reason: Refusal::Own, .. })), "{host}: {refused:?}");
        }
        assert!(is_own(OWN.into()).await && is_own(Ipv4Addr::LOCALHOST.into()).await);
        assert!(!is_own(Ipv4Addr::new(9, 9, 9, 8).into()).await);
        // A host that the operator configured is reached.
        let internal_hosts = [format!("registry.test:{port}")].into();
        let named = Client::new(Config { addresses: AddressPolicy::Public { internal_hosts }, ..config() });
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accept");
            request(&mut stream).await;
            stream.write_all(OK.as_bytes()).await.expect("write");
        });
        assert_eq!(status(&named, &format!("http://registry.test:{port}/")).await.expect("allowed"), 200);
        served.await.expect("served");
    });
}

#[tokio::test]
async fn informational_responses_are_counted() {
    let client = Client::new(config());
    let (address, _) =
        serve("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n").await;
    assert_eq!(status(&client, &format!("http://{address}/")).await.expect("answered"), 204);
    let (address, sending) = flood("", "HTTP/1.1 100 Continue\r\n\r\n").await;
    let failed = status(&client, &format!("http://{address}/")).await;
    assert!(matches!(failed, Err(Kind::Informational)), "{failed:?}");
    sending.await.expect("the connection was closed");
}

#[tokio::test]
async fn heads_and_bodies_are_limited() {
    let limits = Limits { head_bytes: 16 << 10, body_bytes: Some(1 << 20), ..Limits::default() };
    let client = Client::new(Config { limits, ..config() });
    let (address, sending) = flood("HTTP/1.1 200 OK\r\n", "x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n").await;
    let failed = status(&client, &format!("http://{address}/")).await;
    assert!(matches!(failed, Err(Kind::Exchange(_))), "{failed:?}");
    sending.await.expect("the connection was closed");
    let (address, sending) = flood("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "5\r\nhello\r\n").await;
    let mut body = client.send(get(&format!("http://{address}/"))).await.expect("head").into_body();
    let failed = loop {
        match body.piece().await {
            Ok(piece) => assert!(piece.is_some(), "it has no end"),
            Err(error) => break error.kind,
        }
    };
    assert!(matches!(failed, Kind::TooLarge(1_048_576)), "{failed:?}");
    drop(body);
    sending.await.expect("the connection was closed");
    let (address, _) = serve("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").await;
    let response = client.send(get(&format!("http://{address}/"))).await.expect("head");
    assert_eq!(response.body().size_hint().lower(), 0, "the announced length is hidden");
    let (address, _) = serve(OK).await;
    let response = client.send(get(&format!("http://{address}/"))).await.expect("head");
    assert!(matches!(read(response, 1).await.map_err(|error| error.kind), Err(Kind::TooLarge(1))));
}

#[tokio::test]
async fn stalled_responses_time_out() {
    let soon = Some(Duration::from_millis(100));
    let client =
        Client::new(Config { timeouts: Timeouts { head: soon, stall: soon, ..Timeouts::default() }, ..config() });
    let (address, _) = serve("").await;
    assert!(matches!(status(&client, &format!("http://{address}/")).await, Err(Kind::HeadTimeout)));
    let (address, _) = serve("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhal").await;
    assert!(matches!(status(&client, &format!("http://{address}/")).await, Err(Kind::Stalled)));
    // A slow reader is not a stall.
    let (address, _) = serve(OK).await;
    let response = client.send(get(&format!("http://{address}/"))).await.expect("head");
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(read(response, 9).await.expect("body"), "ok");
}

#[tokio::test]
async fn connections_are_reused_if_pooled() {
    for (pooled, expected) in [(true, 1), (false, 3)] {
        let (address, connections) = serve(OK).await;
        let client = Client::new(Config { pooled, ..config() });
        for _ in 0..3 {
            status(&client, &format!("http://{address}/")).await.expect("answered");
        }
        assert_eq!(connections.load(Ordering::SeqCst), expected, "pooled: {pooled}");
    }
}

#[tokio::test]
async fn unreachable_hosts_are_reported() {
    let client = Client::new(config());
    let nowhere = client.send(get("http://nowhere.invalid/")).await.expect_err("no such name");
    assert!(matches!(nowhere.kind, Kind::Resolve(_)) && nowhere.is_connect() && nowhere.host == "nowhere.invalid");
    let address = TcpListener::bind("127.0.0.1:0").await.expect("bind").local_addr().expect("address");
    let refused = client.send(get(&format!("http://{address}/"))).await.expect_err("nobody listens");
    assert!(matches!(refused.kind, Kind::Connect { .. }) && refused.host == address.to_string());
    let (address, _) = serve("SSH-2.0-OpenSSH\r\n").await;
    let other = client.send(get(&format!("http://{address}/"))).await.expect_err("not HTTP");
    assert!(other.is_malformed() && !other.is_connect(), "{other:?}");
    assert!(matches!(status(&client, "ftp://127.0.0.1/").await, Err(Kind::Url(_))));
}

/// A server with a certificate for `localhost` that responds once per connection.
async fn serve_tls(directory: &Path, answer: String) -> (u16, std::path::PathBuf) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).expect("certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("key");
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("configuration");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            request(&mut stream).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = AsyncWriteExt::shutdown(&mut stream).await;
        }
    });
    let path = directory.join("own.pem");
    std::fs::write(&path, cert.pem()).expect("write");
    (port, path)
}

#[tokio::test]
async fn certificates_must_be_of_a_trusted_authority() {
    let directory = tempfile::tempdir().expect("directory");
    let (port, own) = serve_tls(directory.path(), OK.to_owned()).await;
    let (local, literal) = (format!("https://localhost:{port}/"), format!("https://127.0.0.1:{port}/"));
    let with = |trust| Client::new(Config { trust, ..config() });
    let stranger = generate_simple_self_signed(["localhost".to_owned()]).expect("certificate").cert.pem();
    let (other, missing) = (directory.path().join("other.pem"), directory.path().join("missing.pem"));
    std::fs::write(&other, stranger).expect("write");
    let trusting = |authorities: &[&Path]| Trust {
        authorities: authorities.iter().map(|path| path.to_path_buf()).collect(),
        ..Trust::default()
    };
    let refused = status(&with(trusting(&[&other])), &local).await;
    assert!(matches!(refused, Err(Kind::Certificate(_))), "{refused:?}");
    let unreadable = status(&with(trusting(&[&own, &missing])), &local).await;
    assert!(matches!(unreadable, Err(Kind::Trust(TrustError::Unreadable { .. }))), "{unreadable:?}");
    let lenient = Trust { skip_unreadable: true, ..trusting(&[&missing, &own]) };
    assert_eq!(status(&with(lenient), &local).await.expect("trusted"), 200);
    let trusted = with(trusting(&[&own]));
    assert_eq!(status(&trusted, &local).await.expect("trusted"), 200);
    assert!(matches!(status(&trusted, &literal).await, Err(Kind::Certificate(_))), "it is for another name");
    let renamed = Trust { server_name: Some("localhost".to_owned()), ..trusting(&[&own]) };
    assert_eq!(status(&with(renamed), &literal).await.expect("trusted"), 200);
}

#[tokio::test]
async fn redirects_never_leave_tls() {
    let directory = tempfile::tempdir().expect("directory");
    let (plain, connections) = serve(OK).await;
    let answer = format!("HTTP/1.1 302 Found\r\nlocation: http://{plain}/\r\ncontent-length: 0\r\n\r\n");
    let (port, own) = serve_tls(directory.path(), answer).await;
    let client = Client::new(Config { trust: Trust { authorities: vec![own], ..Trust::default() }, ..config() });
    let url: Url = format!("https://localhost:{port}/").parse().expect("URL");
    let refused = client.get(url, HeaderMap::new()).await.expect_err("refused");
    assert!(matches!(refused.kind, Kind::Redirect(reason) if reason.contains("plain http")), "{refused:?}");
    assert_eq!((refused.host, connections.load(Ordering::SeqCst)), (format!("localhost:{port}"), 0));
}
