//! Changing what a sandbox may use while it lives.

use std::sync::Arc;

use cabana_store::Sandbox;
use cabana_types::error::chain;
use cabana_types::sandbox::{Kept, State};
use cabana_types::{Resources, SandboxId};
use jiff::Timestamp;

use super::Lifecycle;
use super::driver::ChangeError;

impl Lifecycle {
    /// Gives a sandbox other limits: at once if it is up, else when it wakes.
    pub async fn resize(
        self: &Arc<Self>,
        id: &SandboxId,
        choose: impl FnOnce(Resources) -> Resources + Send + 'static,
    ) -> Result<Sandbox, ChangeError> {
        self.change(id, move |this, id| async move {
            let sandbox = this.drive(&id, None).await?;
            let up = match &sandbox.state {
                State::Running | State::Paused { kept: Kept::Ram | Kept::Checkpoint { .. } | Kept::Disk, .. } => true,
                State::Paused { .. } | State::Failed { .. } => false,
                other => return Err(ChangeError::Conflict { id, state: other.name() }),
            };
            let resources = choose(sandbox.resources);
            if sandbox.state == State::Running || matches!(sandbox.state, State::Paused { kept: Kept::Ram, .. }) {
                let used = this.backend.stats(&id).await.map(|stats| stats.memory_used >> 20).unwrap_or_default();
                if used >= u64::from(resources.memory_mb) {
                    return Err(ChangeError::InUse { id, used });
                }
            }
            // The world first: it may refuse, and what it has without being written is undone by the next start.
            if up && let Err(error) = this.backend.resize(&id, resources).await {
                let _ = this.backend.resize(&id, sandbox.resources).await;
                return Err(ChangeError::Failed { id, what: "resized", message: chain(&error) });
            }
            let resized = this.store.resize(id.clone(), resources, Timestamp::now()).await;
            if resized.is_err() && up {
                let _ = this.backend.resize(&id, sandbox.resources).await;
            }
            let sandbox = resized?;
            this.registry.entry(&id).with_meter(|meter| meter.resize(resources));
            Ok(sandbox)
        })
        .await
    }
}
