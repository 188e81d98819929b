//! Changes to a filesystem that can be undone. Files that were replaced or removed stay beside their place, under names like
//! `.name.cabana-1f2e3d4c`, until all changes are made; a crash leaves such files at worst.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::plan::{self, Old};
use crate::removal;
use crate::tools::identity;

/// Bytes of a name that are kept in the name of its temporary file; names have at most 255.
const MAX_KEPT: usize = 200;
const ATTEMPTS: usize = 8;

#[derive(Debug)]
enum Undo {
    /// Exchanges two files again.
    Exchange(PathBuf, PathBuf),
    /// Moves a file back, replacing what is there.
    Move {
        from: PathBuf,
        to: PathBuf,
    },
    Remove(PathBuf),
    Mode(PathBuf, u32),
    MakeDirectory(PathBuf, Old),
}

#[derive(Debug, Default)]
pub(super) struct Transaction {
    undo: Vec<Undo>,
    /// New files, or what was exchanged for them.
    temporary: Vec<PathBuf>,
    /// What was removed.
    aside: Vec<PathBuf>,
    /// Directories that were made.
    made: Vec<PathBuf>,
}

impl Transaction {
    /// Makes the missing directories above a path.
    pub(super) fn make_parents(&mut self, path: &Path) -> io::Result<()> {
        let above = path.ancestors().skip(1);
        let missing: Vec<_> = above.take_while(|at| std::fs::symlink_metadata(at).is_err()).collect();
        for directory in missing.into_iter().rev() {
            failpoint()?;
            match std::fs::DirBuilder::new().mode(0o755).create(directory) {
                Ok(()) => self.made.push(directory.to_owned()),
                // Made by somebody else at the same time.
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    }

    /// Writes a file beside its place, with the owner and group of the one that it replaces.
    pub(super) fn stage(&mut self, target: &Path, data: &[u8], mode: u32, old: Option<&Old>) -> io::Result<PathBuf> {
        failpoint()?;
        let (mut file, path) = self.make_beside(target)?;
        file.write_all(data)?;
        set_owner_and_mode(&file, mode, old)?;
        Ok(path)
    }

    fn make_beside(&mut self, target: &Path) -> io::Result<(File, PathBuf)> {
        for _ in 0..ATTEMPTS {
            let path = beside(target);
            match File::options().write(true).create_new(true).mode(0o600).open(&path) {
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    let file = made?;
                    self.temporary.push(path.clone());
                    return Ok((file, path));
                }
            }
        }
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }

    /// Replaces a file, if it is still the one that was checked.
    pub(super) fn exchange(&mut self, temporary: PathBuf, target: &Path, old: &Old) -> io::Result<()> {
        failpoint()?;
        let backup = match renameat_with(CWD, &temporary, CWD, target, RenameFlags::EXCHANGE) {
            Ok(()) => {
                self.undo.push(Undo::Exchange(temporary.clone(), target.to_owned()));
                temporary
            }
            // A filesystem that cannot exchange.
            Err(Errno::INVAL) => {
                let backup = beside(target);
                std::fs::hard_link(target, &backup)?;
                self.temporary.push(backup.clone());
                std::fs::rename(&temporary, target)?;
                self.undo.push(Undo::Move { from: backup.clone(), to: target.to_owned() });
                backup
            }
            Err(cause) => return Err(cause.into()),
        };
        still(&backup, old)
    }

    /// Puts a staged file where nothing is.
    pub(super) fn put(&mut self, temporary: &Path, target: &Path) -> io::Result<()> {
        failpoint()?;
        rename_new(temporary, target)?;
        self.undo.push(Undo::Remove(target.to_owned()));
        Ok(())
    }

    /// Moves what is to be removed out of the way.
    pub(super) fn set_aside(&mut self, target: &Path, old: &Old) -> io::Result<()> {
        failpoint()?;
        let aside = beside(target);
        if old.is_dir {
            // An empty or new name: directories have no links to fall back to.
            match renameat_with(CWD, target, CWD, &aside, RenameFlags::NOREPLACE) {
                Err(Errno::INVAL) => std::fs::rename(target, &aside)?,
                answer => answer?,
            }
        } else {
            rename_new(target, &aside)?;
        }
        self.undo.push(Undo::Move { from: aside.clone(), to: target.to_owned() });
        self.aside.push(aside.clone());
        if old.is_dir { Ok(()) } else { still(&aside, old) }
    }

    /// Whether the directory that was set aside last is empty.
    pub(super) fn is_still_empty(&self) -> io::Result<()> {
        let Some(aside) = self.aside.last() else { return Ok(()) };
        match std::fs::read_dir(aside)?.next() {
            None => Ok(()),
            Some(_) => Err(io::Error::from_raw_os_error(libc::ESTALE)),
        }
    }

    /// Removes an empty directory that cannot be moved.
    pub(super) fn remove_empty(&mut self, target: &Path, old: &Old) -> io::Result<()> {
        failpoint()?;
        std::fs::remove_dir(target)?;
        self.undo.push(Undo::MakeDirectory(target.to_owned(), *old));
        Ok(())
    }

    /// Moves a file to where nothing is.
    pub(super) fn relocate(&mut self, from: &Path, to: &Path, old: &Old, executable: Option<bool>) -> io::Result<()> {
        failpoint()?;
        match rename_new(from, to) {
            Err(cause) if cause.raw_os_error() == Some(libc::EXDEV) => {
                self.copy(from, to, old, executable)?;
                return self.set_aside(from, old);
            }
            answer => answer?,
        }
        self.undo.push(Undo::Move { from: to.to_owned(), to: from.to_owned() });
        still(to, old)?;
        let mode = plan::mode(Some(old), executable);
        if mode != old.mode {
            failpoint()?;
            std::fs::set_permissions(to, PermissionsExt::from_mode(mode))?;
            self.undo.push(Undo::Mode(to.to_owned(), old.mode));
        }
        Ok(())
    }

    /// Copies a file to another filesystem.
    fn copy(&mut self, from: &Path, to: &Path, old: &Old, executable: Option<bool>) -> io::Result<()> {
        if old.is_link {
            std::os::unix::fs::symlink(std::fs::read_link(from)?, to)?;
            self.undo.push(Undo::Remove(to.to_owned()));
            return Ok(());
        }
        let mut source = crate::open::readable(from).map_err(|refusal| match refusal {
            crate::open::NotReadable::Io(cause) => cause,
            other => io::Error::new(io::ErrorKind::InvalidInput, other),
        })?;
        let (mut file, temporary) = self.make_beside(to)?;
        io::copy(&mut source.file, &mut file)?;
        set_owner_and_mode(&file, plan::mode(Some(old), executable), Some(old))?;
        self.put(&temporary, to)
    }

    /// Undoes everything. Returns what could not be undone, in words.
    pub(super) fn roll_back(self) -> Vec<String> {
        let mut lost = Vec::new();
        for undo in self.undo.into_iter().rev() {
            let undone = match &undo {
                Undo::Exchange(one, other) => {
                    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(io::Error::from)
                }
                Undo::Move { from, to } => std::fs::rename(from, to),
                Undo::Remove(path) => std::fs::remove_file(path),
                Undo::Mode(path, mode) => std::fs::set_permissions(path, PermissionsExt::from_mode(*mode)),
                Undo::MakeDirectory(path, old) => remake(path, old),
            };
            if let Err(cause) = undone {
                lost.push(match &undo {
                    Undo::Exchange(kept, path) | Undo::Move { from: kept, to: path } => {
                        format!("'{}' could not be restored ({cause}); it is at '{}'", path.display(), kept.display())
                    }
                    Undo::Remove(path) | Undo::Mode(path, _) | Undo::MakeDirectory(path, _) => {
                        format!("'{}' could not be restored ({cause})", path.display())
                    }
                });
            }
        }
        if lost.is_empty() {
            remove_all(&self.temporary);
        }
        for directory in self.made.iter().rev() {
            // Somebody may have put something into it.
            let _ = std::fs::remove_dir(directory);
        }
        lost
    }

    /// Removes what was kept for undoing. What cannot be removed has a harmless name.
    pub(super) fn finish(self) {
        remove_all(&self.temporary);
        for path in &self.aside {
            let _ = removal::remove(path);
        }
    }
}

fn remove_all(paths: &[PathBuf]) {
    for path in paths {
        // It was moved to its place, or cannot be removed.
        let _ = std::fs::remove_file(path);
    }
}

fn remake(path: &Path, old: &Old) -> io::Result<()> {
    std::fs::create_dir(path)?;
    let directory = File::open(path)?;
    set_owner_and_mode(&directory, old.mode, Some(old))
}

/// An error if somebody has changed the file since it was checked.
fn still(path: &Path, old: &Old) -> io::Result<()> {
    match Old::at(path)? {
        Some(now) if old.is_same(&now) => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESTALE)),
    }
}

