//! The space budget of a disk: the one admission point for bytes that somebody else sends. Announced bytes are reserved
//! before they arrive, what comes beyond is counted as it is written, and nothing is admitted that would take the space
//! which must stay free.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, fstatvfs, syncfs};

/// Bytes that are reserved at a time beyond what was announced.
const STEP: u64 = 8 << 20;
/// Bytes that may be written before they are flushed, where the filesystem does not count them before.
const UNFLUSHED: u64 = 64 << 20;

/// Why something was not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server's disk has no space for it: of {} MiB that are free, {} MiB are kept in reserve and {} MiB are \
     reserved for others: free some space on it",
    free >> 20,
    reserve >> 20,
    reserved >> 20
)]
pub struct NoSpace {
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that must stay free.
    pub reserve: u64,
    /// Bytes that others have reserved and not written.
    pub reserved: u64,
}

/// A filesystem, and the bytes that must stay free on it.
#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    reserve: u64,
}

/// The space that writers share. Clones share it too.
#[derive(Debug, Clone)]
pub struct Space {
    places: Arc<[Place]>,
    /// Bytes that are reserved and not yet visible in the free space.
    reserved: Arc<Mutex<u64>>,
    /// Of the last place, if it is inside the others.
    pending: Option<Pending>,
    /// Whether the last place counts bytes only once they are flushed.
    flushes: bool,
}

/// Files of the kernel that say how many bytes are not yet visible in the free space of a filesystem.
#[derive(Debug, Clone)]
pub struct Pending {
    /// Bytes that programs have written and that are only in memory.
    pub unwritten: PathBuf,
    /// Bytes that are on the disk below and not counted until the next commit.
    pub uncounted: PathBuf,
}

/// How much of a filesystem is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that must stay free.
    pub reserve: u64,
}

impl Space {
    /// Any number of bytes, for files that are not on a server's disk.
    pub fn unlimited() -> Self {
        Self::new(Vec::new(), Arc::default())
    }

    fn new(places: Vec<Place>, reserved: Arc<Mutex<u64>>) -> Self {
        Self { places: places.into(), reserved, pending: None, flushes: false }
    }

    /// The filesystem of a directory, of which `reserve` bytes must stay free.
    pub fn of(directory: &Path, reserve: u64) -> io::Result<Self> {
        let directory = open(directory)?;
        Ok(Self::new(vec![Place { directory, reserve }], Arc::default()))
    }

    /// A filesystem in a file of this one: what is written there must fit into both, and counts in both. Written bytes
    /// are seen in the free space only later: `pending` says how many there are. Without it, writers flush.
    pub fn inside(&self, directory: &Path, reserve: u64, pending: Option<Pending>) -> io::Result<Self> {
        let mut places = Vec::new();
        for place in self.places.iter() {
            places.push(Place { directory: place.directory.try_clone()?, reserve: place.reserve });
        }
        places.push(Place { directory: open(directory)?, reserve });
        let space = Self::new(places, Arc::clone(&self.reserved));
        Ok(Self { flushes: pending.is_none(), pending, ..space })
    }

    /// What is free on each of the filesystems that bytes have to fit on.
    pub fn levels(&self) -> io::Result<Vec<Level>> {
        let unwritten = self.pending.as_ref().map_or(0, |pending| number_in(&pending.unwritten));
        let uncounted = self.pending.as_ref().map_or(0, |pending| number_in(&pending.uncounted));
        let last = self.places.len().saturating_sub(1);
        let level = |(number, place): (usize, &Place)| {
            let hidden = if number == last { unwritten.saturating_add(uncounted) } else { unwritten };
            Ok(Level { free: free(&place.directory)?.saturating_sub(hidden), reserve: place.reserve })
        };
        self.places.iter().enumerate().map(level).collect()
    }

    /// Reserves announced bytes. An error is of the kind `StorageFull`, with [`NoSpace`] in it.
    pub fn reserve(&self, bytes: u64) -> io::Result<Reservation> {
        self.admit(bytes)?;
        Ok(Reservation { space: self.clone(), left: bytes, unflushed: 0 })
    }

    fn admit(&self, bytes: u64) -> io::Result<()> {
        let mut reserved = self.reserved();
        for Level { free, reserve } in self.levels()? {
            if free < reserved.saturating_add(bytes).saturating_add(reserve) {
                let refused = NoSpace { free, reserve, reserved: *reserved };
                return Err(io::Error::new(io::ErrorKind::StorageFull, refused));
            }
        }
        *reserved = reserved.saturating_add(bytes);
        Ok(())
    }

