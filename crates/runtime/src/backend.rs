//! What every isolation backend offers to lifecycle.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use async_trait::async_trait;
use cabana_types::guest::GuestConfig;
use cabana_types::{BuildId, Resources, SandboxId};
use tokio::sync::watch;

use crate::Error;

/// What a backend can do; the API refuses the rest with a clear error.
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// Disk limits are enforced.
    pub disk_quota: bool,
}

/// Everything needed to bring one sandbox up.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// Its id.
    pub id: SandboxId,
    /// The root filesystem.
    pub build: BuildId,
    /// Its limits.
    pub resources: Resources,
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
    /// Its address on the host's side network: ports on `0.0.0.0` inside are reached here.
    pub address: Ipv4Addr,
    /// The Unix socket on which its guest serves the host.
    pub guest_socket: PathBuf,
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
    /// Disk in use beyond the template, bytes.
    pub disk_used: u64,
}

/// An isolation backend. All methods may be called at once for different sandboxes; for one sandbox, one at a time.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Its name in the API (`native`).
    fn name(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Brings a sandbox up and returns when its guest serves. On an error nothing of it is left.
    async fn launch(&self, spec: LaunchSpec) -> Result<Live, Error>;

    /// Takes over a sandbox that an earlier server left; `None` if it is not alive.
    async fn adopt(&self, id: &SandboxId) -> Result<Option<Live>, Error>;

    /// Ends a sandbox, if it is up, and removes every trace of it. May be called for one that never came up, and twice; goes on after
    /// an error and reports all of them.
    async fn destroy(&self, id: &SandboxId) -> Result<(), Error>;

    /// Every sandbox of which something is in the world, for sweeping what nobody remembers.
    async fn inventory(&self) -> Result<Vec<SandboxId>, Error>;

    /// What a sandbox uses now.
    async fn stats(&self, id: &SandboxId) -> Result<Stats, Error>;

    /// Builds of which a root filesystem is there.
    async fn has_build(&self, build: &BuildId) -> bool;
}
