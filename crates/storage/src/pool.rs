//! The storage pool: copy-on-write disks with quotas.
//!
//! One btrfs filesystem, or plain directories where btrfs is not available. `sandboxes/<id>` is a sandbox's disk,
//! `snapshots/<id>` a snapshot of one, `templates/<build>/rootfs` the root filesystem of a build, `layers/<key>` the
//! result of one build step. Only one server at a time may have a pool open: opening it removes what an earlier server
//! left unfinished.

mod build;
mod facts;
mod image;
mod layer;
mod setup;
mod snapshot;
mod space;
mod tree;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use cabana_fs::beneath::{self, Resolve};
use cabana_fs::space::Space;
use cabana_jail::btrfs::{self, QuotaState};
use cabana_types::{BuildId, SandboxId};
use rustix::fs::{Mode, OFlags, chmodat, mkdirat};

pub use build::NewTree;
pub use facts::facts;
use image::at;
pub use layer::Tree;
pub use space::PoolState;

use crate::Error;

/// Opens a directory that is only passed through or handed on.
const PATH_ONLY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Opens a directory for reading and for ioctls.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The mode of a root directory: everyone may pass through.
const PUBLIC: Mode = Mode::from_raw_mode(0o755);
/// Quota groups that are retried with each deletion, which must stay fast; all of them are retried at this interval.
const RETRIES_PER_DELETION: usize = 8;
const RETRY_EVERY: Duration = Duration::from_secs(3);
/// How long after opening the pool quota groups of an earlier server are searched for.
const FOREIGN_FOR: Duration = Duration::from_secs(120);

/// The kind of pool to open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PoolKind {
    /// btrfs if the machine supports it, else plain directories.
    #[default]
    Auto,
    /// btrfs or an error.
    Btrfs,
    /// Plain directories.
    Plain,
}

/// How to set up a pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolConfig {
    /// Bytes of the image, if one is created. It is sparse: only what is used takes space. Default: 80 % of the
    /// free space.
    pub image_size: Option<u64>,
    /// The kind of pool.
    pub kind: PoolKind,
}

/// What the pool turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Btrfs(QuotaState),
    Plain,
}

/// The directories that hold root filesystems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TreeDir {
    /// Of builds.
    Templates,
    /// Of single build steps.
    Layers,
}

#[derive(Debug)]
struct Inner {
    /// `<data>/pool`.
    path: PathBuf,
    kind: Kind,
    /// The directory around the pool: the free space of its filesystem is the real limit.
    data: OwnedFd,
    /// For files beside the pool, on the filesystem around it.
    space: Space,
    /// For files in the pool.
    space_inside: Space,
    /// Whether the pool is an image, which can be mounted again.
    has_image: bool,
    sandboxes: OwnedFd,
    templates: OwnedFd,
    snapshots: OwnedFd,
    layers: OwnedFd,
    builds: Mutex<HashMap<BuildId, Arc<OwnedFd>>>,
    /// Subvolumes with a quota group for all that are created in them.
    grouped: Mutex<HashSet<u64>>,
    /// Quota groups of deleted subvolumes that the kernel was not ready to remove.
    leftover: Mutex<VecDeque<u64>>,
    /// Whether subvolumes were deleted that the kernel may not have started to free.
    deleted: AtomicBool,
}

/// The storage pool.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

/// A sandbox's disk.
#[derive(Debug)]
pub struct Disk {
    /// The directory (`O_PATH`) that contains `upper` and `work`.
    pub dir: OwnedFd,
}

impl Pool {
    /// Opens the pool `<data>/pool` and creates it if it is missing: in the data directory itself if that is on btrfs, else in the
    /// image `<data>/pool.img`, else as plain directories. A pool that an earlier server left mounted is used as it is.
    pub async fn open(data_dir: &Path, config: PoolConfig) -> Result<Self, Error> {
        let data_dir = data_dir.to_owned();
        let inner = Arc::new(blocking(move || setup::open(&data_dir, config)).await?);
        tokio::spawn(retry_leftovers(Arc::downgrade(&inner)));
        Ok(Self { inner })
    }

