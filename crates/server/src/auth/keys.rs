//! API keys. A key is looked up by its SHA-256, so that the time of a lookup reveals nothing about the key.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cabana_store::{ApiKey, KeyRemoval, Store, Team};
use cabana_types::address::Prefix;
use cabana_types::routing::API_KEY_HEADER;
use cabana_types::{ActorId, ErrorCode, KeyId, Permissions, ProjectId, Secret, TeamId};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{Caller, FIRST_TEAM};
use crate::data_dir;
use crate::error::{ApiError, Error};

/// Longer keys are invalid.
const MAX_KEY_BYTES: usize = 512;
/// Maximum number of keys per team.
pub const MAX_KEYS: u32 = 1000;
/// Prefix of every key.
pub const KEY_PREFIX: &str = "e2b_";
/// Number of characters after the prefix.
pub const KEY_LENGTH: u32 = 40;

/// All valid keys.
#[derive(Debug, Default)]
pub struct Keys {
    known: RwLock<HashMap<[u8; 32], Arc<Known>>>,
}

/// What a key is to be.
#[derive(Debug, Clone)]
pub(crate) struct NewKey {
    pub(crate) name: String,
    pub(crate) scopes: Permissions,
    pub(crate) expires_at: Option<Timestamp>,
    /// Networks that it can be used from; none: from anywhere.
    pub(crate) cidrs: Vec<Prefix>,
    pub(crate) created_by: Option<ActorId>,
    /// The only project that it is for; none: all of the team.
    pub(crate) project: Option<ProjectId>,
}

impl NewKey {
    /// A key of the operator.
    fn unlimited(name: &str) -> Self {
        let (expires_at, cidrs, created_by, project) = (None, vec![], None, None);
        Self { name: name.into(), scopes: Permissions::ALL, expires_at, cidrs, created_by, project }
    }
}

/// A valid key.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) id: KeyId,
    pub(crate) team: TeamId,
    pub(crate) scopes: Permissions,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) project: Option<ProjectId>,
    cidrs: Vec<Prefix>,
    /// Microseconds since 1970 of the last use that is not in the store yet; 0 for none.
    used: AtomicI64,
}

impl Known {
    /// Refuses a key that has expired, or one that is used from a network that it is not for.
    fn check(&self, client: Option<IpAddr>) -> Result<(), ApiError> {
        if self.is_expired() {
            let at = self.expires_at.map(|at| at.to_string()).unwrap_or_default();
            return Err(ApiError::new(
                ErrorCode::Unauthorized,
                format!("The API key expired at {at}; create another one"),
            ));
        }
        let client = client.map(|address| address.to_canonical());
        if self.cidrs.is_empty() || client.is_some_and(|client| self.cidrs.iter().any(|cidr| cidr.contains(client))) {
            return Ok(());
        }
        let from = client.map_or_else(|| "an unknown address".to_owned(), |client| client.to_string());
        Err(ApiError::new(
            ErrorCode::Forbidden,
            format!("The API key cannot be used from {from}; it is for other networks"),
        ))
    }

    fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= Timestamp::now())
    }
}

impl Keys {
    /// Loads the keys. The first start creates the first team and a key. A key is also created if the key file is missing or contains a
    /// deleted key. A new key is returned, to be shown once, and written to the key file for the command line on this machine.
    pub async fn open(store: &Store, key_file: &Path) -> Result<(Self, Option<Secret>), Error> {
        let keys = Self::default();
        let mut fresh = None;
        let teams = store.teams().await?;
        match teams.first() {
            None => {
                let team = Team { id: first_team(), name: FIRST_TEAM.into(), created_at: Timestamp::now() };
                let (key, secret) = generate(&team.id, &NewKey::unlimited("first"));
                // The file first: after a crash in between there is no team yet, and the next start creates another key.
                data_dir::write_secret(key_file, &secret)?;
                store.create_first_team(team, key).await?;
                fresh = Some(secret);
            }
            Some(team) if !holds_key(store, key_file).await? => {
                let (key, secret) = generate(&team.id, &NewKey::unlimited("local"));
                data_dir::write_secret(key_file, &secret)?;
                store.add_key(key).await?;
                fresh = Some(secret);
            }
            Some(_) => {}
        }
        for key in store.keys().await? {
            keys.insert(key);
        }
        Ok((keys, fresh))
    }

