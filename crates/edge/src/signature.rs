//! Finds the sandbox of a signed file link that does not name it.
//!
//! The signature is a hash that contains the sandbox's own token and nothing else that identifies it, so the tokens of
//! all running sandboxes have to be tried. Anybody may send such a link, so the cost is bounded: one search at a time,
//! no lock held while hashing, other tasks get their turn between batches, and links that were found before are
//! remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use cabana_types::SandboxId;
use http::{Method, Uri};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use crate::directory::{Directory, Route};

/// Longest path and user name of a signed link.
const MAX_SIGNED: usize = 8 * 1024;
/// Tokens tried before other tasks get their turn: tens of microseconds.
const BATCH: usize = 128;
/// Links whose sandbox is remembered.
const MAX_KNOWN: usize = 1024;

/// What was signed, without the token.
pub(crate) struct SignedLink {
    signature: [u8; 32],
    /// The hash after everything before the token.
    before: Sha256,
    /// What follows the token.
    after: String,
}

/// Whether a request is for a signed link: `/files` with a signature.
pub(crate) fn is_signed_link(uri: &Uri) -> bool {
    uri.path() == "/files"
        && uri.query().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("signature=")))
}

/// Searches sandboxes by the signatures of links.
pub(crate) struct LinkSearch {
    /// The sandboxes of links that were found, by signature. Only a hint: the token is checked again.
    known: Mutex<HashMap<[u8; 32], SandboxId>>,
    running: Semaphore,
}

impl LinkSearch {
    pub(crate) fn new() -> Self {
        Self { known: Mutex::default(), running: Semaphore::new(1) }
    }

    /// The running sandbox whose token made the signature.
    pub(crate) async fn find(&self, directory: &Directory, link: &SignedLink) -> Option<Arc<Route>> {
        let known = self.known().get(&link.signature).cloned();
        if let Some(route) = known.and_then(|id| directory.get(&id)).filter(|route| link.is_made_by(route)) {
            return Some(route);
        }
        // Never closed, so there is always a permit to come.
        let _permit = self.running.acquire().await.ok()?;
        for batch in directory.all().chunks(BATCH) {
            if let Some(route) = batch.iter().find(|route| link.is_made_by(route)) {
                let mut known = self.known();
                if known.len() >= MAX_KNOWN {
                    known.clear();
                }
                known.insert(link.signature, route.id.clone());
                return Some(Arc::clone(route));
            }
            tokio::task::yield_now().await;
        }
        None
    }

    fn known(&self) -> MutexGuard<'_, HashMap<[u8; 32], SandboxId>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SignedLink {
    /// Reads the signed parts of a link; `None` where no token could make this signature.
    pub(crate) fn read(method: &Method, uri: &Uri) -> Option<Self> {
        let operation = match *method {
            Method::GET | Method::HEAD => "read",
            Method::POST => "write",
            _ => return None,
        };
        let (mut path, mut user, mut signature, mut expiration) = (None, None, None, None);
        for (name, value) in url::form_urlencoded::parse(uri.query()?.as_bytes()) {
            let slot = match name.as_ref() {
                "path" => &mut path,
                "username" => &mut user,
                "signature" => &mut signature,
                "signature_expiration" => &mut expiration,
                _ => continue,
            };
            // The first one counts, as it does for the guest.
            slot.get_or_insert(value);
        }
        let (path, user) = (path.unwrap_or_default(), user.unwrap_or_default());
        // The parts are joined by colons: a user name with one could be read as the end of another path.
        if path.len() + user.len() > MAX_SIGNED || user.contains([':', '\n']) {
            return None;
        }
        let text = signature?;
        let mut signature = [0; 32];
        let encoded = text.strip_prefix("v1_").filter(|encoded| encoded.len() == 43)?;
        STANDARD_NO_PAD.decode_slice(encoded, &mut signature).ok().filter(|length| *length == 32)?;
        let before = Sha256::new_with_prefix(format!("{path}:{operation}:{user}:"));
        let after = expiration.filter(|e| !e.is_empty()).map(|e| format!(":{e}")).unwrap_or_default();
        Some(Self { signature, before, after })
    }

