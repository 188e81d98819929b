//! Opens untrusted files safely: never blocks on a FIFO, never follows `/proc`'s magic links, never opens the daemon's
//! own `/proc` entries or a device.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cabana_fs::beneath::{self, Resolve};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Set when `openat2` is missing in the kernel or blocked by a filter.
static WITHOUT_OPENAT2: AtomicBool = AtomicBool::new(false);

/// Opens a path without following magic links.
pub(crate) fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    // openat2 rejects flags that have no meaning together with PATH.
    let quiet = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NOCTTY };
    let flags = flags | quiet | OFlags::CLOEXEC;
    if !WITHOUT_OPENAT2.load(Ordering::Relaxed) {
        match beneath::open(CWD, path, flags, mode, Resolve::NoMagicLinks) {
            Err(Errno::NOSYS) => WITHOUT_OPENAT2.store(true, Ordering::Relaxed),
            opened => return Ok(opened?),
        }
    }
    Ok(rustix::fs::openat(CWD, path, flags, mode)?)
}

/// Opens a relative path below a directory, without following any link.
pub(crate) fn open_below(directory: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
    if !WITHOUT_OPENAT2.load(Ordering::Relaxed) {
        match beneath::open(directory, path, flags, Mode::empty(), Resolve::NoLinks) {
            Err(Errno::NOSYS) => WITHOUT_OPENAT2.store(true, Ordering::Relaxed),
            opened => return Ok(opened?),
        }
    }
    Ok(rustix::fs::openat(directory, path, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

/// A regular file that was opened for reading.
pub(crate) struct Readable {
    /// The file, positioned at its start.
    pub(crate) file: File,
    /// `st_size`; 0 or a page for pseudo files.
    pub(crate) size: u64,
    /// Modification time in seconds.
    pub(crate) modified: i64,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReadable {
    /// The kernel returned an error.
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("is a directory")]
    Directory,
    /// A FIFO, socket or device.
    #[error("is not a regular file")]
    Special,
    /// The daemon's own memory or environment.
    #[error("is not readable")]
    Own,
}

/// Opens a regular file for reading.
pub(crate) fn readable(path: &Path) -> Result<Readable, NotReadable> {
    let fd = open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).map_err(|cause| {
        // A socket, or a device without a driver.
        if cause.raw_os_error() == Some(libc::ENXIO) { NotReadable::Special } else { NotReadable::Io(cause) }
    })?;
    let stat = rustix::fs::fstat(&fd).map_err(io::Error::from)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(NotReadable::Directory),
        _ => return Err(NotReadable::Special),
    }
    if is_own_proc(&fd) {
        return Err(NotReadable::Own);
    }
    Ok(Readable { file: File::from(fd), size: u64::try_from(stat.st_size).unwrap_or(0), modified: stat.st_mtime })
}

/// Reads a small file whole.
pub(crate) fn read_small(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    let readable = readable(path).map_err(|refusal| match refusal {
        NotReadable::Io(cause) => cause,
        other => io::Error::new(io::ErrorKind::InvalidInput, other),
    })?;
    let mut bytes = Vec::new();
    readable.file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The real path of an open file.
pub(crate) fn real_path(fd: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Whether the file is on a pseudo filesystem, where writing changes the system rather than a file.
pub(crate) fn is_kernel_made(fd: &OwnedFd) -> bool {
    const SYSFS: i64 = 0x6265_6572;
    const CGROUP: i64 = 0x0027_e0eb;
    const CGROUP2: i64 = 0x6367_7270;
    rustix::fs::fstatfs(fd).is_ok_and(|fs| matches!(fs.f_type, libc::PROC_SUPER_MAGIC | SYSFS | CGROUP | CGROUP2))
}

/// Whether the file is in the part of `/proc` that is about the daemon.
pub(crate) fn is_own_proc(fd: &OwnedFd) -> bool {
    if !is_kernel_made(fd) {
        return false;
    }
    let Ok(path) = real_path(fd) else { return true };
    let mut names = path.components().skip(1);
    if names.next().is_none_or(|n| n.as_os_str() != "proc") {
        return false;
    }
    // Threads also have `/proc/<tid>`, although it is not listed.
    names.next().is_some_and(|n| {
        n.as_os_str().to_str().is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
            && Path::new("/proc/self/task").join(n).exists()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_only_regular_files_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(matches!(readable(&fifo), Err(NotReadable::Special)));
        assert!(matches!(readable(dir.path()), Err(NotReadable::Directory)));
        assert!(matches!(readable(Path::new("/dev/zero")), Err(NotReadable::Special)));
        assert!(matches!(readable(Path::new("/proc/self/environ")), Err(NotReadable::Own)));
        assert!(matches!(
            readable(&PathBuf::from(format!("/proc/{}/maps", std::process::id()))),
            Err(NotReadable::Own)
        ));
        assert!(matches!(readable(Path::new("/proc/self/exe")), Err(NotReadable::Io(_))));
        assert!(readable(Path::new("/proc/meminfo")).is_ok());
        assert!(read_small(Path::new("/proc/meminfo"), 10).is_ok_and(|b| b.len() == 10));
        assert!(matches!(readable(&dir.path().join("x")), Err(NotReadable::Io(_))));
    }
}
