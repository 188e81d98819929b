//! Encryption of the one listener: a certificate that is renewed or read again while the server runs, and the handshake.
//! Where certificates come from is one enum, so that another source can be added.

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
use crate::config::{Config, TlsMode};

/// How often it is looked whether a certificate is to be renewed or was replaced.
const LOOK: Duration = Duration::from_secs(30);
/// The first byte of every TLS connection.
const HANDSHAKE: u8 = 22;
/// What a client is told that does not speak TLS.
const PLAIN: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\nconnection: close\r\n\
content-length: 66\r\n\r\n{\"code\":400,\"message\":\"This port speaks TLS: use an https:// URL\"}";

/// Why there is no encryption.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read or written.
    #[error("{action} {path}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path} {reason}")]
    Unusable {
        /// Which.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// A certificate could not be made.
    #[error("make a certificate")]
    Make(#[from] rcgen::Error),
    /// The library refuses the settings.
    #[error("set up TLS")]
    Setup(#[from] rustls::Error),
}

/// Where the certificate comes from.
enum Source {
    /// Our own authority.
    Internal { authority: Box<Authority>, names: Vec<String>, life: Duration },
    /// Files of the operator.
    Files { certificate: PathBuf, key: PathBuf },
}

/// The encryption of a listener.
pub struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    source: Source,
    look: Duration,
}

impl Tls {
    /// What the configuration asks for; `None` where that is no encryption.
    pub fn open(config: &Config) -> Result<Option<Self>, TlsError> {
        let source = match config.tls.mode {
            TlsMode::Off => return Ok(None),
            TlsMode::Internal => Source::Internal {
                authority: Box::new(Authority::open(&config.tls_dir())?),
                names: names(config.domain_name().as_deref(), config.listen.ip()),
                life: authority::LEAF_LIFE,
            },
            TlsMode::Files => {
                Source::Files { certificate: config.tls.certificate.clone(), key: config.tls.key.clone() }
            }
        };
        Self::with(source, LOOK).map(Some)
    }

    /// An authority in `directory` and a certificate for `names` that lives for `life`; looked at every `look`.
    pub fn internal(directory: &Path, names: Vec<String>, life: Duration, look: Duration) -> Result<Self, TlsError> {
        Self::with(Source::Internal { authority: Box::new(Authority::open(directory)?), names, life }, look)
    }

    /// A certificate from files, looked at every `look`.
    pub fn files(certificate: PathBuf, key: PathBuf, look: Duration) -> Result<Self, TlsError> {
        Self::with(Source::Files { certificate, key }, look)
    }

    fn with(source: Source, look: Duration) -> Result<Self, TlsError> {
        let (certified, renewal) = source.fetch(SystemTime::now())?;
        let current = Arc::new(Current::new(certified, renewal));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = ring::Ticketer::new()?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), current, source, look })
    }

    /// Agrees with a client on encryption. One that speaks plain HTTP is told so.
    pub fn accept(&self, stream: TcpStream) -> impl Future<Output = io::Result<TlsStream<TcpStream>>> + Send + 'static {
        let acceptor = self.acceptor.clone();
        async move {
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
                return Err(refuse_plain(stream).await);
            }
            acceptor.accept(stream).await
        }
    }

    /// Renews the certificate in time, and follows changes of files, until `shutdown`.
    pub async fn keep(&self, shutdown: CancellationToken) {
        let mut complained = None;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(self.look) => {}
            }
            let now = SystemTime::now();
            if !self.current.is_due(now) {
                continue;
            }
            match self.source.fetch(now) {
                Ok((certified, renewal)) => {
                    if self.current.replace(certified, renewal) {
                        tracing::info!("the certificate was replaced");
                    }
                    complained = None;
                }
                Err(error) => {
                    // The old one serves on; a half-written pair of files is whole a moment later. Said once for each cause.
                    let text = cabana_types::error::chain(&error);
                    if complained.as_ref() != Some(&text) {
                        tracing::warn!(error = text, "the certificate could not be renewed; the old one stays");
                        complained = Some(text);
                    }
                }
            }
        }
    }
}

impl Source {
    /// A certificate, and when to fetch the next one: at once means at every look.
    fn fetch(&self, now: SystemTime) -> Result<(CertifiedKey, SystemTime), TlsError> {
        match self {
            Self::Internal { authority, names, life } => {
                let certified = authority.issue(names, now, *life)?;
                // After two thirds of its life, as is the custom.
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

/// Whom the internal certificate speaks for: the domain, what is directly under it, and this machine itself.
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
    // If it cannot be told there is nothing else to do.
    let _ = stream.write_all(PLAIN).await;
    let _ = stream.shutdown().await;
    // Unread bytes would reset the connection, and the answer could be lost with it.
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
    fn the_answer_to_plain_http_has_its_length() {
        let text = String::from_utf8(PLAIN.to_vec()).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("head");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
    }

    #[test]
    fn whom_the_certificate_speaks_for() {
        let names = |domain, ip: &str| names(domain, ip.parse().expect("address")).join(" ");
        assert_eq!(names(Some("e2b.test"), "0.0.0.0"), "e2b.test *.e2b.test localhost 127.0.0.1 ::1");
        assert_eq!(names(None, "127.0.0.1"), "localhost 127.0.0.1 ::1");
        assert_eq!(names(None, "10.1.2.3"), "localhost 127.0.0.1 ::1 10.1.2.3");
    }
}
