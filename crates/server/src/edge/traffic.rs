//! What a sandbox wants of requests to its ports: a token, another host name, TLS. The guest's own port is exempt from all of it.

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cabana_types::Secret;
use cabana_types::routing::TRAFFIC_TOKEN_HEADER;
use http::{HeaderMap, HeaderValue};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, version};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::answer::Refusal;
use crate::directory::Traffic;

/// A server of a user may take this long to agree on encryption.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Whether a request may pass.
pub(super) fn admit(traffic: &Traffic, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(token) = &traffic.token else { return Ok(()) };
    let mut given = headers.get_all(TRAFFIC_TOKEN_HEADER).iter();
    match (given.next(), given.next()) {
        (None, _) => Err(Refusal::NoTrafficToken),
        (Some(given), None) if is_same(token, given.as_bytes()) => Ok(()),
        _ => Err(Refusal::WrongTrafficToken),
    }
}

fn is_same(token: &Secret, given: &[u8]) -> bool {
    token.expose().as_bytes().ct_eq(given).into()
}

/// What the sandbox is to see as its host; `None` for what the client wrote.
pub(super) fn masked_host(traffic: &Traffic, port: u16) -> Option<HeaderValue> {
    let host = traffic.mask_host.as_ref()?.replace("${PORT}", &port.to_string());
    HeaderValue::try_from(host).ok()
}

/// Speaks TLS to a port inside, whatever certificate it shows: the way there leaves neither this machine nor the sandbox's own address.
pub(super) async fn encrypt<S>(address: IpAddr, stream: S) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    static CONFIG: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| config().map(Arc::new));
    let config = CONFIG.clone().ok_or_else(|| io::Error::other("TLS could not be set up"))?;
    timeout(HANDSHAKE, TlsConnector::from(config).connect(ServerName::IpAddress(address.into()), stream)).await?
}

fn config() -> Option<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let any = Arc::new(AnyCertificate(provider.signature_verification_algorithms));
    let builder =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13, &version::TLS12]);
    let mut config = builder.ok()?.dangerous().with_custom_certificate_verifier(any).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(config)
}

/// Takes every certificate.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_must_be_there_once_and_right() {
        let secured = Traffic { token: Some(Secret::new("t0ken")), ..Traffic::default() };
        let headers = |values: &[&'static str]| {
            let mut map = HeaderMap::new();
            for value in values {
                map.append(TRAFFIC_TOKEN_HEADER, HeaderValue::from_static(value));
            }
            map
        };
        assert!(admit(&Traffic::default(), &headers(&[])).is_ok());
        assert!(admit(&secured, &headers(&["t0ken"])).is_ok());
        assert!(matches!(admit(&secured, &headers(&[])), Err(Refusal::NoTrafficToken)));
        for wrong in [&["t0kem"][..], &["t0ke"], &["t0kenn"], &[""], &["t0ken", "t0ken"], &["x", "t0ken"]] {
            assert!(matches!(admit(&secured, &headers(wrong)), Err(Refusal::WrongTrafficToken)), "{wrong:?}");
        }
    }

    #[test]
    fn the_port_stands_in_the_masked_host() {
        let masked =
            |mask: &str| masked_host(&Traffic { mask_host: Some(mask.to_owned()), ..Traffic::default() }, 8080);
        assert_eq!(masked("localhost:${PORT}"), Some(HeaderValue::from_static("localhost:8080")));
        assert_eq!(masked("a.test"), Some(HeaderValue::from_static("a.test")));
        assert_eq!(masked("a\r\nb"), None);
        assert_eq!(masked_host(&Traffic::default(), 80), None);
    }
}
