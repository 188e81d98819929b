//! Requests to receivers on loopback: good ones, hostile ones, encrypted ones.

use std::path::PathBuf;
use std::sync::Arc;

use cabana_types::WebhookId;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const LIMIT: Duration = Duration::from_secs(10);

fn event() -> SignedEvent {
    SignedEvent {
        id: "d".into(),
        webhook: WebhookId::from_random([1; 16]),
        body: b"{}".to_vec(),
        signature: "s".into(),
    }
}

/// Answers the first request on a connection with `answer`.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, answer: &str) -> String {
    let mut got = vec![];
    while !got.ends_with(b"{}") {
        let mut part = [0; 1024];
        let count = stream.read(&mut part).await.expect("read");
        assert!(count > 0, "the request ended early");
        got.extend_from_slice(&part[..count]);
    }
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    String::from_utf8(got).expect("text")
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_refused_on_connect() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let target = |host: &str| {
        let url = format!("http://{host}:{}/", listener.local_addr().expect("address").port());
        // Accepted here, like a name that resolved to another address when it was checked.
        Target::parse(&url, true).expect("valid")
    };
    let sender = Sender::new(false, LIMIT);
    for host in ["localhost", "127.0.0.1"] {
        let refused = sender.exchange(&target(host), &event()).await.expect_err("refused");
        assert!(matches!(refused, DeliveryError::Refused { source: InvalidTarget::Private(_), .. }), "{refused:?}");
        assert!(!refused.is_final(), "the name may lead elsewhere tomorrow");
    }
    let (sender, target_here, signed) = (Sender::new(true, LIMIT), target("localhost"), event());
    let served = async { serve(listener.accept().await.expect("accept").0, "HTTP/1.1 204 No Content\r\n\r\n").await };
    let (_, sent) = tokio::join!(served, sender.exchange(&target_here, &signed));
    assert_eq!(sent.expect("delivered"), 204);
    let nowhere = sender.exchange(&target("nowhere.invalid"), &signed).await.expect_err("no such name");
    assert!(matches!(&nowhere, DeliveryError::Http(cabana_http::Error { kind: Kind::Resolve(_), .. })), "{nowhere:?}");
}

#[tokio::test]
async fn the_request_and_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let sender = Sender::new(true, LIMIT);
    let url = format!("http://{address}/hook?x=1");
    for (answer, status) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", Some(204)),
        ("HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\nno", Some(500)),
        ("HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n", Some(302)),
        ("SSH-2.0-OpenSSH\r\n", None),
        ("", None),
    ] {
        let event = event();
        let (got, sent) = tokio::join!(
            async { serve(listener.accept().await.expect("accept").0, answer).await },
            sender.send(&url, &event)
        );
        match (status, sent) {
            (Some(204), Ok(204)) => {}
            (status, Err(error)) => assert_eq!(error.status(), status, "{}", error.to_text()),
            (status, sent) => panic!("{status:?}: {sent:?}"),
        }
        let head = got.to_ascii_lowercase();
        assert!(head.starts_with("post /hook?x=1 http/1.1\r\n"), "{got}");
        for line in [
            &format!("host: {address}"),
            "content-type: application/json",
            "content-length: 2",
            "e2b-webhook-id: 01010101-0101-4101-8101-010101010101",
            "e2b-delivery-id: d",
            "e2b-signature-version: v1",
            "e2b-signature: s",
            concat!("user-agent: cabana/", env!("CARGO_PKG_VERSION")),
        ] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {got}");
        }
    }
}

#[tokio::test]
async fn an_endless_response_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let url = format!("http://{}/", listener.local_addr().expect("address"));
    let flood = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accept");
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        while stream.write_all(b"5\r\nhello\r\n").await.is_ok() {}
        // And one whose head does not end.
        let (mut stream, _) = listener.accept().await.expect("accept");
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(b"x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n").await.is_ok() {}
    });
    let (sender, event) = (Sender::new(true, LIMIT), event());
    assert!(matches!(sender.send(&url, &event).await, Ok(200)));
    assert!(matches!(
        sender.send(&url, &event).await,
        Err(DeliveryError::Http(cabana_http::Error { kind: Kind::Exchange(_), .. }))
    ));
    flood.await.expect("the connections were closed");
}

#[tokio::test]
async fn https_requires_a_trusted_authority() {
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
    let url = format!("https://localhost:{}/", listener.local_addr().expect("address").port());
    let served = tokio::spawn(async move {
        let stranger = acceptor.accept(listener.accept().await.expect("accept").0).await;
        assert!(stranger.is_err(), "it does not believe us");
        let stream = acceptor.accept(listener.accept().await.expect("accept").0).await.expect("handshake");
        serve(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await
    });
    let event = event();
    let directory = tempfile::tempdir().expect("directory");
    let trusting = |name: &str, pem: String| {
        let path: PathBuf = directory.path().join(name);
        std::fs::write(&path, pem).expect("write");
        Sender::with_trust(Trust { authorities: vec![path], ..Trust::default() }, true, LIMIT)
    };
    let other = generate_simple_self_signed(["localhost".to_owned()]).expect("certificate");
    let refused = trusting("other.pem", other.cert.pem()).send(&url, &event).await;
    let is_certificate = |error: &DeliveryError| {
        matches!(error, DeliveryError::Http(cabana_http::Error { kind: Kind::Certificate(_), .. }))
    };
    assert!(refused.as_ref().is_err_and(is_certificate), "{refused:?}");
    assert!(matches!(trusting("own.pem", cert.pem()).send(&url, &event).await, Ok(200)));
    assert!(served.await.expect("served").contains("e2b-signature: s"));
}
