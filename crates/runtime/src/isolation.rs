//! Trait [`Isolation`]: one way to run sandboxes. Disks are not part of it: see [`cabana_storage::Disks`].

use std::sync::Arc;

use async_trait::async_trait;
use cabana_types::egress::Denials;
use cabana_types::{EgressPolicy, Resources, SandboxId};

use crate::Error;
use crate::live::{Live, Observed, Stats};
use crate::spec::LaunchSpec;

/// What an isolation backend offers. The API refuses the rest with a clear error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IsolationFacts {
    /// Sandboxes can be paused with their memory kept in RAM: [`Isolation::freeze`] and [`Isolation::thaw`].
    pub ram_pause: bool,
    /// Memory can be written to disk and restored: [`Isolation::checkpoint`] and [`Isolation::restore`].
    pub checkpoint: Option<CheckpointFacts>,
    /// Directories of the host can be mounted inside: [`LaunchSpec::mounts`].
    pub mounts: bool,
    /// What running out of memory ends.
    pub oom: OomScope,
}

/// What checkpoints of a backend survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointFacts {
    /// A restart of the machine.
    pub reboot: bool,
}

/// What the kernel kills when a sandbox reaches its memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OomScope {
    /// One process inside.
    Process,
    /// The whole sandbox.
    Sandbox,
}

impl OomScope {
    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Sandbox => "sandbox",
        }
    }
}

/// The memory of a sandbox, written to disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Directory of the state.
    pub path: std::path::PathBuf,
}

/// An isolation backend. Methods for different sandboxes may be called concurrently; for one sandbox, one at a time.
#[async_trait]
pub trait Isolation: Send + Sync + 'static {
    /// Its name in the API and in the store (`native`).
    fn name(&self) -> &'static str;

    /// What it offers.
    fn facts(&self) -> IsolationFacts;

    /// Starts a sandbox and returns when its guest serves. Leftovers of an earlier run are removed first. After an error nothing of it
    /// is left but a disk that existed before.
    async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error>;

    /// A running sandbox, frozen or not, also one that an earlier server launched; `None` if its processes are gone.
    async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error>;

    /// What of a sandbox exists.
    async fn observe(&self, id: &SandboxId) -> Result<Observed, Error>;

    /// Every sandbox of which this backend holds something, disks excepted.
    async fn inventory(&self) -> Result<Vec<SandboxId>, Error>;

    /// Freezes all processes, and returns when they are frozen.
    async fn freeze(&self, id: &SandboxId) -> Result<(), Error>;

    /// Thaws all processes; a sandbox that is not frozen is not an error.
    async fn thaw(&self, id: &SandboxId) -> Result<(), Error>;

    /// Writes the memory of a sandbox to a directory.
    async fn checkpoint(&self, _id: &SandboxId, _directory: &std::path::Path) -> Result<Checkpoint, Error> {
        Err(Error::NotOffered { isolation: self.name(), what: "checkpoints" })
    }

    /// Starts a sandbox from a checkpoint.
    async fn restore(&self, _spec: LaunchSpec, _checkpoint: &Checkpoint) -> Result<Live, Error> {
        Err(Error::NotOffered { isolation: self.name(), what: "checkpoints" })
    }

    /// Returns memory of a frozen sandbox to the machine, as far as possible. Best effort.
    async fn reclaim(&self, id: &SandboxId);

    /// Changes the limits of a sandbox, running or not.
    async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error>;

    /// Replaces where a running sandbox may connect, frozen or not: connections that are no longer allowed end. One that
    /// does not run is not an error: its policy is given to the next launch.
    async fn set_egress(&self, _id: &SandboxId, _policy: Arc<EgressPolicy>) -> Result<(), Error> {
        Err(Error::NotOffered { isolation: self.name(), what: "changing where a sandbox may connect" })
    }

    /// What a running sandbox was denied since it was started.
    async fn denials(&self, _id: &SandboxId) -> Result<Denials, Error> {
        Err(Error::NotOffered { isolation: self.name(), what: "counting denied connections" })
    }

    /// What a running sandbox uses.
    async fn stats(&self, id: &SandboxId) -> Result<Stats, Error>;

    /// Ends all processes and removes everything but the disk, which is then synced. Idempotent.
    async fn stop(&self, id: &SandboxId) -> Result<(), Error>;

    /// Ends a sandbox and removes everything, the disk included. Idempotent, also for a sandbox that was never launched. Continues after
    /// an error and reports all errors.
    async fn destroy(&self, id: &SandboxId) -> Result<(), Error>;
}
