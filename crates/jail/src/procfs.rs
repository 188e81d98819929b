//! The sandbox's own `/proc`, with host information hidden or read-only.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::error::{During, Error};
use crate::root::{INERT, attach, copy_tree, directory, filesystem, make_read_only};

/// Masked: files and directories appear empty.
const MASKED: [&str; 14] = [
    "acpi",
    "asound",
    "driver",
    "interrupts",
    "kallsyms",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
];

/// Read-only.
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Mounts `/proc`. Must be called as the first process of the new pid namespace, while the host's `/proc` is still
/// fully visible (otherwise the kernel refuses a new one), with the sandbox's `/dev` and the file for its boot id.
pub(crate) fn mount(root: BorrowedFd<'_>, dev: BorrowedFd<'_>, boot_id: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    let target = directory(root, "proc")?;
    let proc = filesystem("proc", &[], INERT)?;
    attach(&proc, &target).during("attach /proc")?;
    for name in READ_ONLY {
        let Some(place) = find(&proc, name)? else { continue };
        let copy = copy_tree(&proc, name, true).during("copy a part of /proc")?;
        make_read_only(&copy).during("make a part of /proc read-only")?;
        attach(&copy, &place).during("cover a part of /proc")?;
    }
    let empty = filesystem("tmpfs", &[("mode", "0555"), ("size", "4k"), ("nr_inodes", "2")], INERT)?;
    make_read_only(&empty).during("make the mask read-only")?;
    for name in MASKED {
        let Some(place) = find(&proc, name)? else { continue };
        let is_dir = FileType::from_raw_mode(fstat(&place).during(name)?.st_mode).is_dir();
        let mask = if is_dir { copy_tree(&empty, "", false) } else { copy_tree(dev, "null", false) }
            .during("copy a mask of /proc")?;
        attach(&mask, &place).during("mask a part of /proc")?;
    }
    if let Some(place) = find(&proc, "sys/kernel/random/boot_id")? {
        let copy = copy_tree(boot_id, "", false).during("copy the boot id")?;
        make_read_only(&copy).during("make the boot id read-only")?;
        attach(&copy, place).during("attach the boot id")?;
    }
    Ok(proc)
}

fn find(proc: impl AsFd, name: &'static str) -> Result<Option<OwnedFd>, Error> {
    match openat(proc, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT | Errno::ACCESS | Errno::PERM) => Ok(None),
        Err(error) => Err(error).during(name),
    }
}
