//! Origins of blobs. Knowing a blob's digest is no permission to read it: anybody can write a manifest that names the
//! layers of somebody's private image. So a stored blob is used only for clients who could fetch it themselves.

use std::fs::{self, File};
use std::io::ErrorKind;

use super::{Blobs, failed};
use crate::digest::Digest;
use crate::error::Result;

/// Where a blob was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Without a password; public.
    Open,
    /// From a repository with a password; for clients who get a manifest there.
    Closed(String),
}

impl Blobs {
    /// Records the origin of a blob.
    pub(crate) fn came_from(&self, digest: Digest, origin: &Origin) -> Result<()> {
        let path = self.shared.origins.join(name(digest, origin));
        File::create(&path).map(drop).map_err(failed("create", &path))
    }

    /// Whether a blob of this size exists and is accessible to a client who got its manifest at `origin`.
    pub(crate) fn is_there_for(&self, origin: &Origin, digest: Digest, size: u64) -> bool {
        let noted = |origin: &Origin| self.shared.origins.join(name(digest, origin)).exists();
        self.size(digest) == Some(size) && (noted(&Origin::Open) || noted(origin))
    }

    /// Deletes the origins of deleted blobs.
    pub(super) fn forget_origins(&self) -> Result<()> {
        let directory = &self.shared.origins;
        for entry in fs::read_dir(directory).map_err(failed("list", directory))? {
            let path = entry.map_err(failed("list", directory))?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).and_then(Digest::from_hex);
            if stem.is_some_and(|digest| self.size(digest).is_none()) {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("remove", &path)(error)),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// A file's name: the digest, and for a repository that of its name.
fn name(digest: Digest, origin: &Origin) -> String {
    match origin {
        Origin::Open => digest.hex(),
        Origin::Closed(place) => format!("{}.{}", digest.hex(), Digest::of(place.as_bytes()).hex()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn private_blobs_stay_private() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(directory.path()).unwrap();
        let digest = blobs.put(b"secret").unwrap().digest();
        let [mine, other] = ["registry.test/mine", "registry.test/other"].map(|place| Origin::Closed(place.to_owned()));
        let seen = |origin: &Origin| blobs.is_there_for(origin, digest, 6);
        assert!(!seen(&Origin::Open) && !seen(&mine), "nobody has said where it is from");
        blobs.came_from(digest, &mine).unwrap();
        assert!(seen(&mine) && !seen(&other) && !seen(&Origin::Open));
        assert!(!blobs.is_there_for(&mine, digest, 5) && !blobs.is_there_for(&mine, Digest::of(b"x"), 6));
        let again = Blobs::open(directory.path()).unwrap();
        assert!(again.is_there_for(&mine, digest, 6));
        blobs.came_from(digest, &Origin::Open).unwrap();
        assert!(seen(&mine) && seen(&other) && seen(&Origin::Open));

        blobs.collect(&HashSet::from([digest])).unwrap();
        assert!(seen(&mine));
        blobs.collect(&HashSet::new()).unwrap();
        assert_eq!(fs::read_dir(directory.path().join("origins")).unwrap().count(), 0);
        drop(blobs.put(b"secret").unwrap());
        assert!(!seen(&mine), "what was known of the one before does not count");
    }
}
