//! Which servers are believed over TLS: those that the system's authorities vouch for, and those of further files.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{Error, Result};

/// Whom to believe, beside the system's authorities (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others in their place).
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// PEM files with further authorities. Those that cannot be read are passed over: the system's may do.
    pub authorities: Vec<PathBuf>,
    /// The name that the server's certificate must be for, where it is not the URL's host.
    pub server_name: Option<String>,
}

impl Trust {
    /// The settings of connections to https:// URLs.
    pub(crate) fn config(&self) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(native.certs);
        for path in &self.authorities {
            if let Ok(certificates) = CertificateDer::pem_file_iter(path) {
                roots.add_parsable_certificates(certificates.filter_map(std::result::Result::ok));
            }
        }
        if roots.is_empty() {
            return Err(Error::InvalidInput(
                "no certificate authorities were found: install ca-certificates, or name a PEM file in SSL_CERT_FILE"
                    .to_owned(),
            ));
        }
        configure(roots)
    }

    /// The settings of a client that never meets an https:// URL: nothing is read.
    pub(crate) fn nobody() -> Result<ClientConfig> {
        configure(RootCertStore::empty())
    }
}

fn configure(roots: RootCertStore) -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::InvalidInput(format!("TLS cannot be set up: {e}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
