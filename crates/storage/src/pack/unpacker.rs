//! Makes files from an archive. Every entry must be new and lie in a directory that is open at that moment; anything else is rejected.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use cabana_archive::{Entry, Kind, Profile, Reader, sparse};
use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{AtFlags, Dir, FileType, Mode, ftruncate, linkat, mkdirat, mknodat, statat, symlinkat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::dir_stack::{DIRECTORY, DirStack};
use super::metadata::{self, NEW, PendingDirs};
use super::{CHUNK, Limits, MAX_ID, UPPER, Unpacked, at, attributes, check, count, refused};
use crate::Error;

const NOFOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

struct Unpacker<'a, R: Read> {
    reader: Reader<&'a mut R>,
    limits: &'a Limits,
    cancel: &'a CancellationToken,
    dirs: DirStack,
    pending: PendingDirs,
    buffer: Vec<u8>,
    unpacked: Unpacked,
}

pub(super) fn unpack(
    input: &mut impl Read,
    disk: BorrowedFd<'_>,
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<Unpacked, Error> {
    let top = beneath::open(disk, ".", DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts)
        .map_err(at("open", b"the disk"))?;
    let mut work = Unpacker {
        reader: Reader::new(input, Profile::Disk),
        limits,
        cancel,
        dirs: DirStack::new(top),
        pending: PendingDirs::default(),
        buffer: vec![0; CHUNK],
        unpacked: Unpacked::default(),
    };
    let mut last = Vec::new();
    loop {
        check(cancel)?;
        match work.reader.next_entry().map_err(unreadable("read the archive after", &last))? {
            Some(entry) => {
                work.make(&entry)?;
                last = entry.path;
            }
            None => break,
        }
    }
    if work.unpacked.entries == 0 {
        return Err(refused(b"", "the archive is empty"));
    }
    while work.dirs.depth() > 0 {
        work.leave()?;
    }
    Ok(work.unpacked)
}

impl<R: Read> Unpacker<'_, R> {
    fn make(&mut self, entry: &Entry) -> Result<(), Error> {
        let path = &entry.path;
        count(&mut self.unpacked.entries, 1, self.limits.entries, path, "entries")?;
        let held = entry.xattrs.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum();
        count(&mut self.unpacked.bytes, held, self.limits.bytes, path, "bytes")?;
        let (above, name) = self.check_path(path)?;
        if entry.uid > MAX_ID || entry.gid > MAX_ID || entry.mode > 0o7777 {
            return Err(refused(path, "its owner or mode is never packed"));
        }
        let known = |(name, value): &(Vec<u8>, Vec<u8>)| {
            attributes::is_packed(name) && value.len() <= attributes::LONGEST_VALUE
        };
        if !entry.xattrs.iter().all(known) {
            return Err(refused(path, "it has an attribute that is never packed"));
        }
        while self.dirs.path() != above {
            if self.dirs.depth() == 0 {
                return Err(refused(path, "it does not follow its directory"));
            }
            self.leave()?;
        }
        match entry.kind {
            Kind::Directory => self.directory(entry, name),
            Kind::File => self.file(entry, name),
            Kind::HardLink => self.link(entry, name),
            Kind::Symlink => {
                symlinkat(entry.link.as_slice(), self.dirs.here(), name).map_err(at("link", path))?;
                metadata::closed(self.dirs.here(), name, entry)
            }
            Kind::Fifo | Kind::Device => {
                let kind = if entry.kind == Kind::Fifo { FileType::Fifo } else { FileType::CharacterDevice };
                mknodat(self.dirs.here(), name, kind, Mode::empty(), 0).map_err(at("make", path))?;
                metadata::closed(self.dirs.here(), name, entry)
            }
        }
    }

    /// Splits a path, which must be in the upper directory, into directory and name.
    fn check_path<'p>(&self, path: &'p [u8]) -> Result<(&'p [u8], &'p [u8]), Error> {
        if path.len() > self.limits.path {
            return Err(refused(path, format!("its path is longer than {} bytes", self.limits.path)));
        }
        let mut names = path.split(|b| *b == b'/');
        let good = |name: &[u8]| (1..=255).contains(&name.len()) && name != b"." && name != b".." && !name.contains(&0);
        if names.next() != Some(UPPER.as_bytes()) || !names.all(good) {
            return Err(refused(path, "not a path that is ever packed"));
        }
        Ok(match path.iter().rposition(|b| *b == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (b"", path),
        })
    }

    fn directory(&mut self, entry: &Entry, name: &[u8]) -> Result<(), Error> {
        let path = &entry.path;
        let first = self.unpacked.entries == 1;
        match mkdirat(self.dirs.here(), name, Mode::RWXU) {
            Err(Errno::EXIST) if first => {}
            made => made.map_err(at("make", path))?,
        }
        let fd = beneath::open(self.dirs.here(), name, DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts)
            .map_err(at("open", path))?;
        if first && !is_empty(&fd).map_err(at("list", path))? {
            return Err(refused(path, "it is not empty"));
        }
        self.pending.begin(&fd, entry)?;
        self.dirs.descend(name, fd).map_err(at("enter", path))
    }

    /// Completes the current directory and returns to its parent.
    fn leave(&mut self) -> Result<(), Error> {
        self.pending.complete(self.dirs.here(), self.dirs.path())?;
        self.dirs.ascend().map_err(at("leave a directory in", self.dirs.path()))
    }

    fn file(&mut self, entry: &Entry, name: &[u8]) -> Result<(), Error> {
        let path = &entry.path;
        let fd = beneath::open(self.dirs.here(), name, NEW, Mode::RUSR | Mode::WUSR, Resolve::NoLinksNoMounts)
            .map_err(at("make", path))?;
        let file = std::fs::File::from(fd);
        let (mut pieces, mut map) = (vec![(0, entry.size)], 0);
        if let Some(size) = entry.full_size {
            let read = sparse::decode(&mut self.reader.content(), size);
            (pieces, map) = read.map_err(unreadable("read the archive at", path))?;
            ftruncate(&file, size).map_err(at("size", path))?;
        }
        let data: u64 = pieces.iter().fold(0, |sum, (_, length)| sum.saturating_add(*length));
        if data.checked_add(map) != Some(entry.size) {
            return Err(refused(path, "its data are not as long as they should be"));
        }
        count(&mut self.unpacked.bytes, data, self.limits.bytes, path, "bytes")?;
        for (mut to, length) in pieces {
            let end = to + length;
            while to < end {
                check(self.cancel)?;
                let most = usize::try_from(end - to).unwrap_or(CHUNK).min(CHUNK);
                let chunk = &mut self.buffer[..most];
                self.reader.content().read_exact(chunk).map_err(at("read the archive at", path))?;
                file.write_all_at(chunk, to).map_err(at("write", path))?;
                to += most as u64;
            }
        }
        metadata::file(&file, entry)
    }

    /// Another name of an earlier entry.
    fn link(&mut self, entry: &Entry, name: &[u8]) -> Result<(), Error> {
        let (above, target) = self.check_path(&entry.link)?;
        let directory = self.dirs.open(above).map_err(at("open", above))?;
        let found = statat(&directory, target, NOFOLLOW).map_err(at("look at", &entry.link))?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            return Err(refused(&entry.path, "it is another name of a directory"));
        }
        linkat(&directory, target, self.dirs.here(), name, AtFlags::empty()).map_err(at("link", &entry.path))
    }
}

/// What is wrong with an archive, at an entry or after it.
fn unreadable<'p>(action: &'static str, path: &'p [u8]) -> impl FnOnce(cabana_archive::Error) -> Error + use<'p> {
    move |error| match error {
        cabana_archive::Error::Io(error) => at(action, path)(error),
        cabana_archive::Error::Invalid { path: known, problem } => {
            refused(if known.is_empty() { path } else { &known }, problem)
        }
    }
}

fn is_empty(fd: impl AsFd) -> std::io::Result<bool> {
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            return Ok(false);
        }
    }
    Ok(true)
}
