//! The pool as a sparse btrfs image file, mounted through a loop device that the kernel releases when it is unmounted.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, statx};

use cabana_fs::program;

use crate::Error;

/// btrfs is not usable on less.
pub(super) const SMALLEST: u64 = 2 << 30;
const LARGEST_DEFAULT: u64 = 1 << 40;

/// The path of the image.
pub(super) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("pool.img")
}

/// The size of the image if none is configured: it must not be able to fill the disk around it.
pub(super) fn default_size(free: u64) -> u64 {
    (free / 10).saturating_mul(8).clamp(SMALLEST, LARGEST_DEFAULT)
}

/// Creates the image. It gets its name when it is complete, so that a crash leaves nothing that looks like a pool.
pub(super) fn make(data_dir: &Path, size: u64) -> Result<(), Error> {
    let unfinished = data_dir.join("pool.img.new");
    let image = path(data_dir);
    match std::fs::remove_file(&unfinished) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(at("remove", &unfinished)(e)),
        _ => {}
    }
    let made = (|| {
        let file = File::create_new(&unfinished).map_err(at("create", &unfinished))?;
        rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .map_err(at("protect", &unfinished))?;
        file.set_len(size).map_err(at("extend", &unfinished))?;
        // Duplicate metadata: a flipped bit on the disk below costs a block, not everybody's files.
        let options = ["-q", "-L", "cabana", "-d", "single", "-m", "dup"].map(std::ffi::OsStr::new);
        program::run("mkfs.btrfs", &[&options[..], &[unfinished.as_os_str()]].concat())?;
        cabana_fs::atomic::publish(&file, &unfinished, &image).map_err(at("rename", &unfinished))
    })();
    if made.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    made
}

/// Mounts the image. `mount` reuses a loop device that already serves the image: two devices over one file would corrupt it.
pub(super) fn mount(data_dir: &Path, target: &Path) -> Result<(), Error> {
    let image = path(data_dir);
    // Commit every 5 s: usage is known, and the space of deleted disks is free, that soon.
    let options = ["-t", "btrfs", "-o", "loop,noatime,discard=async,commit=5"].map(std::ffi::OsStr::new);
    program::run("mount", &[&options[..], &[image.as_os_str(), target.as_os_str()]].concat())?;
    Ok(())
}

/// What is mounted on a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mounted {
    /// Nothing is mounted.
    Nothing,
    /// The image of this data directory.
    Image,
    /// Something else, with its source.
    Other(String),
}

/// What is mounted on `target`, which is in `data_dir`.
pub(super) fn mounted(data_dir: &Path, target: &Path) -> Result<Mounted, Error> {
    let here = match mount_id(target) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Mounted::Nothing),
        found => found.map_err(at("look at", target))?,
    };
    if here == mount_id(data_dir).map_err(at("look at", data_dir))? {
        return Ok(Mounted::Nothing);
    }
    let table = Path::new("/proc/self/mountinfo");
    let text = std::fs::read_to_string(table).map_err(at("read", table))?;
    let Some((kind, source)) = source_of(&text, here) else {
        return Ok(Mounted::Other("an unknown source".to_owned()));
    };
    let ours = kind == "btrfs" && source.strip_prefix("/dev/").is_some_and(|device| serves(device, &path(data_dir)));
    Ok(if ours { Mounted::Image } else { Mounted::Other(source.to_owned()) })
}

/// Whether a loop device serves the image.
pub(super) fn is_attached(data_dir: &Path) -> bool {
    let image = path(data_dir);
    let devices = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    devices.filter_map(|entry| entry.file_name().into_string().ok()).any(|device| serves(&device, &image))
}

/// The name of the block device whose filesystem a directory is on, if it has one.
#[expect(clippy::disallowed_methods, reason = "only a name is wanted, and only root makes links in /dev")]
pub(super) fn device(directory: &Path) -> Option<std::ffi::OsString> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (_, source) = source_of(&text, mount_id(directory).ok()?)?;
    // Names of the device mapper are links.
    Some(std::fs::canonicalize(source).ok()?.file_name()?.to_owned())
}

fn mount_id(path: &Path) -> io::Result<u64> {
    let directory = rustix::fs::open(path, super::PATH_ONLY, rustix::fs::Mode::empty())?;
    Ok(statx(directory.as_fd(), "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

/// Filesystem type and source of one mount in the text of `mountinfo`.
fn source_of(table: &str, id: u64) -> Option<(&str, &str)> {
    let line = table.lines().find(|l| l.split(' ').next().and_then(|n| n.parse().ok()) == Some(id))?;
    let mut fields = line.split_once(" - ")?.1.split(' ');
    Some((fields.next()?, fields.next()?))
}

/// Whether a loop device serves the image. If its file was deleted, it does not.
fn serves(device: &str, image: &Path) -> bool {
    let Ok(backing) = std::fs::read_to_string(format!("/sys/class/block/{device}/loop/backing_file")) else {
        return false;
    };
    let identity = |p: &Path| std::fs::metadata(p).map(|m| (m.dev(), m.ino())).ok();
    let ours = identity(image);
    ours.is_some() && identity(Path::new(backing.trim_end_matches('\n'))) == ours
}

pub(super) fn at<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Error {
    move |source| Error::Path { action, path: path.to_owned(), source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_size_leaves_room_and_has_bounds() {
        assert_eq!(default_size(0), SMALLEST);
        assert_eq!(default_size(100 << 30), (100_u64 << 30) / 10 * 8);
        assert_eq!(default_size(u64::MAX), LARGEST_DEFAULT);
    }

    #[test]
    fn a_mount_is_found_by_its_id() {
        let table = "22 27 0:21 / /sys rw - sysfs sysfs rw\n\
                     301 1 0:44 / /var/lib/cabana\\040x/pool rw,noatime shared:1 - btrfs /dev/loop3 rw,space_cache=v2\n";
        assert_eq!(source_of(table, 301), Some(("btrfs", "/dev/loop3")));
        assert_eq!(source_of(table, 30), None);
    }
}
