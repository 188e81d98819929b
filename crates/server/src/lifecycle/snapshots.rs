//! Copies of sandboxes' disks: snapshots, which are kept, and forks, which become sandboxes at once. A running sandbox stands still for
//! the moment of copying, so that the copy is of one instant.

use std::sync::Arc;

use cabana_runtime::DiskSource;
use cabana_store::{Sandbox, Snapshot, SnapshotInserted, SnapshotKind, SnapshotState};
use cabana_types::error::chain;
use cabana_types::sandbox::{Kept, State};
use cabana_types::{SandboxId, TemplateId};
use jiff::Timestamp;

use super::create::{CreateError, CreateRequest};
use super::driver::ChangeError;
use super::{Lifecycle, STOP_WAIT};
use crate::failpoint;

/// A copy that stays.
struct Keep {
    name: Option<String>,
    /// How many its team may have.
    most: u32,
}

impl Lifecycle {
    /// Keeps a copy of a sandbox's disk under a name, if one is given.
    pub async fn snapshot(self: &Arc<Self>, id: &SandboxId, name: Option<String>) -> Result<Snapshot, ChangeError> {
        let (this, id) = (Arc::clone(self), id.clone());
        // In a task of its own: a client that hangs up must leave no copy that is neither kept nor removed.
        let taken = self.tasks.spawn(async move {
            let kept = Keep { name, most: this.max_snapshots_of_team };
            let snapshot = this.copy(&id, Some(kept)).await?;
            if let Err(error) = this.store.snapshot_ready(snapshot.clone(), Timestamp::now()).await {
                this.remove_snapshot(&snapshot.id).await;
                return Err(error.into());
            }
            failpoint::hit("snapshot.written");
            Ok(Snapshot { state: SnapshotState::Ready, ..snapshot })
        });
        taken.await.unwrap_or(Err(cabana_store::Error::Closed.into()))
    }

    /// Makes sandboxes of a copy of another's disk, each as its request says. The copy itself is not kept.
    pub async fn fork(
        self: &Arc<Self>,
        id: &SandboxId,
        requests: Vec<CreateRequest>,
    ) -> Result<Vec<Result<Sandbox, CreateError>>, ChangeError> {
        let (this, id) = (Arc::clone(self), id.clone());
        // In a task of its own: the copy must go, also when the client hangs up.
        let made = self.tasks.spawn(async move {
            let snapshot = this.lend_copy(&id).await?;
            let made = requests.into_iter().map(|mut request| {
                request.disk = DiskSource::Snapshot(snapshot.id.clone());
                this.create(request)
            });
            let made = futures_util::future::join_all(made).await;
            failpoint::hit("fork.made");
            this.return_copy(&snapshot.id).await;
            Ok(made)
        });
        made.await.unwrap_or(Err(cabana_store::Error::Closed.into()))
    }

    /// Makes a copy of a sandbox's disk that is not kept: whoever asked gives it back. A restart of the server removes it.
    pub async fn lend_copy(self: &Arc<Self>, id: &SandboxId) -> Result<Snapshot, ChangeError> {
        self.copy(id, None).await
    }

    /// Removes a copy that was lent.
    pub async fn return_copy(&self, copy: &TemplateId) {
        self.remove_snapshot(copy).await;
    }

    /// Copies a disk, to be kept or lent. The row is written before the copy, and not as ready: a crash leaves nothing that the next start does not remove.
    async fn copy(self: &Arc<Self>, id: &SandboxId, kept: Option<Keep>) -> Result<Snapshot, ChangeError> {
        if !self.backend.disks().facts().snapshots {
            let text = "this server's pool cannot copy disks: snapshots and forks need btrfs";
            return Err(ChangeError::Unsupported(text.into()));
        }
        let entry = self.registry.get(id).ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
        let (this, id) = (Arc::clone(self), id.clone());
        let task = self.tasks.spawn(async move {
            let _held = entry.lock.lock().await;
            let sandbox = this.store.sandbox(&id).await?;
            let sandbox = sandbox.ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
            let still = Self::check_copy(&sandbox)?;
            let (state, most) = match &kept {
                Some(kept) => (SnapshotState::Making, kept.most),
                None => (SnapshotState::Lent, u32::MAX),
            };
            let snapshot = describe(&sandbox, kept.and_then(|kept| kept.name), state);
            match this.store.insert_snapshot(snapshot.clone(), most).await? {
                SnapshotInserted::New => {}
                SnapshotInserted::Taken => {
                    return Err(ChangeError::Conflict { id, state: "being copied under this name" });
                }
                SnapshotInserted::Full => return Err(ChangeError::Snapshots { limit: most }),
            }
            failpoint::hit("snapshot.begun");
            match this.copy_still(&sandbox, &snapshot.id, still).await {
                Ok(()) => Ok(snapshot),
                Err(error) => {
                    this.remove_snapshot(&snapshot.id).await;
                    Err(ChangeError::Failed { id, what: "copied", message: chain(&error) })
                }
            }
        });
        task.await.unwrap_or(Err(cabana_store::Error::Closed.into()))
    }

