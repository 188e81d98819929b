//! Changing the resource limits of a sandbox.

use std::sync::Arc;

use cabana_store::Sandbox;
use cabana_types::sandbox::{Kept, State};
use cabana_types::{Resources, SandboxId};
use jiff::Timestamp;

use super::driver::Driver;
use super::error::{ChangeError, Operation};

impl Driver {
    /// Changes the limits of a sandbox: at once if it runs, otherwise when it is resumed.
    pub(super) async fn resize(
        self: &Arc<Self>,
        id: &SandboxId,
        choose: impl FnOnce(Resources) -> Resources + Send + 'static,
    ) -> Result<Sandbox, ChangeError> {
        self.change(id, move |this, held| async move {
            let id = held.id().clone();
            let sandbox = this.drive(&held, None).await?;
            let (on_host, in_ram) = match &sandbox.state {
                State::Running | State::Paused { kept: Kept::Ram, .. } => (true, true),
                State::Paused { kept: Kept::Checkpoint { .. } | Kept::Disk, .. } => (true, false),
                State::Paused { .. } | State::Failed { .. } => (false, false),
                other => return Err(ChangeError::Conflict { id, state: other.name() }),
            };
            let resources = choose(sandbox.resources);
            if in_ram {
                let used = held.stats().await.map(|stats| stats.memory_used >> 20).unwrap_or_default();
                if used >= u64::from(resources.memory_mb) {
                    return Err(ChangeError::InUse { id, used });
                }
            }
            if sandbox.state == State::Running {
                this.registry.resize(&id, resources)?;
            }
            // The host first, because it may refuse. Limits that are set but not written are undone by the next start.
            if on_host && let Err(error) = held.resize(resources).await {
                let _ = held.resize(sandbox.resources).await;
                let _ = this.registry.resize(&id, sandbox.resources);
                return Err(ChangeError::Failed { id, operation: Operation::Resize, failure: error.into() });
            }
            let resized = this.store.resize(id.clone(), resources, Timestamp::now()).await;
            if resized.is_err() && on_host {
                let _ = held.resize(sandbox.resources).await;
                let _ = this.registry.resize(&id, sandbox.resources);
            }
            let sandbox = resized?;
            held.entry().with_meter(|meter| meter.resize(resources));
            Ok(sandbox)
        })
        .await
    }
}