    /// Creates a key for a team; `None` if the team has too many.
    pub(crate) async fn create(
        &self,
        store: &Store,
        team: &TeamId,
        new: &NewKey,
    ) -> Result<Option<(ApiKey, Secret)>, cabana_store::Error> {
        let (key, secret) = generate(team, new);
        if !store.add_key_within(key.clone(), MAX_KEYS).await? {
            return Ok(None);
        }
        self.insert(key.clone());
        Ok(Some((key, secret)))
    }

    /// Removes a key of a team; from then on it is invalid.
    pub async fn remove(&self, store: &Store, team: TeamId, id: KeyId) -> Result<KeyRemoval, cabana_store::Error> {
        let removal = store.remove_key(team, id.clone()).await?;
        if removal == KeyRemoval::Removed {
            self.known.write().unwrap_or_else(PoisonError::into_inner).retain(|_, known| known.id != id);
        }
        Ok(removal)
    }

    /// The last use of a key that is not recorded in the store yet.
    pub fn used(&self, hash: &[u8; 32]) -> Option<Timestamp> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()?;
        match known.used.load(Ordering::Relaxed) {
            0 => None,
            us => Timestamp::from_microsecond(us).ok(),
        }
    }

    fn insert(&self, key: ApiKey) {
        let cidrs: Vec<Prefix> = key.cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect();
        // Of networks that cannot be read, none is allowed rather than all.
        let expires_at = if cidrs.len() == key.cidrs.len() { key.expires_at } else { Some(Timestamp::MIN) };
        let known = Known {
            id: key.id,
            team: key.team,
            scopes: key.scopes,
            expires_at,
            project: key.project,
            cidrs,
            used: AtomicI64::new(0),
        };
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(key.hash, Arc::new(known));
    }

    /// Authenticates a request by its headers.
    pub fn caller(&self, headers: &HeaderMap, client: Option<IpAddr>) -> Result<Caller, ApiError> {
        let Some(text) = key_in(headers) else {
            return Err(ApiError::new(
                ErrorCode::Unauthorized,
                "No API key was sent; put it into the header X-API-KEY (E2B_API_KEY for the SDKs). On the server it is in the file \
                 `key` of the data directory",
            ));
        };
        let known = self.find(text).ok_or_else(|| {
            ApiError::new(
                ErrorCode::Unauthorized,
                "The API key is not valid on this server; check E2B_API_KEY, and that E2B_API_URL names the server that made it",
            )
        })?;
        known.check(client)?;
        Ok(Caller::by_key(&known, Secret::new(text)))
    }

    /// A key that a client may use now; `None` if there is no such key.
    pub(crate) fn known(&self, key: &str, client: Option<IpAddr>) -> Result<Option<Arc<Known>>, ApiError> {
        let known = self.find(key.trim());
        known.as_ref().map_or(Ok(()), |known| known.check(client))?;
        Ok(known)
    }

    /// What a session that was signed in with a key may do now.
    pub(super) fn scopes_of(&self, key: &KeyId, client: Option<IpAddr>) -> Result<Permissions, ApiError> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let known = known.values().find(|known| known.id == *key);
        let over = || ApiError::new(ErrorCode::Unauthorized, "The session is over; sign in again");
        let known = known.ok_or_else(over)?;
        known.check(client)?;
        Ok(known.scopes)
    }

    fn find(&self, key: &str) -> Option<Arc<Known>> {
        let hash = (key.len() <= MAX_KEY_BYTES).then(|| hash(key))?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned()?;
        known.used.store(Timestamp::now().as_microsecond(), Ordering::Relaxed);
        Some(known)
    }

    /// Whether a text is a valid key.
    pub fn is_key(&self, text: &str) -> bool {
        text.len() <= MAX_KEY_BYTES
            && self.known.read().unwrap_or_else(PoisonError::into_inner).contains_key(&hash(text))
    }

    /// Whether a text is a key that has not expired.
    pub fn is_usable(&self, text: &str) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        text.len() <= MAX_KEY_BYTES && known.get(&hash(text)).is_some_and(|known| !known.is_expired())
    }

    /// The keys that were used since the last call, and when.
    pub fn take_used(&self) -> Vec<(KeyId, Timestamp)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known
            .values()
            .filter_map(|key| match key.used.swap(0, Ordering::Relaxed) {
                0 => None,
                us => Timestamp::from_microsecond(us).ok().map(|at| (key.id.clone(), at)),
            })
            .collect()
    }
}

