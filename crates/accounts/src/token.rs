//! Random tokens and their hashes. What is random enough is looked up by its SHA-256, so that the time of a lookup reveals nothing.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_types::Secret;
use sha2::{Digest, Sha256};

/// Longer texts are not ours.
const MAX_BYTES: usize = 64;

/// A token of 256 bits, in characters that need no escaping in a URL or a cookie.
pub(crate) fn generate() -> Secret {
    Secret::new(URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()))
}

/// The hash by which a token is known; `None` if the text cannot be one.
pub(crate) fn hash(text: &str) -> Option<[u8; 32]> {
    (text.len() <= MAX_BYTES).then(|| Sha256::digest(text.as_bytes()).into())
}
