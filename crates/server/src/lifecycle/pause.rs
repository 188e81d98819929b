//! Pausing a sandbox.

use std::sync::Arc;

use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::sandbox::{Kept, PauseCause, State, Transition};

use super::driver::Driver;
use super::error::ChangeError;
use super::held::Held;

/// How to pause a sandbox.
#[derive(Debug, Clone)]
pub struct Pause {
    /// Whether its memory is kept.
    pub memory: bool,
    /// Whether to refuse if its guest does not answer.
    pub require_healthy: bool,
    /// Cause of the pause.
    pub why: PauseCause,
}

impl Driver {
    /// Pauses a sandbox. One that is paused already, with as much or less kept, is a conflict, as in E2B.
    pub(super) async fn pause(self: &Arc<Self>, id: &SandboxId, pause: Pause) -> Result<Sandbox, ChangeError> {
        if pause.memory && !self.registry.host().can_freeze(id) {
            let text =
                "this server cannot keep the memory of a paused sandbox; pause its filesystem only (memory: false)";
            return Err(ChangeError::Unsupported(text.into()));
        }
        self.change(id, move |this, held| async move {
            let id = held.id();
            let sandbox = this.drive(&held, None).await?;
            if pause.require_healthy && !this.is_healthy(id).await {
                return Err(ChangeError::Unresponsive(id.clone()));
            }
            // Before the intent is written: a client that is refused keeps a running sandbox.
            if pause.memory && sandbox.state == State::Running && matches!(pause.why, PauseCause::Asked { .. }) {
                let reserved = this.memory.reserve(&held, &sandbox).await;
                reserved.map_err(|why| ChangeError::OverBudget { id: id.clone(), why })?;
            }
            let keep = if pause.memory { Kept::Ram } else { Kept::Disk };
            this.pause_held(&held, keep, pause.why).await
        })
        .await
    }

    pub(super) async fn pause_held(
        self: &Arc<Self>,
        held: &Held,
        keep: Kept,
        why: PauseCause,
    ) -> Result<Sandbox, ChangeError> {
        self.apply(held.id(), Transition::Pause { keep, why }).await?;
        self.drive(held, None).await
    }

    pub(super) async fn is_healthy(&self, id: &SandboxId) -> bool {
        match self.routes.get(id) {
            Some(route) => route.link.is_healthy().await,
            None => false,
        }
    }
}
