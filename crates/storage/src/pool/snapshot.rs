//! Snapshots of disks. They are snapshots of subvolumes, whose cost does not depend on how much is in them.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use cabana_fs::beneath::{self, Resolve};
use cabana_jail::btrfs::{self, QuotaState};
use cabana_types::{SandboxId, TemplateId};
use rustix::fs::{Mode, syncfs};

use super::image::at;
use super::{DIRECTORY, Disk, Inner, Kind, Pool, blocking};
use crate::Error;

impl Pool {
    /// Whether snapshots are supported.
    pub fn copies(&self) -> bool {
        matches!(self.inner.kind, Kind::Btrfs(_))
    }

    /// Takes a read-only snapshot of a sandbox's disk. A snapshot that exists already stays.
    pub async fn take_snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error> {
        let (pool, id, snapshot) = (Arc::clone(&self.inner), id.clone(), snapshot.clone());
        blocking(move || {
            pool.check_space()?;
            let source = (&pool.sandboxes, id.as_str());
            let path = pool.snapshots_path().join(snapshot.as_str());
            let source = pool.open_for_copy(source).map_err(at("open", &path))?;
            match pool.copy(&source, (&pool.snapshots, snapshot.as_str()), true) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                copied => copied.map_err(at("copy a disk to", &path))?,
            }
            // It must survive a power failure once this returns.
            syncfs(&pool.snapshots).map_err(at("flush", &path))
        })
        .await
    }

    /// Creates a sandbox's disk from a snapshot.
    pub async fn disk_from_snapshot(
        &self,
        snapshot: &TemplateId,
        id: &SandboxId,
        limit_bytes: u64,
    ) -> Result<Disk, Error> {
        let (pool, id, snapshot) = (Arc::clone(&self.inner), id.clone(), snapshot.clone());
        blocking(move || {
            pool.check_space()?;
            let source = (&pool.snapshots, snapshot.as_str());
            pool.open_for_copy(source)
                .and_then(|source| pool.copy(&source, (&pool.sandboxes, id.as_str()), false))
                .and_then(|()| pool.limit(id.as_str(), limit_bytes))
                .and_then(|()| pool.fill_disk(id.as_str()))
                .map_err(at("copy a snapshot to", &pool.sandboxes_path().join(id.as_str())))
        })
        .await
    }

    /// Deletes a snapshot, if it is there.
    pub async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        let (pool, snapshot) = (Arc::clone(&self.inner), snapshot.clone());
        blocking(move || {
            let path = pool.snapshots_path();
            pool.remove_directory(&pool.snapshots, &path, snapshot.as_str())
                .map_err(at("delete", &path.join(snapshot.as_str())))
        })
        .await
    }

    /// All snapshots.
    pub async fn snapshots(&self) -> Result<Vec<TemplateId>, Error> {
        let pool = Arc::clone(&self.inner);
        blocking(move || pool.list(&pool.snapshots, &pool.snapshots_path())).await
    }

    /// Sets the limit of a sandbox's disk, if it has one.
    pub async fn resize_disk(&self, id: &SandboxId, limit_bytes: u64) -> Result<(), Error> {
        let (pool, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || match pool.limit(id.as_str(), limit_bytes) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map_err(at("limit", &pool.sandboxes_path().join(id.as_str()))),
        })
        .await
    }

    /// A disk's directory, open for reading.
    pub async fn read_disk(&self, id: &SandboxId) -> Result<Option<OwnedFd>, Error> {
        let (pool, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || {
            match beneath::open(&pool.sandboxes, id.as_str(), DIRECTORY, Mode::empty(), Resolve::NoLinks) {
                Ok(disk) => Ok(Some(disk)),
                Err(rustix::io::Errno::NOENT) => Ok(None),
                Err(e) => Err(at("open", &pool.sandboxes_path().join(id.as_str()))(e)),
            }
        })
        .await
    }

    /// Flushes a disk, if there is one, so that it survives a power failure.
    pub async fn flush_disk(&self, id: &SandboxId) -> Result<(), Error> {
        let (pool, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || {
            let path = || pool.sandboxes_path().join(id.as_str());
            match beneath::open(&pool.sandboxes, id.as_str(), DIRECTORY, Mode::empty(), Resolve::NoLinks) {
                Err(rustix::io::Errno::NOENT) => Ok(()),
                Err(e) => Err(at("open", &path())(e)),
                Ok(disk) => syncfs(disk).map_err(|e| at("flush", &path())(e)),
            }
        })
        .await
    }
}

impl Inner {
    fn snapshots_path(&self) -> std::path::PathBuf {
        self.path.join("snapshots")
    }

    /// A snapshot's directory, open for reading.
    pub(super) fn open_snapshot(&self, snapshot: &TemplateId) -> Result<OwnedFd, Error> {
        let path = || self.snapshots_path().join(snapshot.as_str());
        self.open_for_copy((&self.snapshots, snapshot.as_str())).map_err(|e| at("open", &path())(e))
    }

    fn open_for_copy(&self, source: (&OwnedFd, &str)) -> io::Result<OwnedFd> {
        Ok(beneath::open(source.0, Path::new(source.1), DIRECTORY, Mode::empty(), Resolve::NoLinks)?)
    }

    /// Snapshots a subvolume into a directory of the pool.
    pub(super) fn copy(&self, source: &OwnedFd, target: (&OwnedFd, &str), read_only: bool) -> io::Result<()> {
        if self.kind == Kind::Plain {
            let text = "disks cannot be copied in a pool of plain directories: use a btrfs pool";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        btrfs::snapshot(source, target.0, target.1, read_only)
    }

    /// Sets the limit of a disk, where limits are enforced.
    pub(super) fn limit(&self, id: &str, bytes: u64) -> io::Result<()> {
        self.limit_in(&self.sandboxes, id, bytes)
    }

    /// The same for any subvolume of the pool.
    pub(super) fn limit_in(&self, parent: &OwnedFd, name: &str, bytes: u64) -> io::Result<()> {
        match self.kind {
            Kind::Plain | Kind::Btrfs(QuotaState::Off) => Ok(()),
            Kind::Btrfs(_) => {
                let disk = beneath::open(parent, name, DIRECTORY, Mode::empty(), Resolve::NoLinks)?;
                // By the directory above: a change by the disk itself would count for it, and fail if it is full.
                btrfs::set_limit(parent, btrfs::subvolume_id(&disk)?, bytes)
            }
        }
    }
}
