//! The data directory: one server at a time, and files that only root reads.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use cabana_types::Secret;

use crate::error::Error;

/// Holds the data directory for this process. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct DataDir {
    _lock: File,
}

impl DataDir {
    /// Makes the directory if it is not there, and takes it.
    pub fn take(path: &Path) -> Result<Self, Error> {
        let failed = |action| move |source| Error::Path { action, path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create"))?;
        let file = path.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&file)
            .map_err(|source| Error::Path { action: "open", path: file.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => {
                drop_ballast(path);
                Ok(Self { _lock: lock })
            }
            Err(TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(Error::Path { action: "lock", path: file, source }),
        }
    }
}

/// A file that only takes space: a start on a full disk deletes it, because a server that does not start cannot be used to
/// free any.
const BALLAST: &str = "ballast";
const BALLAST_BYTES: u64 = 32 << 20;
/// It is made when this many times as much is free.
const PLENTY: u64 = 16;

fn drop_ballast(path: &Path) {
    if free(path).is_some_and(|free| free < BALLAST_BYTES) && std::fs::remove_file(path.join(BALLAST)).is_ok() {
        tracing::warn!(
            "the disk of the data directory is full: the server starts with what it kept for that; free some space"
        );
    }
}

/// Keeps some space for a start on a full disk, if there is enough now.
pub fn keep_ballast(path: &Path) {
    let file = path.join(BALLAST);
    if file.exists() || free(path).is_none_or(|free| free < PLENTY * BALLAST_BYTES) {
        return;
    }
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file)
        .and_then(|made| Ok(rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, BALLAST_BYTES)?));
    if made.is_err() {
        let _ = std::fs::remove_file(&file);
    }
}

fn free(path: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(path).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Writes a secret into a file that only its owner can read, atomically.
pub fn write_secret(path: &Path, secret: &Secret) -> Result<(), Error> {
    let line = format!("{}\n", secret.expose());
    cabana_fs::atomic::write(path, line.as_bytes(), 0o600).map_err(|source| Error::Path {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_second_server_is_refused() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("a/b");
        let first = DataDir::take(&path).expect("first");
        assert!(matches!(DataDir::take(&path), Err(Error::InUse { .. })));
        drop(first);
        DataDir::take(&path).expect("after the first is gone");
        assert_eq!(std::fs::metadata(&path).expect("stat").permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn secrets_are_for_their_owner() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("key");
        for text in ["a", "b"] {
            write_secret(&path, &Secret::new(text)).expect("write");
            assert_eq!(std::fs::read_to_string(&path).expect("read").trim(), text);
            assert_eq!(std::fs::metadata(&path).expect("stat").permissions().mode() & 0o777, 0o600);
        }
    }
}
