//! Copies files into a root filesystem from outside, by Docker's rules. Everything here blocks.

use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cabana_archive::{Entry, Kind, Time, Writer};
use cabana_image::dockerfile::{Context, ContextKind, ContextLimits, Copy, EPOCH, Ignore, Owner, Selection};
use cabana_image::unpack::{self, Limits, Whiteouts};
use cabana_image::{Error, Stop};
use cabana_storage::NewTree;
use rustix::fs::OFlags;

use super::accounts::{is_directory, open_inside};

/// Maximum depth of a path.
const DEPTH: usize = 128;

/// Files to copy from: a directory, and a guard that keeps it alive.
#[derive(Debug)]
pub(super) struct Files {
    context: Context,
    _scratch: Option<NewTree>,
}

impl Files {
    /// An uploaded archive, unpacked into a tree of the pool, where a quota bounds it. The tree is removed with this.
    pub(super) fn of_archive(
        archive: std::fs::File,
        (scratch, root): (NewTree, OwnedFd),
        limits: &Limits,
        stop: &Stop,
    ) -> Result<Self, Error> {
        unpack::apply(archive, root.as_fd(), Whiteouts::Ignore, limits, stop)?;
        Ok(Self { context: read(root.as_fd(), stop)?, _scratch: Some(scratch) })
    }

    /// Another root filesystem.
    pub(super) fn of_tree(root: BorrowedFd<'_>, stop: &Stop) -> Result<Self, Error> {
        Ok(Self { context: read(root, stop)?, _scratch: None })
    }

    /// What a copy stands for.
    pub(super) fn select(&self, copy: &Copy, stop: &Stop) -> Result<Selection, Error> {
        self.context.select(&copy.sources, &copy.excludes, stop)
    }

    /// Copies the files to their destination.
    pub(super) fn place(
        &self,
        copy: &Copy,
        mut selection: Selection,
        root: BorrowedFd<'_>,
        owner: Owner,
        limits: &Limits,
        stop: &Stop,
    ) -> Result<(), Error> {
        let mut archives = Vec::new();
        if copy.unpacks {
            let (packed, plain) = std::mem::take(&mut selection.named).into_iter().partition(|(name, entries)| {
                matches!(&entries[..], [entry] if entry.kind == ContextKind::File) && self.is_archive(name)
            });
            (archives, selection.named) = (packed, plain);
        }
        if !selection.named.is_empty() || !copy.inline.is_empty() {
            let placements = copy.placements(&selection, is_directory(root, &copy.destination))?;
            // Missing directories get the owner of the copy.
            let to = copy.destination.trim_end_matches('/');
            let above = to.rsplit_once('/').map_or("", |(above, _)| above);
            let is_file = !placements.is_empty() && placements.iter().all(|placement| placement.target == to);
            make_directory(root, if is_file { above } else { to }, owner, stop)?;
            let (reader, writer) = std::io::pipe().map_err(pipe)?;
            std::thread::scope(|scope| {
                let packing =
                    scope.spawn(move || self.context.archive(&placements, owner, copy.mode, writer, stop).map(drop));
                let placed = unpack::apply(reader, root, Whiteouts::Ignore, limits, stop);
                // If unpacking failed, packing fails because its reader is gone: that error is not the cause.
                let packed = packing.join().unwrap_or(Err(Error::Cancelled));
                placed.and(packed)
            })?;
        }
        for (name, _) in archives {
            make_directory(root, &copy.destination, owner, stop)?;
            let to = open_inside(root, &copy.destination, OFlags::RDONLY | OFlags::DIRECTORY)
                .map_err(|e| Error::Io { action: "open the destination", source: e.into() })?;
            unpack::apply(self.context.open(&name)?, to.as_fd(), Whiteouts::Ignore, limits, stop)?;
        }
        Ok(())
    }

    /// By its content, and where that may be anything that is packed, by its name.
    fn is_archive(&self, name: &str) -> bool {
        let Ok(mut file) = self.context.open(name) else { return false };
        let mut start = [0; 4];
        let _ = file.read(&mut start);
        let mut mark = [0; 5];
        let _ = file.seek(SeekFrom::Start(257)).and_then(|_| file.read(&mut mark));
        let named = [".tar.gz", ".tgz", ".tar.zst", ".tzst"].iter().any(|end| name.ends_with(end));
        &mark == b"ustar" || (named && (start[..2] == [0x1f, 0x8b] || start == [0x28, 0xb5, 0x2f, 0xfd]))
    }
}

fn read(root: BorrowedFd<'_>, stop: &Stop) -> Result<Context, Error> {
    let limits = ContextLimits { entries: 2_000_000, bytes: 64 << 30, ..ContextLimits::default() };
    Context::read(root, &Ignore::default(), &limits, stop)
}

fn pipe(source: std::io::Error) -> Error {
    Error::Io { action: "make a pipe", source }
}

/// Makes a directory and its missing parents.
pub(super) fn make_directory(root: BorrowedFd<'_>, path: &str, owner: Owner, stop: &Stop) -> Result<(), Error> {
    let path = path.trim_matches('/');
    if is_directory(root, path) {
        return Ok(());
    }
    let mut writer = Writer::new(Vec::new());
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]).take(DEPTH);
    for directory in ends.map(|end| &path[..end]).filter(|directory| !is_directory(root, directory)) {
        if open_inside(root, directory, OFlags::PATH).is_ok() {
            return Err(Error::Context(format!("/{directory} is there and is not a directory")));
        }
        let entry = Entry {
            uid: owner.uid.into(),
            gid: owner.gid.into(),
            mtime: Time::from_seconds(EPOCH),
            ..Entry::new(Kind::Directory, directory, 0o755)
        };
        writer.append(&entry, &mut std::io::empty()).map_err(pipe)?;
    }
    let archive = writer.finish().map_err(pipe)?;
    unpack::apply(&archive[..], root, Whiteouts::Ignore, &Limits::default(), stop).map(drop)
}
