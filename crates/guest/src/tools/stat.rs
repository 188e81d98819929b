//! `POST /stat`: what is at a path.

use std::path::Path;

use cabana_types::guest::tools::{EntryKind, Inspected, Stat, StatAnswer};
use cabana_types::tool::ToolErrorCode as Code;
use rustix::fs::{FileType, Mode, OFlags};

use super::place::Place;
use super::refuse::{self, Refused, about};
use super::{Cancel, read};
use crate::open;

/// Describes what is at a path, behind all links.
pub(crate) fn stat(request: &Stat, place: &Place, cancel: &Cancel) -> Result<StatAnswer, Refused> {
    let path = place.resolve(&request.path)?;
    let failed = |cause: std::io::Error| refuse::io("look at", &path, &cause);
    let target = std::fs::read_link(&path).ok();
    let fd = open::open(&path, OFlags::PATH, Mode::empty()).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound if target.is_some() => {
            about(Code::FileNotFound, &path, "is a link to a file that does not exist")
        }
        _ => failed(cause),
    })?;
    let found = rustix::fs::fstat(&fd).map_err(|cause| failed(cause.into()))?;
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    };
    let content = request.inspect.filter(|_| kind == EntryKind::File).and_then(|most| inspect(&path, most, cancel));
    cancel.check()?;
    Ok(StatAnswer {
        path: open::real_path(&fd).map_err(failed)?.to_string_lossy().into_owned(),
        kind,
        size: u64::try_from(found.st_size).unwrap_or_default(),
        mode: found.st_mode & 0o7777,
        asked: path.to_string_lossy().into_owned(),
        modified: found.st_mtime,
        target: target.map(|target| target.to_string_lossy().into_owned()),
        content,
    })
}

/// `None` if the account may not read the file: it can be described anyway.
fn inspect(path: &Path, most: u64, cancel: &Cancel) -> Option<Inspected> {
    read::inspect(open::readable(path).ok()?, most, cancel).ok()
}
