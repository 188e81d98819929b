//! Writes an uploaded file in place, so that watchers see one creation, one change of owner and the writes. A new file
//! is removed if the upload fails.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use rustix::fs::{FileType, Gid, Mode, OFlags, Uid};

use crate::blocking;
use crate::error::Problem;
use crate::metadata::{self, Metadata};
use crate::users::Account;
use crate::{directory, open};

/// How much is buffered before a write; a small file is one write.
const BATCH: usize = 256 << 10;

/// Destination of an upload.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Absolute path.
    pub(crate) path: PathBuf,
    pub(crate) account: Account,
    /// Metadata to attach.
    pub(crate) metadata: Metadata,
}

/// An open target. If it is dropped before [`Partial::finish`], a new file is removed.
struct Partial {
    file: File,
    path: PathBuf,
    is_new: bool,
}

impl Partial {
    fn finish(mut self) {
        self.is_new = false;
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_new {
            return;
        }
        let own = self.file.metadata();
        let there = std::fs::symlink_metadata(&self.path);
        if let (Ok(own), Ok(there)) = (own, there)
            && (own.dev(), own.ino()) == (there.dev(), there.ino())
        {
            // Report the upload's error, not this one.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Writes the whole body.
pub(crate) async fn receive(
    target: Target,
    mut pieces: impl Stream<Item = Result<Bytes, Problem>> + Unpin,
) -> Result<(), Problem> {
    let target = Arc::new(target);
    let mut partial: Option<Partial> = None;
    let mut batch = Vec::new();
    loop {
        let piece = pieces.next().await.transpose()?;
        let last = piece.is_none();
        if let Some(piece) = piece {
            batch.extend_from_slice(&piece);
        }
        if batch.len() < BATCH && !last {
            continue;
        }
        let (target, open) = (Arc::clone(&target), partial.take());
        let (open, emptied) = blocking::run(move || {
            let mut open = match open {
                Some(open) => open,
                None => create(&target)?,
            };
            open.file.write_all(&batch).map_err(|e| Problem::io("write", &target.path, &e))?;
            batch.clear();
            Ok::<_, Problem>((open, batch))
        })
        .await?;
        if last {
            open.finish();
            return Ok(());
        }
        (partial, batch) = (Some(open), emptied);
    }
}

fn create(target: &Target) -> Result<Partial, Problem> {
    let path = &target.path;
    if path.file_name().is_none() {
        return Err(is_directory(path));
    }
    if let Some(parent) = path.parent() {
        directory::make(parent, &target.account).map_err(|e| Problem::io("make directory", parent, &e))?;
    }
    let (file, is_new) = open_for_writing(path)?;
    let partial = Partial { file, path: path.clone(), is_new };
    let owner = (Uid::from_raw(target.account.uid), Gid::from_raw(target.account.gid));
    rustix::fs::fchown(&partial.file, Some(owner.0), Some(owner.1))
        .map_err(|e| Problem::io("change the owner of", path, &e.into()))?;
    if !is_new {
        rustix::fs::ftruncate(&partial.file, 0).map_err(|e| Problem::io("empty", path, &e.into()))?;
    }
    // Ignore missing support for attributes if there is no metadata.
    match metadata::replace(&partial.file, &target.metadata) {
        Err(cause) if !target.metadata.is_empty() => return Err(Problem::io("attach metadata to", path, &cause)),
        _ => {}
    }
    Ok(partial)
}

/// Opens the file, and returns whether it is new.
fn open_for_writing(path: &Path) -> Result<(File, bool), Problem> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK;
    let mode = Mode::from_raw_mode(0o666);
    match open::open(path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
        Ok(fd) => return Ok((File::from(fd), true)),
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
        Err(cause) => return Err(Problem::io("create", path, &cause)),
    }
    // The path exists: a file, or a link that may be dangling.
    let fd = open::open(path, flags | OFlags::CREATE, mode).map_err(|cause| match cause.raw_os_error() {
        Some(libc::EISDIR) => is_directory(path),
        _ => Problem::io("open", path, &cause),
    })?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| Problem::io("open", path, &e.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || open::is_kernel_made(&fd) {
        return Err(Problem::bad_request(format!("path '{}' is not a regular file", path.display())));
    }
    Ok((File::from(fd), false))
}

fn is_directory(path: &Path) -> Problem {
    Problem::bad_request(format!("path is a directory: {}", path.display()))
}
