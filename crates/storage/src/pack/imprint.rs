//! Giving a new file what is said about it: owner, mode, attributes and time.

use std::os::fd::{AsFd, BorrowedFd};

use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chmodat, chownat, fchmod, fchown, futimens,
    utimensat,
};

use super::entry::Entry;
use super::header::Kind;
use super::records::Attribute;
use super::text::Time;
use super::walk::CLOSED;
use super::{at, attributes, refused};
use crate::Error;

/// How a file is made that must not be there.
pub(super) const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

/// Bytes that are held back until their directories are complete.
const MOST_DEFERRED: usize = 64 << 20;

/// What a directory gets when everything in it is there.
struct Later {
    mtime: Time,
    /// Set earlier, new files in it would inherit it.
    list: Option<Vec<u8>>,
}

/// The directories that are being filled, one in another.
#[derive(Default)]
pub(super) struct Filling {
    later: Vec<Later>,
    deferred: usize,
}

impl Filling {
    /// Begins a directory that is about to be filled.
    pub(super) fn begin(&mut self, fd: impl AsFd, entry: &Entry) -> Result<(), Error> {
        let is_list = |(name, _): &&Attribute| name == attributes::DEFAULT_LIST;
        let list = entry.attributes.iter().find(is_list).map(|(_, value)| value.clone());
        self.deferred += list.as_ref().map_or(0, Vec::len);
        if self.deferred > MOST_DEFERRED {
            return Err(refused(&entry.path, "too many directories within each other have access lists"));
        }
        own(fd, entry, entry.attributes.iter().filter(|attribute| !is_list(attribute)))?;
        self.later.push(Later { mtime: entry.mtime, list });
        Ok(())
    }

    /// Completes the directory that was begun last.
    pub(super) fn complete(&mut self, fd: impl AsFd, path: &[u8]) -> Result<(), Error> {
        let Some(later) = self.later.pop() else { return Ok(()) };
        if let Some(list) = later.list {
            self.deferred -= list.len();
            attributes::write(&fd, attributes::DEFAULT_LIST, &list).map_err(at("set an attribute of", path))?;
        }
        futimens(&fd, &times(later.mtime)).map_err(at("set the time of", path))
    }
}

/// A file whose contents are there.
pub(super) fn file(fd: impl AsFd, entry: &Entry) -> Result<(), Error> {
    own(&fd, entry, entry.attributes.iter())?;
    futimens(&fd, &times(entry.mtime)).map_err(at("set the time of", &entry.path))
}

/// What cannot be opened: symbolic links, pipes and whiteouts. We made it a moment ago, so the name is it.
pub(super) fn closed(here: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<(), Error> {
    let path = &entry.path;
    let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
    chownat(here, name, Some(uid), Some(gid), NOFOLLOW).map_err(at("set the owner of", path))?;
    if entry.kind != Kind::Symlink {
        chmodat(here, name, Mode::from_raw_mode(entry.mode), AtFlags::empty()).map_err(at("set the mode of", path))?;
    }
    if !entry.attributes.is_empty() {
        let fd =
            beneath::open(here, name, CLOSED, Mode::empty(), Resolve::NoLinksNoMounts).map_err(at("open", path))?;
        for (name, value) in &entry.attributes {
            attributes::write_closed(&fd, name, value).map_err(at("set an attribute of", path))?;
        }
    }
    utimensat(here, name, &times(entry.mtime), NOFOLLOW).map_err(at("set the time of", path))
}

/// Owner, mode and attributes, in this order: a new owner takes set-uid bits and capabilities away.
fn own<'a>(fd: impl AsFd, entry: &Entry, attributes: impl Iterator<Item = &'a Attribute>) -> Result<(), Error> {
    let path = &entry.path;
    let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
    fchown(&fd, Some(uid), Some(gid)).map_err(at("set the owner of", path))?;
    fchmod(&fd, Mode::from_raw_mode(entry.mode)).map_err(at("set the mode of", path))?;
    for (name, value) in attributes {
        attributes::write(&fd, name, value).map_err(at("set an attribute of", path))?;
    }
    Ok(())
}

fn times(mtime: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() },
    }
}
