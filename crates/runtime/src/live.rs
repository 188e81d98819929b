//! What is known of a running sandbox.

use cabana_guest_link::GuestLink;
use cabana_types::SandboxId;
use tokio::sync::watch;

/// A running sandbox.
#[derive(Debug, Clone)]
pub struct Live {
    /// Its id.
    pub id: SandboxId,
    /// How its guest and its ports are reached.
    pub link: GuestLink,
    /// Updates of its vitals.
    pub vitals: watch::Receiver<Vitals>,
}

/// What a backend reports of a running sandbox without being asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Processes inside that were killed for lack of memory.
    pub oom_kills: u64,
    /// Set once, when its first process has ended.
    pub death: Option<Death>,
}

/// Why a sandbox's first process ended without a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Killed for lack of memory.
    OutOfMemory,
    /// Anything else.
    Died,
}

/// What a sandbox uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// CPU time since launch, microseconds.
    pub cpu_usec: u64,
    /// Memory in use, bytes, without the page cache.
    pub memory_used: u64,
    /// Page cache, bytes.
    pub memory_cache: u64,
    /// Part of the page cache that has no copy on disk (`/dev/shm`), bytes.
    pub memory_shared: u64,
    /// Disk in use beyond the template, bytes.
    pub disk_used: u64,
    /// Bytes through its network slot.
    pub network_bytes: u64,
}

/// What of a sandbox exists on the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Observed {
    /// Its first process.
    pub processes: bool,
    /// Whether its processes are frozen.
    pub frozen: bool,
    /// Its disk.
    pub disk: bool,
}
