//! The exclusive right to act on one sandbox, and the only way to reach its isolation backend.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use cabana_runtime::{Error, Isolations, LaunchSpec, Live, Observed, Stats};
use cabana_storage::Pool;
use cabana_types::egress::Denials;
use cabana_types::{BuildId, EgressPolicy, Resources, SandboxId, TemplateId};
use tokio::sync::OwnedMutexGuard;

use super::entry::Entry;

/// The isolation backends and disks of the host. Calls about one sandbox need its [`Held`]; this type offers the others.
#[derive(Debug, Clone)]
pub(super) struct Host {
    backends: Arc<Isolations>,
}

impl Host {
    pub(super) fn new(backends: Arc<Isolations>) -> Self {
        Self { backends }
    }

    /// The isolation backends, to ask what they offer.
    pub(super) fn isolations(&self) -> &Isolations {
        &self.backends
    }

    pub(super) fn pool(&self) -> Option<&Arc<Pool>> {
        self.backends.pool()
    }

    /// Sets which backend isolates a sandbox.
    pub(super) fn assign(&self, id: &SandboxId, isolation: &str) {
        self.backends.assign(id, isolation);
    }

    /// Whether a sandbox can be paused with its memory in RAM.
    pub(super) fn can_freeze(&self, id: &SandboxId) -> bool {
        self.backends.can_freeze(id)
    }

    pub(super) fn can_snapshot(&self) -> bool {
        self.backends.disks().facts().snapshots
    }

    /// All sandboxes that have resources on the host.
    pub(super) async fn inventory(&self) -> Result<Vec<SandboxId>, Error> {
        self.backends.inventory().await
    }

    pub(super) async fn has_build(&self, build: &BuildId) -> bool {
        self.backends.has_build(build).await
    }

    /// All snapshots of disks.
    pub(super) async fn snapshots(&self) -> Result<Vec<TemplateId>, Error> {
        self.backends.snapshots().await
    }

    pub(super) async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        self.backends.delete_snapshot(snapshot).await
    }
}

/// The exclusive right to act on one sandbox. It is obtained from the lock of the sandbox's entry and released when it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    entry: Arc<Entry>,
    _guard: OwnedMutexGuard<()>,
}

impl Held {
    pub(super) async fn lock(entry: &Arc<Entry>) -> Self {
        Self { _guard: entry.lock.lock().await, entry: Arc::clone(entry) }
    }

    pub(super) async fn lock_interrupting(entry: &Arc<Entry>) -> Self {
        Self { _guard: entry.lock.lock_interrupting().await, entry: Arc::clone(entry) }
    }

    pub(super) fn try_lock(entry: &Arc<Entry>) -> Option<Self> {
        Some(Self { _guard: entry.lock.try_lock()?, entry: Arc::clone(entry) })
    }

    pub(super) fn id(&self) -> &SandboxId {
        &self.entry.id
    }

    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    fn backends(&self) -> &Isolations {
        &self.entry.host.backends
    }

    /// Starts the sandbox and returns when its guest serves.
    pub(super) async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error> {
        self.backends().launch(spec).await
    }

    /// The running or frozen sandbox, also of an earlier server; `None` if its processes are gone.
    pub(super) async fn adopt(&self) -> Result<Option<Live>, Error> {
        self.backends().adopt(self.id()).await
    }

    /// Freezes all its processes.
    pub(super) async fn freeze(&self) -> Result<(), Error> {
        self.backends().freeze(self.id()).await
    }

    /// Thaws its processes; running ones keep running.
    pub(super) async fn thaw(&self) -> Result<(), Error> {
        self.backends().thaw(self.id()).await
    }

    /// Stops its processes and removes everything but its disk.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        self.backends().stop(self.id()).await
    }

    /// Returns memory of the frozen sandbox to the host, best effort.
    pub(super) async fn reclaim(&self) {
        self.backends().reclaim(self.id()).await;
    }

    /// Stops it and removes all its resources.
    pub(super) async fn destroy(&self) -> Result<(), Error> {
        self.backends().destroy(self.id()).await
    }

    pub(super) async fn resize(&self, resources: Resources) -> Result<(), Error> {
        self.backends().resize(self.id(), resources).await
    }

    /// Replaces where it may connect, if it runs.
    pub(super) async fn set_egress(&self, policy: Arc<EgressPolicy>) -> Result<(), Error> {
        self.backends().set_egress(self.id(), policy).await
    }

    pub(super) async fn denials(&self) -> Result<Denials, Error> {
        self.backends().denials(self.id()).await
    }

    pub(super) async fn stats(&self) -> Result<Stats, Error> {
        self.backends().stats(self.id()).await
    }

    pub(super) async fn observe(&self) -> Result<Observed, Error> {
        self.backends().observe(self.id()).await
    }

    /// Its disk's directory, if there is one. The sandbox must not run.
    pub(super) async fn open_disk(&self) -> Result<Option<OwnedFd>, Error> {
        self.backends().open_disk(self.id()).await
    }

    /// The directory of a new empty disk that replaces any other. The sandbox must not run.
    pub(super) async fn fresh_disk(&self, resources: Resources) -> Result<OwnedFd, Error> {
        self.backends().fresh_disk(self.id(), resources).await
    }

    /// Deletes its disk, if there is one. The sandbox must not run.
    pub(super) async fn delete_disk(&self) -> Result<(), Error> {
        self.backends().delete_disk(self.id()).await
    }

    /// Snapshots its disk. The sandbox must be frozen or stopped.
    pub(super) async fn take_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        self.backends().take_snapshot(self.id(), snapshot).await
    }
}
