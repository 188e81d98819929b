//! Setting up a pool: finding, creating, mounting and unmounting it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cabana_fs::beneath::{self, Resolve};
use cabana_jail::btrfs::{self, QuotaState};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstatvfs};

use super::image::{Mounted, at};
use super::space::SMALLEST_RESERVE;
use super::{DIRECTORY, Inner, Kind, PoolConfig, PoolKind, TreeDir, build, image, space, tree};
use crate::Error;

/// Only root may enter a pool: it contains set-uid programs.
const PRIVATE: Mode = Mode::RWXU;

pub(super) fn open(data_dir: &Path, config: PoolConfig) -> Result<Inner, Error> {
    std::fs::create_dir_all(data_dir).map_err(at("create", data_dir))?;
    let data_dir = &std::path::absolute(data_dir).map_err(at("find", data_dir))?;
    let data = rustix::fs::open(data_dir, DIRECTORY, Mode::empty()).map_err(at("open", data_dir))?;
    // Two servers that start at the same time must not both create the image.
    flock(&data, FlockOperation::LockExclusive).map_err(at("lock", data_dir))?;
    let opened = open_locked(data_dir, data, config);
    if let Ok(inner) = &opened {
        let _ = flock(&inner.data, FlockOperation::Unlock);
    }
    opened
}

fn open_locked(data_dir: &Path, data: OwnedFd, config: PoolConfig) -> Result<Inner, Error> {
    let path = data_dir.join("pool");
    let kind = choose_kind(data_dir, &path, &data, config)?;
    make_private(&path)?;
    let root = open_in(&path, DIRECTORY)?;
    let kind = match kind {
        Kind::Plain => Kind::Plain,
        Kind::Btrfs(_) => Kind::Btrfs(quotas(&root)),
    };
    for name in ["sandboxes", "templates", "snapshots", "layers"] {
        make_private(&path.join(name))?;
    }
    let directory = |name: &str| {
        beneath::open(&root, name, DIRECTORY, Mode::empty(), Resolve::NoLinks).map_err(at("open", &path.join(name)))
    };
    let (sandboxes, templates, snapshots) = (directory("sandboxes")?, directory("templates")?, directory("snapshots")?);
    let layers = directory("layers")?;
    let (space, space_inside) = space::measure(data_dir, &data, &path, kind)?;
    let inner = Inner {
        path,
        kind,
        data,
        space,
        space_inside,
        has_image: kind != Kind::Plain && image::path(data_dir).exists(),
        sandboxes,
        templates,
        snapshots,
        layers,
        builds: Mutex::new(HashMap::new()),
        grouped: Mutex::default(),
        leftover: Mutex::new(VecDeque::new()),
        deleted: AtomicBool::new(false),
    };
    remove_leftovers(&inner)?;
    Ok(inner)
}

/// Decides what kind of pool it is, and creates and mounts the image if it is one. Whether quotas are on is not known yet.
fn choose_kind(data_dir: &Path, path: &Path, data: &OwnedFd, config: PoolConfig) -> Result<Kind, Error> {
    let btrfs = Kind::Btrfs(QuotaState::Off);
    match image::mounted(data_dir, path)? {
        Mounted::Image if config.kind == PoolKind::Plain => {
            return Err(Error::Unsupported(format!("unmount {} to have a plain pool there", path.display())));
        }
        Mounted::Image if !is_read_only(path)? => return Ok(btrfs),
        // The kernel does this when the disk under the pool is full. After a remount it is as it was a few seconds before.
        Mounted::Image => unmount_when_idle(path).map_err(|_| Error::ReadOnly { path: path.to_owned() })?,
        Mounted::Other(source) => {
            let message = format!("{source} is mounted on {}, where the pool should be: unmount it", path.display());
            return Err(Error::Unsupported(message));
        }
        Mounted::Nothing => {}
    }
    if config.kind == PoolKind::Plain {
        return Ok(Kind::Plain);
    }
    let has_image = image::path(data_dir).exists();
    if !has_image {
        if btrfs::is_btrfs(data).map_err(at("look at", data_dir))? {
            return Ok(btrfs);
        }
        // An image would be mounted over the plain pool and hide it.
        if has_content(path) {
            return match config.kind {
                PoolKind::Auto => Ok(Kind::Plain),
                _ => Err(Error::Unsupported(format!("{} is a plain pool: move it away first", path.display()))),
            };
        }
    }
    match mount_image(data_dir, path, data, has_image, config.image_size) {
        // The content of an image that cannot be mounted must not seem to be gone.
        Err(error) if config.kind == PoolKind::Btrfs || has_image => Err(error),
        Err(error) => {
            let error = cabana_types::error::chain(&error);
            tracing::warn!(error, "no btrfs pool on this machine: disks are plain directories without limits");
            Ok(Kind::Plain)
        }
        Ok(()) => Ok(btrfs),
    }
}