/// Renames to a name that must be free.
pub(in crate::tools) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        answer => Ok(answer?),
    }
}

fn set_owner_and_mode(file: &File, mode: u32, old: Option<&Old>) -> io::Result<()> {
    let now = file.metadata()?;
    let give = old.filter(|old| (old.uid, old.gid) != (now.uid(), now.gid()));
    // As the kernel does on a write of anybody but root: a file of another user must not act as that user with new content.
    let is_root = now.uid() == 0;
    let mode = if is_root { mode } else { mode & 0o777 };
    let set = |mode| file.set_permissions(PermissionsExt::from_mode(mode));
    match give {
        None => set(mode),
        // Giving it away takes the right to change its mode, and from root's files the special bits.
        Some(old) if is_root => identity::give_to(file, old.uid, old.gid).and_then(|()| set(mode)),
        Some(old) => set(mode).and_then(|()| identity::give_to(file, old.uid, old.gid)),
    }
}

/// A name beside a path that is not taken.
pub(in crate::tools) fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let kept = String::from_utf8_lossy(name.get(..MAX_KEPT).unwrap_or(name)).into_owned();
    let kept: String = kept.chars().filter(|c| *c != char::REPLACEMENT_CHARACTER).collect();
    // Seeded by the kernel.
    let random = RandomState::new().build_hasher().finish();
    path.with_file_name(format!(".{kept}.cabana-{random:016x}"))
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "fails in tests")]
fn failpoint() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
thread_local! {
    /// How many more steps succeed.
    pub(super) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

#[cfg(test)]
fn failpoint() -> io::Result<()> {
    let left = STEPS.get();
    STEPS.set(left.saturating_sub(1));
    if left == 0 { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
}
