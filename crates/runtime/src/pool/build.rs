//! A root filesystem that is being made. It becomes a build at once and whole, or not at all.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cabana_jail::btrfs;
use cabana_types::BuildId;
use rustix::fs::{Mode, OFlags, RenameFlags, openat, renameat_with, syncfs};

use super::image::at;
use super::{Inner, Kind, blocking};
use crate::Error;

/// How the names of unfinished builds begin; they are removed when the pool is opened.
pub(super) const UNFINISHED: &str = ".new-";

/// A build that is not finished; dropping it removes it.
#[derive(Debug)]
pub struct NewBuild {
    pool: Arc<Inner>,
    build: BuildId,
    name: String,
    rootfs: PathBuf,
    finished: bool,
}

impl NewBuild {
    pub(super) fn make(pool: Arc<Inner>, build: BuildId) -> Result<Self, Error> {
        pool.check_space()?;
        let name = format!("{UNFINISHED}{build}-{:08x}", rand::random::<u32>());
        let rootfs = pool.templates_path().join(&name).join("rootfs");
        pool.make_directory(&pool.templates, &name, None).map_err(at("create", &rootfs))?;
        let new = Self { pool, build, name, rootfs, finished: false };
        new.pool
            .open_directory(&new.pool.templates, &new.name)
            .and_then(|d| super::make_open_directory(&d, "rootfs"))
            .map_err(at("create", &new.rootfs))?;
        Ok(new)
    }

    /// The empty directory to fill.
    pub fn rootfs(&self) -> &Path {
        &self.rootfs
    }

    /// Writes everything to disk, makes it read-only and gives it its name.
    pub async fn commit(self) -> Result<(), Error> {
        blocking(move || self.commit_now()).await
    }

    fn commit_now(mut self) -> Result<(), Error> {
        let templates = self.pool.templates.as_fd();
        let path = self.rootfs.as_path();
        // Content first: a build that has its name after a power failure must have its files as well.
        syncfs(templates).map_err(at("flush", path))?;
        if let Kind::Btrfs(_) = self.pool.kind {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let top = openat(templates, self.name.as_str(), flags, Mode::empty()).map_err(at("open", path))?;
            btrfs::set_readonly(&top).map_err(at("make read-only", path))?;
        }
        renameat_with(templates, self.name.as_str(), templates, self.build.as_str(), RenameFlags::NOREPLACE)
            .map_err(at("rename", path))?;
        let flushed = syncfs(templates).map_err(at("flush", path));
        self.finished = true;
        flushed
    }
}

impl Drop for NewBuild {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let pool = Arc::clone(&self.pool);
        let name = std::mem::take(&mut self.name);
        let remove = move || {
            if let Err(error) = pool.remove_directory(&pool.templates, &pool.templates_path(), &name) {
                tracing::warn!(%error, name, "an unfinished build is left until the next start");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
