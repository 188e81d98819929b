//! Removes what an entry replaces or what a whiteout names, by descriptors and never through links.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType};

use super::tree::{file_type, open_directory, status};
use crate::error::{Error, Result};

/// Deeper trees only occur in attempts to exhaust the stack or the descriptors.
const MAX_DEPTH: usize = 600;

/// Removes `name` and everything below it, except inodes in `keep` and the directories that lead to them. Returns whether
/// nothing is left.
pub(super) fn clear(at: BorrowedFd<'_>, name: &[u8], keep: Option<&HashSet<u64>>) -> Result<bool> {
    clear_at(at, name, keep, 0)
}

/// Removes the content of a directory in the same way.
pub(super) fn clear_content(directory: BorrowedFd<'_>, keep: Option<&HashSet<u64>>) -> Result<bool> {
    clear_within(directory, b"", keep, 0)
}

fn clear_at(at: BorrowedFd<'_>, name: &[u8], keep: Option<&HashSet<u64>>, depth: usize) -> Result<bool> {
    let fail = |error| Error::path("remove", name)(error);
    let Some(stat) = status(at, name).map_err(fail)? else { return Ok(true) };
    let kept = keep.is_some_and(|keep| keep.contains(&stat.st_ino));
    if file_type(&stat) != FileType::Directory {
        if !kept {
            rustix::fs::unlinkat(at, name, AtFlags::empty()).map_err(fail)?;
        }
        return Ok(!kept);
    }
    let directory = open_directory(at, name).map_err(fail)?;
    if !clear_within(directory.as_fd(), name, keep, depth)? || kept {
        return Ok(false);
    }
    drop(directory);
    rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR).map_err(fail)?;
    Ok(true)
}

fn clear_within(directory: BorrowedFd<'_>, name: &[u8], keep: Option<&HashSet<u64>>, depth: usize) -> Result<bool> {
    if depth > MAX_DEPTH {
        return Err(Error::refused(name, "what it replaces is nested too deep to be removed"));
    }
    let mut all = true;
    for entry in Dir::read_from(directory).map_err(Error::path("list", name))? {
        let entry = entry.map_err(Error::path("list", name))?;
        let child = entry.file_name().to_bytes();
        if child != b"." && child != b".." {
            all &= clear_at(directory, child, keep, depth + 1)?;
        }
    }
    Ok(all)
}
