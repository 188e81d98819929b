//! Launch request from the server to the launcher. Descriptors are sent in the same message; the plan refers to them by
//! index.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use cabana_types::SandboxId;
use serde::{Deserialize, Serialize};

use crate::channel::MAX_FDS;
use crate::error::Error;

/// Host ids of one sandbox: 65,536 ids starting at `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UidRange {
    /// The host id of root inside.
    pub base: u32,
}

impl UidRange {
    /// Ids in a range.
    pub const LEN: u32 = 65_536;

    /// The mapping in the format of `/proc/<pid>/uid_map`.
    pub fn map(self) -> String {
        format!("0 {} {}", self.base, Self::LEN)
    }
}

/// A directory of the host's cgroup tree that belongs to the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupDir {
    /// Where it is mounted below `/sys/fs/cgroup` inside: a v1 controller's name, or empty for v2.
    pub shown_as: String,
    /// Where it is on the host.
    pub path: PathBuf,
    /// Whether programs inside may read it.
    pub visible: bool,
}

/// Index of a descriptor in the message of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FdIndex(u8);

/// The root filesystem of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RootSpec {
    /// The disk as the upper layer of an overlay. The disk is a directory with `upper` and `work`.
    Overlay {
        /// The template's root directory, shared with other sandboxes.
        template: FdIndex,
        /// The sandbox's disk.
        disk: FdIndex,
    },
    /// The disk alone, which is a complete root filesystem.
    Whole {
        /// The sandbox's disk.
        disk: FdIndex,
    },
}

impl RootSpec {
    fn layers(self) -> Vec<FdIndex> {
        match self {
            Self::Overlay { template, disk } => vec![template, disk],
            Self::Whole { disk } => vec![disk],
        }
    }
}

/// A directory of the host that is mounted inside, with the sandbox's ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountSpec {
    /// The directory.
    pub source: FdIndex,
    /// Absolute path inside; missing directories are created on the sandbox's disk.
    pub target: String,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// Descriptors that the guest inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestFds {
    /// Listening control socket.
    pub control: FdIndex,
    /// Listening socket for traffic.
    pub traffic: FdIndex,
    /// Its configuration, a sealed memory file.
    pub config: FdIndex,
    /// Write end of the readiness pipe.
    pub ready: FdIndex,
}

/// A sandbox to launch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Its id, which is also its host name.
    pub id: SandboxId,
    /// Its ids on the host.
    pub uids: UidRange,
    /// Cgroups that its first process joins.
    pub cgroups: Vec<CgroupDir>,
    /// A directory on the host with the empty directories `template`, `disk` and `root`, used as mount points during
    /// setup.
    pub staging: PathBuf,
    /// Its network namespace.
    pub network: FdIndex,
    /// Its root filesystem.
    pub root: RootSpec,
    /// Further mounts, in order.
    pub mounts: Vec<MountSpec>,
    /// Directory with files that the sandbox sees in `/proc` and `/sys` instead of the host's: `cpuinfo`, `loadavg`,
    /// `meminfo`, `stat`, `vmstat` and `online`. The host may rewrite them while it runs.
    pub facts: Option<FdIndex>,
    /// Processors that it is told of.
    pub cpu_count: u32,
    /// What the guest inherits.
    pub guest: GuestFds,
    /// Content of `/etc/resolv.conf`.
    pub resolv_conf: String,
    /// Content of `/etc/hosts`.
    pub hosts: String,
    /// Its boot id.
    pub boot_id: String,
    /// Size of `/dev/shm`, bytes.
    pub shm_bytes: u64,
    /// Whether programs inside gain nothing by set-uid files, so that `sudo` does not work.
    pub no_new_privileges: bool,
}

impl Plan {
    /// The directories that the first process mounts: the layers of the root, then [`Plan::mounts`].
    pub(crate) fn directories(&self) -> Vec<FdIndex> {
        self.root.layers().into_iter().chain(self.mounts.iter().map(|mount| mount.source)).collect()
    }
}

/// The descriptors of a plan, to be sent.
#[derive(Debug, Default)]
pub struct Descriptors<'a>(Vec<BorrowedFd<'a>>);

impl<'a> Descriptors<'a> {
    /// Adds a descriptor; the plan refers to it by the index. One message carries a bounded number of them.
    pub fn add(&mut self, fd: BorrowedFd<'a>) -> Result<FdIndex, Error> {
        let index = u8::try_from(self.0.len()).ok().filter(|_| self.0.len() < MAX_FDS);
        let index = index.ok_or(Error::Launcher("does not accept this many descriptors in one plan"))?;
        self.0.push(fd);
        Ok(FdIndex(index))
    }

    pub(crate) fn as_slice(&self) -> &[BorrowedFd<'a>] {
        &self.0
    }
}

/// The descriptors of a plan, as received.
pub(crate) struct Received(Vec<OwnedFd>);

impl Received {
    pub(crate) fn new(fds: Vec<OwnedFd>) -> Self {
        Self(fds)
    }

    /// The descriptor at an index.
    pub(crate) fn get(&self, index: FdIndex) -> Result<BorrowedFd<'_>, Error> {
        use std::os::fd::AsFd;
        self.0.get(usize::from(index.0)).map(AsFd::as_fd).ok_or(Error::Launcher("got too few descriptors"))
    }
}

/// The launcher's response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The sandbox's first process runs the guest; its pidfd is sent with this message.
    Launched {
        id: SandboxId,
        /// Its pid on the host.
        pid: i32,
    },
    /// It could not be launched, and was cleaned up.
    Failed {
        id: SandboxId,
        /// The step and its error.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn descriptors_are_bounded_and_found_by_index() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let mut descriptors = Descriptors::default();
        for number in 0..MAX_FDS {
            assert_eq!(usize::from(descriptors.add(file.as_fd()).unwrap().0), number);
        }
        assert!(descriptors.add(file.as_fd()).is_err());
        let received = Received::new(vec![file.into()]);
        assert!(received.get(FdIndex(0)).is_ok());
        assert!(received.get(FdIndex(1)).is_err());
    }
}
