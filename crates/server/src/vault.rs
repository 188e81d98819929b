//! Credentials that never enter a sandbox: secrets of teams, keys of their model providers, workload identity tokens and
//! certificate authorities. What is at rest is sealed with a key beside the database.

mod authorities;
mod identity;
mod placeholders;
mod provider_keys;
mod sealing;
mod secrets;
mod token;

use std::sync::Arc;

use async_trait::async_trait;
use cabana_egress::{Authority, CredentialError, Credentials};
use cabana_store::{Sandbox, Store};
use cabana_types::error::chain;
use cabana_types::{EgressPolicy, SandboxId, Secret};

use self::authorities::Authorities;
pub(crate) use self::identity::Identity;
pub(crate) use self::provider_keys::ProviderKeys;
use self::sealing::Sealer;
pub use self::sealing::SealingError;
pub(crate) use self::secrets::{NewSecret, NewValue, Secrets};
use crate::config::Config;
use crate::error::Error;

/// All credentials of a server.
#[derive(Debug)]
pub struct Vault {
    store: Store,
    pub(crate) secrets: Secrets,
    pub(crate) identity: Identity,
    pub(crate) provider_keys: ProviderKeys,
    authorities: Authorities,
}

impl Vault {
    /// Opens the vault: reads the key that seals it, or creates it on the first start. `url` is the server's own.
    pub(crate) async fn open(config: &Config, store: &Store, url: String) -> Result<Arc<Self>, Error> {
        let sealer = Arc::new(Sealer::open(&config.seal_key_file(), store).await?);
        Ok(Arc::new(Self {
            store: store.clone(),
            secrets: Secrets::new(store.clone(), Arc::clone(&sealer)),
            identity: Identity::new(store.clone(), Arc::clone(&sealer), url),
            provider_keys: ProviderKeys::new(Arc::clone(&sealer)),
            authorities: Authorities::new(store.clone(), sealer),
        }))
    }

    /// The policy of a sandbox that is about to start, with the newest secrets behind its placeholders.
    pub(crate) async fn renew(&self, sandbox: &Sandbox) -> Result<Arc<EgressPolicy>, CredentialError> {
        match sandbox.egress.placeholders.is_empty() {
            true => Ok(Arc::clone(&sandbox.egress)),
            false => self.secrets.renew(sandbox).await,
        }
    }

    /// The certificate that programs in a sandbox have to trust, in PEM; `None` if its requests are not changed.
    pub(crate) async fn certificate(&self, sandbox: &Sandbox) -> Result<Option<String>, CredentialError> {
        if !sandbox.egress.intercepts_any() {
            return Ok(None);
        }
        let authority = self.authorities.of(&sandbox.id).await?;
        Ok(Some(authority.certificate_pem().to_owned()))
    }

    async fn sandbox(&self, id: &SandboxId) -> Result<Sandbox, CredentialError> {
        let found = self.store.sandbox(id).await.map_err(|error| unavailable(&error))?;
        found.filter(|sandbox| sandbox.state.holds_resources()).ok_or(CredentialError::NotFound)
    }
}

#[async_trait]
impl Credentials for Vault {
    async fn secret(&self, sandbox: &SandboxId, name: &str) -> Result<Secret, CredentialError> {
        let team = self.sandbox(sandbox).await?.team;
        self.secrets.reveal(&team, name).await
    }

    async fn behind(&self, sandbox: &SandboxId, placeholder: &str) -> Result<Secret, CredentialError> {
        self.secrets.behind(&self.sandbox(sandbox).await?.id, placeholder).await
    }

    async fn token(&self, sandbox: &SandboxId, name: &str) -> Result<Secret, CredentialError> {
        let sandbox = self.sandbox(sandbox).await?;
        self.identity.token(&sandbox, name).await
    }

    async fn authority(&self, sandbox: &SandboxId) -> Result<Arc<Authority>, CredentialError> {
        self.authorities.of(sandbox).await
    }
}

/// The error for a credential that cannot be read; details are in the log.
fn unavailable(error: &(dyn std::error::Error + 'static)) -> CredentialError {
    tracing::error!(error = chain(error), "a credential cannot be read");
    CredentialError::Unavailable("see the server's log".into())
}
