//! The certificate authority of one sandbox: signs the certificates that the proxy shows it for hosts with rules. Its
//! key stays on the host; only this sandbox trusts its certificate.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use cabana_types::Secret;
use cabana_types::egress::HostName;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Validity of the authority.
const LIFE: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Validity of a host's certificate.
const LEAF_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Age at which a host's certificate is replaced.
const LEAF_RENEWAL: Duration = DAY;
/// Tolerance for sandboxes whose clocks are behind.
const LEEWAY: Duration = DAY;
/// Hosts whose certificates are kept.
const MAX_LEAVES: usize = 32;

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    leaves: Mutex<HashMap<HostName, Leaf>>,
}

struct Leaf {
    issued: SystemTime,
    config: Arc<ServerConfig>,
}

/// Why an authority cannot be used. Never contains key material.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// Key or certificate is not one.
    #[error("the certificate authority of a sandbox is malformed: {0}")]
    Malformed(String),
    /// The certificate does not belong to the key, or has expired.
    #[error("the certificate authority of a sandbox does not vouch for what it signs: {0}")]
    Untrusted(String),
    /// A certificate cannot be made.
    #[error("a certificate cannot be made: {0}")]
    Failed(String),
}

impl Authority {
    /// A new one.
    pub fn generate() -> Result<Self, AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let params = params(&key, SystemTime::now());
        let certificate = params.self_signed(&key).map_err(failed)?;
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Ok(Self { issuer: Issuer::new(params, key), certificate: der, certificate_pem: pem, leaves: Mutex::default() })
    }

    /// The one that [`Authority::certificate_pem`] and [`Authority::key_pem`] describe.
    pub fn from_pem(certificate: &str, key: &Secret) -> Result<Self, AuthorityError> {
        let malformed = |what: &str| AuthorityError::Malformed(what.to_owned());
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|_| malformed("not a certificate"))?;
        let key = KeyPair::from_pem(key.expose()).map_err(|_| malformed("not a private key"))?;
        let issuer = Issuer::new(params(&key, SystemTime::now()), key);
        let certificate_pem = certificate.to_owned();
        let authority = Self { issuer, certificate: der, certificate_pem, leaves: Mutex::default() };
        let probe: HostName = "probe.invalid".parse().map_err(|_| malformed("probe"))?;
        authority.check(&authority.sign(&probe, SystemTime::now())?.0, &probe)?;
        Ok(authority)
    }

    /// Its certificate, which the sandbox is to trust.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Its private key, which never leaves the host.
    pub fn key_pem(&self) -> Secret {
        Secret::new(self.issuer.key().serialize_pem())
    }

    /// TLS settings with a certificate for a host. Certificates are kept and renewed.
    pub fn server_config(&self, host: &HostName) -> Result<Arc<ServerConfig>, AuthorityError> {
        self.server_config_at(host, SystemTime::now())
    }

    fn server_config_at(&self, host: &HostName, now: SystemTime) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = leaves.get(host)
            && now.duration_since(leaf.issued).is_ok_and(|age| age < LEAF_RENEWAL)
        {
            return Ok(Arc::clone(&leaf.config));
        }
        let (der, key) = self.sign(host, now)?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = ring::default_provider();
        let chain = vec![der, self.certificate.clone()];
        let certified = CertifiedKey::from_der(chain, private, &provider).map_err(failed)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        if leaves.len() >= MAX_LEAVES {
            leaves.clear();
        }
        leaves.insert(host.clone(), Leaf { issued: now, config: Arc::clone(&config) });
        Ok(config)
    }

    fn sign(&self, host: &HostName, now: SystemTime) -> Result<(CertificateDer<'static>, KeyPair), AuthorityError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let mut params = CertificateParams::new([host.as_str().to_owned()]).map_err(failed)?;
        params.not_before = (now - LEEWAY).into();
        params.not_after = (now + LEAF_LIFE).into();
        params.distinguished_name = DistinguishedName::new();
        // Longer common names than 64 bytes are refused by some clients; the alternative name counts anyway.
        params.distinguished_name.push(DnType::CommonName, host.as_str().get(..64).unwrap_or(host.as_str()));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&key, &self.issuer).map_err(failed)?.der().clone();
        Ok((leaf, key))
    }

    /// Verifies a certificate like the sandbox does.
    fn check(&self, leaf: &CertificateDer<'_>, host: &HostName) -> Result<(), AuthorityError> {
        let untrusted = |error: &dyn fmt::Display| AuthorityError::Untrusted(error.to_string());
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(|error| untrusted(&error))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()))
            .build()
            .map_err(|error| untrusted(&error))?;
        let name = ServerName::try_from(host.as_str()).map_err(|error| untrusted(&error))?;
        verifier.verify_server_cert(leaf, &[], &name, &[], UnixTime::now()).map(drop).map_err(|error| untrusted(&error))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn failed(error: impl fmt::Display) -> AuthorityError {
    AuthorityError::Failed(error.to_string())
}