fn mount_image(data_dir: &Path, path: &Path, data: &OwnedFd, exists: bool, size: Option<u64>) -> Result<(), Error> {
    if !exists {
        let space = fstatvfs(data).map_err(at("look at", data_dir))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < SMALLEST_RESERVE {
            return Err(Error::NoSpace { path: path.to_owned(), free, reserve: SMALLEST_RESERVE });
        }
        image::make(data_dir, size.map_or_else(|| image::default_size(free), |s| s.max(image::SMALLEST)))?;
    }
    make_private(path)?;
    image::mount(data_dir, path).inspect_err(|_| {
        if !exists {
            let _ = std::fs::remove_file(image::path(data_dir));
        }
    })
}

pub(super) fn unmount(data_dir: &Path) -> Result<bool, Error> {
    let data_dir = &std::path::absolute(data_dir).map_err(at("find", data_dir))?;
    let path = data_dir.join("pool");
    match image::mounted(data_dir, &path)? {
        Mounted::Nothing => Ok(false),
        Mounted::Other(source) => {
            Err(Error::Unsupported(format!("{source} is mounted on {}, which is not a pool", path.display())))
        }
        Mounted::Image => {
            unmount_when_idle(&path).map_err(at("unmount", &path))?;
            Ok(true)
        }
    }
}

/// Unmounts. A process that was just started has copies of our descriptors until it executes its own program, so "busy" is an error only
/// when it lasts.
fn unmount_when_idle(path: &Path) -> rustix::io::Result<()> {
    let end = Instant::now() + Duration::from_secs(2);
    loop {
        match rustix::mount::unmount(path, rustix::mount::UnmountFlags::empty()) {
            Err(rustix::io::Errno::BUSY) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            done => return done,
        }
    }
}

/// Enables quotas, if they are not.
fn quotas(root: &OwnedFd) -> QuotaState {
    match btrfs::enable_quota(root) {
        Ok(state) => state,
        Err(error) => {
            tracing::warn!(%error, "quotas cannot be turned on: disks have no limits");
            QuotaState::Off
        }
    }
}

/// Whether an earlier mount of the pool's image, by which it is read-only, is still in use: by sandboxes, which have it in
/// their own mount namespaces. While that is so, the image cannot be mounted for writing.
pub(super) fn is_held(data_dir: &Path) -> bool {
    let path = data_dir.join("pool");
    match image::mounted(data_dir, &path) {
        Ok(Mounted::Image) => is_read_only(&path).unwrap_or(false),
        Ok(Mounted::Nothing) => image::is_attached(data_dir),
        Ok(Mounted::Other(_)) | Err(_) => false,
    }
}

fn is_read_only(path: &Path) -> Result<bool, Error> {
    let state = rustix::fs::statvfs(path).map_err(at("look at", path))?;
    Ok(state.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Removes what an earlier server left: unfinished trees, and quota groups of deleted subvolumes.
fn remove_leftovers(inner: &Inner) -> Result<(), Error> {
    for tree_dir in [TreeDir::Templates, TreeDir::Layers] {
        let path = inner.tree_dir_path(tree_dir);
        for name in tree::names(inner.tree_dir(tree_dir)).map_err(at("list", &path))? {
            if name.starts_with(build::UNFINISHED)
                && let Err(error) = inner.remove_directory(inner.tree_dir(tree_dir), &path, &name)
            {
                tracing::warn!(%error, name, "an unfinished tree could not be removed");
            }
        }
    }
    remove_stale_qgroups(inner);
    Ok(())
}

/// Removes the quota groups of deleted subvolumes.
pub(super) fn remove_stale_qgroups(inner: &Inner) {
    if let Kind::Btrfs(QuotaState::Simple | QuotaState::Full) = inner.kind
        && let Err(error) = try_remove_stale_qgroups(&inner.sandboxes)
    {
        tracing::warn!(%error, "quota groups of deleted disks could not be removed");
    }
}

fn try_remove_stale_qgroups(filesystem: &OwnedFd) -> io::Result<()> {
    /// The filesystem's root, and the first id that a subvolume can have.
    const TOP: u64 = 5;
    const FIRST: u64 = 256;
    for (id, _) in btrfs::qgroups(filesystem)? {
        if id != TOP && id >= FIRST && !btrfs::subvolume_exists(filesystem, id)? {
            btrfs::remove_qgroup(filesystem, id)?;
        }
    }
    for id in btrfs::groups_above(filesystem)? {
        if !btrfs::subvolume_exists(filesystem, id)? {
            btrfs::remove_qgroup(filesystem, btrfs::group_above(id))?;
        }
    }
    Ok(())
}

fn has_content(path: &Path) -> bool {
    ["sandboxes", "templates", "snapshots"]
        .iter()
        .any(|name| std::fs::read_dir(path.join(name)).is_ok_and(|mut entries| entries.next().is_some()))
}

fn make_private(path: &Path) -> Result<(), Error> {
    match rustix::fs::mkdir(path, PRIVATE) {
        Err(rustix::io::Errno::EXIST) => {}
        made => made.map_err(at("create", path))?,
    }
    let directory = open_in(path, DIRECTORY)?;
    rustix::fs::fchmod(&directory, PRIVATE).map_err(at("protect", path))
}

pub(super) fn open_in(path: &Path, flags: OFlags) -> Result<OwnedFd, Error> {
    rustix::fs::open(path, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(at("open", path))
}
