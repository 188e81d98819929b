//! Directory trees of a pool without subvolumes: removing and measuring them. Their content belongs to sandboxes, so they are walked one
//! name at a time and no link is followed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

/// Measuring stops after this many entries: a sandbox must not keep the server busy by making files.
const MOST_MEASURED: u32 = 200_000;
/// Open directories while descending; deeper levels are not measured.
const DEEPEST_MEASURED: u32 = 64;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The names in a directory, without `.` and `..`.
pub(super) fn names(directory: impl AsFd) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        // We create no names that are not UTF-8.
        if let Ok(name) = entry.file_name().to_str()
            && name != "."
            && name != ".."
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Removes a tree, if it is there.
pub(super) fn remove(parent: &std::path::Path, name: &str) -> io::Result<()> {
    // The standard library descends by descriptor and never through a link.
    match std::fs::remove_dir_all(parent.join(name)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Bytes on disk, of the first [`MOST_MEASURED`] entries.
pub(super) fn size(parent: impl AsFd, name: &str) -> io::Result<u64> {
    let top = openat(parent, name, DIRECTORY, Mode::empty())?;
    let mut left = MOST_MEASURED;
    sum(top.as_fd(), &mut left, DEEPEST_MEASURED)
}

fn sum(directory: BorrowedFd<'_>, left: &mut u32, depth: u32) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if *left == 0 {
            break;
        }
        *left -= 1;
        // Removed since the directory was read.
        let Ok(found) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        bytes += u64::try_from(found.st_blocks).unwrap_or(0) * 512;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory
            && depth > 0
            && let Ok(inner) = openat(directory, name, DIRECTORY, Mode::empty())
        {
            bytes += sum(inner.as_fd(), left, depth - 1)?;
        }
    }
    Ok(bytes)
}
