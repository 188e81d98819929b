//! The sandbox's own `/proc`, with facts about the host hidden, read-only, or replaced by the sandbox's own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, move_mount};

use crate::error::{During, Error};
use crate::root::{INERT, attach, copy_tree, directory, filesystem, make_read_only};

/// Files that appear empty: what they tell is the host's, and some change with every move of a neighbour.
const MASKED: [&str; 32] = [
    "buddyinfo",
    "cmdline",
    "config.gz",
    "consoles",
    "diskstats",
    "interrupts",
    "iomem",
    "ioports",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "mdstat",
    "modules",
    "pagetypeinfo",
    "partitions",
    "sched_debug",
    "schedstat",
    "slabinfo",
    "softirqs",
    "swaps",
    "sys/fs/aio-nr",
    "sys/fs/dentry-state",
    "sys/fs/file-nr",
    "sys/fs/inode-nr",
    "sys/fs/inode-state",
    "sys/kernel/pty/nr",
    "timer_list",
    "timer_stats",
    "zoneinfo",
];

/// Directories that appear empty.
const MASKED_DIRS: [&str; 6] = ["acpi", "asound", "driver", "dynamic_debug", "pressure", "scsi"];

/// Read-only.
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Files of the sandbox's own in place of the host's, by their names in the directory that a plan names.
pub(crate) const OWN: [&str; 5] = ["cpuinfo", "loadavg", "meminfo", "stat", "vmstat"];

/// Files of this process in place of the host's, by their path below `/proc`.
pub(crate) struct Replaced<'a> {
    pub(crate) path: &'static str,
    pub(crate) file: BorrowedFd<'a>,
}

/// Mounts `/proc`. Must be called as the first process of the new pid namespace, while the host's `/proc` is still
/// fully visible (otherwise the kernel refuses a new one), with the sandbox's `/dev` mounted.
pub(crate) fn mount(root: BorrowedFd<'_>, dev: BorrowedFd<'_>, replaced: &[Replaced<'_>]) -> Result<OwnedFd, Error> {
    let target = directory(root, "proc")?;
    let proc = filesystem("proc", &[], INERT)?;
    attach(&proc, &target).during("attach /proc")?;
    for name in READ_ONLY {
        let copy = match copy_tree(&proc, name, true) {
            Err(Errno::NOENT) => continue,
            copy => copy.during("copy a part of /proc")?,
        };
        make_read_only(&copy).during("make a part of /proc read-only")?;
        cover(&proc, name, &copy)?;
    }
    for name in MASKED {
        cover(&proc, name, copy_tree(dev, "null", false).during("copy a mask of /proc")?)?;
    }
    let empty = filesystem("tmpfs", &[("mode", "0555"), ("size", "4k"), ("nr_inodes", "2")], INERT)?;
    make_read_only(&empty).during("make the mask read-only")?;
    for name in MASKED_DIRS {
        cover(&proc, name, copy_tree(&empty, "", false).during("copy a mask of /proc")?)?;
    }
    for Replaced { path, file } in replaced {
        cover(&proc, path, file)?;
    }
    Ok(proc)
}

/// Covers a part of `/proc`, if this kernel has it and lets us see it.
fn cover(proc: impl AsFd, name: &str, mount: impl AsFd) -> Result<(), Error> {
    match move_mount(mount, "", proc, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH) {
        Ok(()) | Err(Errno::NOENT | Errno::ACCESS) => Ok(()),
        Err(error) => Err(error).during("cover a part of /proc"),
    }
}
