//! A private `/dev`: a small tmpfs with device nodes of its own, terminals and shared memory. Inodes of the host's `/dev`
//! would be shared by all sandboxes, which could then watch and signal each other through them.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, Uid, chownat, makedev, mknodat, symlinkat};
use rustix::mount::MountAttrFlags;

use crate::error::{During, Error};
use crate::machine::TERMINALS;
use crate::root::{INERT, attach, directory, filesystem};

/// Character devices, with their numbers.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

const NO_PROGRAMS: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
];

/// The filesystem with the nodes, for a sandbox whose root has this id. Made by the launcher, because nodes on a
/// filesystem of another user namespace cannot be opened.
pub(crate) fn nodes(owner: u32) -> Result<OwnedFd, Error> {
    let id = owner.to_string();
    let options = [("mode", "0755"), ("size", "64k"), ("nr_inodes", "64"), ("uid", &id), ("gid", &id)];
    let dev = filesystem("tmpfs", &options, NO_PROGRAMS)?;
    for (name, major, minor) in DEVICES {
        let mode = Mode::from_raw_mode(0o666);
        mknodat(&dev, name, FileType::CharacterDevice, mode, makedev(major, minor)).during("make a device")?;
        let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
        chownat(&dev, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW).during("give a device away")?;
    }
    Ok(dev)
}

/// Mounts the filesystem with the nodes at `/dev`, and adds the rest.
pub(crate) fn mount(root: BorrowedFd<'_>, dev: BorrowedFd<'_>, shm_bytes: u64) -> Result<(), Error> {
    let target = directory(root, "dev")?;
    attach(dev, &target).during("attach /dev")?;
    for (target, name) in LINKS {
        symlinkat(target, dev, name).during("link a device")?;
    }
    let size = shm_bytes.to_string();
    let below = |name, kind, options: &[(&str, &str)], attributes| {
        let place = directory(dev, name)?;
        attach(filesystem(kind, options, attributes)?, place).during(kind)
    };
    // The machine has a limit too, which one sandbox could use up.
    let most = TERMINALS.to_string();
    let terminals = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", "5"), ("max", &most)];
    below("pts", "devpts", &terminals, NO_PROGRAMS)?;
    below("shm", "tmpfs", &[("mode", "1777"), ("size", &size)], INERT)?;
    below("mqueue", "mqueue", &[], INERT)
}
