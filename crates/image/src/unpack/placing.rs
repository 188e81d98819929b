//! Creates the entries of a layer.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use cabana_archive::{Entry, Kind, MAX_PATH, Time};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::metadata::{self, Notes};
use super::name::Name;
use super::tree::{self, Tree};
use super::{Limits, Whiteouts, content_error, removal};
use crate::error::{Error, Result};
use crate::stop::Stop;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Bytes of names of directories, which are kept until the end to set their times. Real layers need a few megabytes.
const MAX_HELD: usize = 64 << 20;

pub(super) struct Placing<'a> {
    tree: Tree,
    whiteouts: Whiteouts,
    limits: &'a Limits,
    stop: &'a Stop,
    notes: Notes,
    /// Name, inode and time of each directory: the times are set last, because new entries change them.
    directories: Vec<(Vec<u8>, u64, Time)>,
    held: usize,
    bytes: u64,
    entries: u64,
    buffer: Vec<u8>,
}

impl<'a> Placing<'a> {
    pub(super) fn new(root: BorrowedFd<'_>, whiteouts: Whiteouts, limits: &'a Limits, stop: &'a Stop) -> Result<Self> {
        Ok(Self {
            tree: Tree::new(root, limits.depth)?,
            whiteouts,
            limits,
            stop,
            notes: Notes::default(),
            directories: Vec::new(),
            held: 0,
            bytes: 0,
            entries: 0,
            buffer: vec![0; 256 << 10],
        })
    }

    pub(super) fn place(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<()> {
        self.stop.check("unpacking")?;
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(Error::refused(b"", format!("it has more than {} entries", self.limits.entries)));
        }
        let name = Name::entry(&entry.path, entry.kind, self.limits.depth)?;
        if self.whiteouts == Whiteouts::Apply {
            let (directory, last) = name.split();
            if directory.split(|b| *b == b'/').any(|part| part.starts_with(WHITEOUT)) {
                if directory.split(|b| *b == b'/').any(|part| part.starts_with(b".wh..wh.")) {
                    // Internal files of old storage drivers.
                    return Ok(());
                }
                return Err(Error::refused(&entry.path, "there is something below a whiteout"));
            }
            if last.starts_with(WHITEOUT) {
                return self.remove(entry, directory, last);
            }
        }
        if name.is_root() {
            if entry.kind != Kind::Directory {
                return Err(Error::refused(&entry.path, "the root can only be a directory"));
            }
            let root = tree::open_directory(self.tree.root(), b".").map_err(Error::path("open", "the root"))?;
            return self.describe_directory(root.as_fd(), entry, &name);
        }
        match entry.kind {
            Kind::File => self.file(entry, &name, content),
            Kind::Directory => self.directory(entry, &name),
            Kind::Symlink => self.symlink(entry, &name),
            Kind::HardLink => self.hard_link(entry, &name),
            Kind::Device => {
                self.notes.add(&entry.path, "device nodes are left out: each sandbox has a /dev of its own");
                Ok(())
            }
            Kind::Fifo => {
                self.notes.add(&entry.path, "named pipes are left out");
                Ok(())
            }
        }
    }

    /// Sets the times of directories.
    pub(super) fn finish(mut self) -> Result<(u64, u64, Vec<String>)> {
        for (name, inode, mtime) in std::mem::take(&mut self.directories).into_iter().rev() {
            self.stop.check("unpacking")?;
            let Some(directory) = self.tree.find_directory(&name)? else { continue };
            let stat = rustix::fs::fstat(&directory).map_err(Error::path("look at", &name))?;
            if stat.st_ino == inode {
                rustix::fs::futimens(&directory, &metadata::times(mtime))
                    .map_err(Error::path("set the times of", &name))?;
            }
        }
        Ok((self.bytes, self.entries, self.notes.finish()))
    }

    fn remove(&mut self, entry: &Entry, directory: &[u8], last: &[u8]) -> Result<()> {
        let Some(parent) = self.tree.find_directory(directory)? else { return Ok(()) };
        if last == OPAQUE {
            removal::clear_content(parent.as_fd(), Some(self.tree.own()))?;
        } else if last.starts_with(b".wh..wh.") {
            return Ok(());
        } else {
            let hidden = &last[WHITEOUT.len()..];
            if hidden.is_empty() || hidden == b"." || hidden == b".." {
                return Err(Error::refused(&entry.path, "the whiteout names nothing that can be removed"));
            }
            if entry.kind != Kind::File {
                return Err(Error::refused(&entry.path, "a whiteout must be a regular file"));
            }
            removal::clear(parent.as_fd(), hidden, Some(self.tree.own()))?;
        }
        self.tree.forget_last();
        Ok(())
    }

