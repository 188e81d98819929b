//! What the server tells the launcher about one sandbox. The descriptors travel beside it, in the order of [`PlanFd`].

use std::path::PathBuf;

use cabana_types::SandboxId;
use serde::{Deserialize, Serialize};

/// Ids of one sandbox on the host: 65,536 from this on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UidRange {
    /// The host's id of root inside.
    pub base: u32,
}

impl UidRange {
    /// Ids in a range.
    pub const LEN: u32 = 65_536;

    /// The mapping as `/proc/<pid>/uid_map` takes it.
    pub fn map(self) -> String {
        format!("0 {} {}", self.base, Self::LEN)
    }
}

/// A directory of the host's cgroup tree that belongs to the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupDir {
    /// Where it is shown below `/sys/fs/cgroup` inside: a v1 controller's name, or empty for v2.
    pub shown_as: String,
    /// Where it is on the host.
    pub path: PathBuf,
    /// Whether programs inside may read it.
    pub visible: bool,
}

/// What a sandbox's root filesystem is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootKind {
    /// Its disk, laid over a template that it shares.
    Overlay,
    /// Its disk alone, which is a whole root filesystem.
    Whole,
}

/// One sandbox to launch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Its id, and its host name inside.
    pub id: SandboxId,
    /// Its ids on the host.
    pub uids: UidRange,
    /// Cgroups that its first process joins.
    pub cgroups: Vec<CgroupDir>,
    /// A directory on the host with the empty directories `template`, `disk` and `root`, where its mounts are put together.
    pub staging: PathBuf,
    /// What its root filesystem is made of.
    pub root: RootKind,
    /// Content of `/etc/resolv.conf`.
    pub resolv_conf: String,
    /// Content of `/etc/hosts`.
    pub hosts: String,
    /// Its boot id.
    pub boot_id: String,
    /// Size of `/dev/shm`, bytes.
    pub shm_bytes: u64,
}

/// Descriptors of a launch request, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanFd {
    /// Its network namespace.
    Network,
    /// The template's root directory; not looked at where the disk is a whole root filesystem.
    Template,
    /// Its disk: a directory with `upper` and `work`, or the root of a whole root filesystem.
    Disk,
    /// The listening socket of its guest.
    Listener,
    /// The guest's configuration, a sealed memory file.
    Config,
    /// Write end of the guest's readiness pipe.
    Ready,
}

impl PlanFd {
    /// How many there are.
    pub const COUNT: usize = 6;
}

/// The launcher's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The sandbox's first process runs the guest; a descriptor of it comes with this.
    Launched {
        /// Which.
        id: SandboxId,
        /// Its pid on the host.
        pid: i32,
    },
    /// It could not be launched; nothing of it is left.
    Failed {
        /// Which.
        id: SandboxId,
        /// The step and its error.
        message: String,
    },
}
