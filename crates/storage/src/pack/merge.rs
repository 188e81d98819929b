//! Merges a sandbox's disk into a copy of its template's tree, so that the tree becomes what the sandbox sees. File
//! contents are shared, not copied.

use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use cabana_archive::{Entry, Kind};
use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{
    AtFlags, FileType, IFlags, Mode, Stat, fstat, ftruncate, ioctl_ficlone, ioctl_getflags, ioctl_setflags, linkat,
    mkdirat, mknodat, readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::attributes::Overlay;
use super::dir_stack::{DIRECTORY, DirStack};
use super::metadata::{self, NEW, PendingDirs};
use super::selected::Selected;
use super::walk::{CLOSED, FILE, Next, Walk, same};
use super::{CHUNK, Limits, Merged, REPORTED, UPPER, attributes, check, count, holes, refused, show};
use crate::Error;

struct Merge<'a> {
    limits: &'a Limits,
    cancel: &'a CancellationToken,
    /// The walk over the disk.
    walk: Walk,
    /// The same directories in the tree.
    tree: DirStack,
    pending: PendingDirs,
    copied: u64,
    merged: Merged,
}

pub(super) fn merge(
    disk: BorrowedFd<'_>,
    root: BorrowedFd<'_>,
    limits: &Limits,
    cancel: &CancellationToken,
) -> Result<Merged, Error> {
    let open = |fd, path: &str| {
        beneath::open(fd, path, DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts).map_err(at("open", path.as_bytes()))
    };
    let mut work = Merge {
        limits,
        cancel,
        walk: Walk::new(open(disk, ".")?, limits.path),
        tree: DirStack::new(open(root, ".")?),
        pending: PendingDirs::default(),
        copied: 0,
        merged: Merged::default(),
    };
    work.enter(UPPER.as_bytes(), open(disk, UPPER)?, open(root, ".")?)?;
    loop {
        check(cancel)?;
        match work.walk.next() {
            Next::Name(name, _) => work.visit(&name)?,
            Next::Leave => work.leave()?,
            Next::End => return Ok(work.merged),
        }
    }
}

