//! Checks what is to be removed before anything is: a tree of which a part cannot be removed stays whole.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cabana_types::tool::ToolErrorCode as Code;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};

use super::plan::Old;
use crate::open;
use crate::tools::Cancel;
use crate::tools::place::Place;
use crate::tools::refuse::{self, Refused, about};

const MAX_MOUNTS: u64 = 4 << 20;
const STICKY: u32 = 0o1000;

/// Checks a removal; `real` is where `path` is. Returns how many files and directories it removes.
pub(super) fn check(
    real: &Path,
    path: &Path,
    old: &Old,
    recursive: bool,
    place: &Place,
    cancel: &Cancel,
) -> Result<u64, Refused> {
    unprotected(real, path, place)?;
    if !old.is_dir {
        return Ok(1);
    }
    if recursive {
        return removable(real, place, cancel);
    }
    match std::fs::read_dir(real).map(|mut entries| entries.next()) {
        Ok(None) => Ok(1),
        Ok(Some(_)) => Err(about(
            Code::NotAFile,
            path,
            "is a directory that is not empty; set recursive to remove it with all in it",
        )),
        Err(cause) => Err(refuse::io("list", path, &cause)),
    }
}

/// Refuses what must stay where it is.
pub(in crate::tools) fn unprotected(real: &Path, path: &Path, place: &Place) -> Result<(), Refused> {
    let protected = |why: &str| Err(about(Code::PermissionDenied, path, why));
    if real == Path::new("/") {
        return protected("is the root directory, which is never removed");
    }
    if let Some(mount) = mounts().iter().find(|mount| mount.starts_with(real)) {
        return match *mount == real {
            true => protected("is a mount point, which is never removed"),
            false => protected(&format!("contains the mount point '{}', which is never removed", mount.display())),
        };
    }
    let home = open::open(&place.account.home, OFlags::PATH | OFlags::DIRECTORY, Mode::empty());
    let home = home.and_then(|home| open::real_path(&home)).unwrap_or_else(|_| place.account.home.clone());
    match home.starts_with(real) {
        true => protected("is or contains the home directory, which is never removed; name what is in it instead"),
        false => Ok(()),
    }
}

/// Number of files and directories of a tree, itself included.
pub(super) fn count(root: &Path, cancel: &Cancel) -> Result<u64, Refused> {
    walk(root, cancel, |_, _| Ok(()))
}

/// The same, if the account may remove all of them.
pub(in crate::tools) fn removable(root: &Path, place: &Place, cancel: &Cancel) -> Result<u64, Refused> {
    let uid = place.account.uid;
    walk(root, cancel, |directory, entry| {
        let denied = |cause: io::Error| refuse::io("change", directory, &cause);
        let Some(entry) = entry else {
            return rustix::fs::accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
                .map_err(|cause| denied(cause.into()));
        };
        let own = std::fs::symlink_metadata(directory).map_err(denied)?;
        if uid == 0 || own.mode() & STICKY == 0 || own.uid() == uid {
            return Ok(());
        }
        match std::fs::symlink_metadata(entry) {
            Ok(found) if found.uid() != uid => {
                Err(refuse::io("remove", entry, &io::Error::from_raw_os_error(libc::EPERM)))
            }
            _ => Ok(()),
        }
    })
}

/// Calls `check` for each directory that has entries, and then for each of these.
fn walk(
    root: &Path,
    cancel: &Cancel,
    check: impl Fn(&Path, Option<&Path>) -> Result<(), Refused>,
) -> Result<u64, Refused> {
    let mut count = 1;
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            // Too deep for a path: removal manages without one.
            Err(cause) if cause.raw_os_error() == Some(libc::ENAMETOOLONG) => continue,
            Err(cause) => return Err(refuse::io("list", &directory, &cause)),
        };
        for (number, entry) in entries.enumerate() {
            cancel.check()?;
            let entry = entry.map_err(|cause| refuse::io("list", &directory, &cause))?;
            if number == 0 {
                check(&directory, None)?;
            }
            let path = entry.path();
            check(&directory, Some(&path))?;
            count += 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(path);
            }
        }
    }
    Ok(count)
}

/// All mount points.
fn mounts() -> Vec<PathBuf> {
    let mut bytes = Vec::new();
    // Without it, the kernel still refuses to remove one.
    let _ = File::open("/proc/self/mountinfo").and_then(|file| file.take(MAX_MOUNTS).read_to_end(&mut bytes));
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| Some(unescape(line.split(|byte| *byte == b' ').nth(4)?)))
        .collect()
}

/// Blanks, newlines and backslashes in names are written as `\` and three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| after.get(..3)).flatten();
        let octal = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_mounts() {
        assert_eq!(unescape(br"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescape(br"/a\9"), Path::new(r"/a\9"));
        assert!(mounts().iter().any(|mount| mount == Path::new("/proc")));
    }
}
