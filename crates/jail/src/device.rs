//! A private `/dev`: a small tmpfs with a few safe host devices bound into it, and its own terminals and shared memory.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat, symlinkat};
use rustix::mount::MountAttrFlags;

use crate::error::{During, Error};
use crate::machine::TERMINALS;
use crate::root::{INERT, attach, copy_tree, directory, filesystem};

const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// Mounts `/dev` and returns its mount. The host's devices must still be visible.
pub(crate) fn mount(root: BorrowedFd<'_>, shm_bytes: u64) -> Result<OwnedFd, Error> {
    let target = directory(root, "dev")?;
    let no_programs = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let dev = filesystem("tmpfs", &[("mode", "0755"), ("size", "64k"), ("nr_inodes", "64")], no_programs)?;
    attach(&dev, &target).during("attach /dev")?;
    for name in DEVICES {
        let node = openat(&dev, name, OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))
            .during("make a device")?;
        let host = copy_tree(CWD, &format!("/dev/{name}"), false).during("open a device of the host")?;
        attach(&host, &node).during("attach a device")?;
    }
    for (target, name) in LINKS {
        symlinkat(target, &dev, name).during("link a device")?;
    }
    let size = shm_bytes.to_string();
    let below = |name, kind, options: &[(&str, &str)], attributes| {
        let place = directory(&dev, name)?;
        attach(filesystem(kind, options, attributes)?, place).during(kind)
    };
    // The machine has a limit too, which one sandbox could use up.
    let most = TERMINALS.to_string();
    let terminals = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", "5"), ("max", &most)];
    below("pts", "devpts", &terminals, no_programs)?;
    below("shm", "tmpfs", &[("mode", "1777"), ("size", &size)], INERT)?;
    below("mqueue", "mqueue", &[], INERT)?;
    Ok(dev)
}
