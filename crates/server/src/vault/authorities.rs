//! Certificate authorities of sandboxes whose requests are changed on their way out: made when first needed, and deleted
//! with the sandbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cabana_egress::{Authority, CredentialError};
use cabana_store::{SealedAuthority, Store};
use cabana_types::SandboxId;

use super::sealing::Sealer;
use super::unavailable;

/// Authorities that are kept open, so that their certificates for hosts are.
const MAX_OPEN: usize = 1024;

#[derive(Debug)]
pub(super) struct Authorities {
    store: Store,
    sealer: Arc<Sealer>,
    open: Mutex<HashMap<SandboxId, Arc<Authority>>>,
}

impl Authorities {
    pub(super) fn new(store: Store, sealer: Arc<Sealer>) -> Self {
        Self { store, sealer, open: Mutex::default() }
    }

    /// The authority of a sandbox that has not ended.
    pub(super) async fn of(&self, sandbox: &SandboxId) -> Result<Arc<Authority>, CredentialError> {
        if let Some(authority) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get(sandbox) {
            return Ok(Arc::clone(authority));
        }
        let authority = match self.read(sandbox).await? {
            Some(authority) => authority,
            None => self.create(sandbox).await?,
        };
        let authority = Arc::new(authority);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_OPEN {
            open.clear();
        }
        Ok(Arc::clone(open.entry(sandbox.clone()).or_insert(authority)))
    }

    async fn create(&self, sandbox: &SandboxId) -> Result<Authority, CredentialError> {
        let authority = Authority::generate().map_err(|error| unavailable(&error))?;
        let key = authority.key_pem();
        let key = self.sealer.seal(&row(sandbox), key.expose().as_bytes()).map_err(|error| unavailable(&error))?;
        let sealed = SealedAuthority { certificate: authority.certificate_pem().to_owned(), key };
        match self.store.insert_authority(sandbox.clone(), sealed).await.map_err(|error| unavailable(&error))? {
            true => Ok(authority),
            // Another request was faster, or the sandbox has ended.
            false => self.read(sandbox).await?.ok_or(CredentialError::NotFound),
        }
    }

    async fn read(&self, sandbox: &SandboxId) -> Result<Option<Authority>, CredentialError> {
        let Some(sealed) = self.store.authority(sandbox).await.map_err(|error| unavailable(&error))? else {
            return Ok(None);
        };
        let key = self.sealer.unseal_text(&row(sandbox), &sealed.key).map_err(|error| unavailable(&error))?;
        Authority::from_pem(&sealed.certificate, &key).map(Some).map_err(|error| unavailable(&error))
    }
}

/// What a sealed key is bound to.
fn row(sandbox: &SandboxId) -> String {
    format!("authority/{sandbox}")
}
