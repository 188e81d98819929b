//! JSON Web Tokens with ES256.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_types::Secret;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// A key that signs tokens.
pub(super) struct Signer {
    pub(super) id: String,
    key: EcdsaKeyPair,
}

/// A key cannot be made or read, or does not sign.
#[derive(Debug, thiserror::Error)]
#[error("the key of workload identity tokens cannot be used: {0}")]
pub(super) struct SignerError(String);

impl Signer {
    /// A new key in PKCS #8.
    pub(super) fn generate() -> Result<Vec<u8>, SignerError> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        made.map(|document| document.as_ref().to_vec()).map_err(failed)
    }

    pub(super) fn from_pkcs8(der: &[u8]) -> Result<Self, SignerError> {
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new()).map_err(failed)?;
        let id = URL_SAFE_NO_PAD.encode(&Sha256::digest(key.public_key().as_ref())[..16]);
        Ok(Self { id, key })
    }

    /// The public key: an uncompressed point.
    pub(super) fn public(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    /// Signs claims.
    pub(super) fn sign(&self, claims: &impl Serialize) -> Result<Secret, SignerError> {
        #[derive(Serialize)]
        struct Header<'a> {
            alg: &'a str,
            typ: &'a str,
            kid: &'a str,
        }
        let part =
            |json: Result<Vec<u8>, serde_json::Error>| json.map(|json| URL_SAFE_NO_PAD.encode(json)).map_err(failed);
        let header = part(serde_json::to_vec(&Header { alg: "ES256", typ: "JWT", kid: &self.id }))?;
        let text = format!("{header}.{}", part(serde_json::to_vec(claims))?);
        let signature = self.key.sign(&SystemRandom::new(), text.as_bytes()).map_err(failed)?;
        Ok(Secret::new(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }
}

fn failed(error: impl std::fmt::Display) -> SignerError {
    SignerError(error.to_string())
}
