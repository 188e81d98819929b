//! Snapshots of disks, which are kept, and forks: new sandboxes from a temporary snapshot. A running sandbox is frozen while its disk is
//! copied, so that the snapshot is of one instant.

use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::DiskSource;
use cabana_store::{Sandbox, Snapshot, SnapshotInserted, SnapshotKind, SnapshotState, Store};
use cabana_types::error::chain;
use cabana_types::quota::Limits;
use cabana_types::sandbox::{Kept, State};
use cabana_types::{SandboxId, TemplateId};
use futures_util::future::join_all;
use jiff::Timestamp;

use super::create::{CreateRequest, Creator};
use super::error::{ChangeError, CreateError, Operation};
use super::held::Held;
use super::registry::Registry;
use super::tasks::Tasks;
use crate::failpoint;

/// How long a client waits until the space of a deleted snapshot is free.
const DELETE_WAIT: Duration = Duration::from_secs(15);

/// Whether a snapshot stays until it is deleted.
enum Purpose {
    Keep {
        name: Option<String>,
    },
    /// It is deleted by the operation that took it, or by the next start.
    Temporary,
}

/// Snapshots and forks.
#[derive(Debug)]
pub(super) struct Snapshots {
    store: Store,
    registry: Arc<Registry>,
    creator: Arc<Creator>,
    /// Limits of teams that have none of their own.
    server: Limits,
    tasks: Tasks,
}

impl Snapshots {
    pub(super) fn new(
        store: Store,
        registry: Arc<Registry>,
        creator: Arc<Creator>,
        server: Limits,
        tasks: Tasks,
    ) -> Self {
        Self { store, registry, creator, server, tasks }
    }

    /// Takes a snapshot of a sandbox's disk, optionally with a name.
    pub(super) async fn take(self: &Arc<Self>, id: &SandboxId, name: Option<String>) -> Result<Snapshot, ChangeError> {
        let (this, id) = (Arc::clone(self), id.clone());
        // In a task of its own: a client that disconnects must not leave an unfinished snapshot.
        let taken = self.tasks.run("take a snapshot", async move {
            let snapshot = this.copy(&id, Purpose::Keep { name }).await?;
            if let Err(error) = this.store.snapshot_ready(snapshot.clone(), Timestamp::now()).await {
                this.remove(&snapshot.id).await;
                return Err(error.into());
            }
            failpoint::hit("snapshot.written");
            Ok(Snapshot { state: SnapshotState::Ready, ..snapshot })
        });
        taken.await.unwrap_or(Err(cabana_store::Error::Closed.into()))
    }

    /// Takes a snapshot that the caller removes when it is done with it; the next start of the server removes it otherwise.
    pub(super) async fn take_temporary(self: &Arc<Self>, id: &SandboxId) -> Result<Snapshot, ChangeError> {
        self.copy(id, Purpose::Temporary).await
    }

    /// Creates sandboxes from a temporary snapshot of another one.
    pub(super) async fn fork(
        self: &Arc<Self>,
        id: &SandboxId,
        requests: Vec<CreateRequest>,
    ) -> Result<Vec<Result<Sandbox, CreateError>>, ChangeError> {
        let (this, id) = (Arc::clone(self), id.clone());
        // In a task of its own: the snapshot must be removed even if the client disconnects.
        let forked = self.tasks.run("fork a sandbox", async move {
            let snapshot = this.take_temporary(&id).await?;
            // It may have changed since the requests were made. A failure must not keep the snapshot.
            let egress = this.store.sandbox(&id).await.ok().flatten().map(|sandbox| sandbox.egress);
            let created = join_all(requests.into_iter().map(|mut request| {
                if let Some(egress) = &egress {
                    request.sandbox.egress = Arc::clone(egress);
                }
                request.disk = DiskSource::Snapshot(snapshot.id.clone());
                this.creator.create(request)
            }))
            .await;
            failpoint::hit("fork.made");
            this.remove(&snapshot.id).await;
            Ok(created)
        });
        forked.await.unwrap_or(Err(cabana_store::Error::Closed.into()))
    }

    /// Copies a disk. The row is written before the copy and not as ready, so that the next start removes what a crash leaves.
    async fn copy(self: &Arc<Self>, id: &SandboxId, purpose: Purpose) -> Result<Snapshot, ChangeError> {
        if !self.registry.host().can_snapshot() {
            let text = "this server's pool cannot copy disks: snapshots and forks need btrfs";
            return Err(ChangeError::Unsupported(text.into()));
        }
        let entry = self.registry.get(id).ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
        let this = Arc::clone(self);
        let task = self.tasks.run("copy a disk", async move {
            let held = entry.hold().await;
            let id = held.id();
            let sandbox = this.store.sandbox(id).await?;
            let sandbox = sandbox.ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
            check_snapshot(&sandbox)?;
            let (name, state) = match purpose {
                Purpose::Keep { name } => (name, SnapshotState::Making),
                Purpose::Temporary => (None, SnapshotState::Temporary),
            };
            let snapshot = row(&sandbox, name, state);
            match this.store.insert_snapshot(snapshot.clone(), this.server).await? {
                SnapshotInserted::New => {}
                SnapshotInserted::Taken => {
                    return Err(ChangeError::Conflict { id: id.clone(), state: "being copied under this name" });
                }
            }
            failpoint::hit("snapshot.begun");
            match copy_disk(&held, &sandbox.state, &snapshot.id).await {
                Ok(()) => Ok(snapshot),
                Err(error) => {
                    this.remove(&snapshot.id).await;
                    let failure = error.into();
                    Err(ChangeError::Failed { id: id.clone(), operation: Operation::Snapshot, failure })
                }
            }
        });
        task.await.unwrap_or(Err(cabana_store::Error::Closed.into()))
    }

