//! Checks one change: where it really is, what is there, and whether it may be made.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabana_types::guest::tools::{Action, Change, Expect};
use cabana_types::tool::ToolErrorCode as Code;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};

use super::doomed;
use crate::open;
use crate::tools::Cancel;
use crate::tools::place::Place;
use crate::tools::read::digest;
use crate::tools::refuse::{self, Refused, about, plain};

const NEW_FILE: u32 = 0o644;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Old {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Permission bits.
    pub(super) mode: u32,
    pub(super) is_dir: bool,
    pub(super) is_file: bool,
    pub(super) is_link: bool,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Old {
    /// What is there, without following a link; `None` if there is nothing.
    pub(super) fn at(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::symlink_metadata(path) {
            Ok(found) => Ok(Some(Self {
                uid: found.uid(),
                gid: found.gid(),
                mode: found.mode() & 0o7777,
                is_dir: found.is_dir(),
                is_file: found.is_file(),
                is_link: found.is_symlink(),
                device: found.dev(),
                inode: found.ino(),
                size: found.size(),
                modified: (found.mtime(), found.mtime_nsec()),
            })),
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// Whether it is the same, with the same content. On an overlay the inode changes when a file is written for the first time.
    pub(super) fn is_same(&self, now: &Self) -> bool {
        (self.size, self.modified, self.is_dir, self.is_file) == (now.size, now.modified, now.is_dir, now.is_file)
    }
}

/// What is to be done. Paths are real ones: their parents have no links.
#[derive(Debug)]
pub(super) enum Act {
    Write { target: PathBuf, data: Vec<u8>, executable: Option<bool>, old: Option<Old> },
    Delete { target: PathBuf, old: Old, recursive: bool, count: u64 },
    Rename { from: PathBuf, to: PathBuf, old: Old, content: Option<Vec<u8>>, executable: Option<bool> },
}

/// A change that may be made.
#[derive(Debug)]
pub(super) struct Plan {
    /// As it was asked for.
    pub(super) path: PathBuf,
    pub(super) act: Act,
}

impl Plan {
    pub(super) fn new(change: Change, place: &Place, cancel: &Cancel) -> Result<Self, Refused> {
        let path = place.resolve(&change.path)?;
        let failed = |cause: io::Error| refuse::io("change", &path, &cause);
        let real = real_place(&path).map_err(failed)?;
        let old = Old::at(&real).map_err(failed)?;
        let act = match change.action {
            Action::Write { data, executable } => {
                let data = decode(&data, &path)?;
                let (target, old) = written(&path, real, old)?;
                Act::Write { target, data, executable, old }
            }
            Action::Delete { recursive } => {
                let old = old.ok_or_else(|| about(Code::FileNotFound, &path, "does not exist"))?;
                let count = doomed::check(&real, &path, &old, recursive, place, cancel)?;
                Act::Delete { target: real, old, recursive, count }
            }
            Action::Rename { to, data, executable } => {
                let old = old.ok_or_else(|| about(Code::FileNotFound, &path, "does not exist"))?;
                if !old.is_file && (!old.is_link || data.is_some() || executable.is_some()) {
                    return Err(about(Code::NotAFile, &path, "is not a regular file"));
                }
                let content = data.map(|data| decode(&data, &path)).transpose()?;
                let asked = place.resolve(&to)?;
                let to = real_place(&asked).map_err(|e| refuse::io("change", &asked, &e))?;
                if Old::at(&to).map_err(|e| refuse::io("change", &asked, &e))?.is_some() {
                    return Err(about(Code::AlreadyExists, &asked, "exists"));
                }
                expect(&change.expect, &path, Some(&old), cancel)?;
                return Ok(Self { path: asked, act: Act::Rename { from: real, to, old, content, executable } });
            }
        };
        expect(&change.expect, &path, old.as_ref(), cancel)?;
        Ok(Self { path, act })
    }

    /// The paths that change.
    pub(super) fn places(&self) -> impl Iterator<Item = &Path> {
        let (first, second) = match &self.act {
            Act::Write { target, .. } | Act::Delete { target, .. } => (target, None),
            Act::Rename { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(first).chain(second).map(PathBuf::as_path)
    }
}

/// Where a written file is: the target of a link, if there is one.
fn written(path: &Path, real: PathBuf, old: Option<Old>) -> Result<(PathBuf, Option<Old>), Refused> {
    let failed = |cause: io::Error| refuse::io("write", path, &cause);
    let (target, old) = match old {
        Some(link) if link.is_link => {
            // Opened by the kernel, which refuses links that another user has put into a shared directory.
            let fd = open::open(&real, OFlags::PATH, Mode::empty()).map_err(|cause| match cause.kind() {
                io::ErrorKind::NotFound => about(Code::FileNotFound, path, "is a link to a file that does not exist"),
                _ => failed(cause),
            })?;
            if open::is_kernel_made(&fd) {
                return Err(about(Code::PermissionDenied, path, "leads to a pseudo filesystem"));
            }
            let target = open::real_path(&fd).map_err(failed)?;
            let old = Old::at(&target).map_err(failed)?;
            (target, old)
        }
        old => (real, old),
    };
    if let Some(old) = &old {
        if !old.is_file {
            let why = if old.is_dir { "is a directory" } else { "is not a regular file" };
            return Err(about(Code::NotAFile, path, why));
        }
        rustix::fs::accessat(CWD, &target, Access::WRITE_OK, AtFlags::EACCESS).map_err(|e| failed(e.into()))?;
    }
    Ok((target, old))
}

fn expect(expect: &Expect, path: &Path, old: Option<&Old>, cancel: &Cancel) -> Result<(), Refused> {
    match expect {
        Expect::Anything => Ok(()),
        Expect::Absent if old.is_some() => Err(about(Code::AlreadyExists, path, "exists")),
        Expect::Absent => Ok(()),
        Expect::Content { sha256 } => match digest(path, cancel)? == *sha256 {
            true => Ok(()),
            false => {
                Err(about(Code::Interrupted, path, "was changed by somebody else since it was read; read it again"))
            }
        },
    }
}

fn decode(data: &str, path: &Path) -> Result<Vec<u8>, Refused> {
    STANDARD.decode(data).map_err(|cause| {
        plain(Code::InvalidArguments, format!("the content of '{}' is not base64: {cause}", path.display()))
    })
}

/// The path with the real path of its parent, as far as that exists.
pub(in crate::tools) fn real_place(path: &Path) -> io::Result<PathBuf> {
    let (Some(name), Some(mut parent)) = (path.file_name(), path.parent()) else { return Ok(path.to_owned()) };
    let mut missing = vec![name];
    loop {
        match open::open(parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
            Ok(fd) if open::is_kernel_made(&fd) => return Err(io::Error::from_raw_os_error(libc::EACCES)),
            Ok(fd) => {
                let mut real = open::real_path(&fd)?;
                real.extend(missing.iter().rev());
                return Ok(real);
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                let (Some(name), Some(above)) = (parent.file_name(), parent.parent()) else { return Err(cause) };
                missing.push(name);
                parent = above;
            }
            Err(cause) => return Err(cause),
        }
    }
}

/// Permission bits of a written file.
pub(super) fn mode(old: Option<&Old>, executable: Option<bool>) -> u32 {
    let mode = old.map_or(NEW_FILE, |old| old.mode);
    match executable {
        None => mode,
        // For those who may read it.
        Some(true) => mode | ((mode & 0o444) >> 2),
        Some(false) => mode & !0o111,
    }
}
