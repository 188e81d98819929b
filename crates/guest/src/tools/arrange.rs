//! `POST /move` and `POST /directory`: what a person does to files besides changing their content.

use std::fs::{File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use cabana_types::guest::tools::{Move, NewDirectory, Placed};
use cabana_types::tool::ToolErrorCode as Code;

use super::Cancel;
use super::edit::{beside, doomed, plan, rename_new};
use super::place::Place;
use super::refuse::{self, Refused, about};
use crate::open::{self, NotReadable};
use crate::removal;

/// Makes a directory with its parents.
pub(crate) fn make_directory(request: &NewDirectory, place: &Place) -> Result<Placed, Refused> {
    let path = place.resolve(&request.path)?;
    let failed = |cause: io::Error| refuse::io("make", &path, &cause);
    let real = plan::real_place(&path).map_err(failed)?;
    if std::fs::symlink_metadata(&real).is_ok() {
        return Err(about(Code::AlreadyExists, &path, "exists"));
    }
    make_missing(&real).map_err(failed)?;
    Ok(placed(&path))
}

/// Moves a file, link or directory.
pub(crate) fn relocate(request: &Move, place: &Place, cancel: &Cancel) -> Result<Placed, Refused> {
    let (path, asked) = (place.resolve(&request.from)?, place.resolve(&request.to)?);
    let failed = |cause: io::Error| refuse::io("move", &path, &cause);
    let from = plan::real_place(&path).map_err(failed)?;
    let old = std::fs::symlink_metadata(&from).map_err(failed)?;
    doomed::unprotected(&from, &path, place)?;
    let to = plan::real_place(&asked).map_err(|cause| refuse::io("make", &asked, &cause))?;
    if to != from && to.starts_with(&from) {
        return Err(about(Code::InvalidArguments, &asked, &format!("is inside '{}', which is moved", path.display())));
    }
    let taken = || about(Code::AlreadyExists, &asked, "exists");
    if std::fs::symlink_metadata(&to).is_ok() {
        return Err(taken());
    }
    let made = match to.parent() {
        Some(parent) => make_missing(parent).map_err(|cause| refuse::io("make", parent, &cause))?,
        None => Vec::new(),
    };
    let moved = match rename(&from, &to, &old) {
        // Another filesystem, or a directory of the template, which an overlay cannot rename.
        Err(cause) if cause.raw_os_error() == Some(libc::EXDEV) => copy_over(&from, &to, &path, &old, place, cancel),
        Err(cause) if cause.raw_os_error() == Some(libc::EEXIST) => Err(taken()),
        answer => answer.map_err(failed),
    };
    if moved.is_err() {
        for directory in made.iter().rev() {
            // Somebody may have put something into it.
            let _ = std::fs::remove_dir(directory);
        }
    }
    moved.map(|()| placed(&asked))
}

fn placed(path: &Path) -> Placed {
    Placed { path: path.to_string_lossy().into_owned() }
}

/// Makes a directory and those above it. Returns what was made.
fn make_missing(path: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<_> = path.ancestors().take_while(|at| std::fs::symlink_metadata(at).is_err()).collect();
    let mut made = Vec::new();
    for directory in missing.into_iter().rev() {
        match std::fs::DirBuilder::new().mode(0o755).create(directory) {
            Ok(()) => made.push(directory.to_owned()),
            // Made by somebody else at the same time.
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(cause) => {
                for directory in made.iter().rev() {
                    let _ = std::fs::remove_dir(directory);
                }
                return Err(cause);
            }
        }
    }
    Ok(made)
}

fn rename(from: &Path, to: &Path, old: &Metadata) -> io::Result<()> {
    match rename_new(from, to) {
        // A filesystem that cannot refuse to replace: an empty directory is all that could be.
        Err(cause) if old.is_dir() && cause.raw_os_error() == Some(libc::EPERM) => std::fs::rename(from, to),
        answer => answer,
    }
}

/// Copies to where nothing is, and then removes the original. What is at `to` is always complete.
fn copy_over(
    from: &Path,
    to: &Path,
    path: &Path,
    old: &Metadata,
    place: &Place,
    cancel: &Cancel,
) -> Result<(), Refused> {
    if old.is_dir() {
        doomed::removable(from, place, cancel)?;
    }
    let temporary = beside(to);
    let copied = copy(from, &temporary, place.account.uid == 0, cancel).and_then(|()| {
        let renamed = if old.is_dir() { rename(&temporary, to, old) } else { rename_new(&temporary, to) };
        renamed.map_err(|cause| refuse::io("make", to, &cause))
    });
    if let Err(refused) = copied {
        // It has a harmless name.
        let _ = removal::remove(&temporary);
        return Err(refused);
    }
    removal::remove(from).map_err(|cause| {
        let why = format!("was copied to '{}', but could not be removed whole ({cause})", to.display());
        about(Code::Interrupted, path, &why)
    })
}

/// Copies a tree. Owners are kept if this is done for root.
fn copy(from: &Path, to: &Path, owners: bool, cancel: &Cancel) -> Result<(), Refused> {
    let mut left = vec![(from.to_owned(), to.to_owned())];
    let mut directories = Vec::new();
    while let Some((source, target)) = left.pop() {
        cancel.check()?;
        let failed = |cause: io::Error| refuse::io("copy", &source, &cause);
        let found = std::fs::symlink_metadata(&source).map_err(failed)?;
        if found.is_dir() {
            std::fs::DirBuilder::new().mode(0o700).create(&target).map_err(failed)?;
            for entry in std::fs::read_dir(&source).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                left.push((entry.path(), target.join(entry.file_name())));
            }
            directories.push((target, found));
        } else if found.is_symlink() {
            let said = std::fs::read_link(&source).map_err(failed)?;
            std::os::unix::fs::symlink(said, &target).map_err(failed)?;
            if owners {
                std::os::unix::fs::lchown(&target, Some(found.uid()), Some(found.gid())).map_err(failed)?;
            }
        } else {
            let mut readable = open::readable(&source).map_err(|e: NotReadable| refuse::not_readable(&source, &e))?;
            let options = File::options().write(true).create_new(true).mode(0o600).open(&target);
            let mut file = options.map_err(failed)?;
            io::copy(&mut readable.file, &mut file).map_err(failed)?;
            finish(&file, &found, owners).map_err(failed)?;
        }
    }
    // Last, as one may not be writable, and inner ones first, as they change the times of the outer.
    for (directory, found) in directories.iter().rev() {
        let finished = File::open(directory).and_then(|file| finish(&file, found, owners));
        finished.map_err(|cause| refuse::io("copy", directory, &cause))?;
    }
    Ok(())
}

