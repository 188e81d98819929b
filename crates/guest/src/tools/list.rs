//! `POST /list`: entries of a directory to a depth. If they are too many, those near the top are kept: the tree is read level by level and
//! put in order at the end.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cabana_types::guest::tools::{EntryKind, List, ListAnswer, ListEntry};
use rustix::fs::{Dir, FileType, Mode, OFlags};

use super::Cancel;
use super::place::Place;
use super::refuse::{self, Refused};
use crate::open;

const MAX_ENTRIES: usize = 10_000;
const MAX_DEPTH: u32 = 64;

/// A name in its directory. Directories are less than other entries.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    is_other: bool,
    name: PathBuf,
}

/// An entry that is listed: its path below the root, and whether it is a directory.
#[derive(Debug)]
struct Found {
    path: PathBuf,
    is_dir: bool,
}

/// Lists a directory.
pub(crate) fn list(request: &List, place: &Place, cancel: &Cancel) -> Result<ListAnswer, Refused> {
    let root = place.resolve(&request.path)?;
    let limit = request.limit.min(MAX_ENTRIES);
    let depth = request.depth.clamp(1, MAX_DEPTH);
    let mut found: Vec<Found> = Vec::new();
    let mut truncated = false;
    let mut queue = VecDeque::from([(PathBuf::new(), 1)]);
    while let Some((directory, level)) = queue.pop_front() {
        let is_root = directory.as_os_str().is_empty();
        let path = root.join(&directory);
        let opened = open_directory(&path, is_root);
        let fd = match opened {
            Ok(fd) => fd,
            Err(cause) if is_root => return Err(refuse::io("list", &path, &cause)),
            // Not permitted, or gone: its entries are left out.
            Err(_) => continue,
        };
        let room = limit - found.len();
        let (names, more) = first_names(&fd, request.hidden, room, cancel)?;
        truncated |= more;
        for name in names {
            let path = directory.join(name.name);
            if !name.is_other && level < depth {
                queue.push_back((path.clone(), level + 1));
            }
            found.push(Found { path, is_dir: !name.is_other });
        }
        if truncated && found.len() >= limit {
            break;
        }
    }
    found.sort_by(in_tree);
    let mut entries = Vec::with_capacity(found.len());
    for entry in found {
        cancel.check()?;
        entries.push(describe(&root, &entry));
    }
    Ok(ListAnswer { path: root.to_string_lossy().into_owned(), entries, truncated })
}

/// Opens a directory. The daemon's own part of `/proc` is refused: it tells about the daemon what no process inside could find out.
fn open_directory(path: &Path, follow: bool) -> io::Result<OwnedFd> {
    let flags = if follow { OFlags::DIRECTORY } else { OFlags::DIRECTORY | OFlags::NOFOLLOW };
    let fd = open::open(path, flags | OFlags::RDONLY, Mode::empty())?;
    if open::is_own_proc(&fd) { Err(io::Error::from_raw_os_error(libc::EACCES)) } else { Ok(fd) }
}

/// The first `room` names in order, and whether there are more. Memory is bounded by `room`, not by the directory.
fn first_names(fd: &OwnedFd, hidden: bool, room: usize, cancel: &Cancel) -> Result<(Vec<Name>, bool), Refused> {
    let mut heap: BinaryHeap<Name> = BinaryHeap::new();
    let mut more = false;
    // An error in the middle is the end of what can be read.
    let entries = Dir::read_from(fd).into_iter().flatten().map_while(Result::ok);
    for (number, entry) in entries.enumerate() {
        if number % 1024 == 0 {
            cancel.check()?;
        }
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || (!hidden && name.starts_with(b".")) {
            continue;
        }
        if room == 0 {
            return Ok((Vec::new(), true));
        }
        let name = PathBuf::from(std::ffi::OsStr::from_bytes(name));
        let is_dir = match entry.file_type() {
            FileType::Unknown => rustix::fs::statat(fd, &name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()),
            kind => kind.is_dir(),
        };
        heap.push(Name { is_other: !is_dir, name });
        if heap.len() > room {
            heap.pop();
            more = true;
        }
    }
    Ok((heap.into_sorted_vec(), more))
}

/// Order of a tree: parents before children; among siblings, directories first, then by name.
fn in_tree(one: &Found, other: &Found) -> Ordering {
    let (mut left, mut right) = (one.path.components().peekable(), other.path.components().peekable());
    loop {
        let (Some(a), Some(b)) = (left.next(), right.next()) else {
            return one.path.components().count().cmp(&other.path.components().count());
        };
        if a != b {
            let a_dir = one.is_dir || left.peek().is_some();
            let b_dir = other.is_dir || right.peek().is_some();
            return b_dir.cmp(&a_dir).then_with(|| a.cmp(&b));
        }
    }
}

fn describe(root: &Path, entry: &Found) -> ListEntry {
    let full = root.join(&entry.path);
    let path = entry.path.to_string_lossy().into_owned();
    let Ok(metadata) = std::fs::symlink_metadata(&full) else {
        // The directory may be read but not searched, or the entry is gone.
        let kind = if entry.is_dir { EntryKind::Directory } else { EntryKind::Other };
        return ListEntry { path, kind, size: 0, mode: 0, modified: 0, target: None };
    };
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_symlink() => EntryKind::Link,
        _ => EntryKind::Other,
    };
    let target = match kind {
        EntryKind::Link => std::fs::read_link(&full).ok().map(|target| target.to_string_lossy().into_owned()),
        _ => None,
    };
    ListEntry { path, kind, size: metadata.size(), mode: metadata.mode() & 0o7777, modified: metadata.mtime(), target }
}
