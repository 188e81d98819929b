//! The walk over a disk that writes an archive. It goes by descriptors, one name at a time, and follows no link.

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat2, readlinkat, statat};
use tokio_util::sync::CancellationToken;

use super::entry::{self, Entry};
use super::header::Kind;
use super::text::Time;
use super::trail::{DIRECTORY, STRICT, Trail};
use super::wanted::Wanted;
use super::{
    CHUNK, Limits, MOST_ID, Packed, Selection, TOLD, UPPER, at, attributes, check, count, io, refused, show, sparse,
};
use crate::Error;

/// Bytes of names that are held: those still to visit, and the first ones of files that have several.
const MOST_HELD: usize = 256 << 20;
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOATIME).union(OFlags::CLOEXEC);
const CLOSED: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const CHANGED: &str = "it changed while it was packed";

/// Names of a directory that are still to visit.
struct Names {
    /// Each ends with a zero.
    bytes: Vec<u8>,
    at: usize,
    /// What is wanted of each; if there is no word of it, everything.
    wanted: HashMap<Vec<u8>, Wanted>,
}

/// A file with several names: the path of the first, and how many others there may be.
struct Known {
    path: Vec<u8>,
    left: u64,
}

struct Gather<'a, W: Write> {
    out: W,
    limits: &'a Limits,
    cancel: &'a CancellationToken,
    trail: Trail,
    levels: Vec<Names>,
    known: HashMap<(u64, u64), Known>,
    held: usize,
    buffer: Vec<u8>,
    packed: Packed,
}