    fn is_made_by(&self, route: &Route) -> bool {
        route.access_token.as_ref().is_some_and(|token| self.is_made_with(token.expose()))
    }

    fn is_made_with(&self, token: &str) -> bool {
        let mut hash = self.before.clone();
        hash.update(token);
        hash.update(&self.after);
        hash.finalize().ct_eq(&self.signature).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(text: &str) -> String {
        let encoded = STANDARD_NO_PAD.encode(Sha256::digest(text));
        url::form_urlencoded::byte_serialize(format!("v1_{encoded}").as_bytes()).collect()
    }

    fn made_with(method: Method, query: &str, token: &str) -> bool {
        let uri: Uri = format!("/files?{query}").parse().expect("uri");
        assert!(is_signed_link(&uri));
        SignedLink::read(&method, &uri).is_some_and(|link| link.is_made_with(token))
    }

    #[test]
    fn a_signature_fits_its_token_path_operation_user_and_expiration() {
        let signature = sign("/a b.txt:read:root:t0ken:99");
        let query = format!("path=%2Fa+b.txt&username=root&signature={signature}&signature_expiration=99");
        assert!(made_with(Method::GET, &query, "t0ken"));
        assert!(!made_with(Method::GET, &query, "t0kem"));
        assert!(!made_with(Method::POST, &query, "t0ken"));
        assert!(!made_with(Method::GET, &query.replace("99", "98"), "t0ken"));
        assert!(!made_with(Method::GET, &query.replace("root", "user"), "t0ken"));
        let bare = sign("x:write::t0ken");
        assert!(made_with(Method::POST, &format!("path=x&signature={bare}"), "t0ken"));
    }

    #[test]
    fn nonsense_is_no_signature() {
        for query in ["signature=", "signature=v1_", "signature=v2_AAAA&path=x", "signature=v1_%00%ff"] {
            assert!(!made_with(Method::GET, query, "t"), "{query}");
        }
        let ambiguous = format!("path=%2Fa&username=b%3Aread%3Aroot&signature={}", sign("/a:write:b:read:root:t"));
        assert!(!made_with(Method::POST, &ambiguous, "t"), "it was made for reading /a:write:b");
        let long = format!("path={}&signature={}", "a".repeat(9000), sign("x"));
        assert!(!made_with(Method::GET, &long, "t"));
    }

    #[tokio::test]
    async fn the_sandbox_of_a_link_is_found_again_and_only_while_it_runs() {
        let route = |n: usize| Route {
            id: format!("i{n}").parse().expect("id"),
            link: cabana_guest_link::GuestLink::UnixShared {
                socket: std::path::PathBuf::new(),
                address: std::net::Ipv4Addr::LOCALHOST,
            },
            access_token: Some(cabana_types::Secret::new(format!("token{n}"))),
            traffic: cabana_types::Traffic::default(),
            in_flight: Arc::default(),
            gone: tokio_util::sync::CancellationToken::new(),
            since: std::time::Instant::now(),
            booted: false,
        };
        let (directory, search) = (Directory::default(), LinkSearch::new());
        (0..3 * BATCH).for_each(|n| directory.insert(route(n)));
        let link = |token: &str| {
            let uri = format!("/files?path=x&signature={}", sign(&format!("x:read::{token}"))).parse().expect("uri");
            SignedLink::read(&Method::GET, &uri).expect("a link")
        };
        for _ in 0..2 {
            let found = search.find(&directory, &link("token300")).await.expect("found");
            assert_eq!(found.id.as_str(), "i300");
        }
        assert!(search.find(&directory, &link("another")).await.is_none());
        directory.remove(&"i300".parse().expect("id"));
        assert!(search.find(&directory, &link("token300")).await.is_none());
    }
}