    /// Deletes a snapshot; `false` if there is none.
    pub(super) async fn delete(self: &Arc<Self>, id: &TemplateId) -> Result<bool, cabana_store::Error> {
        if !self.store.delete_snapshot(id.clone()).await? {
            return Ok(false);
        }
        failpoint::hit("snapshot.deleting");
        let (this, id) = (Arc::clone(self), id.clone());
        let removed = self.tasks.run("remove a snapshot", async move { this.remove(&id).await });
        // Clients do not find it any more; its space may be freed later.
        let _ = tokio::time::timeout(DELETE_WAIT, removed).await;
        Ok(true)
    }

    /// Removes a snapshot's disk, then its row. Maintenance retries what fails.
    pub(super) async fn remove(&self, id: &TemplateId) {
        let _ = self.store.delete_snapshot(id.clone()).await;
        if let Err(error) = self.registry.host().delete_snapshot(id).await {
            tracing::error!(snapshot = %id, error = chain(&error), "could not remove the snapshot; maintenance will retry");
            return;
        }
        failpoint::hit("snapshot.removed");
        if let Err(error) = self.store.remove_snapshot(id.clone()).await {
            tracing::error!(snapshot = %id, error = chain(&error), "could not delete the snapshot's row; maintenance will retry");
        }
    }

    /// Removes snapshots that are being deleted and disks without a row; with `all`, also snapshots that an earlier server did not finish.
    pub(super) async fn remove_unfinished(&self, all: bool) {
        let (rows, disks) = match (self.store.all_snapshots().await, self.registry.host().snapshots().await) {
            (Ok(rows), Ok(disks)) => (rows, disks),
            (Err(error), _) => return tracing::warn!(error = chain(&error), "could not look for unfinished snapshots"),
            (_, Err(error)) => return tracing::warn!(error = chain(&error), "could not look for unfinished snapshots"),
        };
        let unfinished = |row: &&Snapshot| match row.state {
            SnapshotState::Making | SnapshotState::Temporary => all,
            SnapshotState::Deleting => true,
            SnapshotState::Ready => false,
        };
        for row in rows.iter().filter(unfinished) {
            self.remove(&row.id).await;
        }
        // A row is written before its disk is copied, so a disk without a row is an orphan. Rows may be newer than the list, so look again.
        for disk in disks.iter().filter(|disk| !rows.iter().any(|row| row.id == **disk)) {
            if matches!(self.store.all_snapshots().await, Ok(rows) if !rows.iter().any(|row| row.id == *disk)) {
                tracing::warn!(snapshot = %disk, "removing an orphaned snapshot");
                self.remove(disk).await;
            }
        }
    }
}

/// An error if the state of a sandbox does not allow a snapshot.
pub(super) fn check_snapshot(sandbox: &Sandbox) -> Result<(), ChangeError> {
    let id = sandbox.id.clone();
    match &sandbox.state {
        State::Running
        | State::Failed { .. }
        | State::Paused { kept: Kept::Ram | Kept::Checkpoint { .. } | Kept::Disk, .. } => Ok(()),
        State::Ending { cause } | State::Ended { cause } => Err(ChangeError::Ended { id, cause: cause.clone() }),
        State::Paused { kept: Kept::Archive { .. }, .. } => Err(ChangeError::Conflict { id, state: "archived" }),
        other => Err(ChangeError::Conflict { id, state: other.name() }),
    }
}

/// Copies a disk, and freezes a running sandbox for that time.
async fn copy_disk(held: &Held, state: &State, snapshot: &TemplateId) -> Result<(), cabana_runtime::Error> {
    if *state != State::Running {
        return held.take_snapshot(snapshot).await;
    }
    let frozen = held.freeze().await;
    failpoint::hit("snapshot.frozen");
    let copied = match frozen {
        Ok(()) => held.take_snapshot(snapshot).await,
        Err(error) => Err(error),
    };
    failpoint::hit("snapshot.copied");
    // Also after an error.
    let thawed = held.thaw().await;
    copied.and(thawed)
}

fn row(sandbox: &Sandbox, name: Option<String>, state: SnapshotState) -> Snapshot {
    Snapshot {
        id: TemplateId::from_random(rand::random()),
        team: sandbox.team.clone(),
        project: sandbox.project.clone(),
        name,
        state,
        sandbox: sandbox.id.clone(),
        template: sandbox.template.clone(),
        build: sandbox.build.clone(),
        alias: sandbox.alias.clone(),
        resources: sandbox.resources,
        boot: sandbox.boot.clone(),
        kind: SnapshotKind::Disk,
        isolation: sandbox.isolation.clone(),
        created_at: Timestamp::now(),
    }
}