pub(super) fn gather<W: Write>(
    disk: BorrowedFd<'_>,
    selection: &Selection,
    out: zstd::Encoder<'static, W>,
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<Packed, Error> {
    let open = |path: &str| openat2(disk, path, DIRECTORY, Mode::empty(), STRICT).map_err(at("open", path.as_bytes()));
    let (top, upper) = (open(".")?, open(UPPER)?);
    let (wanted, missing) = Wanted::find(std::os::fd::AsFd::as_fd(&upper), selection)?;
    let mut walk = Gather {
        out,
        limits,
        cancel,
        trail: Trail::new(top),
        levels: Vec::new(),
        known: HashMap::new(),
        held: 0,
        buffer: vec![0; CHUNK],
        packed: Packed { missing, ..Packed::default() },
    };
    walk.directory(UPPER.as_bytes(), upper, wanted)?;
    while let Some(names) = walk.levels.last_mut() {
        check(cancel)?;
        match names.next() {
            Some((name, wanted)) => walk.visit(&name, wanted)?,
            None => walk.leave()?,
        }
    }
    entry::finish(&mut walk.out).and_then(|()| walk.out.finish()?.flush()).map_err(io(WRITE))?;
    Ok(walk.packed)
}

const WRITE: &str = "write an archive";

impl Names {
    fn next(&mut self) -> Option<(Vec<u8>, Wanted)> {
        let rest = &self.bytes[self.at..];
        let name = rest[..rest.iter().position(|b| *b == 0)?].to_vec();
        self.at += name.len() + 1;
        let wanted = self.wanted.remove(&name).unwrap_or_else(Wanted::everything);
        Some((name, wanted))
    }
}

impl<W: Write> Gather<'_, W> {
    fn visit(&mut self, name: &[u8], wanted: Wanted) -> Result<(), Error> {
        let path = self.trail.path_to(name);
        let found = statat(self.trail.here(), name, AtFlags::SYMLINK_NOFOLLOW).map_err(at("look at", &path))?;
        let kind = FileType::from_raw_mode(found.st_mode);
        if kind == FileType::Directory {
            let fd = openat2(self.trail.here(), name, DIRECTORY, Mode::empty(), STRICT).map_err(at("open", &path))?;
            return self.directory(name, fd, wanted);
        }
        if !wanted.all {
            // It was a directory when the selection was looked up.
            return Err(refused(&path, CHANGED));
        }
        let whiteout = kind == FileType::CharacterDevice && found.st_rdev == 0;
        if !whiteout && !matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Fifo) {
            self.packed.skipped += 1;
            if self.packed.skipped_paths.len() < TOLD {
                self.packed.skipped_paths.push(show(&path));
            }
            return Ok(());
        }
        if let Some(first) = self.first_name(&found, &path)? {
            return self.put(&Entry { link: first, ..describe(Kind::Link, path, &found) });
        }
        match kind {
            FileType::RegularFile => self.file(name, path, &found),
            FileType::Symlink => {
                let target = readlinkat(self.trail.here(), name, Vec::new()).map_err(at("read", &path))?;
                self.put(&Entry { link: target.into_bytes(), ..describe(Kind::Symlink, path, &found) })
            }
            _ => {
                let fd = openat2(self.trail.here(), name, CLOSED, Mode::empty(), STRICT).map_err(at("open", &path))?;
                same(&fd, &found, &path)?;
                let attributes = attributes::read_closed(&fd).map_err(at("read the attributes of", &path))?;
                let kind = if whiteout { Kind::Whiteout } else { Kind::Fifo };
                self.put(&Entry { attributes, ..describe(kind, path, &found) })
            }
        }
    }

    /// The first name under which a file was met, if it has several and this is not the first.
    fn first_name(&mut self, found: &Stat, path: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if found.st_nlink < 2 {
            return Ok(None);
        }
        let file = (found.st_dev, found.st_ino);
        let Some(known) = self.known.get_mut(&file) else {
            self.hold(path.len(), path)?;
            self.known.insert(file, Known { path: path.to_vec(), left: found.st_nlink - 1 });
            return Ok(None);
        };
        known.left = known.left.saturating_sub(1);
        if known.left > 0 {
            return Ok(Some(known.path.clone()));
        }
        let first = self.known.remove(&file).map(|known| known.path);
        self.held -= first.as_ref().map_or(0, Vec::len);
        Ok(first)
    }

    fn directory(&mut self, name: &[u8], fd: OwnedFd, wanted: Wanted) -> Result<(), Error> {
        let path = self.trail.path_to(name);
        let found = fstat(&fd).map_err(at("look at", &path))?;
        let mut attributes = attributes::read(&fd).map_err(at("read the attributes of", &path))?;
        if !wanted.all {
            // Of a directory on the way the overlay shall show again what the template has in it. (`x` means only that some of the
            // files in it are whiteouts.)
            attributes.retain(|(name, value)| {
                !name.starts_with(b"user.overlay.") || (name == b"user.overlay.opaque" && value == b"x")
            });
        }
        let names = if wanted.all { self.names(&fd, &path)? } else { some_names(wanted) };
        self.hold(names.bytes.len(), &path)?;
        self.put(&Entry { attributes, ..describe(Kind::Directory, path.clone(), &found) })?;
        self.trail.descend(name, fd).map_err(at("enter", &path))?;
        self.levels.push(names);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), Error> {
        let names = self.levels.pop();
        self.held -= names.map_or(0, |names| names.bytes.len());
        self.trail.ascend().map_err(at("leave a directory in", self.trail.path()))
    }

    fn names(&mut self, fd: &OwnedFd, path: &[u8]) -> Result<Names, Error> {
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
        Ok(Names { bytes, at: 0, wanted: HashMap::new() })
    }

    fn hold(&mut self, bytes: usize, path: &[u8]) -> Result<(), Error> {
        self.held += bytes;
        if self.held > MOST_HELD { Err(refused(path, "there are too many names")) } else { Ok(()) }
    }

    fn file(&mut self, name: &[u8], path: Vec<u8>, found: &Stat) -> Result<(), Error> {
        let fd = openat2(self.trail.here(), name, FILE, Mode::empty(), STRICT).map_err(at("open", &path))?;
        same(&fd, found, &path)?;
        let attributes = attributes::read(&fd).map_err(at("read the attributes of", &path))?;
        let size = u64::try_from(found.st_size).unwrap_or(0);
        let held = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
        let file = std::fs::File::from(fd);
        let (mut pieces, mut map) = (vec![(0, size)], Vec::new());
        if held < size {
            pieces = match sparse::pieces(&file, size).map_err(at("find the holes of", &path))? {
                Some(pieces) => pieces,
                None => return Err(refused(&path, "it has too many holes")),
            };
            if pieces != [(0, size)] {
                map = sparse::encode(&pieces, size);
            }
        }
        let data: u64 = pieces.iter().map(|(_, length)| length).sum();
        let entry = Entry {
            stored: data + map.len() as u64,
            full_size: (!map.is_empty()).then_some(size),
            attributes,
            ..describe(Kind::File, path, found)
        };
        count(&mut self.packed.bytes, data, self.limits.bytes, &entry.path, "bytes")?;
        self.put(&entry)?;
        self.out.write_all(&map).map_err(io(WRITE))?;
        for (mut from, length) in pieces {
            let end = from + length;
            while from < end {
                check(self.cancel)?;
                let most = usize::try_from(end - from).unwrap_or(CHUNK).min(CHUNK);
                let read = file.read_at(&mut self.buffer[..most], from).map_err(at("read", &entry.path))?;
                if read == 0 {
                    return Err(refused(&entry.path, CHANGED));
                }
                self.out.write_all(&self.buffer[..read]).map_err(io(WRITE))?;
                from += read as u64;
            }
        }
        entry::fill(&mut self.out, entry.stored).map_err(io(WRITE))
    }

    fn put(&mut self, entry: &Entry) -> Result<(), Error> {
        let path = &entry.path;
        if path.len() > self.limits.path {
            return Err(refused(path, format!("its path is longer than {} bytes", self.limits.path)));
        }
        if entry.uid > MOST_ID || entry.gid > MOST_ID {
            return Err(refused(path, format!("its owner ({}:{}) is nobody inside", entry.uid, entry.gid)));
        }
        count(&mut self.packed.entries, 1, self.limits.entries, path, "entries")?;
        let attributes = entry.attributes.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum();
        count(&mut self.packed.bytes, attributes, self.limits.bytes, path, "bytes")?;
        match entry.write(&mut self.out).map_err(io(WRITE))? {
            true => Ok(()),
            false => Err(refused(path, "it has too many attributes")),
        }
    }
}

fn some_names(wanted: Wanted) -> Names {
    let bytes = wanted.below.keys().flat_map(|name| name.iter().copied().chain([0])).collect();
    Names { bytes, at: 0, wanted: wanted.below.into_iter().collect() }
}

fn describe(kind: Kind, path: Vec<u8>, found: &Stat) -> Entry {
    let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(0);
    Entry {
        kind,
        path,
        link: Vec::new(),
        mode: found.st_mode & 0o7777,
        uid: found.st_uid,
        gid: found.st_gid,
        mtime: Time { seconds: found.st_mtime, nanoseconds },
        stored: 0,
        full_size: None,
        attributes: Vec::new(),
    }
}

/// What was opened is what was looked at.
fn same(fd: &OwnedFd, found: &Stat, path: &[u8]) -> Result<(), Error> {
    let opened = fstat(fd).map_err(at("look at", path))?;
    let identity = |s: &Stat| (s.st_dev, s.st_ino, s.st_mode, s.st_size);
    if identity(&opened) == identity(found) { Ok(()) } else { Err(refused(path, CHANGED)) }
}
