//! Workload identity: short-lived signed tokens that tell other systems which sandbox, template and team is asking, and
//! the public keys that verify them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_egress::CredentialError;
use cabana_store::{Sandbox, SigningKey, Store};
use cabana_types::error::chain;
use cabana_types::{SandboxId, Secret};
use jiff::Timestamp;
use serde::Serialize;

use super::sealing::Sealer;
use super::token::Signer;

/// Validity of a token.
const LIFE: Duration = Duration::from_secs(600);
/// A token is used again while it is valid for longer than this.
const REUSE: Duration = Duration::from_secs(300);
/// Tolerance for verifiers whose clocks are behind.
const LEEWAY: Duration = Duration::from_secs(30);
/// Age at which a signing key is replaced.
const KEY_LIFE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a replaced key is published.
const KEY_GRACE: Duration = Duration::from_secs(24 * 3600);
/// Tokens that are kept.
const MAX_KEPT: usize = 10_000;

/// Signs tokens.
pub(crate) struct Identity {
    store: Store,
    sealer: Arc<Sealer>,
    issuer: String,
    /// The current key, and when it was made.
    current: tokio::sync::Mutex<Option<(Arc<Signer>, Timestamp)>>,
    kept: Mutex<HashMap<(SandboxId, String), (Secret, Timestamp)>>,
}

/// A public key in the form of a JSON Web Key.
#[derive(Debug, Serialize)]
pub(crate) struct Jwk {
    kty: &'static str,
    #[serde(rename = "use")]
    usage: &'static str,
    alg: &'static str,
    crv: &'static str,
    kid: String,
    x: String,
    y: String,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: String,
    aud: &'a str,
    iat: i64,
    nbf: i64,
    exp: i64,
    jti: String,
    sandbox_id: &'a str,
    template_id: &'a str,
    team_id: &'a str,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Identity {
    pub(super) fn new(store: Store, sealer: Arc<Sealer>, issuer: String) -> Self {
        Self { store, sealer, issuer, current: tokio::sync::Mutex::default(), kept: Mutex::default() }
    }

    /// The issuer of all tokens: this server's URL.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// A token of a sandbox, new or recent.
    pub(crate) async fn token(&self, sandbox: &Sandbox, name: &str) -> Result<Secret, CredentialError> {
        self.token_at(sandbox, name, Timestamp::now()).await
    }

    async fn token_at(&self, sandbox: &Sandbox, name: &str, now: Timestamp) -> Result<Secret, CredentialError> {
        let audience = sandbox.iam.get(name).ok_or(CredentialError::NotFound)?;
        let key = (sandbox.id.clone(), name.to_owned());
        if let Some((token, end)) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && *end > now + REUSE
        {
            return Ok(token.clone());
        }
        let signer = self.signer(now).await?;
        let end = now + LIFE;
        let claims = Claims {
            iss: &self.issuer,
            sub: format!("spiffe://{}/team/{}/sandbox/{}", self.trust_domain(), sandbox.team, sandbox.id),
            aud: audience,
            iat: now.as_second(),
            nbf: (now - LEEWAY).as_second(),
            exp: end.as_second(),
            jti: uuid::Uuid::new_v4().to_string(),
            sandbox_id: sandbox.id.as_str(),
            template_id: sandbox.template.as_str(),
            team_id: sandbox.team.as_str(),
        };
        let token = signer.sign(&claims).map_err(|error| unavailable(&error))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, (_, end)| *end > now + REUSE);
            if kept.len() >= MAX_KEPT {
                kept.clear();
            }
        }
        kept.insert(key, (token.clone(), end));
        Ok(token)
    }

    /// The public keys of all tokens that may be valid.
    pub(crate) async fn keys(&self) -> Result<Vec<Jwk>, CredentialError> {
        let now = Timestamp::now();
        self.signer(now).await?;
        let keys = self.store.signing_keys().await.map_err(|error| unavailable(&error))?;
        let published = |key: &SigningKey| key.retired_at.is_none_or(|at| at + KEY_GRACE > now);
        Ok(keys.into_iter().filter(published).filter_map(jwk).collect())
    }

    /// The current key; a new one if there is none, it is too old, or it cannot be read.
    async fn signer(&self, now: Timestamp) -> Result<Arc<Signer>, CredentialError> {
        let mut current = self.current.lock().await;
        if current.is_none() {
            let keys = self.store.signing_keys().await.map_err(|error| unavailable(&error))?;
            *current = keys.into_iter().find(|key| key.retired_at.is_none()).and_then(|key| {
                let der = self.sealer.unseal(&row(&key.id), &key.key).ok()?;
                Some((Arc::new(Signer::from_pkcs8(&der).ok()?), key.created_at))
            });
        }
        if let Some((signer, made)) = &*current
            && now < *made + KEY_LIFE
        {
            return Ok(Arc::clone(signer));
        }
        self.replace(&mut current, now, now - KEY_GRACE).await
    }

    /// Replaces the current key at once; returns the id of the new one. Keys before it stay published for a while, or are
    /// withdrawn, so that no token of theirs verifies any more.
    pub(crate) async fn rotate(&self, withdraw: bool) -> Result<String, CredentialError> {
        self.rotate_at(withdraw, Timestamp::now()).await
    }

    async fn rotate_at(&self, withdraw: bool, now: Timestamp) -> Result<String, CredentialError> {
        let mut current = self.current.lock().await;
        let forget = if withdraw { Timestamp::MAX } else { now - KEY_GRACE };
        let signer = self.replace(&mut current, now, forget).await?;
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(signer.id.clone())
    }

    /// Signs with a new key from now on. Keys that were retired before `forget` are deleted.
    async fn replace(
        &self,
        current: &mut Option<(Arc<Signer>, Timestamp)>,
        now: Timestamp,
        forget: Timestamp,
    ) -> Result<Arc<Signer>, CredentialError> {
        let der = Signer::generate().map_err(|error| unavailable(&error))?;
        let signer = Arc::new(Signer::from_pkcs8(&der).map_err(|error| unavailable(&error))?);
        let key = self.sealer.seal(&row(&signer.id), &der).map_err(|error| unavailable(&error))?;
        let (id, public) = (signer.id.clone(), signer.public().to_vec());
        tracing::info!(key = id, "workload identity tokens are signed with a new key");
        let key = SigningKey { id, key, public, created_at: now, retired_at: None };
        self.store.rotate_signing_key(key, forget).await.map_err(|error| unavailable(&error))?;
        *current = Some((Arc::clone(&signer), now));
        Ok(signer)
    }

    /// The host of the issuer.
    fn trust_domain(&self) -> &str {
        let host = self.issuer.split_once("://").map_or(self.issuer.as_str(), |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => host,
        }
    }
}

fn jwk(key: SigningKey) -> Option<Jwk> {
    // An uncompressed point: 4, then both coordinates.
    let (x, y) = key.public.strip_prefix(&[4])?.split_at_checked(32)?;
    let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
    Some(Jwk { kty: "EC", usage: "sig", alg: "ES256", crv: "P-256", kid: key.id, x, y })
}

fn row(id: &str) -> String {
    format!("signing-key/{id}")
}

fn unavailable(error: &(dyn std::error::Error + 'static)) -> CredentialError {
    tracing::error!(error = chain(error), "workload identity tokens cannot be signed");
    CredentialError::Unavailable("see the server's log".into())
}

#[cfg(test)]
mod tests;
