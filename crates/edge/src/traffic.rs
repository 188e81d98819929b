//! Access to a sandbox's ports: a token, another host name, TLS. None of it applies to the guest's port.

use std::fmt::Debug;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use cabana_types::routing::TRAFFIC_TOKEN_HEADER;
use cabana_types::{Secret, Traffic};
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

use crate::response::ProxyError;

/// How long the TLS handshake with a server in a sandbox may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the traffic token of a request.
pub(crate) fn check_token(traffic: &Traffic, headers: &HeaderMap) -> Result<(), ProxyError> {
    let Some(token) = &traffic.token else { return Ok(()) };
    let mut given = headers.get_all(TRAFFIC_TOKEN_HEADER).iter();
    match (given.next(), given.next()) {
        (None, _) => Err(ProxyError::NoTrafficToken),
        (Some(given), None) if is_same(token, given.as_bytes()) => Ok(()),
        _ => Err(ProxyError::WrongTrafficToken),
    }
}

fn is_same(token: &Secret, given: &[u8]) -> bool {
    token.expose().as_bytes().ct_eq(given).into()
}

/// The host that the sandbox sees instead of the client's, if it wants another.
pub(crate) fn masked_host(traffic: &Traffic, port: u16) -> Option<HeaderValue> {
    let host = traffic.mask_host.as_ref()?.replace("${PORT}", &port.to_string());
    HeaderValue::try_from(host).ok()
}

/// Connects with TLS to a port inside. Any certificate is accepted: the connection leaves neither this machine nor the sandbox's address.
pub(crate) async fn connect_tls<S>(address: IpAddr, stream: S) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    static CONFIG: LazyLock<Option<Arc<ClientConfig>>> = LazyLock::new(|| config().map(Arc::new));
    let config = CONFIG.clone().ok_or_else(|| io::Error::other("TLS could not be set up"))?;
    timeout(HANDSHAKE_TIMEOUT, TlsConnector::from(config).connect(ServerName::IpAddress(address.into()), stream))
        .await?
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

/// Accepts every certificate.
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
        assert!(check_token(&Traffic::default(), &headers(&[])).is_ok());
        assert!(check_token(&secured, &headers(&["t0ken"])).is_ok());
        assert!(matches!(check_token(&secured, &headers(&[])), Err(ProxyError::NoTrafficToken)));
        for wrong in [&["t0kem"][..], &["t0ke"], &["t0kenn"], &[""], &["t0ken", "t0ken"], &["x", "t0ken"]] {
            assert!(matches!(check_token(&secured, &headers(wrong)), Err(ProxyError::WrongTrafficToken)), "{wrong:?}");
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
