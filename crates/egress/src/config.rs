//! Settings of the proxy.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Settings of the proxy.
#[derive(Debug, Clone)]
pub struct ProxyConfig {
    /// Authorities that vouch for servers of intercepted connections.
    pub roots: Arc<RootCertStore>,
    /// Limits.
    pub limits: Limits,
}

/// Limits of the proxy.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections of one sandbox.
    pub per_sandbox: usize,
    /// Connections of all sandboxes.
    pub total: usize,
    /// How long a sandbox may be silent before its connection is judged by its address.
    pub silence: Duration,
    /// How long its first message, a ClientHello or a request head, may take.
    pub head: Duration,
    /// How long connecting may take: DNS, TCP, SOCKS5 and TLS together.
    pub connect: Duration,
    /// How long a connection may carry nothing.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_sandbox: 512,
            total: 8192,
            silence: Duration::from_secs(3),
            head: Duration::from_secs(15),
            connect: Duration::from_secs(20),
            // A model that thinks is silent for minutes.
            idle: Duration::from_secs(3600),
        }
    }
}

/// Why the authorities cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read.
    #[error("the authorities in {} cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
}

impl ProxyConfig {
    /// Trusts the system's authorities and those in PEM files. Without any, every intercepted connection is answered
    /// with an error. Blocks.
    pub fn load(additional: &[PathBuf], limits: Limits) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for path in additional {
            roots.add_parsable_certificates(read(path)?);
        }
        Ok(Self { roots: Arc::new(roots), limits })
    }
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| TrustError::Unreadable { path: path.to_owned(), reason: error.to_string() })
}
