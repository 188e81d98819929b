//! Archiving a paused sandbox, and cancelling that.

use std::sync::Arc;

use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::sandbox::{Kept, PauseCause, State, Transition};
use jiff::Timestamp;

use super::driver::{Driver, Outcome};
use super::error::ChangeError;
use super::held::Held;
use crate::failpoint;

impl Driver {
    /// Moves a sandbox's disk to cold storage: the whole disk, or only the paths that recycling keeps. A sandbox that
    /// runs or is paused with its memory gives its memory up.
    pub(super) async fn archive(
        self: &Arc<Self>,
        id: &SandboxId,
        whole: bool,
        why: PauseCause,
    ) -> Result<Sandbox, ChangeError> {
        self.change(id, move |this, held| async move {
            let mut sandbox = this.drive(&held, None).await?;
            match sandbox.state {
                State::Running
                | State::Failed { .. }
                | State::Paused { kept: Kept::Ram | Kept::Checkpoint { .. }, .. } => {
                    sandbox = this.pause_held(&held, Kept::Disk, why).await?;
                }
                State::Paused { kept: Kept::Archive { whole: true, .. }, .. } if !whole => {
                    sandbox = this.restore_paused(&held).await?;
                }
                _ => {}
            }
            match sandbox.state {
                State::Paused { kept: Kept::Disk, .. } => {
                    this.store.archive(held.id().clone(), whole, Timestamp::now()).await?;
                    failpoint::hit("archive.begun");
                    this.drive(&held, None).await
                }
                State::Paused { kept: Kept::Archive { .. }, .. } => Ok(sandbox),
                other => Err(ChangeError::Conflict { id: held.id().clone(), state: other.name() }),
            }
        })
        .await
    }

    /// Cancels archiving that an earlier server began: the disk is still in the pool, so a resume does not need to wait.
    pub(super) async fn cancel_archiving(&self, held: &Held) -> Result<(), ChangeError> {
        let id = held.id();
        let Some(Sandbox { state: State::Archiving { generation, .. }, .. }) = self.store.sandbox(id).await? else {
            return Ok(());
        };
        let reason = "it is resumed instead".to_owned();
        self.store.apply_with_reason(id.clone(), Transition::ArchiveFailed, reason, Timestamp::now()).await?;
        self.archiver.delete_archive(id, generation);
        Ok(())
    }

    /// Restores an archived disk without resuming the sandbox.
    async fn restore_paused(self: &Arc<Self>, held: &Held) -> Result<Sandbox, ChangeError> {
        let id = held.id();
        let sandbox = self.apply(id, Transition::Resume).await?;
        let State::Resuming { from: Kept::Archive { generation, .. }, .. } = sandbox.state else {
            return Err(ChangeError::Conflict { id: id.clone(), state: sandbox.state.name() });
        };
        let outcome = self.archiver.restore(held, &sandbox, generation).await?;
        let (reason, error) = match outcome {
            Outcome::Advanced => ("its disk was restored from cold storage to be recycled".to_owned(), None),
            Outcome::Failed(operation, failure) => {
                (failure.to_string(), Some(ChangeError::Failed { id: id.clone(), operation, failure }))
            }
            Outcome::Interrupted => ("it was interrupted".to_owned(), Some(ChangeError::Interrupted(id.clone()))),
        };
        let paused =
            self.store.apply_with_reason(id.clone(), Transition::ResumeFailed, reason, Timestamp::now()).await?;
        error.map_or(Ok(paused), Err)
    }
}
