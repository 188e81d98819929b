//! Egress policies of sandboxes, and the events about what they denied.

use std::sync::Arc;

use cabana_types::SandboxId;
use cabana_types::egress::EgressPolicy;
use cabana_types::sandbox::State;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::sandbox::read;
use crate::{Error, Sandbox, Store, event, policy_text};

impl Store {
    /// Replaces a sandbox's egress policy. The event says only that it changed: policies can be large.
    pub async fn set_egress(&self, id: SandboxId, egress: Arc<EgressPolicy>, at: Timestamp) -> Result<Sandbox, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut sandbox = read(connection, &id).await?;
                if let State::Ending { .. } | State::Ended { .. } = sandbox.state {
                    return Err(Error::NotRunning { id, state: sandbox.state.name() });
                }
                sandbox.egress = egress;
                sqlx::query("update sandboxes set egress = $2 where id = $1")
                    .bind(id.as_str())
                    .bind(policy_text::write(&sandbox.egress)?.as_ref())
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write a sandbox's egress policy", e))?;
                event::updated(connection, &id, &sandbox.team, "network", json!({}), at).await?;
                Ok(sandbox)
            })
        })
        .await
    }

    /// Records that connections of a sandbox were denied. Consecutive events replace each other.
    pub async fn note_denials(&self, id: SandboxId, details: Value, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let team = read(connection, &id).await?.team;
                event::replace_last(connection, &id, &team, (event::DENIED, None), &details, at).await
            })
        })
        .await
    }
}
