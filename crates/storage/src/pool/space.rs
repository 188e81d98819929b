//! How much may be written: into the pool, and beside it on the filesystem around its image.
//!
//! When that filesystem is full, writes that succeeded in the pool are lost and the pool becomes read-only, for all
//! sandboxes. So everything stops well before that: uploads, images and builds first, then new disks.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cabana_fs::space::{Level, Space};
use rustix::fs::fstatvfs;

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

impl Pool {
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

impl Inner {
    pub(super) fn check_space(&self) -> Result<(), Error> {
        for Level { free, reserve } in self.levels()? {
            let reserve = reserve / SPARE;
            if free < reserve {
                return Err(Error::NoSpace { path: self.path.clone(), free, reserve });
            }
        }
        Ok(())
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
fn pending(path: &Path) -> Vec<PathBuf> {
    let Some(device) = image::device(path) else { return Vec::new() };
    let filesystems = std::fs::read_dir("/sys/fs/btrfs").into_iter().flatten().flatten();
    let Some(ours) = filesystems.map(|entry| entry.path()).find(|path| path.join("devices").join(&device).exists())
    else {
        return Vec::new();
    };
    ["bytes_may_use", "bytes_reserved"].map(|name| ours.join("allocation/data").join(name)).to_vec()
}
