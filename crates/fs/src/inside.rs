//! The one way in which the host opens files inside a root filesystem that is not its own.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// Opens a file for reading as it would be found from inside, where links cannot lead out.
pub fn open(root: impl AsFd, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(root, path, flags, Mode::empty(), resolve)?)
}
