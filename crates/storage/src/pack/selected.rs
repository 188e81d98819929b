//! The selected parts of a disk, as a tree of names.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use super::{Selection, dir_stack, refused};
use crate::Error;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selected {
    /// This directory and everything below it.
    pub(super) all: bool,
    /// Otherwise these names in this directory.
    pub(super) below: BTreeMap<Vec<u8>, Selected>,
}

impl Selected {
    pub(super) fn everything() -> Self {
        Self { all: true, below: BTreeMap::new() }
    }

    /// The parts of a selection that exist, and the paths that do not.
    pub(super) fn find(upper: BorrowedFd<'_>, selection: &Selection) -> Result<(Self, Vec<String>), Error> {
        let Selection::Paths(paths) = selection else { return Ok((Self::everything(), Vec::new())) };
        let (mut selected, mut missing) = (Self::default(), Vec::new());
        for path in paths {
            let names = names(path)?;
            if exists(upper, &names).map_err(super::at("look for", path.as_bytes()))? {
                selected.add(&names);
            } else {
                missing.push(path.clone());
            }
        }
        Ok((selected, missing))
    }

    fn add(&mut self, names: &[&str]) {
        let mut place = self;
        for name in names {
            if place.all {
                return;
            }
            place = place.below.entry(name.as_bytes().to_vec()).or_default();
        }
        *place = Self::everything();
    }
}

fn names(path: &str) -> Result<Vec<&str>, Error> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    if names.iter().any(|name| matches!(*name, "." | "..") || name.len() > 255 || name.contains('\0')) {
        return Err(refused(path.as_bytes(), "not a path that can be kept"));
    }
    Ok(names)
}

/// What is behind a link, or in a directory of the template that the sandbox did not change, does not exist here.
fn exists(upper: BorrowedFd<'_>, names: &[&str]) -> std::io::Result<bool> {
    let Some((last, above)) = names.split_last() else { return Ok(true) };
    let directory = match dir_stack::open(upper, above.join("/").as_bytes()) {
        Err(e) if no_such(&e) => return Ok(false),
        directory => directory?,
    };
    match statat(&directory, *last, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(false),
        found => found.map(|_| true).map_err(Into::into),
    }
}

fn no_such(error: &std::io::Error) -> bool {
    let known = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV];
    Errno::from_io_error(error).is_some_and(|e| known.contains(&e))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn paths_become_a_tree() {
        let scratch = tempfile::tempdir().expect("a directory");
        for directory in ["home/user/artifacts/deep", "srv"] {
            std::fs::create_dir_all(scratch.path().join(directory)).expect("made");
        }
        std::os::unix::fs::symlink("home", scratch.path().join("link")).expect("made");
        std::fs::write(scratch.path().join("file"), "").expect("made");
        let top = std::fs::File::open(scratch.path()).expect("a directory");
        let find = |paths: &[&str]| {
            let paths = paths.iter().map(|p| (*p).to_owned()).collect();
            Selected::find(top.as_fd(), &Selection::Paths(paths))
        };
        let (selected, missing) = find(&[
            "/home/user/artifacts/deep/",
            "home/user/artifacts",
            "home//user/artifacts/deep",
            "srv/nothing",
            "link/user",
            "file/below",
            "link",
        ])
        .expect("found");
        assert_eq!(missing, ["srv/nothing", "link/user", "file/below"]);
        assert_eq!(selected.below.keys().collect::<Vec<_>>(), [b"home".as_slice(), b"link"]);
        let artifacts = &selected.below[b"home".as_slice()].below[b"user".as_slice()].below[b"artifacts".as_slice()];
        assert_eq!(artifacts, &Selected::everything());
        assert!(find(&["/"]).expect("the root").0.all);
        assert_eq!(find(&[]).expect("nothing"), (Selected::default(), Vec::new()));
        for bad in ["../x", "a/../b", "a/./b", "a\0b"] {
            assert!(find(&[bad]).is_err(), "{bad}");
        }
    }
}
