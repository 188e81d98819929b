//! What a sandbox is launched with.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use cabana_storage::Tree;
use cabana_types::guest::GuestConfig;
use cabana_types::{BuildId, EgressPolicy, Resources, SandboxId, TemplateId};

/// Where a sandbox's disk comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSource {
    /// An empty disk is created.
    New,
    /// The sandbox has a disk.
    Kept,
    /// A copy of a snapshot is created.
    Snapshot(TemplateId),
}

/// The root filesystem of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// A build, shared by all its sandboxes, below the sandbox's own disk.
    Build {
        /// The build.
        build: BuildId,
        /// The disk.
        disk: DiskSource,
    },
    /// A copy of a complete tree, created at launch: for build steps.
    Copy(Tree),
}

impl Root {
    /// The build, if it shares one.
    pub fn build(&self) -> Option<&BuildId> {
        match self {
            Root::Build { build, .. } => Some(build),
            Root::Copy(_) => None,
        }
    }

    /// Whether the sandbox has a disk already.
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

/// Everything needed to launch one sandbox.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// Its id.
    pub id: SandboxId,
    /// Its root filesystem.
    pub root: Root,
    /// Its limits.
    pub resources: Resources,
    /// Further mounts, in order.
    pub mounts: Vec<Mount>,
    /// Where it may connect.
    pub egress: Arc<EgressPolicy>,
    /// The configuration of the guest.
    pub guest: GuestConfig,
    /// Whether programs inside gain nothing by set-uid files, so that `sudo` does not work.
    pub no_new_privileges: bool,
}

impl LaunchSpec {
    /// Bytes of the disk limit.
    pub(crate) fn disk_bytes(&self) -> u64 {
        u64::from(self.resources.disk_mb) << 20
    }
}