    fn file(&mut self, entry: &Entry, name: &Name, content: &mut dyn Read) -> Result<()> {
        self.bytes = self.bytes.saturating_add(entry.size);
        if self.bytes > self.limits.bytes {
            return Err(Error::refused(
                &entry.path,
                format!("with it the files are larger than {} bytes", self.limits.bytes),
            ));
        }
        let (parent, last) = self.room(entry, name, FileType::RegularFile)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let fd = tree::open_below(parent.as_fd(), last, flags, Mode::from_raw_mode(0o600))
            .map_err(Error::path("create", &entry.path))?;
        let mut file = std::fs::File::from(fd);
        let write = |source| Error::Path { action: "write", path: crate::error::shown(&entry.path), source };
        loop {
            let n = match content.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(content_error(&entry.path, error)),
            };
            file.write_all(&self.buffer[..n]).map_err(write)?;
        }
        metadata::apply(file.as_fd(), entry, self.limits.ids, &mut self.notes)?;
        rustix::fs::futimens(&file, &metadata::times(entry.mtime))
            .map_err(Error::path("set the times of", &entry.path))?;
        self.remember(file.as_fd(), entry)
    }

    fn directory(&mut self, entry: &Entry, name: &Name) -> Result<()> {
        let (parent, last) = self.room(entry, name, FileType::Directory)?;
        match rustix::fs::mkdirat(&parent, last, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(Error::path("create the directory", &entry.path)(error)),
        }
        let made = tree::open_directory(parent.as_fd(), last).map_err(Error::path("open", &entry.path))?;
        self.describe_directory(made.as_fd(), entry, name)
    }

    fn describe_directory(&mut self, directory: BorrowedFd<'_>, entry: &Entry, name: &Name) -> Result<()> {
        metadata::apply(directory, entry, self.limits.ids, &mut self.notes)?;
        let stat = rustix::fs::fstat(directory).map_err(Error::path("look at", &entry.path))?;
        self.tree.remember(stat.st_ino);
        self.held += name.bytes().len() + 64;
        if self.held > MAX_HELD {
            return Err(Error::refused(b"", "the names of its directories are too long in total"));
        }
        self.directories.push((name.bytes().to_vec(), stat.st_ino, entry.mtime));
        Ok(())
    }

    fn symlink(&mut self, entry: &Entry, name: &Name) -> Result<()> {
        if entry.link.is_empty() || entry.link.len() >= MAX_PATH || entry.link.contains(&0) {
            return Err(Error::refused(&entry.path, "it is a link that leads nowhere"));
        }
        let (parent, last) = self.room(entry, name, FileType::Symlink)?;
        rustix::fs::symlinkat(&entry.link[..], &parent, last).map_err(Error::path("create the link", &entry.path))?;
        metadata::apply_to_link(parent.as_fd(), last, entry, self.limits.ids, &mut self.notes)?;
        if let Some(stat) = tree::status(parent.as_fd(), last).map_err(Error::path("look at", &entry.path))? {
            self.tree.remember(stat.st_ino);
        }
        Ok(())
    }

    fn hard_link(&mut self, entry: &Entry, name: &Name) -> Result<()> {
        let target = Name::target(&entry.link, self.limits.depth)
            .map_err(|_| Error::refused(&entry.path, "it is a hard link to something outside of the image"))?;
        let missing = || Error::refused(&entry.path, "it is a hard link to something that the image does not have");
        if target.is_root() || target == *name {
            return Err(missing());
        }
        let (directory, target_last) = target.split();
        let source = self.tree.find_directory(directory)?.ok_or_else(missing)?;
        let found = tree::status(source.as_fd(), target_last).map_err(Error::path("look at", &entry.path))?;
        let found = found.ok_or_else(missing)?;
        let kind = tree::file_type(&found);
        if !matches!(kind, FileType::RegularFile | FileType::Symlink) {
            return Err(Error::refused(&entry.path, "it is a hard link to something that is not a file"));
        }
        let (parent, last) = self.room(entry, name, kind)?;
        // No flag: a link at the target's place is linked itself, not what it points to.
        match rustix::fs::linkat(&source, target_last, &parent, last, AtFlags::empty()) {
            Ok(()) => {}
            // The target was removed to make room for the new name.
            Err(Errno::NOENT) => return Err(missing()),
            Err(error) => return Err(Error::path("link", &entry.path)(error)),
        }
        self.tree.remember(found.st_ino);
        Ok(())
    }

    /// The parent directory of an entry and its last part. What had that name before is removed, except a directory for a directory.
    fn room<'n>(&mut self, entry: &Entry, name: &'n Name, kind: FileType) -> Result<(Arc<OwnedFd>, &'n [u8])> {
        let (directory, last) = name.split();
        let parent = self.tree.make_directory(directory)?;
        let old = tree::status(parent.as_fd(), last).map_err(Error::path("look at", &entry.path))?;
        if let Some(old) = old {
            let before = tree::file_type(&old);
            if before != kind && self.tree.is_own(old.st_ino) {
                return Err(Error::refused(&entry.path, "it comes twice, as different things"));
            }
            if before != FileType::Directory || kind != FileType::Directory {
                removal::clear(parent.as_fd(), last, None)?;
                if before == FileType::Directory {
                    self.tree.forget_last();
                }
            }
        }
        Ok((parent, last))
    }

    fn remember(&mut self, fd: BorrowedFd<'_>, entry: &Entry) -> Result<()> {
        let stat = rustix::fs::fstat(fd).map_err(Error::path("look at", &entry.path))?;
        self.tree.remember(stat.st_ino);
        Ok(())
    }
}
