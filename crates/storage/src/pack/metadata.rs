//! Metadata of files: describing one that is there, and giving a new one its owner, mode, attributes and time.

use std::os::fd::{AsFd, BorrowedFd};

use cabana_archive::{Entry, Kind, Time, Xattr};
use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, chmodat, chownat, fchmod, fchown,
    futimens, utimensat,
};

use super::walk::CLOSED;
use super::{at, attributes, refused};
use crate::Error;

/// Creates a file that must not exist.
pub(super) const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

/// Bytes of access lists that wait until their directories are complete.
const MAX_DEFERRED: usize = 64 << 20;

/// A file as it was found, without its content and attributes.
pub(super) fn describe(kind: Kind, path: Vec<u8>, found: &Stat) -> Entry {
    let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(0);
    Entry {
        uid: found.st_uid.into(),
        gid: found.st_gid.into(),
        mtime: Time { seconds: found.st_mtime, nanoseconds },
        ..Entry::new(kind, path, found.st_mode & 0o7777)
    }
}

/// What a directory gets when everything in it is there.
struct Pending {
    mtime: Time,
    /// The default access list. Set earlier, new files in it would inherit it.
    list: Option<Vec<u8>>,
}

/// The directories that are being filled, nested in each other. Their times are set last: new entries would change them.
#[derive(Default)]
pub(super) struct PendingDirs {
    dirs: Vec<Pending>,
    deferred: usize,
}

impl PendingDirs {
    /// Begins a directory that will be filled.
    pub(super) fn begin(&mut self, fd: impl AsFd, entry: &Entry) -> Result<(), Error> {
        let is_list = |(name, _): &&Xattr| name == attributes::DEFAULT_LIST;
        let list = entry.xattrs.iter().find(is_list).map(|(_, value)| value.clone());
        self.deferred += list.as_ref().map_or(0, Vec::len);
        if self.deferred > MAX_DEFERRED {
            return Err(refused(&entry.path, "too many directories within each other have access lists"));
        }
        own(fd, entry, entry.xattrs.iter().filter(|attribute| !is_list(attribute)))?;
        self.dirs.push(Pending { mtime: entry.mtime, list });
        Ok(())
    }

    /// Completes the directory that was begun last.
    pub(super) fn complete(&mut self, fd: impl AsFd, path: &[u8]) -> Result<(), Error> {
        let Some(pending) = self.dirs.pop() else { return Ok(()) };
        if let Some(list) = pending.list {
            self.deferred -= list.len();
            attributes::write(&fd, attributes::DEFAULT_LIST, &list).map_err(at("set an attribute of", path))?;
        }
        futimens(&fd, &times(pending.mtime)).map_err(at("set the time of", path))
    }
}

/// Completes a file whose content is written.
pub(super) fn file(fd: impl AsFd, entry: &Entry) -> Result<(), Error> {
    own(&fd, entry, entry.xattrs.iter())?;
    futimens(&fd, &times(entry.mtime)).map_err(at("set the time of", &entry.path))
}

/// Completes what cannot be opened: symbolic links, pipes and whiteouts. We created it a moment ago, so the name refers to it.
pub(super) fn closed(here: BorrowedFd<'_>, name: &[u8], entry: &Entry) -> Result<(), Error> {
    let path = &entry.path;
    let (uid, gid) = owner(entry);
    chownat(here, name, Some(uid), Some(gid), NOFOLLOW).map_err(at("set the owner of", path))?;
    if entry.kind != Kind::Symlink {
        chmodat(here, name, Mode::from_raw_mode(entry.mode), AtFlags::empty()).map_err(at("set the mode of", path))?;
    }
    if !entry.xattrs.is_empty() {
        let fd =
            beneath::open(here, name, CLOSED, Mode::empty(), Resolve::NoLinksNoMounts).map_err(at("open", path))?;
        for (name, value) in &entry.xattrs {
            attributes::write_closed(&fd, name, value).map_err(at("set an attribute of", path))?;
        }
    }
    utimensat(here, name, &times(entry.mtime), NOFOLLOW).map_err(at("set the time of", path))
}

/// Sets owner, mode and attributes, in this order: a change of owner clears set-uid bits and capabilities.
fn own<'a>(fd: impl AsFd, entry: &Entry, attributes: impl Iterator<Item = &'a Xattr>) -> Result<(), Error> {
    let path = &entry.path;
    let (uid, gid) = owner(entry);
    fchown(&fd, Some(uid), Some(gid)).map_err(at("set the owner of", path))?;
    fchmod(&fd, Mode::from_raw_mode(entry.mode)).map_err(at("set the mode of", path))?;
    for (name, value) in attributes {
        attributes::write(&fd, name, value).map_err(at("set an attribute of", path))?;
    }
    Ok(())
}

/// Owners of packed files are below 65,536.
fn owner(entry: &Entry) -> (Uid, Gid) {
    let id = |id: u64| u32::try_from(id).unwrap_or(u32::MAX - 1);
    (Uid::from_raw(id(entry.uid)), Gid::from_raw(id(entry.gid)))
}

fn times(mtime: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() },
    }
}
