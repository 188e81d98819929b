//! Disks on their way to cold storage and back. The local copy goes only when the archive is complete and was read back; the archive goes
//! only when the disk is back.

use std::sync::Arc;
use std::time::Duration;

use cabana_storage::cold::Source as ColdSource;
use cabana_storage::pack::{Limits as PackLimits, Selection as PackSelection};
use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::sandbox::{Kept, PauseCause, State, Transition};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::Lifecycle;
use super::driver::{ChangeError, INTERRUPTED, Went};
use super::pause::Pause;
use crate::failpoint;

/// How long the end of a sandbox waits until its archive is removed. That goes on without it, or is done by the housekeeping.
const STORE_WAIT: Duration = Duration::from_secs(1);
/// What outlives the recycling of every sandbox, below its working directory.
const ALWAYS_KEPT: [&str; 2] = ["artifacts", "user-uploads"];

impl Lifecycle {
    /// Moves a sandbox's disk to cold storage: all of it, or only what its owner marked. One that is up or sleeps with its memory gives its processes up.
    pub async fn archive(
        self: &Arc<Self>,
        id: &SandboxId,
        whole: bool,
        why: PauseCause,
    ) -> Result<Sandbox, ChangeError> {
        self.change(id, move |this, id| async move {
            let mut sandbox = this.drive(&id, None).await?;
            match &sandbox.state {
                State::Running
                | State::Failed { .. }
                | State::Paused { kept: Kept::Ram | Kept::Checkpoint { .. }, .. } => {
                    sandbox = this.lay_down(&id, Pause { memory: false, require_healthy: false, why }).await?;
                }
                State::Paused { kept: Kept::Archive { whole: true, .. }, .. } if !whole => {
                    sandbox = this.fetch(&sandbox).await?;
                }
                _ => {}
            }
            match sandbox.state {
                State::Paused { kept: Kept::Disk, .. } => {
                    this.store.archive(id.clone(), whole, Timestamp::now()).await?;
                    failpoint::hit("archive.begun");
                    this.drive(&id, None).await
                }
                State::Paused { kept: Kept::Archive { .. }, .. } => Ok(sandbox),
                other => Err(ChangeError::Conflict { id, state: other.name() }),
            }
        })
        .await
    }

    /// Whoever wants a sandbox up need not wait until it is archived, which an earlier server began: its disk is still there. The caller holds
    /// the lock.
    pub(super) async fn leave_archiving(&self, id: &SandboxId) -> Result<(), ChangeError> {
        let Some(Sandbox { state: State::Archiving { generation, .. }, .. }) = self.store.sandbox(id).await? else {
            return Ok(());
        };
        let told = "it is resumed instead".to_owned();
        self.store.apply_with_reason(id.clone(), Transition::ArchiveFailed, told, Timestamp::now()).await?;
        self.drop_archive(id, generation);
        Ok(())
    }

    /// Brings a disk back from cold storage without waking its sandbox.
    async fn fetch(self: &Arc<Self>, sandbox: &Sandbox) -> Result<Sandbox, ChangeError> {
        let id = &sandbox.id;
        let sandbox = self.store.apply(id.clone(), Transition::Resume, Timestamp::now()).await?;
        let State::Resuming { from: Kept::Archive { generation, .. }, .. } = sandbox.state else {
            return Err(ChangeError::Conflict { id: id.clone(), state: sandbox.state.name() });
        };
        let reason = match self.restore(&sandbox, generation).await? {
            Went::On => None,
            Went::Back(_, message) => Some(message),
        };
        let told = reason.clone().unwrap_or_else(|| "its disk is back from cold storage, to be sorted".into());
        let sandbox =
            self.store.apply_with_reason(id.clone(), Transition::ResumeFailed, told, Timestamp::now()).await?;
        match reason {
            None => Ok(sandbox),
            Some(message) => Err(ChangeError::Failed { id: id.clone(), what: "restored", message }),
        }
    }

    /// From the pool to cold storage.
    pub(super) async fn pack(&self, sandbox: &Sandbox, generation: u32, whole: bool) -> Result<Went, ChangeError> {
        let id = &sandbox.id;
        let interrupted = self.registry.entry(id).interruptible();
        let packed = async {
            let disk = self.backend.open_disk(id).await?;
            let disk = disk.ok_or_else(|| cabana_runtime::Error::Unsupported("its disk is missing".into()))?;
            let selection = if whole { PackSelection::Everything } else { PackSelection::Paths(kept(sandbox)) };
            let source = ColdSource { disk, selection, limits: PackLimits::default() };
            Ok(self.cold.put(id, generation.into(), source, &interrupted).await?)
        };
        match packed.await {
            Ok((manifest, _)) => {
                failpoint::hit("archive.stored");
                self.store.archived(id.clone(), manifest.sha256.to_string(), Timestamp::now()).await?;
                failpoint::hit("archive.written");
                Ok(Went::On)
            }
            Err(cabana_runtime::Error::Storage(cabana_storage::Error::Cancelled)) => {
                Ok(Went::Back(INTERRUPTED, "something else was wanted of the sandbox meanwhile".into()))
            }
            Err(error) => Ok(Went::Back("archived", chain(&error))),
        }
    }

