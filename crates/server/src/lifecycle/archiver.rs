//! Moves disks to cold storage and back. A disk is deleted only when its archive is complete and verified; an archive is deleted only when
//! its disk is restored.

use std::sync::Arc;
use std::time::Duration;

use cabana_storage::ColdStore;
use cabana_storage::cold::Source as ColdSource;
use cabana_storage::pack::{Limits as PackLimits, Selection as PackSelection};
use cabana_store::{Sandbox, Store};
use cabana_supervisor::Panicked;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::sandbox::{Kept, State, Transition};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::driver::Outcome;
use super::error::{ChangeError, Failure, Operation};
use super::held::Held;
use super::registry::Registry;
use super::tasks::Tasks;
use crate::failpoint;

/// How long the removal of a sandbox waits for cold storage to delete its archive. Maintenance deletes what is left.
const DELETE_WAIT: Duration = Duration::from_secs(1);
/// What recycling keeps of every sandbox, below its working directory.
const ALWAYS_KEPT: [&str; 2] = ["artifacts", "user-uploads"];

/// Archives of disks.
#[derive(Debug)]
pub(super) struct Archiver {
    store: Store,
    cold: Arc<ColdStore>,
    tasks: Tasks,
}

impl Archiver {
    pub(super) fn new(store: Store, cold: Arc<ColdStore>, tasks: Tasks) -> Self {
        Self { store, cold, tasks }
    }

    /// Packs a disk into an archive.
    pub(super) async fn pack(
        &self,
        held: &Held,
        sandbox: &Sandbox,
        generation: u32,
        whole: bool,
    ) -> Result<Outcome, ChangeError> {
        let id = held.id();
        let interrupted = held.entry().lock.interruptible();
        let packed = async {
            let disk = held.open_disk().await?.ok_or(Failure::DiskMissing)?;
            let selection = if whole { PackSelection::Everything } else { PackSelection::Paths(recycled(sandbox)) };
            let source = ColdSource { disk, selection, limits: PackLimits::default() };
            Ok::<_, Failure>(self.cold.put(id, generation.into(), source, &interrupted).await?)
        };
        match packed.await {
            Ok((manifest, _)) => {
                failpoint::hit("archive.stored");
                let digest = manifest.sha256.to_string();
                self.store.archived(id.clone(), digest, manifest.length, Timestamp::now()).await?;
                failpoint::hit("archive.written");
                Ok(Outcome::Advanced)
            }
            Err(Failure::Storage(cabana_storage::Error::Cancelled)) => Ok(Outcome::Interrupted),
            Err(failure) => Ok(Outcome::Failed(Operation::Archive, failure)),
        }
    }

    /// Restores a disk from its archive.
    pub(super) async fn restore(
        &self,
        held: &Held,
        sandbox: &Sandbox,
        generation: u32,
    ) -> Result<Outcome, ChangeError> {
        let id = held.id();
        let ending = held.entry().lock.until_ending();
        let restored = async {
            let disk = held.fresh_disk(sandbox.resources).await?;
            failpoint::hit("restore.begun");
            let digest = sandbox.archive_digest.as_deref().and_then(|text| text.parse().ok());
            let limits = PackLimits::default();
            let unpacked = self.cold.get(id, generation.into(), digest.as_ref(), disk, &limits, &ending);
            Ok::<_, Failure>(unpacked.await?)
        };
        match restored.await {
            Ok(_) => {
                failpoint::hit("restore.unpacked");
                self.store.apply(id.clone(), Transition::Restored, Timestamp::now()).await?;
                failpoint::hit("restore.written");
                // In the background: the resume does not wait for cold storage.
                self.delete_archive(id, generation);
                Ok(Outcome::Advanced)
            }
            Err(failure) => {
                Self::delete_disk(held).await;
                Ok(Outcome::Failed(Operation::Restore, failure))
            }
        }
    }

    /// Deletes the disk of an archived sandbox. If that fails, the next start does it.
    pub(super) async fn delete_disk(held: &Held) {
        if let Err(error) = held.delete_disk().await {
            tracing::warn!(sandbox = %held.id(), error = chain(&error), "could not delete the disk of the archived sandbox");
        }
    }

    /// Deletes an archive in the background.
    pub(super) fn delete_archive(&self, id: &SandboxId, generation: u32) -> JoinHandle<Result<(), Panicked>> {
        let (cold, id) = (Arc::clone(&self.cold), id.clone());
        self.tasks.spawn("delete an archive", async move {
            if let Err(error) = cold.delete(&id, generation.into()).await {
                tracing::warn!(sandbox = %id, error = chain(&error), "could not delete an archive; maintenance will");
            }
        })
    }

    /// Deletes the archive of a sandbox that ends, without waiting long for cold storage.
    pub(super) async fn delete_last_archive(&self, id: &SandboxId) {
        if let Ok(Some(sandbox)) = self.store.sandbox(id).await
            && sandbox.archives > 0
        {
            let deleted = self.delete_archive(id, sandbox.archives);
            let _ = tokio::time::timeout(DELETE_WAIT, deleted).await;
        }
    }

    /// Deletes archives that no row refers to: a crash left them, or cold storage did not answer when they were to be deleted.
    pub(super) async fn delete_unneeded(&self, registry: &Registry) {
        let found = match self.cold.list().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = chain(&error), "could not list the archives in cold storage");
                return;
            }
        };
        for archive in found {
            let held = match registry.get(&archive.id) {
                // Its row does not change while it is compared.
                Some(entry) => Some(entry.hold().await),
                None => None,
            };
            let needed = self.is_needed(&archive.id, archive.generation).await;
            // Generations only grow, so an archive that is not needed never will be: nothing has to wait for cold storage.
            drop(held);
            if !needed {
                tracing::warn!(sandbox = %archive.id, generation = archive.generation, "deleting an archive that is not needed");
                if let Err(error) = self.cold.delete(&archive.id, archive.generation).await {
                    tracing::warn!(sandbox = %archive.id, error = chain(&error), "could not delete the archive; retrying later");
                }
            }
        }
    }

    async fn is_needed(&self, id: &SandboxId, archived: u64) -> bool {
        match self.store.sandbox(id).await {
            Ok(Some(sandbox)) => match sandbox.state {
                State::Paused { kept: Kept::Archive { generation, .. }, .. }
                | State::Resuming { from: Kept::Archive { generation, .. }, .. }
                | State::Archiving { generation, .. } => u64::from(generation) == archived,
                _ => false,
            },
            // An unknown sandbox may belong to another server.
            Ok(None) | Err(_) => true,
        }
    }
}

/// The paths that recycling keeps, relative to the sandbox's root.
fn recycled(sandbox: &Sandbox) -> Vec<String> {
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
