//! What every isolation backend offers to lifecycle.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;
use cabana_guest_link::GuestLink;
use cabana_storage::{Pool, Tree};
use cabana_types::guest::GuestConfig;
use cabana_types::{BuildId, Resources, SandboxId, TemplateId};
use tokio::sync::watch;

use crate::Error;

/// What a backend can do; the API refuses the rest with a clear error.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// Disk limits are enforced.
    pub disk_quota: bool,
    /// Sandboxes can sleep with their processes and memory.
    pub pause_memory: bool,
    /// That sleep outlives a restart of the machine.
    pub memory_outlives_reboot: bool,
    /// Disks can be copied: snapshots and forks.
    pub copies: bool,
}

/// Where a sandbox's disk comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSource {
    /// An empty one is made.
    New,
    /// It has one from before.
    Kept,
    /// A copy of a snapshot is made.
    Snapshot(TemplateId),
}

/// What a sandbox's root filesystem is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// A build, which all its sandboxes share, with the sandbox's own disk over it.
    Build {
        /// Which.
        build: BuildId,
        /// Its disk.
        disk: DiskSource,
    },
    /// A copy of a whole tree, made now: what a step of a build changes.
    Copy(Tree),
}

impl Root {
    /// The build that it shares, if it does.
    pub fn build(&self) -> Option<&BuildId> {
        match self {
            Root::Build { build, .. } => Some(build),
            Root::Copy(_) => None,
        }
    }

    /// Whether there is a disk from before.
    pub fn is_kept(&self) -> bool {
        matches!(self, Root::Build { disk: DiskSource::Kept, .. })
    }
}

/// A directory of the host that is mounted inside.
#[derive(Debug, Clone)]
pub struct Mount {
    /// The directory, open.
    pub source: Arc<OwnedFd>,
    /// Absolute path inside.
    pub target: String,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Everything needed to bring one sandbox up.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// Its id.
    pub id: SandboxId,
    /// Its root filesystem.
    pub root: Root,
    /// Its limits.
    pub resources: Resources,
    /// Further directories of the host that are mounted inside.
    pub mounts: Vec<Mount>,
    /// Whether it may reach the outside.
    pub internet: bool,
    /// What the guest is told.
    pub guest: GuestConfig,
}

/// A sandbox that is up.
#[derive(Debug, Clone)]
pub struct Live {
    /// Its id.
    pub id: SandboxId,
    /// How its guest and its ports are reached.
    pub link: GuestLink,
    /// How it is doing.
    pub vitals: watch::Receiver<Vitals>,
}

/// How a sandbox is doing, pushed by the backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Processes inside that were killed for lack of memory.
    pub oom_kills: u64,
    /// Set once, when its first process has ended.
    pub death: Option<Death>,
}

/// Why a sandbox's first process ended without being asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Killed for lack of memory.
    OutOfMemory,
    /// Anything else.
    Died,
}

/// What a sandbox uses now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// CPU time used so far, microseconds.
    pub cpu_usec: u64,
    /// Memory in use, bytes, without the page cache.
    pub memory_used: u64,
    /// Page cache, bytes.
    pub memory_cache: u64,
    /// Of that, files that are in memory alone (`/dev/shm`), bytes: no other copy is there to read them from again.
    pub memory_shared: u64,
    /// Disk in use beyond the template, bytes.
    pub disk_used: u64,
    /// Bytes that went through its network since it has it.
    pub network_bytes: u64,
}

/// What of a sandbox is in the world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observed {
    /// Its first process.
    pub processes: bool,
    /// Whether that stands still.
    pub frozen: bool,
    /// Its disk.
    pub disk: bool,
}

/// An isolation backend. All methods may be called at once for different sandboxes; for one sandbox, one at a time.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Its name in the API (`native`).
    fn name(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Brings a sandbox up and returns when its guest serves. What was left of an earlier run is ended first. On an error nothing of it
    /// is left but a disk that was kept.
    async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error>;

    /// A sandbox that is alive, frozen or not, also one that an earlier server left; `None` if its processes are gone.
    async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error>;

    /// Makes all its processes stand still, and returns when they do.
    async fn freeze(&self, id: &SandboxId) -> Result<(), Error>;

    /// Lets its processes go on; those that were not frozen just do.
    async fn thaw(&self, id: &SandboxId) -> Result<(), Error>;

    /// Ends its processes and removes everything of it but its disk, which is then safe from a power failure. May be called twice.
    async fn stop(&self, id: &SandboxId) -> Result<(), Error>;

    /// Gives memory of a frozen sandbox back to the machine, as far as that can be done. Best effort.
    async fn reclaim(&self, id: &SandboxId);

    /// Its disk's directory, open for reading, if there is one; for a sandbox that is not up.
    async fn open_disk(&self, id: &SandboxId) -> Result<Option<OwnedFd>, Error>;

    /// The directory of an empty disk, in the place of any that is there; for a sandbox that is not up.
    async fn fresh_disk(&self, id: &SandboxId, resources: Resources) -> Result<OwnedFd, Error>;

    /// Removes its disk, if there is one; for a sandbox that is not up.
    async fn delete_disk(&self, id: &SandboxId) -> Result<(), Error>;

    /// Changes its limits, up or not.
    async fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Error>;

    /// Keeps a copy of a sandbox's disk, which stands still or is not up.
    async fn take_snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error>;

    /// Removes such a copy; one that is not there is fine.
    async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error>;

    /// All such copies.
    async fn snapshots(&self) -> Result<Vec<TemplateId>, Error>;

    /// Ends a sandbox, if it is up, and removes every trace of it. May be called for one that never came up, and twice; goes on after
    /// an error and reports all of them.
    async fn destroy(&self, id: &SandboxId) -> Result<(), Error>;

    /// Every sandbox of which something is in the world, for sweeping what nobody remembers.
    async fn inventory(&self) -> Result<Vec<SandboxId>, Error>;

    /// What of a sandbox is there.
    async fn observe(&self, id: &SandboxId) -> Result<Observed, Error>;

    /// What a sandbox uses now.
    async fn stats(&self, id: &SandboxId) -> Result<Stats, Error>;

    /// Builds of which a root filesystem is there.
    async fn has_build(&self, build: &BuildId) -> bool;

    /// Where its root filesystems are kept, if they can be made here.
    fn pool(&self) -> Option<&Arc<Pool>>;
}
