//! Trusted certificate authorities: the system's, and those of additional files.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Authorities in addition to the system's (`SSL_CERT_FILE` and `SSL_CERT_DIR` replace those).
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// PEM files with additional authorities.
    pub authorities: Vec<PathBuf>,
    /// Whether unreadable files are skipped: the system's authorities may suffice.
    pub skip_unreadable: bool,
    /// Expected name of the server's certificate, if it is not the URL's host.
    pub server_name: Option<String>,
}

/// Why the authorities could not be loaded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TrustError {
    /// There are no authorities.
    #[error("no certificate authorities were found: install ca-certificates, or name a PEM file in SSL_CERT_FILE")]
    NoAuthorities,
    /// A file cannot be read.
    #[error("the authorities in {} cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// The TLS library refuses its configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

impl Trust {
    /// Loads the authorities. Blocks.
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>, TrustError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for path in &self.authorities {
            let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            match found {
                Ok(found) => drop(roots.add_parsable_certificates(found)),
                Err(_) if self.skip_unreadable => {}
                Err(error) => {
                    return Err(TrustError::Unreadable { path: path.clone(), reason: error.to_string() });
                }
            }
        }
        if roots.is_empty() {
            return Err(TrustError::NoAuthorities);
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Setup)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