    fn release(&self, bytes: u64) {
        let mut reserved = self.reserved();
        *reserved = reserved.saturating_sub(bytes);
    }

    fn reserved(&self) -> MutexGuard<'_, u64> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that may be written. What is left is released when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    space: Space,
    left: u64,
    unflushed: u64,
}

impl Reservation {
    /// Counts bytes that are written next. Those beyond the reservation are reserved now. May block for a flush where the
    /// space is [`Space::inside`] another.
    pub fn spend(&mut self, bytes: u64) -> io::Result<()> {
        if bytes > self.left {
            let more = (bytes - self.left).next_multiple_of(STEP);
            self.space.admit(more)?;
            self.left += more;
        }
        self.left -= bytes;
        if !self.space.flushes {
            self.space.release(bytes);
            return Ok(());
        }
        self.unflushed += bytes;
        if self.unflushed > UNFLUSHED
            && let Some(place) = self.space.places.last()
        {
            syncfs(&place.directory)?;
            self.space.release(std::mem::take(&mut self.unflushed));
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.space.release(self.left + self.unflushed);
    }
}

/// Bytes that an unprivileged writer finds free on the filesystem of a directory.
pub fn free(directory: &OwnedFd) -> io::Result<u64> {
    let space = fstatvfs(directory)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// The number in a file of the kernel; 0 if there is none.
fn number_in(file: &Path) -> u64 {
    std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn open(directory: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So large a part of the free space that other activity on the disk does not matter, and a space with four of them to give.
    fn eighths() -> (tempfile::TempDir, u64, Space) {
        let directory = tempfile::tempdir().expect("a directory");
        let part = free(&open(directory.path()).expect("open")).expect("free space") / 8;
        let space = Space::of(directory.path(), 4 * part).expect("space");
        (directory, part, space)
    }

    fn refused(result: io::Result<impl std::fmt::Debug>) {
        let error = result.expect_err("no space");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("free some space"), "{error}");
    }

    #[test]
    fn announced_bytes_count_until_they_are_released() {
        let (_directory, part, space) = eighths();
        refused(space.reserve(6 * part));
        let first = space.reserve(3 * part).expect("there is space");
        refused(space.clone().reserve(3 * part));
        drop(first);
        drop(space.reserve(3 * part).expect("there is space again"));
        assert_eq!(*space.reserved(), 0);
    }

    #[test]
    fn bytes_beyond_the_announced_ones_are_admitted_too() {
        let (_directory, part, space) = eighths();
        let _others = space.reserve(3 * part).expect("there is space");
        let mut writer = space.reserve(100).expect("little");
        writer.spend(100).expect("announced");
        assert_eq!(*space.reserved(), 3 * part, "what is written is not counted twice");
        writer.spend(1).expect("a little more");
        assert_eq!(*space.reserved(), 3 * part + STEP - 1);
        refused(writer.spend(2 * part));
        drop(writer);
        assert_eq!(*space.reserved(), 3 * part);
    }

    #[test]
    fn what_is_written_inside_counts_until_it_is_flushed() {
        let (directory, part, space) = eighths();
        let inside = space.inside(directory.path(), 5 * part, None).expect("inside");
        refused(inside.reserve(7 * part / 2));
        let mut writer = inside.reserve(2 * part).expect("there is space");
        writer.spend(UNFLUSHED).expect("announced");
        assert_eq!(*space.reserved(), 2 * part, "it is not visible below yet");
        writer.spend(1).expect("announced");
        assert_eq!(*space.reserved(), 2 * part - UNFLUSHED - 1);
        drop(writer);
        assert_eq!(*space.reserved(), 0);
        let file = directory.path().join("bytes_may_use");
        std::fs::write(&file, format!("{}\n", 2 * part)).expect("written");
        let pending = Pending { unwritten: file, uncounted: directory.path().join("missing") };
        let inside = space.inside(directory.path(), 5 * part, Some(pending)).expect("inside");
        refused(inside.reserve(3 * part / 2));
        let mut writer = inside.reserve(part / 2).expect("there is space");
        writer.spend(part / 2).expect("announced");
        assert_eq!(*space.reserved(), 0, "the file says what is not flushed");
        Space::unlimited().reserve(u64::MAX).expect("any number").spend(u64::MAX).expect("any number");
    }
}