    /// Unmounts the pool of a data directory and releases its loop device; `false` if nothing was mounted. Every [`Pool`] of it must be
    /// dropped and no sandbox running.
    pub async fn unmount(data_dir: &Path) -> Result<bool, Error> {
        let data_dir = data_dir.to_owned();
        blocking(move || setup::unmount(&data_dir)).await
    }

    /// Whether an earlier mount of the pool of a data directory is still in use by sandboxes although it is read-only. They
    /// have to end before it can be opened.
    pub fn is_held(data_dir: &Path) -> bool {
        setup::is_held(data_dir)
    }

    /// Whether disk limits are enforced.
    pub fn quotas(&self) -> bool {
        matches!(self.inner.kind, Kind::Btrfs(QuotaState::Simple | QuotaState::Full))
    }

    /// What the pool is, for messages.
    pub fn description(&self) -> &'static str {
        match self.inner.kind {
            Kind::Btrfs(QuotaState::Simple) => "btrfs with simple quotas",
            Kind::Btrfs(QuotaState::Full) => "btrfs with quota groups",
            Kind::Btrfs(QuotaState::Off) => "btrfs without quotas",
            Kind::Plain => "plain directories without quotas",
        }
    }

    /// Creates a sandbox's disk. Writes beyond the limit fail with `EDQUOT`.
    pub async fn create_disk(&self, id: &SandboxId, limit_bytes: u64) -> Result<Disk, Error> {
        let (pool, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || pool.create_disk(id.as_str(), limit_bytes)).await
    }

    /// Opens a sandbox's disk; `None` if there is none.
    pub async fn open_disk(&self, id: &SandboxId) -> Result<Option<Disk>, Error> {
        let (pool, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || pool.open_disk(id.as_str())).await
    }

    /// Deletes a sandbox's disk, if there is one.
    pub async fn delete_disk(&self, id: &SandboxId) -> Result<(), Error> {
        let (pool, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || {
            let path = pool.sandboxes_path();
            pool.remove_directory(&pool.sandboxes, &path, id.as_str()).map_err(at("delete", &path.join(id.as_str())))
        })
        .await
    }

    /// Bytes that count against a disk's limit, as of the filesystem's last commit (some seconds ago).
    pub async fn disk_used(&self, id: &SandboxId) -> Result<u64, Error> {
        let (pool, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || pool.disk_used(id.as_str())).await
    }

    /// All sandboxes that have a disk.
    pub async fn disks(&self) -> Result<Vec<SandboxId>, Error> {
        let pool = Arc::clone(&self.inner);
        blocking(move || pool.list(&pool.sandboxes, &pool.sandboxes_path())).await
    }

    /// The root filesystem of a build (an `O_PATH` directory); `None` if it is missing.
    pub fn open_build(&self, build: &BuildId) -> Result<Option<Arc<OwnedFd>>, Error> {
        let mut known = self.inner.builds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(build) {
            return Ok(Some(Arc::clone(found)));
        }
        let name = format!("{build}/rootfs");
        match beneath::open(&self.inner.templates, name.as_str(), PATH_ONLY, Mode::empty(), Resolve::NoLinks) {
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(e) => Err(at("open", &self.inner.templates_path().join(name))(e)),
            Ok(found) => {
                let found = Arc::new(found);
                known.insert(build.clone(), Arc::clone(&found));
                Ok(Some(found))
            }
        }
    }

    /// Begins a build.
    pub async fn begin_build(&self, build: &BuildId) -> Result<NewTree, Error> {
        let (pool, name) = (Arc::clone(&self.inner), build.to_string());
        blocking(move || NewTree::make(pool, TreeDir::Templates, name, None, None)).await
    }

    /// Deletes a build, if it is there. No sandbox may be using it.
    pub async fn delete_build(&self, build: &BuildId) -> Result<(), Error> {
        let (pool, build) = (Arc::clone(&self.inner), build.clone());
        blocking(move || {
            pool.builds.lock().unwrap_or_else(PoisonError::into_inner).remove(&build);
            let path = pool.templates_path();
            pool.remove_directory(&pool.templates, &path, build.as_str())
                .map_err(at("delete", &path.join(build.as_str())))
        })
        .await
    }

    /// All builds.
    pub async fn builds(&self) -> Result<Vec<BuildId>, Error> {
        let pool = Arc::clone(&self.inner);
        blocking(move || pool.list(&pool.templates, &pool.templates_path())).await
    }

    /// Closes open builds. The pool stays mounted: sandboxes outlive the server.
    pub async fn close(&self) {
        self.inner.builds.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Inner {
    fn sandboxes_path(&self) -> PathBuf {
        self.path.join("sandboxes")
    }

    fn templates_path(&self) -> PathBuf {
        self.tree_dir_path(TreeDir::Templates)
    }

    fn tree_dir_path(&self, tree_dir: TreeDir) -> PathBuf {
        self.path.join(match tree_dir {
            TreeDir::Templates => "templates",
            TreeDir::Layers => "layers",
        })
    }

    fn tree_dir(&self, tree_dir: TreeDir) -> &OwnedFd {
        match tree_dir {
            TreeDir::Templates => &self.templates,
            TreeDir::Layers => &self.layers,
        }
    }

    fn create_disk(&self, id: &str, limit: u64) -> Result<Disk, Error> {
        self.check_space()?;
        let path = || self.sandboxes_path().join(id);
        self.make_directory(&self.sandboxes, id, Some(limit)).map_err(|e| at("create", &path())(e))?;
        self.fill_disk(id).map_err(|e| {
            let _ = self.remove_directory(&self.sandboxes, &self.sandboxes_path(), id);
            at("create", &path())(e)
        })
    }

    fn open_disk(&self, id: &str) -> Result<Option<Disk>, Error> {
        // A crash may have happened between creating the disk and its directories: create what is missing.
        match self.fill_disk(id) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(at("open", &self.sandboxes_path().join(id))(e)),
            Ok(disk) => Ok(Some(disk)),
        }
    }

    fn fill_disk(&self, id: &str) -> io::Result<Disk> {
        let dir = self.open_directory(&self.sandboxes, id)?;
        make_open_directory(&dir, "upper")?;
        make_open_directory(&dir, "work")?;
        Ok(Disk { dir })
    }

    fn disk_used(&self, id: &str) -> Result<u64, Error> {
        let used = match self.kind {
            Kind::Plain | Kind::Btrfs(QuotaState::Off) => tree::size(&self.sandboxes, id),
            Kind::Btrfs(_) => beneath::open(&self.sandboxes, id, DIRECTORY, Mode::empty(), Resolve::NoLinks)
                .map_err(io::Error::from)
                .and_then(|dir| btrfs::usage(&dir, btrfs::subvolume_id(&dir)?))
                .map(|usage| usage.unwrap_or_default().referenced),
        };
        used.map_err(at("measure", &self.sandboxes_path().join(id)))
    }

    fn list<T: std::str::FromStr>(&self, directory: impl AsFd, path: &Path) -> Result<Vec<T>, Error> {
        let names = tree::names(directory).map_err(at("list", path))?;
        Ok(names.iter().filter_map(|n| n.parse().ok()).collect())
    }

    fn open_directory(&self, parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
        Ok(beneath::open(parent, name, PATH_ONLY, Mode::empty(), Resolve::NoLinks)?)
    }

    /// Creates a subvolume, with a limit where limits are enforced, or a directory.
    fn make_directory(&self, parent: impl AsFd, name: &str, limit: Option<u64>) -> io::Result<()> {
        match self.kind {
            Kind::Btrfs(quotas) => btrfs::create_subvolume(parent, name, limit.filter(|_| quotas != QuotaState::Off)),
            Kind::Plain => Ok(mkdirat(parent, name, PUBLIC)?),
        }
    }

    /// Removes a subvolume or directory tree.
    fn remove_directory(&self, parent: &OwnedFd, path: &Path, name: &str) -> io::Result<()> {
        let Kind::Btrfs(quotas) = self.kind else { return tree::remove(path, name) };
        let top = match beneath::open(parent, name, DIRECTORY, Mode::empty(), Resolve::NoLinks) {
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        // Inode 256 is the root of a subvolume. Anything else is a directory from a time when the pool was plain.
        if rustix::fs::fstat(&top)?.st_ino != 256 {
            return tree::remove(path, name);
        }
        let id = btrfs::subvolume_id(&top)?;
        drop(top);
        let mut deleted = btrfs::delete_subvolume(parent, name);
        if deleted.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::QuotaExceeded) {
            // Removing what is nested in it writes to it.
            self.lift_limits(id)?;
            deleted = btrfs::delete_subvolume(parent, name);
        }
        match deleted {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => done?,
        }
        self.deleted.store(true, Ordering::Relaxed);
        if quotas != QuotaState::Off {
            if self.grouped.lock().unwrap_or_else(PoisonError::into_inner).remove(&id) {
                self.forget_quota_group(btrfs::group_above(id));
            }
            self.forget_quota_group(id);
        }
        Ok(())
    }

    /// Limits a sandbox's disk together with subvolumes that are created in it, where quotas can do that.
    fn limit_with_nested(&self, id: &str, bytes: u64) -> io::Result<()> {
        if self.kind != Kind::Btrfs(QuotaState::Simple) {
            return Ok(());
        }
        let disk = beneath::open(&self.sandboxes, id, DIRECTORY, Mode::empty(), Resolve::NoLinks)?;
        let subvolume = btrfs::subvolume_id(&disk)?;
        self.grouped.lock().unwrap_or_else(PoisonError::into_inner).insert(subvolume);
        btrfs::limit_with_nested(&self.sandboxes, subvolume, bytes)
    }

    fn lift_limits(&self, subvolume: u64) -> io::Result<()> {
        btrfs::set_limit(&self.sandboxes, subvolume, u64::MAX)?;
        match btrfs::set_limit(&self.sandboxes, btrfs::group_above(subvolume), u64::MAX) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Newer kernels remove a subvolume's quota group once they have freed the subvolume. Older ones do not, and fail while they are
    /// freeing it: then it is retried with later deletions, and at the latest when the pool is opened.
    fn forget_quota_group(&self, id: u64) {
        self.leftover.lock().unwrap_or_else(PoisonError::into_inner).push_back(id);
        self.forget_leftovers(RETRIES_PER_DELETION);
    }

    /// Tries each once, `most` in total.
    fn forget_leftovers(&self, most: usize) {
        let leftover = || self.leftover.lock().unwrap_or_else(PoisonError::into_inner);
        // On its own line: a guard in the head of the loop would be held until the loop ends.
        let waiting = leftover().len();
        for _ in 0..most.min(waiting) {
            // Not under the lock: this may block in the kernel, and deletions must not wait for it.
            let Some(id) = leftover().pop_front() else { break };
            match btrfs::remove_qgroup(&self.sandboxes, id) {
                Ok(true) => {}
                Ok(false) => leftover().push_back(id),
                Err(error) => tracing::debug!(%error, id, "could not remove a quota group; the next start removes it"),
            }
        }
    }
}

/// The kernel frees deleted subvolumes with its next commit, so one is started for all that were deleted since the
/// last. Quota groups can be removed once their subvolumes are freed, which the kernel does not report, so they are
/// retried. Those that an earlier server left may not be free yet when the pool is opened, so they are searched for a
/// while longer.
async fn retry_leftovers(pool: Weak<Inner>) {
    let opened = tokio::time::Instant::now();
    loop {
        tokio::time::sleep(RETRY_EVERY).await;
        let Some(pool) = pool.upgrade() else { return };
        let young = opened.elapsed() < FOREIGN_FOR;
        let deleted = pool.deleted.swap(false, Ordering::Relaxed);
        if young || deleted || !pool.leftover.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            let retried = tokio::task::spawn_blocking(move || {
                if deleted && let Err(error) = btrfs::start_commit(&pool.sandboxes) {
                    tracing::debug!(%error, "could not start a commit; deleted disks are freed with the next one");
                }
                pool.forget_leftovers(usize::MAX);
                if young {
                    setup::remove_stale_qgroups(&pool)
                }
            });
            let _ = retried.await;
        }
    }
}

/// Creates a directory that everyone may enter, whatever our umask is; an existing one stays as it is.
fn make_open_directory(parent: impl AsFd, name: &str) -> io::Result<()> {
    match mkdirat(&parent, name, PUBLIC) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(e) => Err(e.into()),
        Ok(()) => Ok(chmodat(&parent, name, PUBLIC, rustix::fs::AtFlags::empty())?),
    }
}

/// Runs system calls that may wait for the disk on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => Err(Error::Io { action: "run in the background", source: io::Error::other(e) }),
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
