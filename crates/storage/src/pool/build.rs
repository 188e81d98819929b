//! A root filesystem that is being created: a build or a layer. It gets its name when it is complete, or is removed.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cabana_fs::beneath::{self, Resolve};
use cabana_jail::btrfs;
use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat_with, syncfs};

use super::image::at;
use super::{DIRECTORY, Inner, Kind, TreeDir, blocking};
use crate::Error;

/// Prefix of unfinished trees; they are removed when the pool is opened.
pub(super) const UNFINISHED: &str = ".new-";
/// The directory of a tree that is the root filesystem.
pub(super) const ROOTFS: &str = "rootfs";

/// Names, owners and small files take space beside the content that a limit is for: a share of it, and some MiB.
const METADATA_SHARE: u64 = 4;
const SMALL_TREE: u64 = 64 << 20;

/// A root filesystem that is not finished; dropping it removes it.
#[derive(Debug)]
pub struct NewTree {
    pool: Arc<Inner>,
    tree_dir: TreeDir,
    /// Its final name.
    name: String,
    /// Its name until then.
    working: String,
    rootfs: PathBuf,
    finished: bool,
}

impl NewTree {
    /// Begins an empty tree, or a copy of another, which may take `limit` bytes more.
    pub(super) fn make(
        pool: Arc<Inner>,
        tree_dir: TreeDir,
        name: String,
        from: Option<OwnedFd>,
        limit: Option<u64>,
    ) -> Result<Self, Error> {
        pool.check_space()?;
        let limit = limit.map(|bytes| bytes.saturating_add(bytes / METADATA_SHARE).saturating_add(SMALL_TREE));
        let working = format!("{UNFINISHED}{name}-{:08x}", rand::random::<u32>());
        let rootfs = pool.tree_dir_path(tree_dir).join(&working).join(ROOTFS);
        match from {
            Some(from) => {
                pool.copy(&from, (pool.tree_dir(tree_dir), &working), false).map_err(at("copy a tree to", &rootfs))?;
                let new = Self { pool, tree_dir, name, working, rootfs, finished: false };
                if let Some(limit) = limit {
                    new.pool
                        .limit_in(new.pool.tree_dir(tree_dir), &new.working, limit)
                        .map_err(at("limit", &new.rootfs))?;
                }
                Ok(new)
            }
            None => {
                pool.make_directory(pool.tree_dir(tree_dir), &working, limit).map_err(at("create", &rootfs))?;
                let new = Self { pool, tree_dir, name, working, rootfs, finished: false };
                new.pool
                    .open_directory(new.pool.tree_dir(tree_dir), &new.working)
                    .and_then(|d| super::make_open_directory(&d, ROOTFS))
                    .map_err(at("create", &new.rootfs))?;
                Ok(new)
            }
        }
    }

    /// The directory to fill.
    pub fn rootfs(&self) -> &Path {
        &self.rootfs
    }

    /// The same, open.
    pub fn open(&self) -> Result<OwnedFd, Error> {
        let name = format!("{}/{ROOTFS}", self.working);
        beneath::open(self.pool.tree_dir(self.tree_dir), name.as_str(), DIRECTORY, Mode::empty(), Resolve::NoLinks)
            .map_err(at("open", &self.rootfs))
    }

    /// Flushes everything to disk, makes the tree read-only and renames it to its final name. If a layer of this name exists
    /// already, that one stays.
    pub async fn commit(self) -> Result<(), Error> {
        blocking(move || self.commit_now()).await
    }

    fn commit_now(mut self) -> Result<(), Error> {
        let tree_dir = self.pool.tree_dir(self.tree_dir);
        let path = self.rootfs.as_path();
        // Content before name: after a power failure, a tree that has its name must be complete.
        syncfs(tree_dir).map_err(at("flush", path))?;
        if let Kind::Btrfs(_) = self.pool.kind {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let top = openat(tree_dir, self.working.as_str(), flags, Mode::empty()).map_err(at("open", path))?;
            btrfs::set_readonly(&top).map_err(at("make read-only", path))?;
        }
        match renameat_with(tree_dir, self.working.as_str(), tree_dir, self.name.as_str(), RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) if self.tree_dir == TreeDir::Layers => return Ok(()),
            renamed => renamed.map_err(at("rename", path))?,
        }
        let flushed = syncfs(tree_dir).map_err(at("flush", path));
        self.finished = true;
        flushed
    }
}

impl Drop for NewTree {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (pool, tree_dir) = (Arc::clone(&self.pool), self.tree_dir);
        let name = std::mem::take(&mut self.working);
        let remove = move || {
            if let Err(error) = pool.remove_directory(pool.tree_dir(tree_dir), &pool.tree_dir_path(tree_dir), &name) {
                tracing::warn!(%error, name, "could not remove an unfinished tree; the next start removes it");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
