//! Owners, permissions, times and extended attributes, as far as an image may set them.

use std::os::fd::BorrowedFd;

use cabana_archive::{Entry, Time};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::error::{Error, Result, shown};

const NOBODY: u32 = 65_534;
const MAX_NOTES: usize = 20;

/// Notes for the build's log: a few lines, and the number of further ones.
#[derive(Default)]
pub(super) struct Notes {
    lines: Vec<String>,
    more: u64,
}

impl Notes {
    pub(super) fn add(&mut self, path: &[u8], what: &str) {
        if self.lines.len() < MAX_NOTES {
            self.lines.push(format!("{}: {what}", shown(path)));
        } else {
            self.more += 1;
        }
    }

    pub(super) fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more of the kind", self.more));
        }
        self.lines
    }
}

/// The owner on disk; ids that sandboxes do not have become nobody.
pub(super) fn owner(entry: &Entry, ids: u32, notes: &mut Notes) -> (Uid, Gid) {
    let mut fit = |id: u64, what: &str| match u32::try_from(id) {
        Ok(id) if id < ids => id,
        _ => {
            notes.add(&entry.path, &format!("{what} {id} does not exist in sandboxes, {NOBODY} is used"));
            NOBODY
        }
    };
    (Uid::from_raw(fit(entry.uid, "user")), Gid::from_raw(fit(entry.gid, "group")))
}

pub(super) fn times(mtime: Time) -> Timestamps {
    let time = Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Sets the metadata of an open file or directory. The order matters: a change of owner clears set-uid bits and capabilities.
pub(super) fn apply(fd: BorrowedFd<'_>, entry: &Entry, ids: u32, notes: &mut Notes) -> Result<()> {
    let (uid, gid) = owner(entry, ids, notes);
    rustix::fs::fchown(fd, Some(uid), Some(gid)).map_err(Error::path("change the owner of", &entry.path))?;
    rustix::fs::fchmod(fd, Mode::from_raw_mode(entry.mode)).map_err(Error::path("change the mode of", &entry.path))?;
    for (name, value) in &entry.xattrs {
        if !is_allowed(name, value) {
            continue;
        }
        match rustix::fs::fsetxattr(fd, &name[..], value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::NOTSUP | Errno::INVAL | Errno::TOOBIG | Errno::RANGE | Errno::NOSPC) => {
                notes.add(&entry.path, &format!("the attribute {} cannot be kept here", shown(name)));
            }
            Err(error) => return Err(Error::path("set an attribute of", &entry.path)(error)),
        }
    }
    Ok(())
}

/// Sets the metadata of a symbolic link, by name.
pub(super) fn apply_to_link(at: BorrowedFd<'_>, name: &[u8], entry: &Entry, ids: u32, notes: &mut Notes) -> Result<()> {
    let (uid, gid) = owner(entry, ids, notes);
    rustix::fs::chownat(at, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(Error::path("change the owner of", &entry.path))?;
    rustix::fs::utimensat(at, name, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(Error::path("set the times of", &entry.path))
}

/// `user.` and file capabilities. Not `user.overlay.`: sandboxes mount overlays that obey those.
fn is_allowed(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"security.capability" => matches!(value.len(), 20 | 24),
        _ => name.starts_with(b"user.") && name.len() <= 255 && !name.starts_with(b"user.overlay."),
    }
}
