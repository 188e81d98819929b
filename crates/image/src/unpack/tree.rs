//! The directory that is unpacked into: opens directories below its root without leaving it, and knows what the current
//! layer created.
//!
//! A layer that names `x/y` where an earlier *layer* made `x` a link means the file behind the link, as it would in a
//! running container (`lib` → `usr/lib`), and the link is followed with the image's root as `/`. A link of the *same*
//! layer is never followed: no real tree has both `x` as a link and an entry below `x`.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Error, Result};

const MAX_LINKS: usize = 40;

pub(super) struct Tree {
    root: OwnedFd,
    depth: usize,
    /// Inodes that the current layer created or listed. All new inodes are its own, so reused numbers are right too.
    made: HashSet<u64>,
    /// The directory that was opened last, as a cache: archives list one directory after the other.
    last: Option<(Vec<u8>, Arc<OwnedFd>)>,
}

/// Opens what lies below `at`, without following links or entering other mounts.
pub(super) fn open_below(at: BorrowedFd<'_>, name: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    beneath::open(at, name, flags | OFlags::NOFOLLOW, mode, Resolve::NoLinksNoMounts)
}

pub(super) fn open_directory(at: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    open_below(at, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

pub(super) fn status(at: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Option<Stat>> {
    match rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

impl Tree {
    pub(super) fn new(root: BorrowedFd<'_>, depth: usize) -> Result<Self> {
        let root = open_directory(root, b".").map_err(Error::path("open", "the root"))?;
        Ok(Self { root, depth, made: HashSet::new(), last: None })
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(super) fn remember(&mut self, inode: u64) {
        self.made.insert(inode);
    }

    pub(super) fn is_own(&self, inode: u64) -> bool {
        self.made.contains(&inode)
    }

    pub(super) fn own(&self) -> &HashSet<u64> {
        &self.made
    }

    /// Clears the cache, because something was removed.
    pub(super) fn forget_last(&mut self) {
        self.last = None;
    }

    /// The directory of this name, created with its parents where it is missing.
    pub(super) fn make_directory(&mut self, name: &[u8]) -> Result<Arc<OwnedFd>> {
        match self.directory(name, true)? {
            Some(directory) => Ok(directory),
            None => Err(Error::refused(name, "its directory cannot be made")),
        }
    }

    /// The directory of this name, if it exists.
    pub(super) fn find_directory(&mut self, name: &[u8]) -> Result<Option<Arc<OwnedFd>>> {
        self.directory(name, false)
    }

    fn directory(&mut self, name: &[u8], create: bool) -> Result<Option<Arc<OwnedFd>>> {
        if let Some((known, directory)) = &self.last
            && known == name
        {
            return Ok(Some(directory.clone()));
        }
        let path: &[u8] = if name.is_empty() { b"." } else { name };
        let found = match open_directory(self.root.as_fd(), path) {
            Ok(directory) => Some(directory),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => self.walk(name, create)?,
            Err(error) => return Err(Error::path("open", name)(error)),
        };
        Ok(found.map(|directory| {
            let directory = Arc::new(directory);
            self.last = Some((name.to_vec(), directory.clone()));
            directory
        }))
    }

    /// Resolves names with missing parts or links, part by part.
    fn walk(&mut self, name: &[u8], create: bool) -> Result<Option<OwnedFd>> {
        let mut way: Vec<OwnedFd> = Vec::new();
        let mut todo: Vec<Vec<u8>> = name.split(|b| *b == b'/').rev().map(<[u8]>::to_vec).collect();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            match &part[..] {
                b"" | b"." => continue,
                // Only targets of links contain this; at the root it stays there, as in a running container.
                b".." => {
                    way.pop();
                    continue;
                }
                _ => {}
            }
            if way.len() > self.depth {
                return Err(Error::refused(name, "it is nested too deep"));
            }
            let here = way.last().map_or_else(|| self.root.as_fd(), AsFd::as_fd);
            let next = match open_directory(here, &part) {
                Ok(next) => next,
                Err(Errno::NOENT) if !create => return Ok(None),
                Err(Errno::NOENT) if links > 0 => {
                    return Err(Error::refused(
                        name,
                        "it goes through a link to something that the image does not have",
                    ));
                }
                Err(Errno::NOENT) => {
                    let made = make_missing(here, &part).map_err(Error::path("create the directory", name))?;
                    let stat = rustix::fs::fstat(&made).map_err(Error::path("look at", name))?;
                    self.made.insert(stat.st_ino);
                    made
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let stat = status(here, &part).map_err(Error::path("look at", name))?;
                    let stat = stat.filter(|stat| file_type(stat) == FileType::Symlink);
                    let Some(stat) = stat else {
                        if !create {
                            return Ok(None);
                        }
                        return Err(Error::refused(name, "a part of its path is not a directory"));
                    };
                    if self.made.contains(&stat.st_ino) {
                        return Err(Error::refused(name, "its path goes through a link of the same archive"));
                    }
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Error::refused(name, "its path goes through too many links"));
                    }
                    let target = rustix::fs::readlinkat(here, &part[..], Vec::new())
                        .map_err(Error::path("read the link", name))?
                        .into_bytes();
                    if target.starts_with(b"/") {
                        way.clear();
                    }
                    todo.extend(target.split(|b| *b == b'/').rev().map(<[u8]>::to_vec));
                    continue;
                }
                Err(error) => return Err(Error::path("open", name)(error)),
            };
            way.push(next);
        }
        match way.pop() {
            Some(directory) => Ok(Some(directory)),
            None => open_directory(self.root.as_fd(), b".").map(Some).map_err(Error::path("open", "the root")),
        }
    }
}

/// Parents that no entry describes belong to root with mode 0755, as Docker creates them.
fn make_missing(at: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    rustix::fs::mkdirat(at, name, Mode::from_raw_mode(0o755))?;
    let made = open_directory(at, name)?;
    rustix::fs::fchmod(&made, Mode::from_raw_mode(0o755))?;
    Ok(made)
}
