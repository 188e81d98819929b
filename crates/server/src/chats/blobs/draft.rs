//! A file that is being received.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cabana_fs::space::Reservation;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;

use super::{BlobError, Pin, Share};

/// Beginning of the names of files that are being received.
pub(super) const DRAFT: &str = "draft-";
/// Bytes at the beginning by which kinds of files are recognised.
const HEAD: usize = 512;

/// A file that is kept. It stays as long as this, also while no row refers to it.
#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) sha256: String,
    pub(crate) size: u64,
    /// Its first bytes.
    pub(crate) head: Vec<u8>,
    pub(super) _pin: Pin,
    pub(super) _share: Share,
}

/// A file that is being received. Dropping it removes what was written.
#[derive(Debug)]
pub(crate) struct Draft {
    file: DraftFile,
    writer: Option<tokio::fs::File>,
    digest: Sha256,
    size: u64,
    head: Vec<u8>,
    most: u64,
    /// Bytes that the team has left, and that it may have.
    team: (u64, u64),
    space: Reservation,
    share: Share,
    turn: OwnedSemaphorePermit,
}

/// All of a file is written.
pub(super) struct Sealed {
    pub(super) file: DraftFile,
    pub(super) sha256: String,
    pub(super) size: u64,
    pub(super) head: Vec<u8>,
    pub(super) share: Share,
}

impl Draft {
    pub(super) fn new(
        file: DraftFile,
        most: u64,
        team: (u64, u64),
        space: Reservation,
        share: Share,
        turn: OwnedSemaphorePermit,
    ) -> Self {
        let (digest, head) = (Sha256::new(), Vec::new());
        Self { file, writer: None, digest, size: 0, head, most, team, space, share, turn }
    }

    /// Adds bytes. They are counted before they are written.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let count = bytes.len() as u64;
        if self.size.saturating_add(count) > self.most {
            return Err(BlobError::TooLarge(self.most));
        }
        if !self.share.add(count, self.team.0) {
            return Err(BlobError::Full(self.team.1));
        }
        self.space.spend(count).map_err(BlobError::NoSpace)?;
        self.size += count;
        self.digest.update(bytes);
        self.head.extend_from_slice(bytes.get(..bytes.len().min(HEAD - self.head.len())).unwrap_or_default());
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(tokio::fs::File::from_std(self.file.file.try_clone()?)),
        };
        Ok(writer.write_all(bytes).await?)
    }

    pub(super) async fn seal(self) -> Result<Sealed, BlobError> {
        let Self { file, writer, digest, size, head, share, space, turn, .. } = self;
        if let Some(mut writer) = writer {
            writer.flush().await?;
        }
        drop((space, turn));
        let sha256 = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Sealed { file, sha256, size, head, share })
    }
}

/// A file that is removed on drop unless it is kept.
#[derive(Debug)]
pub(super) struct DraftFile {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl DraftFile {
    pub(super) fn create(dir: &Path) -> io::Result<Self> {
        make_dir(dir)?;
        let path = dir.join(format!("{DRAFT}{}", uuid::Uuid::new_v4()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { path, file, kept: false })
    }

    /// Gives it its name. After that it survives a power failure.
    pub(super) fn keep(mut self, path: &Path) -> io::Result<()> {
        cabana_fs::atomic::publish(&self.file, &self.path, path)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}
