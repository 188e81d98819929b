//! How much may be written: into the pool, and beside it on the filesystem around its image.
//!
//! When that filesystem is full, writes that succeeded in the pool are lost and the pool becomes read-only, for all
//! sandboxes. So everything stops well before that: uploads, images and builds first, then new disks.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use cabana_fs::space::{Level, Pending, Space};
use cabana_types::SandboxId;
use rustix::fs::{StatVfsMountFlags, fstatvfs};

use super::image::at;
use super::{Inner, Kind, Pool, blocking, image};
use crate::Error;

/// No new disk is created when less than a twentieth of a filesystem is free, within these bounds.
pub(super) const SMALLEST_RESERVE: u64 = 256 << 20;
const LARGEST_RESERVE: u64 = 2 << 30;
/// A pool may be smaller than the disk around it.
const SMALLEST_RESERVE_INSIDE: u64 = 128 << 20;
/// Uploads and builds stop, and caches are removed, when less than this many reserves are free.
const SPARE: u64 = 2;

/// What can be written to a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolState {
    /// The kernel refuses all writes.
    pub read_only: bool,
    /// Mounting it again would help: it is read-only, and there is space around it.
    pub can_remount: bool,
    /// Where the least space is left above what new disks need: what is free there, and what they need.
    pub tightest: Level,
}

impl PoolState {
    /// Whether too little is free for new disks.
    pub fn is_low(&self) -> bool {
        self.tightest.free < self.tightest.reserve
    }

    /// Whether clearly more is free than that.
    pub fn is_well(&self) -> bool {
        !self.read_only && self.tightest.free >= self.tightest.reserve / 4 * 5
    }
}

impl Pool {
    /// What can be written now.
    pub async fn state(&self) -> Result<PoolState, Error> {
        let pool = Arc::clone(&self.inner);
        blocking(move || pool.state()).await
    }

    /// The size of the filesystem that it is on.
    pub fn size(&self) -> Result<u64, Error> {
        let pool = &self.inner;
        let space = fstatvfs(&pool.sandboxes).map_err(at("look at", &pool.path))?;
        Ok(space.f_blocks.saturating_mul(space.f_frsize))
    }

    /// Lowers the limit of a disk to what it uses and some bytes more, but never above `most`. Returns the limit.
    pub async fn clamp_disk(&self, id: &SandboxId, more: u64, most: u64) -> Result<u64, Error> {
        let (pool, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || {
            let limit = pool.disk_used(id.as_str())?.saturating_add(more).min(most);
            pool.limit(id.as_str(), limit).map_err(at("limit", &pool.sandboxes_path().join(id.as_str())))?;
            Ok(limit)
        })
        .await
    }

    /// The space for files beside the pool, in the data directory.
    pub fn space(&self) -> &Space {
        &self.inner.space
    }

    /// The space for files in the pool.
    pub fn space_inside(&self) -> &Space {
        &self.inner.space_inside
    }

    /// Whether so little space is left that caches should be removed, before sandboxes are refused.
    pub async fn is_short(&self) -> Result<bool, Error> {
        let pool = Arc::clone(&self.inner);
        blocking(move || Ok(pool.levels()?.iter().any(|level| level.free < level.reserve))).await
    }

    /// An error if too little space is left for another sandbox.
    pub async fn check_space(&self) -> Result<(), Error> {
        let pool = Arc::clone(&self.inner);
        blocking(move || pool.check_space()).await
    }
}

/// What must be free around an image so that mounting it again is worth it.
const REMOUNT_NEEDS: u64 = 64 << 20;

impl Inner {
    pub(super) fn check_space(&self) -> Result<(), Error> {
        let state = self.state()?;
        let Level { free, reserve } = state.tightest;
        match state {
            PoolState { read_only: true, .. } => Err(Error::ReadOnly { path: self.path.clone() }),
            state if state.is_low() => Err(Error::NoSpace { path: self.path.clone(), free, reserve }),
            _ => Ok(()),
        }
    }

    fn state(&self) -> Result<PoolState, Error> {
        let levels = self.levels()?.into_iter().map(|level| Level { reserve: level.reserve / SPARE, ..level });
        let around = cabana_fs::space::free(&self.data).map_err(at("look at", &self.path))?;
        let flags = fstatvfs(&self.sandboxes).map_err(at("look at", &self.path))?.f_flag;
        let read_only = flags.contains(StatVfsMountFlags::RDONLY);
        Ok(PoolState {
            read_only,
            can_remount: read_only && self.has_image && around >= REMOUNT_NEEDS,
            tightest: levels
                .min_by_key(|level| i128::from(level.free) - i128::from(level.reserve))
                .unwrap_or(Level { free: u64::MAX, reserve: 0 }),
        })
    }

    fn levels(&self) -> Result<Vec<Level>, Error> {
        self.space_inside.levels().map_err(at("look at", &self.path))
    }
}

/// The space around a pool, and in it.
pub(super) fn measure(data_dir: &Path, data: &OwnedFd, path: &Path, kind: Kind) -> Result<(Space, Space), Error> {
    let around = Space::of(data_dir, SPARE * share(data, SMALLEST_RESERVE).map_err(at("look at", data_dir))?)
        .map_err(at("open", data_dir))?;
    if kind == Kind::Plain {
        return Ok((around.clone(), around));
    }
    let pool = super::setup::open_in(path, super::DIRECTORY)?;
    let reserve = share(&pool, SMALLEST_RESERVE_INSIDE).map_err(at("look at", path))?;
    let inside = around.inside(path, SPARE * reserve, pending(path)).map_err(at("open", path))?;
    Ok((around, inside))
}

fn share(filesystem: &OwnedFd, smallest: u64) -> rustix::io::Result<u64> {
    let total = fstatvfs(filesystem).map(|s| s.f_blocks.saturating_mul(s.f_frsize))?;
    Ok((total / 20).clamp(smallest, LARGEST_RESERVE))
}

/// The kernel's counters of data that is written and not yet on the filesystem.
fn pending(path: &Path) -> Option<Pending> {
    let device = image::device(path)?;
    let filesystems = std::fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten();
    let mut filesystems = filesystems.map(|entry| entry.path());
    let counters = filesystems.find(|path| path.join("devices").join(&device).exists())?.join("allocation/data");
    Some(Pending { unwritten: counters.join("bytes_may_use"), uncounted: counters.join("bytes_reserved") })
}
