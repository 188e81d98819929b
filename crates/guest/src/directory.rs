//! Directories: creating them with their parents, listing them to a depth, and moving files between filesystems.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use cabana_proto::filesystem::EntryInfo;
use connectrpc::ConnectError;

use crate::error::rpc_io;
use crate::users::{Account, Names};
use crate::{entry, removal};

const MAX_ENTRIES: usize = 25_000;
const MAX_DEPTH: usize = 128;

/// Creates a directory and its missing parents; new directories are owned by the account.
pub(crate) fn make(path: &Path, account: &Account) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        match std::fs::metadata(at) {
            Ok(found) if found.is_dir() => break,
            Ok(_) => return Err(io::Error::from_raw_os_error(libc::ENOTDIR)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => missing.push(at),
            Err(cause) => return Err(cause),
        }
        match at.parent() {
            Some(parent) => at = parent,
            None => break,
        }
    }
    for directory in missing.into_iter().rev() {
        match std::fs::DirBuilder::new().mode(0o755).create(directory) {
            Ok(()) => lchown(directory, Some(account.uid), Some(account.gid))?,
            // Created concurrently.
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// Lists entries to a depth, parents before children, sorted by name. Symbolic links are not followed.
pub(crate) fn list(root: &Path, depth: u32) -> Result<Vec<EntryInfo>, ConnectError> {
    let names = Names::read();
    let depth = usize::try_from(depth.max(1)).unwrap_or(MAX_DEPTH).min(MAX_DEPTH);
    let mut entries = Vec::new();
    let mut levels = vec![children(root).map_err(|e| rpc_io("list", root, &e))?];
    while let Some(level) = levels.last_mut() {
        let Some(path) = level.pop() else {
            levels.pop();
            continue;
        };
        // It may have been removed since its directory was read.
        let Ok(entry) = entry::stat(&path, &names) else { continue };
        let descend = entry.permissions.starts_with('d') && levels.len() < depth;
        entries.push(entry);
        if entries.len() > MAX_ENTRIES {
            return Err(ConnectError::resource_exhausted(format!(
                "more than {MAX_ENTRIES} entries in '{}': list a smaller depth",
                root.display()
            )));
        }
        if descend {
            levels.push(children(&path).unwrap_or_default());
        }
    }
    Ok(entries)
}

/// The paths in a directory in reverse order, so that `pop` returns them sorted.
fn children(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path)? {
        paths.push(entry?.path());
        if paths.len() > MAX_ENTRIES {
            break;
        }
    }
    paths.sort_unstable_by(|a, b| b.cmp(a));
    Ok(paths)
}

/// Renames, or copies and removes if the destination is on another filesystem.
pub(crate) fn relocate(source: &Path, destination: &Path) -> io::Result<()> {
    match std::fs::rename(source, destination) {
        Err(cause) if cause.kind() == io::ErrorKind::CrossesDevices => {}
        answer => return answer,
    }
    if destination.is_dir() && !destination.is_symlink() {
        // Like rename: an empty directory is replaced by a directory.
        std::fs::remove_dir(destination)?;
    }
    if let Err(cause) = copy(source, destination, 0) {
        // Report the failed copy; the source is still complete.
        let _ = removal::remove(destination);
        return Err(cause);
    }
    removal::remove(source)
}

fn copy(source: &Path, destination: &Path, depth: usize) -> io::Result<()> {
    let metadata = std::fs::symlink_metadata(source)?;
    if metadata.is_symlink() {
        symlink(std::fs::read_link(source)?, destination)?;
    } else if metadata.is_dir() {
        if depth >= MAX_DEPTH {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        std::fs::create_dir(destination)?;
        for entry in std::fs::read_dir(source)? {
            let entry = entry?;
            copy(&entry.path(), &destination.join(entry.file_name()), depth + 1)?;
        }
        std::fs::set_permissions(destination, metadata.permissions())?;
    } else if metadata.is_file() {
        std::fs::copy(source, destination)?;
    } else {
        return Err(io::Error::from_raw_os_error(libc::EXDEV));
    }
    lchown(destination, Some(metadata.uid()), Some(metadata.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Account {
        let uid = rustix::process::getuid().as_raw();
        let gid = rustix::process::getgid().as_raw();
        Account { name: "me".to_owned(), uid, gid, home: PathBuf::from("/") }
    }

    #[test]
    fn lists_in_order_and_depth() {
        let dir = tempfile::tempdir().unwrap();
        make(&dir.path().join("b/c/d"), &account()).unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        std::fs::write(dir.path().join("b/z"), "").unwrap();
        symlink(dir.path(), dir.path().join("loop")).unwrap();
        let names = |depth| {
            let entries = list(dir.path(), depth).unwrap();
            entries.iter().map(|e| e.path.replace(&*dir.path().to_string_lossy(), "")).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["/a", "/b", "/loop"]);
        assert_eq!(names(1), names(0));
        assert_eq!(names(2), ["/a", "/b", "/b/c", "/b/z", "/loop"]);
        assert_eq!(names(u32::MAX), ["/a", "/b", "/b/c", "/b/c/d", "/b/z", "/loop"]);
        assert!(list(&dir.path().join("a"), 1).is_err());
        assert!(make(&dir.path().join("a/x"), &account()).is_err());
    }

    #[test]
    fn copies_a_tree() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        make(&from.join("sub"), &account()).unwrap();
        std::fs::write(from.join("sub/file"), "text").unwrap();
        symlink("sub/file", from.join("link")).unwrap();
        copy(&from, &to, 0).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("link")).unwrap(), "text");
    }
}
