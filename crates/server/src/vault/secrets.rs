//! Secrets of teams.

use std::collections::BTreeMap;
use std::sync::Arc;

use cabana_egress::CredentialError;
use cabana_store::{SealedSecret, SecretChange, SecretInserted, SecretRef, Store};
use cabana_types::egress::Placeholder;
use cabana_types::limits::MAX_SECRETS;
use cabana_types::{Secret, SecretId, TeamId};
use jiff::Timestamp;

use super::sealing::{Sealer, SealingError};
use super::unavailable;
use crate::error::Error;

/// A checked request for a new secret.
#[derive(Debug)]
pub(crate) struct NewSecret {
    pub(crate) name: String,
    pub(crate) value: Secret,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) description: Option<String>,
}

/// A checked request for a new value.
#[derive(Debug)]
pub(crate) struct NewValue {
    pub(crate) value: Secret,
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    pub(crate) binding: Option<(Vec<String>, Option<String>)>,
}

/// Stores secrets and reveals them to the egress proxy.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub(super) store: Store,
    pub(super) sealer: Arc<Sealer>,
}

impl Secrets {
    pub(super) fn new(store: Store, sealer: Arc<Sealer>) -> Self {
        Self { store, sealer }
    }

    /// Creates a secret; `None` if its name is taken or the team has too many.
    pub(crate) async fn create(&self, team: TeamId, new: NewSecret) -> Result<Option<SealedSecret>, Error> {
        let id = SecretId::from_uuid(uuid::Uuid::now_v7().into_bytes());
        // As precise as the store, so that a later read gives the same.
        let now = Timestamp::now();
        let now = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let secret = SealedSecret {
            value: self.seal(&team, &id, &new.value)?,
            id,
            team,
            name: new.name,
            version: 1,
            metadata: new.metadata,
            hosts: new.hosts,
            description: new.description,
            // Sandboxes have placeholders of their own; Novita's clients want to be told one.
            placeholder: Placeholder::from_random(rand::random(), String::new(), Vec::new()).text,
            created_at: now,
            updated_at: now,
        };
        let inserted = self.store.insert_secret(secret.clone(), MAX_SECRETS).await?;
        Ok((inserted == SecretInserted::New).then_some(secret))
    }

    /// Sets the value of a secret; `None` if there is none.
    pub(crate) async fn update(
        &self,
        team: &TeamId,
        secret: &SecretRef,
        new: NewValue,
    ) -> Result<Option<SealedSecret>, Error> {
        let Some(found) = self.store.secret(team, secret).await? else { return Ok(None) };
        let value = self.seal(team, &found.id, &new.value)?;
        let change = SecretChange { value, metadata: new.metadata, binding: new.binding };
        Ok(self.store.change_secret(team.clone(), found.id, change, Timestamp::now()).await?)
    }

    /// The current value of a team's secret.
    pub(crate) async fn reveal(&self, team: &TeamId, name: &str) -> Result<Secret, CredentialError> {
        let found = self.store.secret(team, &SecretRef::Name(name.to_owned())).await;
        self.open(&found.map_err(|error| unavailable(&error))?.ok_or(CredentialError::NotFound)?)
    }

    /// The value of a secret.
    pub(super) fn open(&self, found: &SealedSecret) -> Result<Secret, CredentialError> {
        self.sealer.unseal_text(&row(&found.team, &found.id), &found.value).map_err(|error| {
            tracing::error!(secret = %found.id, %error, "a secret cannot be read; set its value again");
            CredentialError::Unavailable("its value has to be set again".into())
        })
    }

    fn seal(&self, team: &TeamId, id: &SecretId, value: &Secret) -> Result<Vec<u8>, Error> {
        self.sealer.seal(&row(team, id), value.expose().as_bytes()).map_err(|_| SealingError::Failed.into())
    }
}

/// What a sealed value is bound to.
fn row(team: &TeamId, id: &SecretId) -> String {
    format!("secret/{team}/{id}")
}
