//! Trait [`Disks`]: where the bytes of sandboxes are kept. It has no processes and is shared by all isolation backends
//! of a machine; the [`Pool`] implements it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;
use cabana_types::{BuildId, SandboxId, TemplateId};

use crate::{Disk, Error, Pool, Tree};

/// What the disks of a machine offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFacts {
    /// Limits are enforced.
    pub quota: bool,
    /// Disks can be copied: snapshots and forks.
    pub snapshots: bool,
}

/// What a new disk contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskOrigin<'a> {
    /// Nothing.
    Empty,
    /// A copy of a snapshot.
    Snapshot(&'a TemplateId),
    /// A copy of a complete root filesystem.
    Tree(&'a Tree),
}

/// The disks of sandboxes, their snapshots, and the root filesystems of builds. Methods for different sandboxes may be called concurrently;
/// for one sandbox, one at a time.
#[async_trait]
pub trait Disks: Send + Sync + 'static {
    /// What is offered.
    fn facts(&self) -> DiskFacts;

    /// Creates a sandbox's disk. Writes beyond the limit fail where limits are enforced.
    async fn create(&self, id: &SandboxId, origin: DiskOrigin<'_>, limit_bytes: u64) -> Result<Disk, Error>;

    /// A sandbox's disk, to be mounted; `None` if it has none.
    async fn open(&self, id: &SandboxId) -> Result<Option<Disk>, Error>;

    /// The directory of a sandbox's disk, open for reading; `None` if it has none.
    async fn read(&self, id: &SandboxId) -> Result<Option<OwnedFd>, Error>;

    /// Changes the limit of a disk. A missing disk is not an error.
    async fn resize(&self, id: &SandboxId, limit_bytes: u64) -> Result<(), Error>;

    /// Bytes that count against a disk's limit.
    async fn usage(&self, id: &SandboxId) -> Result<u64, Error>;

    /// Writes a disk to the medium, so that it survives a power failure. A missing disk is not an error.
    async fn sync(&self, id: &SandboxId) -> Result<(), Error>;

    /// Deletes a disk. A missing disk is not an error.
    async fn delete(&self, id: &SandboxId) -> Result<(), Error>;

    /// All sandboxes that have a disk.
    async fn list(&self) -> Result<Vec<SandboxId>, Error>;

    /// Copies the disk of a sandbox that is frozen or not running.
    async fn snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error>;

    /// Deletes a snapshot. A missing snapshot is not an error.
    async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error>;

    /// All snapshots.
    async fn snapshots(&self) -> Result<Vec<TemplateId>, Error>;

    /// The root directory of a build, to be mounted; `None` if the build is not there.
    fn build(&self, build: &BuildId) -> Result<Option<Arc<OwnedFd>>, Error>;

    /// Replaces a sandbox's disk by an empty one, open for reading.
    async fn replace(&self, id: &SandboxId, limit_bytes: u64) -> Result<OwnedFd, Error> {
        self.delete(id).await?;
        self.create(id, DiskOrigin::Empty, limit_bytes).await?;
        self.read(id)
            .await?
            .ok_or_else(|| Error::Io { action: "open a new disk", source: std::io::ErrorKind::NotFound.into() })
    }
}

#[async_trait]
impl Disks for Pool {
    fn facts(&self) -> DiskFacts {
        DiskFacts { quota: self.quotas(), snapshots: self.copies() }
    }

    async fn create(&self, id: &SandboxId, origin: DiskOrigin<'_>, limit_bytes: u64) -> Result<Disk, Error> {
        match origin {
            DiskOrigin::Empty => self.create_disk(id, limit_bytes).await,
            DiskOrigin::Snapshot(snapshot) => self.disk_from_snapshot(snapshot, id, limit_bytes).await,
            DiskOrigin::Tree(tree) => self.disk_from_tree(tree, id, limit_bytes).await,
        }
    }

    async fn open(&self, id: &SandboxId) -> Result<Option<Disk>, Error> {
        self.open_disk(id).await
    }

    async fn read(&self, id: &SandboxId) -> Result<Option<OwnedFd>, Error> {
        self.read_disk(id).await
    }

    async fn resize(&self, id: &SandboxId, limit_bytes: u64) -> Result<(), Error> {
        self.resize_disk(id, limit_bytes).await
    }

    async fn usage(&self, id: &SandboxId) -> Result<u64, Error> {
        self.disk_used(id).await
    }

    async fn sync(&self, id: &SandboxId) -> Result<(), Error> {
        self.flush_disk(id).await
    }

    async fn delete(&self, id: &SandboxId) -> Result<(), Error> {
        self.delete_disk(id).await
    }

    async fn list(&self) -> Result<Vec<SandboxId>, Error> {
        self.disks().await
    }

    async fn snapshot(&self, id: &SandboxId, snapshot: &TemplateId) -> Result<(), Error> {
        self.take_snapshot(id, snapshot).await
    }

    async fn delete_snapshot(&self, snapshot: &TemplateId) -> Result<(), Error> {
        Pool::delete_snapshot(self, snapshot).await
    }

    async fn snapshots(&self) -> Result<Vec<TemplateId>, Error> {
        Pool::snapshots(self).await
    }

    fn build(&self, build: &BuildId) -> Result<Option<Arc<OwnedFd>>, Error> {
        self.open_build(build)
    }
}