/// The key in a request's headers.
pub(super) fn key_in(headers: &HeaderMap) -> Option<&str> {
    let plain = headers.get(API_KEY_HEADER).and_then(|v| v.to_str().ok()).map(str::trim).filter(|k| !k.is_empty());
    let bearer = || {
        let (scheme, key) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim()).filter(|k| !k.is_empty())
    };
    plain.or_else(bearer)
}

fn first_team() -> TeamId {
    FIRST_TEAM.parse().expect("the first team's id is a valid one")
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Whether the key file contains a valid key. A file that cannot be read is left alone.
async fn holds_key(store: &Store, key_file: &Path) -> Result<bool, Error> {
    match std::fs::read_to_string(key_file) {
        Ok(text) => {
            let hash = hash(text.trim());
            Ok(store.keys().await?.iter().any(|key| key.hash == hash))
        }
        Err(error) => Ok(error.kind() != std::io::ErrorKind::NotFound),
    }
}

/// Generates a key in E2B's form.
fn generate(team: &TeamId, new: &NewKey) -> (ApiKey, Secret) {
    let random: [u8; 20] = rand::random();
    let hex: String = random.iter().map(|b| format!("{b:02x}")).collect();
    let text = format!("{KEY_PREFIX}{hex}");
    let key = ApiKey {
        id: KeyId::from_random(rand::random()),
        team: team.clone(),
        hash: hash(&text),
        name: new.name.clone(),
        prefix: text[..6].into(),
        suffix: text[text.len() - 4..].into(),
        created_at: Timestamp::now(),
        last_used_at: None,
        scopes: new.scopes,
        expires_at: new.expires_at,
        cidrs: new.cidrs.iter().map(ToString::to_string).collect(),
        created_by: new.created_by.clone(),
        project: new.project.clone(),
    };
    (key, Secret::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            pairs.iter().map(|(n, v)| (n.parse().expect("name"), http::HeaderValue::from_static(v))).collect()
        };
        assert_eq!(key_in(&headers(&[("x-api-key", "a")])), Some("a"));
        assert_eq!(key_in(&headers(&[("authorization", "Bearer b")])), Some("b"));
        assert_eq!(key_in(&headers(&[("authorization", "bearer  b ")])), Some("b"));
        assert_eq!(key_in(&headers(&[("authorization", "Bearer b"), ("x-api-key", "a")])), Some("a"));
        assert_eq!(key_in(&headers(&[("authorization", "Bearer b"), ("x-api-key", "")])), Some("b"));
        assert_eq!(key_in(&headers(&[("authorization", "Basic b")])), None);
        assert_eq!(key_in(&headers(&[])), None);
    }

    #[test]
    fn keys_are_for_their_time_and_networks() {
        let at = |seconds| Some(Timestamp::now() + jiff::SignedDuration::from_secs(seconds));
        let known = |expires_at, cidrs: &[&str]| Known {
            id: KeyId::from_random([1; 16]),
            team: first_team(),
            scopes: Permissions::NONE,
            expires_at,
            project: None,
            cidrs: cidrs.iter().map(|cidr| cidr.parse().expect("network")).collect(),
            used: AtomicI64::new(0),
        };
        let code = |known: &Known, client: &str| known.check(client.parse().ok()).err().map(|error| error.code());
        assert_eq!(code(&known(None, &[]), "8.8.8.8"), None);
        assert_eq!(code(&known(at(60), &[]), ""), None);
        assert_eq!(code(&known(at(-1), &[]), "8.8.8.8"), Some(ErrorCode::Unauthorized));
        let local = known(None, &["10.0.0.0/8", "fd00::/8"]);
        for inside in ["10.1.2.3", "fd00::1", "::ffff:10.1.2.3"] {
            assert_eq!(code(&local, inside), None, "{inside}");
        }
        for outside in ["11.0.0.1", "::1", "::ffff:11.0.0.1", ""] {
            assert_eq!(code(&local, outside), Some(ErrorCode::Forbidden), "{outside}");
        }
    }

    #[test]
    fn made_keys_have_e2bs_form() {
        let (key, secret) = generate(&first_team(), &NewKey::unlimited("n"));
        let text = secret.expose();
        assert_eq!(text.len(), 44);
        assert!(text.starts_with("e2b_") && text[4..].bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(key.hash, hash(text));
        assert!(text.starts_with(&key.prefix) && text.ends_with(&key.suffix));
    }
}