    /// Whether a sandbox's disk is at rest; an error if it cannot be copied.
    pub fn check_copy(sandbox: &Sandbox) -> Result<bool, ChangeError> {
        let id = sandbox.id.clone();
        match &sandbox.state {
            State::Running => Ok(false),
            State::Paused { kept: Kept::Ram | Kept::Checkpoint { .. } | Kept::Disk, .. } | State::Failed { .. } => {
                Ok(true)
            }
            State::Ending { cause } | State::Ended { cause } => Err(ChangeError::Ended { id, cause: cause.clone() }),
            State::Paused { kept: Kept::Archive { .. }, .. } => Err(ChangeError::Conflict { id, state: "archived" }),
            other => Err(ChangeError::Conflict { id, state: other.name() }),
        }
    }

    async fn copy_still(
        &self,
        sandbox: &Sandbox,
        snapshot: &TemplateId,
        still: bool,
    ) -> Result<(), cabana_runtime::Error> {
        if still {
            return self.backend.take_snapshot(&sandbox.id, snapshot).await;
        }
        let frozen = self.backend.freeze(&sandbox.id).await;
        failpoint::hit("snapshot.frozen");
        let copied = match frozen {
            Ok(()) => self.backend.take_snapshot(&sandbox.id, snapshot).await,
            Err(error) => Err(error),
        };
        failpoint::hit("snapshot.copied");
        // Whatever happened, it goes on.
        let thawed = self.backend.thaw(&sandbox.id).await;
        copied.and(thawed)
    }

    /// Deletes a snapshot; `false` if it is not there.
    pub async fn delete_snapshot(self: &Arc<Self>, id: &TemplateId) -> Result<bool, cabana_store::Error> {
        if !self.store.delete_snapshot(id.clone()).await? {
            return Ok(false);
        }
        failpoint::hit("snapshot.deleting");
        let (this, id) = (Arc::clone(self), id.clone());
        let removed = self.tasks.spawn(async move { this.remove_snapshot(&id).await });
        // Nobody finds it any more; the space may be freed a little later.
        let _ = tokio::time::timeout(STOP_WAIT, removed).await;
        Ok(true)
    }

    /// Removes a copy, then its row. What fails is tried again by the housekeeping.
    pub(super) async fn remove_snapshot(&self, id: &TemplateId) {
        let _ = self.store.delete_snapshot(id.clone()).await;
        if let Err(error) = self.backend.delete_snapshot(id).await {
            tracing::error!(snapshot = %id, error = chain(&error), "could not remove a snapshot; the housekeeping will");
            return;
        }
        failpoint::hit("snapshot.removed");
        if let Err(error) = self.store.forget_snapshot(id.clone()).await {
            tracing::error!(snapshot = %id, error = chain(&error), "could not forget a snapshot; the housekeeping will");
        }
    }

    /// Removes snapshots that were on their way in when an earlier server ended (`all`), those on their way out, and copies that nobody
    /// remembers.
    pub(super) async fn sweep_snapshots(&self, all: bool) {
        let (rows, copies) = match (self.store.all_snapshots().await, self.backend.snapshots().await) {
            (Ok(rows), Ok(copies)) => (rows, copies),
            (Err(error), _) => return tracing::warn!(error = chain(&error), "could not look for unfinished snapshots"),
            (_, Err(error)) => return tracing::warn!(error = chain(&error), "could not look for unfinished snapshots"),
        };
        let unfinished = |row: &&Snapshot| match row.state {
            SnapshotState::Making | SnapshotState::Lent => all,
            SnapshotState::Deleting => true,
            SnapshotState::Ready => false,
        };
        for row in rows.iter().filter(unfinished) {
            self.remove_snapshot(&row.id).await;
        }
        // A row is there before its copy, so a copy without one is nobody's, whenever it is seen.
        for copy in copies.iter().filter(|copy| !rows.iter().any(|row| row.id == **copy)) {
            if matches!(self.store.all_snapshots().await, Ok(rows) if !rows.iter().any(|row| row.id == *copy)) {
                tracing::warn!(snapshot = %copy, "removing a snapshot that nobody remembers");
                self.remove_snapshot(copy).await;
            }
        }
    }
}

fn describe(sandbox: &Sandbox, name: Option<String>, state: SnapshotState) -> Snapshot {
    Snapshot {
        id: TemplateId::from_random(rand::random()),
        team: sandbox.team.clone(),
        name,
        state,
        kind: SnapshotKind::Disk,
        isolation: sandbox.isolation.clone(),
        sandbox: sandbox.id.clone(),
        template: sandbox.template.clone(),
        build: sandbox.build.clone(),
        alias: sandbox.alias.clone(),
        resources: sandbox.resources,
        boot: sandbox.boot.clone(),
        created_at: Timestamp::now(),
    }
}
