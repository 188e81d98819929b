//! A directory to unpack into, with files beside it that must not change.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cabana_image::unpack::{self, Limits, Unpacked, Whiteouts};
use cabana_image::{Result, Stop};

use crate::archive::{Item, tar};

pub(crate) struct Scene {
    directory: tempfile::TempDir,
    before: BTreeMap<PathBuf, String>,
    pub(crate) limits: Limits,
}

impl Scene {
    pub(crate) fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "these tests keep owners of files: run them as root");
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        fs::create_dir(at.join("root")).unwrap();
        fs::create_dir_all(at.join("outside/inner")).unwrap();
        fs::write(at.join("outside/secret"), "precious").unwrap();
        fs::set_permissions(at.join("outside/secret"), fs::Permissions::from_mode(0o600)).unwrap();
        let before = outside(at);
        Self { directory, before, limits: Limits::default() }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// Path of the files beside the root.
    pub(crate) fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    pub(crate) fn apply(&self, items: &[Item]) -> Result<Unpacked> {
        self.apply_bytes(&tar(items))
    }

    pub(crate) fn apply_bytes(&self, bytes: &[u8]) -> Result<Unpacked> {
        self.apply_reader(bytes)
    }

    pub(crate) fn apply_reader(&self, reader: impl Read + Send) -> Result<Unpacked> {
        let root = fs::File::open(self.root()).unwrap();
        let stop = Stop::after(Duration::from_secs(60));
        let result = unpack::apply(reader, root.as_fd(), Whiteouts::Apply, &self.limits, &stop);
        assert_eq!(outside(self.directory.path()), self.before, "something outside has changed");
        result
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root().join(path).symlink_metadata().is_ok()
    }

    pub(crate) fn status(&self, path: &str) -> fs::Metadata {
        self.root().join(path).symlink_metadata().unwrap()
    }
}

/// Everything but the contents of the root.
fn outside(at: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    look(at, at, &mut seen);
    seen
}

fn look(top: &Path, at: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(top).unwrap().to_owned();
        let status = path.symlink_metadata().unwrap();
        let is_root = name == Path::new("root");
        let links = if status.is_dir() { 0 } else { status.nlink() };
        let content = if status.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
        // What the archive says of `./` is meant for the root itself.
        let about = if is_root {
            String::new()
        } else {
            format!("{:o} {} {links} {} {content}", status.mode(), status.uid(), status.mtime_nsec())
        };
        seen.insert(name, about);
        if status.is_dir() && !is_root {
            look(top, &path, seen);
        }
    }
}
