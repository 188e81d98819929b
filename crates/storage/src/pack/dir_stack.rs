//! The open directories on the path from the top of a tree to the current directory. However deep it is, few are open at a time: those
//! further up are reopened on the way back, and must then be the same directories.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{Mode, OFlags, fstat};

pub(super) const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOATIME)
    .union(OFlags::CLOEXEC);

/// Open descriptors at a time.
const OPEN: usize = 64;
/// Paths up to this length are passed to the kernel in one call.
const ONE_PIECE: usize = 4000;

#[derive(Debug)]
struct Level {
    fd: Option<OwnedFd>,
    /// Device and inode.
    identity: (u64, u64),
    /// The length of the parent directory's path.
    above: usize,
}

#[derive(Debug)]
pub(super) struct DirStack {
    top: OwnedFd,
    levels: Vec<Level>,
    path: Vec<u8>,
}

impl DirStack {
    pub(super) fn new(top: OwnedFd) -> Self {
        Self { top, levels: Vec::new(), path: Vec::new() }
    }

    /// The current directory, relative to the top.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// The path of a name in the current directory.
    pub(super) fn path_to(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.path.clone();
        append(&mut path, name);
        path
    }

    /// The current directory.
    pub(super) fn here(&self) -> BorrowedFd<'_> {
        // The last level is always open.
        self.levels.last().and_then(|l| l.fd.as_ref()).unwrap_or(&self.top).as_fd()
    }

    /// Enters a directory that was opened by its name in the current one.
    pub(super) fn descend(&mut self, name: &[u8], fd: OwnedFd) -> io::Result<()> {
        let found = fstat(&fd)?;
        let above = self.path.len();
        append(&mut self.path, name);
        self.levels.push(Level { fd: Some(fd), identity: (found.st_dev, found.st_ino), above });
        if let Some(far) = self.levels.len().checked_sub(OPEN + 1) {
            self.levels[far].fd = None;
        }
        Ok(())
    }

    /// Returns to the parent directory.
    pub(super) fn ascend(&mut self) -> io::Result<()> {
        if let Some(level) = self.levels.pop() {
            self.path.truncate(level.above);
        }
        match self.levels.last() {
            Some(Level { fd: None, .. }) => self.reopen(),
            _ => Ok(()),
        }
    }

    /// Reopens the last directories of the path, starting at the top.
    fn reopen(&mut self) -> io::Result<()> {
        let first = self.levels.len().saturating_sub(OPEN);
        let mut begin = 0;
        let mut above: Option<OwnedFd> = None;
        for at in 0..self.levels.len() {
            let end = self.levels.get(at + 1).map_or(self.path.len(), |next| next.above);
            let name = &self.path[begin..end];
            let name = name.strip_prefix(b"/").unwrap_or(name);
            begin = end;
            let from = above.as_ref().or_else(|| at.checked_sub(1).and_then(|i| self.levels[i].fd.as_ref()));
            let fd =
                beneath::open(from.unwrap_or(&self.top), name, DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts)?;
            let found = fstat(&fd)?;
            if self.levels[at].identity != (found.st_dev, found.st_ino) {
                return Err(io::Error::other("a directory was replaced during the walk"));
            }
            if at >= first {
                self.levels[at].fd = Some(fd);
                above = None;
            } else {
                above = Some(fd);
            }
        }
        Ok(())
    }

    /// Opens a directory by its path from the top.
    pub(super) fn open(&self, path: &[u8]) -> io::Result<OwnedFd> {
        open(self.top.as_fd(), path)
    }
}

fn append(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// Opens a directory by its path below another, however long the path is.
pub(super) fn open(top: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    let at =
        |fd: BorrowedFd<'_>, path: &[u8]| beneath::open(fd, path, DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts);
    if path.len() <= ONE_PIECE {
        return Ok(at(top, if path.is_empty() { b"." } else { path })?);
    }
    let mut names = path.split(|b| *b == b'/');
    let mut fd = at(top, names.next().unwrap_or(b"."))?;
    for name in names {
        fd = at(fd.as_fd(), name)?;
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use rustix::fs::mkdirat;

    use super::*;

    #[test]
    fn a_deep_path_leads_back() {
        let scratch = tempfile::tempdir().expect("a directory");
        let top = OwnedFd::from(std::fs::File::open(scratch.path()).expect("a directory"));
        let mut dirs = DirStack::new(top);
        let mut inodes = vec![fstat(dirs.here()).expect("there").st_ino];
        for depth in 0..300 {
            let name = format!("level-{depth}-{}", "x".repeat(20));
            mkdirat(dirs.here(), name.as_str(), Mode::RWXU).expect("made");
            let fd = beneath::open(dirs.here(), name.as_str(), DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts)
                .expect("opened");
            dirs.descend(name.as_bytes(), fd).expect("down");
            inodes.push(fstat(dirs.here()).expect("there").st_ino);
        }
        assert!(dirs.path().len() > 2 * ONE_PIECE);
        let deepest = dirs.open(dirs.path()).expect("by its path");
        assert_eq!(Some(&fstat(deepest).expect("there").st_ino), inodes.last());
        while dirs.depth() > 0 {
            assert!(dirs.levels.iter().filter(|l| l.fd.is_some()).count() <= OPEN);
            assert_eq!(Some(fstat(dirs.here()).expect("there").st_ino), inodes.pop());
            dirs.ascend().expect("up");
        }
        assert!(dirs.path().is_empty());
    }

    #[test]
    fn an_exchanged_directory_is_noticed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let mut dirs = DirStack::new(OwnedFd::from(std::fs::File::open(scratch.path()).expect("a directory")));
        for depth in 0..OPEN + 2 {
            mkdirat(dirs.here(), "d", Mode::RWXU).expect("made");
            let fd =
                beneath::open(dirs.here(), "d", DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts).expect("opened");
            dirs.descend(b"d", fd).unwrap_or_else(|e| panic!("{depth}: {e}"));
        }
        let moved = scratch.path().join("moved");
        std::fs::rename(scratch.path().join("d"), &moved).expect("moved");
        std::fs::create_dir_all(scratch.path().join("d/d/d")).expect("another");
        let mut failed = false;
        while dirs.depth() > 0 && !failed {
            failed = dirs.ascend().is_err();
        }
        assert!(failed);
    }
}