impl Merge<'_> {
    fn visit(&mut self, name: &[u8]) -> Result<(), Error> {
        let path = self.walk.dirs.path_to(name);
        count(&mut self.merged.entries, 1, self.limits.entries, inside(&path), "entries")?;
        let found = statat(self.walk.dirs.here(), name, AtFlags::SYMLINK_NOFOLLOW).map_err(at("look at", &path))?;
        let kind = FileType::from_raw_mode(found.st_mode);
        if kind == FileType::Directory {
            return self.directory(name, &path);
        }
        // Whatever it is, it hides the template's entry of this name.
        remove(self.tree.here(), name, &path, self.limits.path, self.cancel)?;
        if kind == FileType::CharacterDevice && found.st_rdev == 0 {
            return Ok(());
        }
        if !matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Fifo) {
            self.merged.skipped += 1;
            if self.merged.skipped_paths.len() < REPORTED {
                self.merged.skipped_paths.push(show(inside(&path)));
            }
            return Ok(());
        }
        if let Some(first) = self.walk.first_name(&found, &path)? {
            return self.link(&first, name, &path);
        }
        match kind {
            FileType::RegularFile => self.file(name, path, &found),
            FileType::Symlink => {
                let target = readlinkat(self.walk.dirs.here(), name, Vec::new()).map_err(at("read", &path))?;
                symlinkat(target, self.tree.here(), name).map_err(at("link", &path))?;
                metadata::closed(self.tree.here(), name, &metadata::describe(Kind::Symlink, path, &found))
            }
            _ => {
                let fd = beneath::open(self.walk.dirs.here(), name, CLOSED, Mode::empty(), Resolve::NoLinksNoMounts)
                    .map_err(at("open", &path))?;
                let attributes = attributes::read_closed(&fd).map_err(at("read the attributes of", &path))?;
                let Overlay { attributes, .. } = Overlay::split(attributes, inside(&path))?;
                mknodat(self.tree.here(), name, FileType::Fifo, Mode::empty(), 0).map_err(at("make", &path))?;
                let entry = Entry { xattrs: attributes, ..metadata::describe(Kind::Fifo, path, &found) };
                metadata::closed(self.tree.here(), name, &entry)
            }
        }
    }

    fn directory(&mut self, name: &[u8], path: &[u8]) -> Result<(), Error> {
        let open = |here| beneath::open(here, name, DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts);
        let fd = open(self.walk.dirs.here()).map_err(at("open", path))?;
        let under = match open(self.tree.here()) {
            Ok(under) => under,
            Err(error) => {
                match error {
                    Errno::NOENT => {}
                    // A file or a link of the template.
                    Errno::NOTDIR | Errno::LOOP => {
                        unlinkat(self.tree.here(), name, AtFlags::empty()).map_err(at("remove", path))?
                    }
                    error => return Err(at("open", path)(error)),
                }
                mkdirat(self.tree.here(), name, Mode::RWXU).map_err(at("make", path))?;
                open(self.tree.here()).map_err(at("open", path))?
            }
        };
        self.enter(name, fd, under)
    }

    /// Gives a directory of the tree the metadata it has on the disk, and enters it.
    fn enter(&mut self, name: &[u8], fd: OwnedFd, under: OwnedFd) -> Result<(), Error> {
        let path = self.walk.dirs.path_to(name);
        let found = fstat(&fd).map_err(at("look at", &path))?;
        let attributes = attributes::read(&fd).map_err(at("read the attributes of", &path))?;
        let Overlay { attributes, opaque } = Overlay::split(attributes, inside(&path))?;
        if opaque {
            let whole = under.try_clone().map_err(at("open", &path))?;
            empty(whole, &path, self.limits.path, self.cancel)?;
        }
        // The overlay copied them with the directory; what is missing on the disk was removed inside.
        attributes::clear(&under).map_err(at("change the attributes of", &path))?;
        self.pending.begin(
            &under,
            &Entry { xattrs: attributes, ..metadata::describe(Kind::Directory, path.clone(), &found) },
        )?;
        if self.walk.dirs.depth() > 0 {
            self.tree.descend(name, under).map_err(at("enter", &path))?;
        }
        self.walk.enter(name, fd, Selected::everything())
    }

    fn leave(&mut self) -> Result<(), Error> {
        self.pending.complete(self.tree.here(), inside(self.walk.dirs.path()))?;
        self.tree.ascend().map_err(at("leave a directory in", self.walk.dirs.path()))?;
        self.walk.leave()
    }

    fn link(&self, first: &[u8], name: &[u8], path: &[u8]) -> Result<(), Error> {
        let first = inside(first);
        let (above, target) = match first.iter().rposition(|b| *b == b'/') {
            Some(slash) => (&first[..slash], &first[slash + 1..]),
            None => (&b""[..], first),
        };
        let directory = self.tree.open(above).map_err(at("open", above))?;
        linkat(directory, target, self.tree.here(), name, AtFlags::empty()).map_err(at("link", path))
    }

    fn file(&mut self, name: &[u8], path: Vec<u8>, found: &Stat) -> Result<(), Error> {
        let fd = beneath::open(self.walk.dirs.here(), name, FILE, Mode::empty(), Resolve::NoLinksNoMounts)
            .map_err(at("open", &path))?;
        same(&fd, found, inside(&path))?;
        let attributes = attributes::read(&fd).map_err(at("read the attributes of", &path))?;
        let Overlay { attributes, .. } = Overlay::split(attributes, inside(&path))?;
        let new = beneath::open(self.tree.here(), name, NEW, Mode::RUSR | Mode::WUSR, Resolve::NoLinksNoMounts)
            .map_err(at("make", &path))?;
        match share(&fd, &new) {
            // Not on btrfs.
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOTTY) => self.copy(&fd.into(), &new, found, &path)?,
            shared => shared.map_err(at("copy", &path))?,
        }
        metadata::file(&new, &Entry { xattrs: attributes, ..metadata::describe(Kind::File, path, found) })
    }

    /// Copies content and keeps holes.
    fn copy(&mut self, from: &File, to: &OwnedFd, found: &Stat, path: &[u8]) -> Result<(), Error> {
        let to = File::from(to.try_clone().map_err(at("open", path))?);
        let size = u64::try_from(found.st_size).unwrap_or(0);
        let pieces = holes::pieces(from, size).map_err(at("find the holes of", path))?;
        let pieces = pieces.ok_or_else(|| refused(inside(path), "it has too many holes"))?;
        ftruncate(&to, size).map_err(at("size", path))?;
        let mut buffer = vec![0; CHUNK];
        for (mut place, length) in pieces {
            count(&mut self.copied, length, self.limits.bytes, inside(path), "bytes")?;
            let end = place + length;
            while place < end {
                check(self.cancel)?;
                let most = usize::try_from(end - place).unwrap_or(CHUNK).min(CHUNK);
                from.read_exact_at(&mut buffer[..most], place).map_err(at("read", path))?;
                to.write_all_at(&buffer[..most], place).map_err(at("write", path))?;
                place += most as u64;
            }
        }
        Ok(())
    }
}

