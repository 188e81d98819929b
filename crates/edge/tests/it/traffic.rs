//! Per-sandbox options for requests to its ports: a token, another host, TLS.

use std::net::Ipv4Addr;
use std::sync::Arc;

use cabana_types::Secret;
use cabana_types::Traffic;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::world::*;

fn sandbox(world: &World, address: [u8; 4], traffic: Traffic, guest: Handler) -> Box {
    let id = format!("itraffic{}", address[3]);
    world.publish_with(id.parse().expect("id"), Ipv4Addr::from(address), traffic, guest)
}

#[tokio::test]
async fn private_ports_require_a_token() {
    let world = World::new().await;
    let traffic = Traffic { token: Some(Secret::new("t0ken")), ..Traffic::default() };
    let sandbox = sandbox(&world, [127, 19, 0, 1], traffic, echo());
    let (port, counter, _task) = open_port(&sandbox, echo()).await;
    let id = sandbox.id.as_str();
    for (header, words, code) in [
        ("", "Token header 'e2b-traffic-access-token' is missing", "missing"),
        (
            "E2b-Traffic-Access-Token: other\r\n",
            "Provided token in header 'e2b-traffic-access-token' is invalid",
            "invalid",
        ),
        ("X-Access-Token: t0ken\r\n", "Token header 'e2b-traffic-access-token' is missing", "missing"),
    ] {
        let answer = world.get(id, port, "/", header).await;
        assert_eq!(status(&answer), 403);
        let expected = format!(
            r#"{{"sandboxId":"{id}","message":"Sandbox is secured with traffic access token. {words}","port":{port},"code":403,"error_code":"traffic_token_{code}"}}"#
        );
        assert_eq!(body(&answer), expected);
        assert!(answer.contains("access-control-allow-origin: *"));
    }
    let browser = "User-Agent: Mozilla/5.0\r\nAccept: text/html\r\n";
    assert!(world.get(id, port, "/", browser).await.contains("content-type: text/html"));
    assert_eq!(counter.opened(), 0, "nothing reached the port");
    let answer = world.get(id, port, "/", "E2B-Traffic-Access-Token: t0ken\r\n").await;
    assert_eq!(status(&answer), 200);
    assert!(!answer.contains("t0ken"), "it is not passed to the sandbox: {answer}");
    let guest = world.get(id, 49983, "/health", "E2B-Traffic-Access-Token: whatever\r\n").await;
    assert_eq!(status(&guest), 200, "the guest has its own token");
    assert!(!guest.contains("whatever"), "{guest}");
}

#[tokio::test]
async fn the_host_header_can_be_replaced() {
    let world = World::new().await;
    let traffic = Traffic { mask_host: Some("localhost:${PORT}".to_owned()), ..Traffic::default() };
    let sandbox = sandbox(&world, [127, 19, 0, 2], traffic, echo());
    let (port, _, _task) = open_port(&sandbox, echo()).await;
    let id = sandbox.id.as_str();
    let answer = world.get(id, port, "/", "").await;
    assert!(body(&answer).contains(&format!("\nhost: localhost:{port}")), "{answer}");
    assert!(body(&answer).contains(&format!("x-forwarded-host: {port}-{id}.e2b.test")), "{answer}");
    let answer = world.get(id, 49983, "/", "").await;
    assert!(body(&answer).contains(&format!("host: 49983-{id}.e2b.test")), "{answer}");
}

/// A server that speaks TLS with a self-signed certificate.
async fn open_tls(address: Ipv4Addr, handler: Handler) -> (u16, AbortOnDropHandle<()>) {
    let made = rcgen::generate_simple_self_signed(vec!["nobody.test".to_owned()]).expect("certificate");
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("config");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((address, 0)).await.expect("bind");
    let port = listener.local_addr().expect("address").port();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, handler) = (acceptor.clone(), handler.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request| async { Ok::<_, std::convert::Infallible>(handler(request).await) });
                let builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
            });
        }
    });
    (port, AbortOnDropHandle::new(task))
}

#[tokio::test]
async fn ports_that_speak_tls_inside() {
    let world = World::new().await;
    let address = Ipv4Addr::new(127, 19, 0, 3);
    let inside = Ipv4Addr::new(127, 19, 1, 3);
    let (direct, _a) = open_tls(address, crate::streams::upgrading_echo()).await;
    let (bridged, _b) = open_tls(inside, says("from loopback")).await;
    let (plain, _, _c) = open_at(address, says("not encrypted")).await;
    let (other, _, _d) = open_at(address, says("as ever")).await;
    let traffic = Traffic { https_ports: vec![direct, bridged, plain], ..Traffic::default() };
    let sandbox = sandbox(&world, address.octets(), traffic, bridging_guest(inside));
    let id = sandbox.id.as_str();
    assert_eq!(status(&world.get(id, direct, "/", "").await), 426);
    crate::streams::open_tunnel(&world, id, direct).await;
    assert_eq!(body(&world.get(id, bridged, "/", "").await), "from loopback");
    assert_eq!(body(&world.get(id, other, "/", "").await), "as ever");
    let answer = world.get(id, plain, "/", "").await;
    assert_eq!(status(&answer), 502, "{answer}");
}
