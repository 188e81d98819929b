//! Walks over a tree by descriptors, one name at a time, following no link. Memory is bounded, however large the tree is.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, OFlags, Stat, fstat};

use super::dir_stack::DirStack;
use super::selected::Selected;
use super::{at, refused};
use crate::Error;

/// Opens a file for reading without changing it.
pub(super) const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOATIME).union(OFlags::CLOEXEC);
/// Opens what has no content.
pub(super) const CLOSED: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Bytes of names in memory: those still to visit, and the first names of files that have several.
const MOST_HELD: usize = 256 << 20;
/// Bytes for such a file besides its path.
const KNOWN: usize = 96;

pub(super) const CHANGED: &str = "it changed while it was read";

/// The next step of a walk.
pub(super) enum Next {
    /// A name in the current directory, and what of it is selected.
    Name(Vec<u8>, Selected),
    /// Everything in the current directory was visited; leave it.
    Leave,
    /// The walk is complete.
    End,
}

/// Names of a directory that are still to visit.
struct Names {
    /// Each ends with a zero.
    bytes: Vec<u8>,
    at: usize,
    /// What is selected of each name; everything, if it is not in here.
    selected: HashMap<Vec<u8>, Selected>,
}

/// A file with several names: the path of the first, and how many others there may be.
struct Known {
    path: Vec<u8>,
    left: u64,
}

pub(super) struct Walk {
    pub(super) dirs: DirStack,
    /// Bytes of the longest path: it bounds the depth of the walk, and with it the memory.
    longest: usize,
    levels: Vec<Names>,
    known: HashMap<(u64, u64), Known>,
    held: usize,
}

impl Walk {
    /// A walk that starts by entering a directory below `top`.
    pub(super) fn new(top: OwnedFd, longest: usize) -> Self {
        Self { dirs: DirStack::new(top), longest, levels: Vec::new(), known: HashMap::new(), held: 0 }
    }

    pub(super) fn next(&mut self) -> Next {
        match self.levels.last_mut().map(Names::next) {
            Some(Some((name, selected))) => Next::Name(name, selected),
            Some(None) => Next::Leave,
            None => Next::End,
        }
    }

    /// Enters a directory that was opened by its name in the current one.
    pub(super) fn enter(&mut self, name: &[u8], fd: OwnedFd, selected: Selected) -> Result<(), Error> {
        let path = self.dirs.path_to(name);
        if path.len() > self.longest {
            return Err(refused(&path, format!("its path is longer than {} bytes", self.longest)));
        }
        let names = if selected.all { self.list(&fd, &path)? } else { selected_names(selected) };
        self.hold(names.bytes.len(), &path)?;
        self.dirs.descend(name, fd).map_err(at("enter", &path))?;
        self.levels.push(names);
        Ok(())
    }

    /// Returns to the parent directory.
    pub(super) fn leave(&mut self) -> Result<(), Error> {
        let names = self.levels.pop();
        self.held -= names.map_or(0, |names| names.bytes.len());
        self.dirs.ascend().map_err(at("leave a directory in", self.dirs.path()))
    }

    /// The first name under which a file was visited, if this is another name of it.
    pub(super) fn first_name(&mut self, found: &Stat, path: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if found.st_nlink < 2 {
            return Ok(None);
        }
        let file = (found.st_dev, found.st_ino);
        let Some(known) = self.known.get_mut(&file) else {
            self.hold(path.len() + KNOWN, path)?;
            self.known.insert(file, Known { path: path.to_vec(), left: found.st_nlink - 1 });
            return Ok(None);
        };
        known.left = known.left.saturating_sub(1);
        if known.left > 0 {
            return Ok(Some(known.path.clone()));
        }
        let first = self.known.remove(&file).map(|known| known.path);
        self.held -= first.as_ref().map_or(0, |path| path.len() + KNOWN);
        Ok(first)
    }

    fn list(&self, fd: &OwnedFd, path: &[u8]) -> Result<Names, Error> {
        let mut bytes = Vec::new();
        for entry in Dir::read_from(fd).map_err(at("list", path))? {
            let entry = entry.map_err(at("list", path))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            bytes.extend_from_slice(name.to_bytes_with_nul());
            if self.held + bytes.len() > MOST_HELD {
                return Err(refused(path, "there are too many names"));
            }
        }
        Ok(Names { bytes, at: 0, selected: HashMap::new() })
    }

    fn hold(&mut self, bytes: usize, path: &[u8]) -> Result<(), Error> {
        self.held += bytes;
        if self.held > MOST_HELD { Err(refused(path, "there are too many names")) } else { Ok(()) }
    }
}

impl Names {
    fn next(&mut self) -> Option<(Vec<u8>, Selected)> {
        let rest = &self.bytes[self.at..];
        let name = rest[..rest.iter().position(|b| *b == 0)?].to_vec();
        self.at += name.len() + 1;
        let selected = self.selected.remove(&name).unwrap_or_else(Selected::everything);
        Some((name, selected))
    }
}

fn selected_names(selected: Selected) -> Names {
    let bytes = selected.below.keys().flat_map(|name| name.iter().copied().chain([0])).collect();
    Names { bytes, at: 0, selected: selected.below.into_iter().collect() }
}

/// Checks that what was opened is what `stat` saw.
pub(super) fn same(fd: &OwnedFd, found: &Stat, path: &[u8]) -> Result<(), Error> {
    let opened = fstat(fd).map_err(at("look at", path))?;
    let identity = |s: &Stat| (s.st_dev, s.st_ino, s.st_mode, s.st_size);
    if identity(&opened) == identity(found) { Ok(()) } else { Err(refused(path, CHANGED)) }
}
