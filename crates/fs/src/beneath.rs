//! Opening files below a directory whose contents somebody else controls (a sandbox's disk, an image, an uploaded build context), so that
//! neither `..` nor a symbolic link leads out of it. The kernel enforces this: see `openat2(2)`.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::path::Arg;

/// How often an open is retried before its error is returned. The kernel answers `EAGAIN` when something was renamed while it resolved a
/// path with `..` and cannot tell whether the path left the directory; a rename in a loop must not keep us here forever.
const ATTEMPTS: u32 = 16;

/// How a path is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolve {
    /// Stays below the directory and follows no symbolic link.
    NoLinks,
    /// Like [`Resolve::NoLinks`], and does not enter another mount.
    NoLinksNoMounts,
    /// Follows symbolic links, but fails if one leads out of the directory.
    Beneath,
    /// Follows symbolic links with the directory as `/`, as a process does whose root it is.
    InRoot,
    /// Anywhere, but never through the magic links of `/proc`, which lead to other processes' files.
    NoMagicLinks,
}

impl Resolve {
    fn flags(self) -> ResolveFlags {
        let flags = match self {
            Self::NoLinks => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
            Self::NoLinksNoMounts => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
            Self::Beneath => ResolveFlags::BENEATH,
            Self::InRoot => ResolveFlags::IN_ROOT,
            Self::NoMagicLinks => ResolveFlags::empty(),
        };
        flags | ResolveFlags::NO_MAGICLINKS
    }
}

/// Opens `path` below `directory`. The descriptor is closed on exec. Files are opened without blocking on FIFOs and devices only if `flags`
/// say so.
pub fn open<P: Arg + Copy>(
    directory: impl AsFd,
    path: P,
    flags: OFlags,
    mode: Mode,
    resolve: Resolve,
) -> Result<OwnedFd, Errno> {
    let directory = directory.as_fd();
    retry(|| openat2(directory, path, flags | OFlags::CLOEXEC, mode, resolve.flags()))
}

/// Opens a file for reading as a process whose root is `root` finds it, without blocking on a FIFO or becoming a terminal's owner.
pub fn read_in_root(root: impl AsFd, path: &str) -> Result<OwnedFd, Errno> {
    open(root, path, OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK, Mode::empty(), Resolve::InRoot)
}

fn retry<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            result => return result,
        }
    }
    attempt()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    /// `root` with a file, links to it and links that lead out, beside a file `secret`.
    fn scene() -> (tempfile::TempDir, File) {
        let scratch = tempfile::tempdir().expect("a directory");
        let root = scratch.path().join("root");
        std::fs::create_dir_all(root.join("dir")).expect("created");
        std::fs::write(root.join("dir/file"), "inside").expect("written");
        std::fs::write(scratch.path().join("secret"), "outside").expect("written");
        symlink("dir/file", root.join("relative")).expect("linked");
        symlink("/dir/file", root.join("absolute")).expect("linked");
        symlink("../secret", root.join("up")).expect("linked");
        symlink("/proc/self/cwd", root.join("magic")).expect("linked");
        let directory = File::open(&root).expect("opened");
        (scratch, directory)
    }

    fn content(root: &File, path: &str, resolve: Resolve) -> Result<String, Errno> {
        let fd = open(root, path, OFlags::RDONLY, Mode::empty(), resolve)?;
        let mut text = String::new();
        File::from(fd).read_to_string(&mut text).expect("read");
        Ok(text)
    }

    #[test]
    fn nothing_leads_out() {
        let (_scratch, root) = scene();
        for resolve in [Resolve::NoLinks, Resolve::NoLinksNoMounts, Resolve::Beneath, Resolve::InRoot] {
            assert_eq!(content(&root, "dir/file", resolve).as_deref(), Ok("inside"), "{resolve:?}");
            assert!(content(&root, "../secret", resolve).is_err(), "{resolve:?}");
            assert!(content(&root, "up", resolve).is_err(), "{resolve:?}");
            assert!(content(&root, "dir/../../secret", resolve).is_err(), "{resolve:?}");
        }
    }

    #[test]
    fn links_are_followed_where_the_caller_says() {
        let (_scratch, root) = scene();
        assert_eq!(content(&root, "relative", Resolve::NoLinks), Err(Errno::LOOP));
        assert_eq!(content(&root, "relative", Resolve::NoLinksNoMounts), Err(Errno::LOOP));
        assert_eq!(content(&root, "relative", Resolve::Beneath).as_deref(), Ok("inside"));
        assert_eq!(content(&root, "absolute", Resolve::Beneath), Err(Errno::XDEV));
        assert_eq!(content(&root, "absolute", Resolve::InRoot).as_deref(), Ok("inside"));
        assert_eq!(content(&root, "/dir/file", Resolve::InRoot).as_deref(), Ok("inside"));
        assert!(content(&root, "/proc/self/root/etc/passwd", Resolve::NoMagicLinks).is_err());
    }

    #[test]
    fn a_racing_rename_is_retried_but_not_forever() {
        let mut calls = 0;
        let opened = retry(|| {
            calls += 1;
            match calls {
                1 => Err(Errno::AGAIN),
                2 => Err(Errno::INTR),
                _ => Ok(calls),
            }
        });
        assert_eq!(opened, Ok(3));
        calls = 0;
        let refused: Result<(), _> = retry(|| {
            calls += 1;
            Err(Errno::AGAIN)
        });
        assert_eq!((refused, calls), (Err(Errno::AGAIN), ATTEMPTS));
        calls = 0;
        let missing: Result<(), _> = retry(|| {
            calls += 1;
            Err(Errno::NOENT)
        });
        assert_eq!((missing, calls), (Err(Errno::NOENT), 1));
    }
}
