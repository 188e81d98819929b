//! A root filesystem that is being made: a build, or a layer on the way to one. It becomes what it shall be at once and whole, or not at all.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cabana_fs::beneath::{self, Resolve};
use cabana_jail::btrfs;
use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat_with, syncfs};

use super::image::at;
use super::{DIRECTORY, Inner, Kind, Shelf, blocking};
use crate::Error;

/// How the names of unfinished trees begin; they are removed when the pool is opened.
pub(super) const UNFINISHED: &str = ".new-";
/// The directory of a tree that is the root of its filesystem.
pub(super) const ROOTFS: &str = "rootfs";

/// A root filesystem that is not finished; dropping it removes it.
#[derive(Debug)]
pub struct NewTree {
    pool: Arc<Inner>,
    shelf: Shelf,
    /// What it will be called.
    name: String,
    /// What it is called.
    working: String,
    rootfs: PathBuf,
    finished: bool,
}

impl NewTree {
    /// Begins an empty one, or a copy of one that is there.
    pub(super) fn make(pool: Arc<Inner>, shelf: Shelf, name: String, from: Option<OwnedFd>) -> Result<Self, Error> {
        pool.check_space()?;
        let working = format!("{UNFINISHED}{name}-{:08x}", rand::random::<u32>());
        let rootfs = pool.shelf_path(shelf).join(&working).join(ROOTFS);
        match from {
            Some(from) => {
                pool.copy(&from, (pool.shelf(shelf), &working), false).map_err(at("copy a tree to", &rootfs))?;
                Ok(Self { pool, shelf, name, working, rootfs, finished: false })
            }
            None => {
                pool.make_directory(pool.shelf(shelf), &working, None).map_err(at("create", &rootfs))?;
                let new = Self { pool, shelf, name, working, rootfs, finished: false };
                new.pool
                    .open_directory(new.pool.shelf(shelf), &new.working)
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
        beneath::open(self.pool.shelf(self.shelf), name.as_str(), DIRECTORY, Mode::empty(), Resolve::NoLinks)
            .map_err(at("open", &self.rootfs))
    }

    /// Writes everything to disk, makes it read-only and gives it its name. If another of this name came first, that one stays.
    pub async fn commit(self) -> Result<(), Error> {
        blocking(move || self.commit_now()).await
    }

    fn commit_now(mut self) -> Result<(), Error> {
        let shelf = self.pool.shelf(self.shelf);
        let path = self.rootfs.as_path();
        // Content first: a tree that has its name after a power failure must have its files as well.
        syncfs(shelf).map_err(at("flush", path))?;
        if let Kind::Btrfs(_) = self.pool.kind {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let top = openat(shelf, self.working.as_str(), flags, Mode::empty()).map_err(at("open", path))?;
            btrfs::set_readonly(&top).map_err(at("make read-only", path))?;
        }
        match renameat_with(shelf, self.working.as_str(), shelf, self.name.as_str(), RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) if self.shelf == Shelf::Layers => return Ok(()),
            renamed => renamed.map_err(at("rename", path))?,
        }
        let flushed = syncfs(shelf).map_err(at("flush", path));
        self.finished = true;
        flushed
    }
}

impl Drop for NewTree {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (pool, shelf) = (Arc::clone(&self.pool), self.shelf);
        let name = std::mem::take(&mut self.working);
        let remove = move || {
            if let Err(error) = pool.remove_directory(pool.shelf(shelf), &pool.shelf_path(shelf), &name) {
                tracing::warn!(%error, name, "an unfinished tree is left until the next start");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
