//! Recursive removal. A tree may be deeper than the stack or the limit on open files allows, so it is walked with a
//! bounded stack of descriptors, and directories that are too deep are first moved up.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

const MAX_OPEN: usize = 64;

/// A directory that is being emptied.
struct Level {
    fd: OwnedFd,
    entries: Dir,
    /// Name in its parent.
    name: CString,
}

impl Level {
    fn open(parent: &OwnedFd, name: CString) -> rustix::io::Result<Self> {
        let fd = openat(parent, &name, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let entries = Dir::read_from(&fd)?;
        Ok(Self { fd, entries, name })
    }
}

/// Removes a file or a tree; succeeds if there is none.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(cause) => return Err(cause.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match openat(CWD, path, flags, Mode::empty()) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(cause) => return Err(cause.into()),
    };
    let mut moved = 0;
    loop {
        let before = moved;
        empty(&top, &mut moved)?;
        if moved == before {
            break;
        }
    }
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        answer => Ok(answer?),
    }
}

/// Empties a directory; counts the directories that were too deep and were moved to the top.
fn empty(top: &OwnedFd, moved: &mut u64) -> rustix::io::Result<()> {
    let mut levels = vec![Level::open(top, c".".to_owned())?];
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.entries.next() else {
            let done = levels.pop();
            if let (Some(done), Some(parent)) = (done, levels.last()) {
                ignore_missing(unlinkat(&parent.fd, &done.name, AtFlags::REMOVEDIR))?;
            }
            continue;
        };
        let name = entry?.file_name().to_owned();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        match unlinkat(&level.fd, &name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {}
            answer => {
                ignore_missing(answer)?;
                continue;
            }
        }
        match unlinkat(&level.fd, &name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            answer => {
                ignore_missing(answer)?;
                continue;
            }
        }
        if levels.len() < MAX_OPEN {
            let Some(level) = levels.last() else { break };
            let child = Level::open(&level.fd, name)?;
            levels.push(child);
        } else if let Some(level) = levels.last() {
            *moved += 1;
            renameat(&level.fd, &name, top, format!(".cabana-removing-{moved}"))?;
        }
    }
    Ok(())
}

/// Treats a file that was removed concurrently as success.
fn ignore_missing(answer: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match answer {
        Err(Errno::NOENT) => Ok(()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn removes_files_and_trees() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "stays").unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
        std::fs::write(tree.join("a/file"), "").unwrap();
        symlink(dir.path(), tree.join("a/b/link")).unwrap();
        symlink(&tree, dir.path().join("to-tree")).unwrap();
        remove(&dir.path().join("to-tree")).unwrap();
        assert!(tree.exists());
        remove(&tree).unwrap();
        remove(&tree).unwrap();
        remove(&outside.join("below-a-file")).unwrap();
        assert!(!tree.exists() && outside.exists());
    }

    #[test]
    fn depth_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("deep");
        std::fs::create_dir(&tree).unwrap();
        let mut at = openat(CWD, &tree, OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = openat(&at, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        remove(&tree).unwrap();
        assert!(!tree.exists());
    }
}
