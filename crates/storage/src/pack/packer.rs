//! Writes the archive of a disk: walks over it by descriptors, one name at a time, and follows no link.

use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use cabana_archive::{Entry, Kind, Writer, sparse};
use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{AtFlags, FileType, Mode, Stat, fstat, readlinkat, statat};
use tokio_util::sync::CancellationToken;

use super::dir_stack::DIRECTORY;
use super::selected::Selected;
use super::walk::{CHANGED, CLOSED, FILE, Next, Walk, same};
use super::{
    CHUNK, Limits, MAX_ID, Packed, REPORTED, Selection, UPPER, at, attributes, check, count, holes, io, metadata,
    refused, show,
};
use crate::Error;

struct Packer<'a, W: Write> {
    out: Writer<W>,
    limits: &'a Limits,
    cancel: &'a CancellationToken,
    walk: Walk,
    buffer: Vec<u8>,
    packed: Packed,
}

pub(super) fn pack<W: Write>(
    disk: BorrowedFd<'_>,
    selection: &Selection,
    out: zstd::Encoder<'static, W>,
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<Packed, Error> {
    let open = |path: &str| {
        beneath::open(disk, path, DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts)
            .map_err(at("open", path.as_bytes()))
    };
    let (top, upper) = (open(".")?, open(UPPER)?);
    let (selected, missing) = Selected::find(std::os::fd::AsFd::as_fd(&upper), selection)?;
    let mut work = Packer {
        out: Writer::new(out),
        limits,
        cancel,
        walk: Walk::new(top, limits.path),
        buffer: vec![0; CHUNK],
        packed: Packed { missing, ..Packed::default() },
    };
    work.directory(UPPER.as_bytes(), upper, selected)?;
    loop {
        check(cancel)?;
        match work.walk.next() {
            Next::Name(name, selected) => work.visit(&name, selected)?,
            Next::Leave => work.walk.leave()?,
            Next::End => break,
        }
    }
    work.out.finish().and_then(|encoder| encoder.finish()?.flush()).map_err(io(WRITE))?;
    Ok(work.packed)
}

const WRITE: &str = "write an archive";

impl<W: Write> Packer<'_, W> {
    fn visit(&mut self, name: &[u8], selected: Selected) -> Result<(), Error> {
        let path = self.walk.dirs.path_to(name);
        let found = statat(self.walk.dirs.here(), name, AtFlags::SYMLINK_NOFOLLOW).map_err(at("look at", &path))?;
        let kind = FileType::from_raw_mode(found.st_mode);
        if kind == FileType::Directory {
            let fd = beneath::open(self.walk.dirs.here(), name, DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts)
                .map_err(at("open", &path))?;
            return self.directory(name, fd, selected);
        }
        if !selected.all {
            // It was a directory when the selection was resolved.
            return Err(refused(&path, CHANGED));
        }
        let whiteout = kind == FileType::CharacterDevice && found.st_rdev == 0;
        if !whiteout && !matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Fifo) {
            self.packed.skipped += 1;
            if self.packed.skipped_paths.len() < REPORTED {
                self.packed.skipped_paths.push(show(&path));
            }
            return Ok(());
        }
        if let Some(first) = self.walk.first_name(&found, &path)? {
            return self.put(&Entry { link: first, ..metadata::describe(Kind::HardLink, path, &found) });
        }
        match kind {
            FileType::RegularFile => self.file(name, path, &found),
            FileType::Symlink => {
                let target = readlinkat(self.walk.dirs.here(), name, Vec::new()).map_err(at("read", &path))?;
                self.put(&Entry { link: target.into_bytes(), ..metadata::describe(Kind::Symlink, path, &found) })
            }
            _ => {
                let fd = beneath::open(self.walk.dirs.here(), name, CLOSED, Mode::empty(), Resolve::NoLinksNoMounts)
                    .map_err(at("open", &path))?;
                same(&fd, &found, &path)?;
                let attributes = attributes::read_closed(&fd).map_err(at("read the attributes of", &path))?;
                let kind = if whiteout { Kind::Device } else { Kind::Fifo };
                self.put(&Entry { xattrs: attributes, ..metadata::describe(kind, path, &found) })
            }
        }
    }

    fn directory(&mut self, name: &[u8], fd: OwnedFd, selected: Selected) -> Result<(), Error> {
        let path = self.walk.dirs.path_to(name);
        let found = fstat(&fd).map_err(at("look at", &path))?;
        let mut attributes = attributes::read(&fd).map_err(at("read the attributes of", &path))?;
        if !selected.all {
            // A directory above the selected paths must show the template's content again. (`x` means only that some of the files in it
            // are whiteouts.)
            attributes.retain(|(name, value)| {
                !name.starts_with(b"user.overlay.") || (name == b"user.overlay.opaque" && value == b"x")
            });
        }
        self.put(&Entry { xattrs: attributes, ..metadata::describe(Kind::Directory, path, &found) })?;
        self.walk.enter(name, fd, selected)
    }

    fn file(&mut self, name: &[u8], path: Vec<u8>, found: &Stat) -> Result<(), Error> {
        let fd = beneath::open(self.walk.dirs.here(), name, FILE, Mode::empty(), Resolve::NoLinksNoMounts)
            .map_err(at("open", &path))?;
        same(&fd, found, &path)?;
        let attributes = attributes::read(&fd).map_err(at("read the attributes of", &path))?;
        let size = u64::try_from(found.st_size).unwrap_or(0);
        let held = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
        let file = std::fs::File::from(fd);
        let (mut pieces, mut map) = (vec![(0, size)], Vec::new());
        if held < size {
            pieces = match holes::pieces(&file, size).map_err(at("find the holes of", &path))? {
                Some(pieces) => pieces,
                None => return Err(refused(&path, "it has too many holes")),
            };
            if pieces != [(0, size)] {
                map = sparse::encode(&pieces, size);
            }
        }
        let data: u64 = pieces.iter().map(|(_, length)| length).sum();
        let entry = Entry {
            size: data + map.len() as u64,
            full_size: (!map.is_empty()).then_some(size),
            xattrs: attributes,
            ..metadata::describe(Kind::File, path, found)
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
        Ok(())
    }

    fn put(&mut self, entry: &Entry) -> Result<(), Error> {
        let path = &entry.path;
        if path.len() > self.limits.path {
            return Err(refused(path, format!("its path is longer than {} bytes", self.limits.path)));
        }
        if entry.uid > MAX_ID || entry.gid > MAX_ID {
            return Err(refused(path, format!("its owner ({}:{}) does not exist inside", entry.uid, entry.gid)));
        }
        count(&mut self.packed.entries, 1, self.limits.entries, path, "entries")?;
        let attributes = entry.xattrs.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum();
        count(&mut self.packed.bytes, attributes, self.limits.bytes, path, "bytes")?;
        match self.out.begin(entry).map_err(io(WRITE))? {
            true => Ok(()),
            false => Err(refused(path, "it has too many attributes")),
        }
    }
}