/// A path as the sandbox sees it, without a slash before it.
fn inside(path: &[u8]) -> &[u8] {
    path.strip_prefix(UPPER.as_bytes()).and_then(|rest| rest.strip_prefix(b"/")).unwrap_or(path)
}

/// For errors, which name files as the sandbox sees them.
fn at<E: Into<std::io::Error>>(action: &'static str, path: &[u8]) -> impl FnOnce(E) -> Error {
    super::at(action, inside(path))
}

/// Lets a new file share the content of another. Both must have the same copy-on-write flag, which may differ by inheritance.
fn share(from: &OwnedFd, to: &OwnedFd) -> rustix::io::Result<()> {
    let (wanted, flags) = (ioctl_getflags(from)? & IFlags::NOCOW, ioctl_getflags(to)?);
    if flags & IFlags::NOCOW != wanted {
        // Without copy-on-write there is no compression.
        ioctl_setflags(to, (flags - IFlags::NOCOW - IFlags::COMPRESSED) | wanted)?;
    }
    ioctl_ficlone(to, from)
}

/// Removes whatever has this name, recursively.
fn remove(
    here: BorrowedFd<'_>,
    name: &[u8],
    path: &[u8],
    longest: usize,
    cancel: &CancellationToken,
) -> Result<(), Error> {
    match unlinkat(here, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => {
            let directory = beneath::open(here, name, DIRECTORY, Mode::empty(), Resolve::NoLinksNoMounts)
                .map_err(at("open", path))?;
            empty(directory, path, longest, cancel)?;
            unlinkat(here, name, AtFlags::REMOVEDIR).map_err(at("remove", path))
        }
        Err(error) => Err(at("remove", path)(error)),
    }
}

/// Removes everything in a directory, however deep it is.
fn empty(directory: OwnedFd, path: &[u8], longest: usize, cancel: &CancellationToken) -> Result<(), Error> {
    let mut walk = Walk::new(directory.try_clone().map_err(at("open", path))?, longest);
    walk.enter(b".", directory, Selected::everything())?;
    loop {
        check(cancel)?;
        match walk.next() {
            Next::Name(name, _) => match unlinkat(walk.dirs.here(), name.as_slice(), AtFlags::empty()) {
                Err(Errno::ISDIR) => {
                    let inner = beneath::open(
                        walk.dirs.here(),
                        name.as_slice(),
                        DIRECTORY,
                        Mode::empty(),
                        Resolve::NoLinksNoMounts,
                    );
                    walk.enter(&name, inner.map_err(at("open", path))?, Selected::everything())?;
                }
                removed => removed.map_err(at("remove what is in", path))?,
            },
            Next::Leave => {
                let left = walk.dirs.path();
                let name = left[left.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1)..].to_vec();
                walk.leave()?;
                if walk.dirs.depth() > 0 {
                    unlinkat(walk.dirs.here(), name, AtFlags::REMOVEDIR).map_err(at("remove what is in", path))?;
                }
            }
            Next::End => return Ok(()),
        }
    }
}
