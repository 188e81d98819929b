//! Values behind the placeholders of sandboxes: copies of the team's secrets, made when a sandbox is started, so that they
//! stay the same while it runs. A secret that is deleted takes its copies along.

use std::sync::Arc;

use cabana_egress::CredentialError;
use cabana_store::{Sandbox, SealedPlaceholder, SecretRef};
use cabana_types::egress::EgressPolicy;
use cabana_types::{SandboxId, Secret};

use super::secrets::Secrets;
use super::unavailable;

impl Secrets {
    /// Takes the newest values and hosts for the placeholders of a sandbox that is about to start. Returns its policy,
    /// which changes with the hosts.
    pub(super) async fn renew(&self, sandbox: &Sandbox) -> Result<Arc<EgressPolicy>, CredentialError> {
        let mut policy = EgressPolicy::clone(&sandbox.egress);
        let mut values = Vec::new();
        for placeholder in &mut policy.placeholders {
            let named = SecretRef::Name(placeholder.secret.clone());
            let found = self.store.secret(&sandbox.team, &named).await.map_err(|error| unavailable(&error))?;
            // Without one, requests that need it are refused.
            let Some(found) = found else { continue };
            placeholder.hosts = found.hosts.iter().filter_map(|host| host.parse().ok()).collect();
            let Ok(value) = self.open(&found) else { continue };
            let row = row(&sandbox.id, &placeholder.text);
            let value = self.sealer.seal(&row, value.expose().as_bytes()).map_err(|error| unavailable(&error))?;
            values.push(SealedPlaceholder { text: placeholder.text.clone(), secret: found.id, value });
        }
        let changed = (policy != *sandbox.egress).then(|| Arc::new(policy));
        let written = self.store.set_placeholders(sandbox.id.clone(), values, changed.clone()).await;
        written.map_err(|error| unavailable(&error))?;
        Ok(changed.unwrap_or_else(|| Arc::clone(&sandbox.egress)))
    }

    /// The value behind a placeholder.
    pub(super) async fn behind(&self, sandbox: &SandboxId, placeholder: &str) -> Result<Secret, CredentialError> {
        let sealed = self.store.placeholder(sandbox, placeholder).await.map_err(|error| unavailable(&error))?;
        let sealed = sealed.ok_or(CredentialError::NotFound)?;
        self.sealer.unseal_text(&row(sandbox, placeholder), &sealed).map_err(|error| unavailable(&error))
    }
}

/// What a sealed value is bound to.
fn row(sandbox: &SandboxId, placeholder: &str) -> String {
    format!("placeholder/{sandbox}/{placeholder}")
}
