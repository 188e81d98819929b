//! Network namespaces: creating, entering, pinning to a file, and their settings. These functions change the calling
//! thread's namespace, so only dedicated threads call them, never those of the async runtime.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::fs::fstatfs;
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::Error;

const CURRENT: &str = "/proc/thread-self/ns/net";

/// Filesystem type of namespaces.
const NSFS_MAGIC: u64 = 0x6e73_6673;

/// The calling thread's namespace.
pub(crate) fn current() -> Result<OwnedFd, Error> {
    Ok(File::open(CURRENT).map_err(Error::path("open", CURRENT))?.into())
}

/// Moves the calling thread to a new, empty namespace.
pub(crate) fn leave() -> Result<(), Error> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|e| Error::Io { action: "make a network namespace", source: e.into() })
}

/// Moves the calling thread to a namespace.
pub(crate) fn enter(netns: &OwnedFd) -> Result<(), Error> {
    setns(netns, CloneFlags::CLONE_NEWNET)
        .map_err(|e| Error::Io { action: "enter a network namespace", source: e.into() })
}

/// Mounts the calling thread's namespace over a new file, so that it outlives the process, and opens it.
pub(crate) fn pin(path: &Path) -> Result<OwnedFd, Error> {
    let netns = current()?;
    OpenOptions::new().write(true).create_new(true).mode(0o400).open(path).map_err(Error::path("create", path))?;
    mount_bind(CURRENT, path).map_err(|e| Error::path("mount a network namespace over", path)(e.into()))?;
    Ok(netns)
}

/// Opens a pinned namespace; `None` if there is none.
pub(crate) fn open(path: &Path) -> Result<Option<OwnedFd>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::path("open", path)(e)),
    };
    let kind = fstatfs(&file).map_err(|e| Error::path("stat", path)(e.into()))?.f_type;
    Ok((u64::try_from(kind).ok() == Some(NSFS_MAGIC)).then(|| file.into()))
}

/// Unmounts and removes a pin, if it exists.
pub(crate) fn unpin(path: &Path) -> Result<(), Error> {
    // Mounts can be stacked there if a server died in between; the bound is for a file that stays busy.
    for _ in 0..16 {
        match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => break,
            Err(e) => return Err(Error::path("unmount", path)(e.into())),
        }
    }
    remove(path)
}

/// Removes a file, if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::path("remove", path)(e)),
        _ => Ok(()),
    }
}

/// Writes a setting below `/proc/sys/net` in the calling thread's namespace. `false` if there is no such setting.
pub(crate) fn set(key: &str, value: &str) -> Result<bool, Error> {
    let path = Path::new("/proc/sys/net").join(key);
    match OpenOptions::new().write(true).open(&path) {
        Ok(mut file) => {
            file.write_all(value.as_bytes()).map_err(Error::path("write", path))?;
            Ok(true)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::path("open", path)(e)),
    }
}

/// Configures a sandbox's namespace, before its interface exists: allows low ports and ping for every user,
/// and IPv6 only on the loopback, so that `[::]` can be bound but nothing leaves that way.
pub(crate) fn configure() -> Result<(), Error> {
    for (key, value) in [
        ("ipv4/ip_unprivileged_port_start", "0"),
        // A kernel without IPv6 has none of these.
        ("ipv6/conf/all/disable_ipv6", "0"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        ("ipv6/conf/lo/disable_ipv6", "0"),
    ] {
        set(key, value)?;
    }
    // All groups: those of sandboxes are in the upper half. Before Linux 6.4 only the lower half can be set.
    let ping = |groups| set("ipv4/ping_group_range", groups);
    ping("0 4294967294").or_else(|_| ping("0 2147483647"))?;
    Ok(())
}

/// Configures a host's end: strict source validation, no ARP replies for other addresses, no IPv6.
pub(crate) fn harden(link: &str) -> Result<(), Error> {
    for (key, value) in [("rp_filter", "1"), ("arp_ignore", "1"), ("accept_redirects", "0"), ("send_redirects", "0")] {
        set(&format!("ipv4/conf/{link}/{key}"), value)?;
    }
    set(&format!("ipv6/conf/{link}/disable_ipv6"), "1")?;
    Ok(())
}