    /// From cold storage to the pool.
    pub(super) async fn restore(&self, sandbox: &Sandbox, generation: u32) -> Result<Went, ChangeError> {
        let id = &sandbox.id;
        let doomed = self.registry.entry(id).doomed.clone();
        let restored = async {
            let disk = self.backend.fresh_disk(id, sandbox.resources).await?;
            failpoint::hit("restore.begun");
            let digest = sandbox.archive_digest.as_deref().and_then(|text| text.parse().ok());
            let limits = PackLimits::default();
            Ok::<_, cabana_runtime::Error>(
                self.cold.get(id, generation.into(), digest.as_ref(), disk, &limits, &doomed).await?,
            )
        };
        match restored.await {
            Ok(_) => {
                failpoint::hit("restore.unpacked");
                self.store.apply(id.clone(), Transition::Restored, Timestamp::now()).await?;
                failpoint::hit("restore.written");
                // The disk is back: whoever waits for it need not wait for the store.
                self.drop_archive(id, generation);
                Ok(Went::On)
            }
            Err(error) => {
                self.drop_disk(sandbox).await;
                Ok(Went::Back("restored from cold storage", chain(&error)))
            }
        }
    }

    /// Removes the local copy of a disk that is safe in cold storage. What fails is done again by the next start.
    pub(super) async fn drop_disk(&self, sandbox: &Sandbox) {
        if let Err(error) = self.backend.delete_disk(&sandbox.id).await {
            tracing::warn!(sandbox = %sandbox.id, error = chain(&error), "could not remove the disk of an archived sandbox");
        }
    }

    /// Removes an archive that nobody needs any more, in a task of its own.
    fn drop_archive(&self, id: &SandboxId, generation: u32) -> JoinHandle<()> {
        let (cold, id) = (Arc::clone(&self.cold), id.clone());
        self.tasks.spawn(async move {
            if let Err(error) = cold.delete(&id, generation.into()).await {
                tracing::warn!(sandbox = %id, error = chain(&error), "could not remove an archive; the housekeeping will");
            }
        })
    }

    /// Removes what a sandbox that ends has in cold storage. A store that does not answer is not waited for.
    pub(super) async fn drop_archives(&self, id: &SandboxId) {
        if let Ok(Some(sandbox)) = self.store.sandbox(id).await
            && sandbox.archives > 0
        {
            let dropped = self.drop_archive(id, sandbox.archives);
            let _ = tokio::time::timeout(STORE_WAIT, dropped).await;
        }
    }

    /// Removes archives that no sandbox is kept in: left by a crash, or by a store that did not answer when they should have gone.
    pub(super) async fn sweep_archives(&self) {
        let found = match self.cold.list().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = chain(&error), "could not look for forgotten archives");
                return;
            }
        };
        for archive in found {
            let entry = self.registry.get(&archive.id);
            // Nothing changes while we look.
            let held = match &entry {
                Some(entry) => Some(entry.lock.lock().await),
                None => None,
            };
            let needed = match self.store.sandbox(&archive.id).await {
                Ok(Some(sandbox)) => match sandbox.state {
                    State::Paused { kept: Kept::Archive { generation, .. }, .. }
                    | State::Resuming { from: Kept::Archive { generation, .. }, .. }
                    | State::Archiving { generation, .. } => u64::from(generation) == archive.generation,
                    _ => false,
                },
                // What this server never knew may be another's.
                Ok(None) | Err(_) => true,
            };
            // What is not needed never will be: numbers of archives only grow. So nobody has to wait for the store.
            drop(held);
            if !needed {
                self.forget_archive(&archive.id, archive.generation).await;
            }
        }
    }

    async fn forget_archive(&self, id: &SandboxId, generation: u64) {
        tracing::warn!(sandbox = %id, generation, "removing an archive that nobody needs");
        if let Err(error) = self.cold.delete(id, generation).await {
            tracing::warn!(sandbox = %id, error = chain(&error), "could not remove it; the next round tries again");
        }
    }
}

/// The paths that outlive recycling, seen from the sandbox's root.
fn kept(sandbox: &Sandbox) -> Vec<String> {
    let home = match sandbox.boot.default_user.as_str() {
        "root" => "/root".to_owned(),
        user => format!("/home/{user}"),
    };
    let base = sandbox.boot.default_workdir.clone().unwrap_or_else(|| home.clone());
    let absolute = |path: &str| match path.strip_prefix("~/") {
        Some(rest) => format!("{home}/{rest}"),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("{base}/{}", path.trim_start_matches("./")),
    };
    let all = ALWAYS_KEPT.into_iter().chain(sandbox.policy.keep.iter().map(String::as_str));
    all.map(|path| absolute(path).trim_start_matches('/').to_owned()).filter(|path| !path.is_empty()).collect()
}
