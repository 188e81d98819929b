//! TLS of the listener: a certificate that is renewed or reloaded while the server runs, and the handshake.

mod authority;
mod current;

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use self::authority::Authority;
use self::current::Current;

/// How often to check whether the certificate is due for renewal or was replaced.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);
/// The first byte of every TLS connection.
const HANDSHAKE_RECORD: u8 = 22;
/// The response to a client that sends plain HTTP.
const PLAIN_RESPONSE: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\nconnection: close\r\n\
content-length: 97\r\n\r\n{\"code\":400,\"message\":\"This port speaks TLS: use an https:// URL\",\"error_code\":\"invalid_request\"}";

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read or written.
    #[error("{action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The content of a file is unusable.
    #[error("{path} {reason}")]
    Unusable {
        path: PathBuf,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A certificate could not be created.
    #[error("make a certificate")]
    Make(#[from] rcgen::Error),
    /// rustls rejected the settings.
    #[error("set up TLS")]
    Setup(#[from] rustls::Error),
}

/// Where the certificate comes from.
enum Source {
    /// An internal authority.
    Internal { authority: Box<Authority>, names: Vec<String>, life: Duration },
    /// Files, provided by the operator.
    Files { certificate: PathBuf, key: PathBuf },
}

/// TLS of a listener.
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    source: Source,
    check_interval: Duration,
}

impl Tls {
    /// An authority in `directory` and a certificate for `domain` and this machine.
    pub fn for_domain(directory: &Path, domain: Option<&str>, listen: IpAddr) -> Result<Self, TlsError> {
        Self::internal(directory, names(domain, listen), authority::LEAF_LIFE, CHECK_INTERVAL)
    }

    /// A certificate from files.
    pub fn for_files(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        Self::files(certificate, key, CHECK_INTERVAL)
    }

    /// An authority in `directory` and a certificate for `names` that is valid for `life`.
    pub fn internal(
        directory: &Path,
        names: Vec<String>,
        life: Duration,
        check_interval: Duration,
    ) -> Result<Self, TlsError> {
        Self::with(Source::Internal { authority: Box::new(Authority::open(directory)?), names, life }, check_interval)
    }

    /// A certificate from files, which are read again every `check_interval`.
    pub fn files(certificate: PathBuf, key: PathBuf, check_interval: Duration) -> Result<Self, TlsError> {
        Self::with(Source::Files { certificate, key }, check_interval)
    }

    fn with(source: Source, check_interval: Duration) -> Result<Self, TlsError> {
        let (certified, renewal) = source.fetch(SystemTime::now())?;
        let current = Arc::new(Current::new(certified, renewal));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = ring::Ticketer::new()?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), current, source, check_interval })
    }

    /// Performs the handshake. A client that sends plain HTTP gets an error response.
    pub fn accept(&self, stream: TcpStream) -> impl Future<Output = io::Result<TlsStream<TcpStream>>> + Send + 'static {
        let acceptor = self.acceptor.clone();
        async move {
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE_RECORD {
                return Err(refuse_plain(stream).await);
            }
            acceptor.accept(stream).await
        }
    }

    /// Renews the certificate in time, or reloads it from its files, until `shutdown`.
    pub async fn keep(&self, shutdown: CancellationToken) {
        let mut reported = None;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(self.check_interval) => {}
            }
            let now = SystemTime::now();
            if !self.current.is_due(now) {
                continue;
            }
            match self.source.fetch(now) {
                Ok((certified, renewal)) => {
                    if self.current.replace(certified, renewal) {
                        tracing::info!("replaced the TLS certificate");
                    }
                    reported = None;
                }
                Err(error) => {
                    // The current one stays in use; half-written files are complete a moment later. Each cause is logged once.
                    let text = cabana_types::error::chain(&error);
                    if reported.as_ref() != Some(&text) {
                        tracing::warn!(error = text, "could not renew the TLS certificate, keeping the current one");
                        reported = Some(text);
                    }
                }
            }
        }
    }
}

impl Source {
    /// A certificate, and when to fetch the next one; `now` means at every check.
    fn fetch(&self, now: SystemTime) -> Result<(CertifiedKey, SystemTime), TlsError> {
        match self {
            Self::Internal { authority, names, life } => {
                let certified = authority.issue(names, now, *life)?;
                Ok((certified, now + *life * 2 / 3))
            }
            Self::Files { certificate, key } => Ok((read(certificate, key)?, now)),
        }
    }
}

/// Reads a certificate with its chain, and its key.
fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let unusable = |path: &Path, reason: String| TlsError::Unusable { path: path.to_owned(), reason };
    let load = |path: &Path| {
        std::fs::read(path).map_err(|source| TlsError::File { action: "read", path: path.to_owned(), source })
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&load(certificate)?).collect();
    let chain = chain.map_err(|e| unusable(certificate, format!("is not in PEM form: {e}")))?;
    if chain.is_empty() {
        return Err(unusable(certificate, "holds no certificate in PEM form".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(&load(key)?)
        .map_err(|e| unusable(key, format!("holds no private key in PEM form: {e}")))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider())
        .map_err(|e| unusable(certificate, format!("does not go with the key {}: {e}", key.display())))
}

/// The names in the internal certificate: the domain, everything directly under it, and this machine.
fn names(domain: Option<&str>, listen: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = domain.into_iter().flat_map(|d| [d.to_owned(), format!("*.{d}")]).collect();
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let listen = listen.to_string();
    if !listen.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified()) && !names.contains(&listen) {
        names.push(listen);
    }
    names
}

async fn refuse_plain(mut stream: TcpStream) -> io::Error {
    // Errors do not matter: the connection is closed in any case.
    let _ = stream.write_all(PLAIN_RESPONSE).await;
    let _ = stream.shutdown().await;
    // Closing with unread bytes would reset the connection, and the response may be lost (see `early_reply`).
    let mut sink = [0; 1024];
    for _ in 0..16 {
        if !matches!(tokio::io::AsyncReadExt::read(&mut stream, &mut sink).await, Ok(1..)) {
            break;
        }
    }
    io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS")
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let source = match &self.source {
            Source::Internal { names, .. } => format!("internal for {}", names.join(", ")),
            Source::Files { certificate, .. } => certificate.display().to_string(),
        };
        f.debug_struct("Tls").field("source", &source).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_to_plain_http_has_its_length() {
        let text = String::from_utf8(PLAIN_RESPONSE.to_vec()).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("head");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }

    #[test]
    fn names_in_the_certificate() {
        let names = |domain, ip: &str| names(domain, ip.parse().expect("address")).join(" ");
        assert_eq!(names(Some("e2b.test"), "0.0.0.0"), "e2b.test *.e2b.test localhost 127.0.0.1 ::1");
        assert_eq!(names(None, "127.0.0.1"), "localhost 127.0.0.1 ::1");
        assert_eq!(names(None, "10.1.2.3"), "localhost 127.0.0.1 ::1 10.1.2.3");
    }
}
