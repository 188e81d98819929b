//! A certificate authority for this server: created on first start, kept in the data directory, trusted by clients that have its `ca.pem`.
//! Certificates of the listener exist in memory only.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cabana_fs::atomic;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};

use super::TlsError;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Validity of the authority.
const LIFE: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Validity of a certificate of the listener. It is renewed long before it expires.
pub(super) const LEAF_LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// Tolerance for clients whose clocks are behind.
const LEEWAY: Duration = DAY;

/// The authority's certificate in a directory.
pub(super) fn certificate_file(directory: &Path) -> PathBuf {
    directory.join("ca.pem")
}

/// The authority's key in a directory.
fn key_file(directory: &Path) -> PathBuf {
    directory.join("ca-key.pem")
}

/// Signs certificates of the listener.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    path: PathBuf,
}

impl Authority {
    /// Opens the one in `directory`, or creates it.
    pub(super) fn open(directory: &Path) -> Result<Self, TlsError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::File { action, path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed("create", directory))?;
        let (path, key_path) = (certificate_file(directory), key_file(directory));
        let read = |path: &Path| match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed("read", path)(e)),
        };
        let key = match read(&key_path)? {
            Some(text) => KeyPair::from_pem(&text).map_err(|e| TlsError::Unusable {
                path: key_path.clone(),
                reason: format!("is not a private key ({e}): remove it and ca.pem to make new ones"),
            })?,
            None => {
                let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
                atomic::write(&key_path, key.serialize_pem().as_bytes(), 0o600).map_err(failed("write", &key_path))?;
                key
            }
        };
        // The key identifies the authority, so a missing certificate is made again after a crash between the two files. A certificate that
        // does not match the key is detected when the first one is issued.
        let params = params(&key, SystemTime::now());
        let text = match read(&path)? {
            Some(text) => text,
            None => {
                let text = params.self_signed(&key)?.pem();
                atomic::write(&path, text.as_bytes(), 0o644).map_err(failed("write", &path))?;
                text
            }
        };
        let certificate = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|e| TlsError::Unusable {
            path: path.clone(),
            reason: format!("is not a certificate ({e}): remove it and ca-key.pem to make new ones"),
        })?;
        // The directory may have been copied here with other permissions.
        let _ = std::fs::set_permissions(&key_path, std::fs::Permissions::from_mode(0o600));
        Ok(Self { issuer: Issuer::new(params, key), certificate, path })
    }

    /// Issues a certificate with a new key.
    pub(super) fn issue(&self, names: &[String], now: SystemTime, life: Duration) -> Result<CertifiedKey, TlsError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new(names)?;
        params.not_before = (now - LEEWAY).into();
        params.not_after = (now + life).into();
        params.distinguished_name.push(DnType::CommonName, names.first().map_or("localhost", String::as_str));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&key, &self.issuer)?.der().clone();
        self.check(&leaf, names, now)?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(CertifiedKey::from_der(vec![leaf], private, &ring::default_provider())?)
    }

    /// Verifies the certificate like a client that trusts `ca.pem`.
    fn check(&self, leaf: &CertificateDer<'_>, names: &[String], now: SystemTime) -> Result<(), TlsError> {
        let unusable = |reason: String| TlsError::Unusable { path: self.path.clone(), reason };
        let advice = "remove it and ca-key.pem to make new ones, and give the new ca.pem to the clients";
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).map_err(|e| unusable(format!("cannot be trusted ({e}): {advice}")))?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()))
            .build()
            .map_err(|e| unusable(format!("cannot be trusted ({e}): {advice}")))?;
        let name = names.first().cloned().unwrap_or_else(|| "localhost".to_owned());
        let name = ServerName::try_from(name).map_err(|e| unusable(format!("cannot speak for this name: {e}")))?;
        let now = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        verifier
            .verify_server_cert(leaf, &[], &name, &[], now)
            .map(drop)
            .map_err(|e| unusable(format!("does not vouch for what ca-key.pem signs ({e}): {advice}")))
    }
}

fn params(key: &KeyPair, now: SystemTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = (now - LEEWAY).into();
    params.not_after = (now + LIFE).into();
    // A client may trust several, so their names must differ.
    let mark: String = Sha256::digest(key.public_key_raw()).iter().take(4).map(|b| format!("{b:02x}")).collect();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Cabana");
    params.distinguished_name.push(DnType::CommonName, format!("Cabana local CA {mark}"));
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["e2b.test", "*.e2b.test", "127.0.0.1"].map(str::to_owned).to_vec()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("stat").permissions().mode() & 0o777
    }

    #[test]
    fn it_is_made_once_and_taken_again() {
        let dir = tempfile::tempdir().expect("directory");
        let place = dir.path().join("tls");
        let first = Authority::open(&place).expect("made");
        first.issue(&names(), SystemTime::now(), LEAF_LIFE).expect("certificate");
        assert_eq!((mode(&place), mode(&key_file(&place)), mode(&certificate_file(&place))), (0o700, 0o600, 0o644));
        let second = Authority::open(&place).expect("taken");
        assert_eq!(first.certificate, second.certificate);
        second.issue(&names(), SystemTime::now() + 300 * DAY, LEAF_LIFE).expect("in a year");
        // A start that ended between the two files.
        std::fs::remove_file(certificate_file(&place)).expect("remove");
        Authority::open(&place).expect("again").issue(&names(), SystemTime::now(), LEAF_LIFE).expect("certificate");
    }

    #[test]
    fn files_that_do_not_fit_are_refused_with_advice() {
        let dir = tempfile::tempdir().expect("directory");
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        Authority::open(&a).expect("a");
        Authority::open(&b).expect("b");
        std::fs::copy(certificate_file(&a), certificate_file(&b)).expect("copy");
        let mixed = Authority::open(&b).expect("readable");
        let error = mixed.issue(&names(), SystemTime::now(), LEAF_LIFE).expect_err("another's certificate");
        assert!(error.to_string().contains("remove it and ca-key.pem"), "{error}");
        std::fs::write(key_file(&a), "nonsense").expect("write");
        assert!(matches!(Authority::open(&a), Err(TlsError::Unusable { .. })));
    }
}