fn finish(file: &File, found: &Metadata, owners: bool) -> io::Result<()> {
    if owners {
        std::os::unix::fs::fchown(file, Some(found.uid()), Some(found.gid()))?;
    }
    // Those that act as the owner stay with the owner.
    let special = if owners { 0o7777 } else { 0o1777 };
    file.set_permissions(std::fs::Permissions::from_mode(found.mode() & special))?;
    match found.modified() {
        Ok(time) => file.set_times(FileTimes::new().set_modified(time)),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Account;

    fn place(root: &Path) -> Place {
        let account = Account { name: "root".to_owned(), uid: 0, gid: 0, home: root.join("home") };
        Place::new(account, root.to_str())
    }

    fn relocated(root: &Path, from: &str, to: &str) -> Result<Placed, Code> {
        let request = Move { user: None, from: from.to_owned(), to: to.to_owned() };
        relocate(&request, &place(root), &Cancel::default()).map_err(|refused| refused.code)
    }

    #[test]
    fn moves_to_where_nothing_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("home")).unwrap();
        std::fs::create_dir_all(root.join("d/e")).unwrap();
        std::fs::write(root.join("d/e/f"), "x").unwrap();
        std::fs::write(root.join("a"), "a").unwrap();
        std::os::unix::fs::symlink("nothing", root.join("link")).unwrap();
        assert_eq!(relocated(&root, "d", "new/deep").unwrap().path, root.join("new/deep").to_str().unwrap());
        assert_eq!(std::fs::read(root.join("new/deep/e/f")).unwrap(), b"x");
        relocated(&root, "link", "new/link").unwrap();
        assert!(std::fs::symlink_metadata(root.join("new/link")).unwrap().is_symlink());
        for (from, to, code) in [
            ("a", "new", Code::AlreadyExists),
            ("a", "new/link", Code::AlreadyExists),
            ("a", "a", Code::AlreadyExists),
            ("new", "new/deep/itself", Code::InvalidArguments),
            ("missing", "b", Code::FileNotFound),
            ("a", "a/b", Code::NotADirectory),
            ("home", "house", Code::PermissionDenied),
            ("/proc", "process", Code::PermissionDenied),
            ("a", "/proc/a", Code::PermissionDenied),
            ("", "b", Code::InvalidArguments),
        ] {
            assert_eq!(relocated(&root, from, to), Err(code), "{from} to {to}");
        }
        assert_eq!(std::fs::read(root.join("a")).unwrap(), b"a");
    }

    #[test]
    fn a_copied_tree_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("d/e")).unwrap();
        std::fs::write(root.join("d/e/f"), "content").unwrap();
        std::fs::set_permissions(root.join("d/e/f"), std::fs::Permissions::from_mode(0o741)).unwrap();
        std::os::unix::fs::chown(root.join("d/e/f"), Some(7), Some(8)).unwrap();
        std::fs::set_permissions(root.join("d/e"), std::fs::Permissions::from_mode(0o500)).unwrap();
        std::os::unix::fs::symlink("e/f", root.join("d/link")).unwrap();
        let old = std::fs::symlink_metadata(root.join("d")).unwrap();
        let before = std::fs::metadata(root.join("d/e")).unwrap();
        let (from, to) = (root.join("d"), root.join("t"));
        copy_over(&from, &to, &from, &old, &place(&root), &Cancel::default()).unwrap();
        assert!(!from.exists());
        let after = std::fs::metadata(to.join("e")).unwrap();
        assert_eq!((before.mode(), before.mtime()), (after.mode(), after.mtime()));
        let file = std::fs::metadata(to.join("link")).unwrap();
        assert_eq!((file.mode() & 0o7777, file.uid(), file.gid(), file.len()), (0o741, 7, 8, 7));
        // A tree that cannot be copied stays, and nothing is left of the attempt.
        rustix::fs::mknodat(rustix::fs::CWD, to.join("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        let refused = copy_over(&to, &from, &to, &old, &place(&root), &Cancel::default()).unwrap_err();
        assert_eq!(refused.code, Code::NotAFile);
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
        assert!(to.join("e/f").exists());
    }

    #[test]
    fn makes_a_directory_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let make = |path: &str| {
            let request = NewDirectory { user: None, path: path.to_owned() };
            make_directory(&request, &place(&root)).map_err(|refused| refused.code)
        };
        assert_eq!(make("a/b/c").unwrap().path, root.join("a/b/c").to_str().unwrap());
        assert_eq!(make("a/b"), Err(Code::AlreadyExists));
        std::fs::write(root.join("file"), "").unwrap();
        assert_eq!(make("file/below"), Err(Code::NotADirectory));
        assert_eq!(make("/proc/x"), Err(Code::PermissionDenied));
    }
}