/// The key alone determines the name, so that an authority can be read from PEM without parsing its certificate.
fn params(key: &KeyPair, now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = (now - LEEWAY).into();
    params.not_after = (now + LIFE).into();
    let mark: String = Sha256::digest(key.public_key_raw()).iter().take(4).map(|b| format!("{b:02x}")).collect();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Cabana");
    params.distinguished_name.push(DnType::CommonName, format!("Cabana sandbox CA {mark}"));
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> HostName {
        text.parse().expect("name")
    }

    #[test]
    fn it_survives_its_pem() {
        let first = Authority::generate().expect("authority");
        let second = Authority::from_pem(first.certificate_pem(), &first.key_pem()).expect("read again");
        assert_eq!(first.certificate, second.certificate);
        let (leaf, _) = second.sign(&host("api.example.com"), SystemTime::now()).expect("leaf");
        first.check(&leaf, &host("api.example.com")).expect("trusted");
        assert!(first.check(&leaf, &host("other.example.com")).is_err());
        let long = host(&format!("{}.{}.example.com", "a".repeat(60), "b".repeat(60)));
        second.server_config(&long).expect("a long name");
    }

    #[test]
    fn mixed_halves_are_refused() {
        let (a, b) = (Authority::generate().expect("a"), Authority::generate().expect("b"));
        let error = Authority::from_pem(a.certificate_pem(), &b.key_pem()).expect_err("mixed");
        assert!(matches!(error, AuthorityError::Untrusted(_)), "{error}");
        for (certificate, key) in [("nonsense", b.key_pem()), (b.certificate_pem(), Secret::new("nonsense"))] {
            assert!(matches!(Authority::from_pem(certificate, &key), Err(AuthorityError::Malformed(_))));
        }
        assert!(!format!("{a:?}").contains("PRIVATE"));
    }

    #[test]
    fn certificates_are_kept_for_a_day_and_bounded() {
        let authority = Authority::generate().expect("authority");
        let now = SystemTime::now();
        let first = authority.server_config_at(&host("a.example.com"), now).expect("first");
        let again = authority.server_config_at(&host("a.example.com"), now + DAY / 2).expect("again");
        assert!(Arc::ptr_eq(&first, &again));
        let renewed = authority.server_config_at(&host("a.example.com"), now + 2 * DAY).expect("renewed");
        assert!(!Arc::ptr_eq(&first, &renewed));
        // A clock that was set back.
        let back = authority.server_config_at(&host("a.example.com"), now).expect("back");
        assert!(!Arc::ptr_eq(&renewed, &back));
        for n in 0..3 * MAX_LEAVES {
            authority.server_config(&host(&format!("h{n}.example.com"))).expect("leaf");
        }
        assert!(authority.leaves.lock().expect("lock").len() <= MAX_LEAVES);
    }
}
