//! The blob store (manifests, configurations, compressed layers): one file per blob, named by its digest. A
//! blob is complete and verified or absent: it is written to a temporary file, synced, and renamed.

mod origin;

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cabana_fs::space::{Reservation, Space};
use rustix::fs::FlockOperation;

use crate::digest::{Digest, Hasher};
use crate::error::{Error, Result};
use crate::manifest::{self, Document, MAX_MANIFEST};
use crate::stop::Stop;
pub use origin::Origin;

/// A directory of blobs. Clones are the same store.
#[derive(Debug, Clone)]
pub struct Blobs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    complete: PathBuf,
    partial: PathBuf,
    origins: PathBuf,
    /// Where blobs have to fit.
    space: Space,
    /// Pinned blobs with their number of pins.
    pinned: Mutex<HashMap<Digest, usize>>,
}

/// Keeps a blob from being collected until dropped.
#[derive(Debug)]
pub struct Pin {
    shared: Arc<Shared>,
    digest: Digest,
}

/// Result of a collection.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// Blobs.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Path { action, path: path.display().to_string(), source }
}

impl Blobs {
    /// Opens or creates the store in `directory`, and removes files of interrupted writes. It may take any space.
    pub fn open(directory: &Path) -> Result<Self> {
        Self::open_within(directory, Space::unlimited())
    }

    /// Opens or creates the store in `directory`, whose blobs have to fit into a space.
    pub fn open_within(directory: &Path, space: Space) -> Result<Self> {
        let [complete, partial, origins] = ["sha256", "partial", "origins"].map(|name| directory.join(name));
        for path in [&complete, &partial, &origins] {
            // Layers may be private.
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create", path))?;
        }
        for entry in fs::read_dir(&partial).map_err(failed("list", &partial))? {
            let path = entry.map_err(failed("list", &partial))?.path();
            // A writer holds a lock; the lock of a dead process is free.
            if let Ok(file) = File::open(&path)
                && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
        Ok(Self { shared: Arc::new(Shared { complete, partial, origins, space, pinned: Mutex::default() }) })
    }

    fn file(&self, digest: Digest) -> PathBuf {
        self.shared.complete.join(digest.hex())
    }

    /// Size of a blob, if it exists.
    pub fn size(&self, digest: Digest) -> Option<u64> {
        fs::metadata(self.file(digest)).ok().map(|status| status.len())
    }

    /// Opens a blob. Its digest was verified when it was stored.
    pub fn reader(&self, digest: Digest) -> Result<File> {
        let path = self.file(digest);
        File::open(&path).map_err(failed("open the blob", &path))
    }

    /// A small blob, verified.
    pub fn read(&self, digest: Digest, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader(digest)?.take(limit + 1).read_to_end(&mut bytes).map_err(Error::io("read a blob"))?;
        if bytes.len() as u64 > limit {
            return Err(Error::TooLarge { what: digest.to_string(), limit });
        }
        let found = Digest::of(&bytes);
        if found != digest {
            return Err(Error::Corrupt { what: "a blob in the store".to_owned(), expected: digest, found });
        }
        Ok(bytes)
    }

    /// Starts writing a blob of unknown size.
    pub fn begin(&self) -> Result<Partial> {
        self.begin_announced(0)
    }

    /// Starts writing a blob of a size that is reserved now.
    pub fn begin_announced(&self, bytes: u64) -> Result<Partial> {
        let space = self.shared.space.reserve(bytes).map_err(Error::io("store a blob"))?;
        let path = self.shared.partial.join(format!("{:016x}", rand::random::<u64>()));
        let file =
            File::options().read(true).write(true).create_new(true).open(&path).map_err(failed("create", &path))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed("lock", &path)(error.into()))?;
        Ok(Partial { file, path, hasher: Hasher::default(), length: 0, space, blobs: self.clone() })
    }

    /// Stores bytes, and pins them.
    pub fn put(&self, bytes: &[u8]) -> Result<Pin> {
        let digest = Digest::of(bytes);
        let pin = self.pin(digest);
        if self.size(digest) == Some(bytes.len() as u64) {
            return Ok(pin);
        }
        let mut partial = self.begin()?;
        partial.write(bytes)?;
        partial.commit("a blob", Some(digest))
    }

    /// Stores a reader's content and pins it; blocks. With `expected`, other content is refused.
    pub fn import(
        &self,
        mut reader: impl Read,
        what: &str,
        expected: Option<Digest>,
        limit: u64,
        stop: &Stop,
    ) -> Result<Pin> {
        let mut partial = self.begin()?;
        let mut buffer = vec![0; 256 << 10];
        loop {
            stop.check("copying an image")?;
            let n = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(crate::compression::read_error(error)),
            };
            if partial.length() + n as u64 > limit {
                return Err(Error::TooLarge { what: what.to_owned(), limit });
            }
            partial.write(&buffer[..n])?;
        }
        partial.commit(what, expected)
    }

    /// An error if blobs of this many bytes do not fit.
    pub(crate) fn check_space(&self, bytes: u64) -> Result<()> {
        self.shared.space.reserve(bytes).map(drop).map_err(Error::io("store the image"))
    }

    /// Pins a blob, which may not exist yet.
    pub fn pin(&self, digest: Digest) -> Pin {
        *self.shared.pinned.lock().unwrap_or_else(PoisonError::into_inner).entry(digest).or_default() += 1;
        Pin { shared: self.shared.clone(), digest }
    }

    /// Removes blobs that are neither in `roots`, nor referenced by a manifest in `roots`, nor pinned. A root that is
    /// missing or not a manifest keeps only itself.
    pub fn collect(&self, roots: &HashSet<Digest>) -> Result<Collected> {
        let mut keep = roots.clone();
        for root in roots {
            if let Ok(bytes) = self.read(*root, MAX_MANIFEST)
                && let Ok(Document::Image(manifest)) = manifest::parse(&bytes, None)
            {
                keep.insert(manifest.config.digest);
                keep.extend(manifest.layers.iter().map(|layer| layer.digest));
            }
        }
        let mut collected = Collected::default();
        let directory = &self.shared.complete;
        for entry in fs::read_dir(directory).map_err(failed("list", directory))? {
            let entry = entry.map_err(failed("list", directory))?;
            let Some(digest) = entry.file_name().to_str().and_then(Digest::from_hex) else { continue };
            // Under the lock, so that a pin is either seen or made after the removal.
            let pinned = self.shared.pinned.lock().unwrap_or_else(PoisonError::into_inner);
            if keep.contains(&digest) || pinned.contains_key(&digest) {
                continue;
            }
            let bytes = entry.metadata().map_or(0, |status| status.len());
            fs::remove_file(entry.path()).map_err(failed("remove", &entry.path()))?;
            drop(pinned);
            collected.blobs += 1;
            collected.bytes += bytes;
        }
        self.forget_origins()?;
        Ok(collected)
    }
}

impl Pin {
    /// Digest of the blob.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pinned = self.shared.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = pinned.get_mut(&self.digest) {
            *count -= 1;
            if *count == 0 {
                pinned.remove(&self.digest);
            }
        }
    }
}

/// A blob being written. It is removed if dropped without [`Partial::commit`].
#[derive(Debug)]
pub struct Partial {
    file: File,
    path: PathBuf,
    hasher: Hasher,
    length: u64,
    space: Reservation,
    blobs: Blobs,
}

impl Partial {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.space.spend(bytes.len() as u64).map_err(Error::io("store a blob"))?;
        self.file.write_all(bytes).map_err(failed("write", &self.path))?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Bytes so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Discards everything written.
    pub fn restart(&mut self) -> Result<()> {
        use std::io::Seek;
        self.file.set_len(0).map_err(failed("empty", &self.path))?;
        self.file.rewind().map_err(failed("rewind", &self.path))?;
        self.hasher = Hasher::default();
        self.length = 0;
        Ok(())
    }

    /// A reader of the bytes written so far.
    pub(crate) fn reader(&self) -> Result<File> {
        File::open(&self.path).map_err(failed("open", &self.path))
    }

    /// Turns it into a blob if the digest matches. Durable when this returns, and pinned.
    pub fn commit(self, what: &str, expected: Option<Digest>) -> Result<Pin> {
        let found = self.hasher.clone().finish();
        if let Some(expected) = expected
            && expected != found
        {
            return Err(Error::Corrupt { what: what.to_owned(), expected, found });
        }
        let pin = self.blobs.pin(found);
        let path = self.blobs.file(found);
        cabana_fs::atomic::publish(&self.file, &self.path, &path).map_err(failed("store", &path))?;
        Ok(pin)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After a commit the file does not exist any more.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn count(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn blobs_appear_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(directory.path()).unwrap();
        let digest = blobs.put(b"hello").unwrap().digest();
        assert_eq!(blobs.put(b"hello").unwrap().digest(), digest);
        assert_eq!(blobs.size(digest), Some(5));
        assert_eq!(blobs.read(digest, 5).unwrap(), b"hello");
        assert!(matches!(blobs.read(digest, 4), Err(Error::TooLarge { .. })));
        let mut partial = blobs.begin().unwrap();
        partial.write(b"something else").unwrap();
        let wanted = Digest::of(b"wanted");
        assert!(matches!(partial.commit("x", Some(wanted)), Err(Error::Corrupt { .. })));
        let stop = Stop::after(Duration::from_secs(9));
        assert!(blobs.import(&b"too long"[..], "x", None, 3, &stop).is_err());
        let mut partial = blobs.begin().unwrap();
        partial.write(b"wrong").unwrap();
        partial.restart().unwrap();
        partial.write(b"wanted").unwrap();
        partial.commit("x", Some(wanted)).unwrap();
        assert_eq!(blobs.read(wanted, 100).unwrap(), b"wanted");
        assert_eq!((count(&directory.path().join("sha256")), count(&directory.path().join("partial"))), (2, 0));
    }

    #[test]
    fn a_blob_that_does_not_fit_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::open_within(directory.path(), Space::of(directory.path(), u64::MAX / 2).unwrap()).unwrap();
        for error in [
            blobs.begin_announced(1).map(drop).unwrap_err(),
            blobs.put(b"some").map(drop).unwrap_err(),
            blobs.check_space(1).unwrap_err(),
        ] {
            assert!(cabana_types::error::chain(&error).contains("the server's disk has no space"), "{error:?}");
        }
        assert_eq!((count(&directory.path().join("sha256")), count(&directory.path().join("partial"))), (0, 0));
    }

    #[test]
    fn opening_removes_files_of_interrupted_writes_only() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(directory.path()).unwrap();
        fs::write(directory.path().join("partial/dead"), "half").unwrap();
        let mut live = blobs.begin().unwrap();
        live.write(b"live").unwrap();
        let again = Blobs::open(directory.path()).unwrap();
        assert_eq!(count(&directory.path().join("partial")), 1);
        let digest = live.commit("x", None).unwrap().digest();
        assert_eq!(again.read(digest, 10).unwrap(), b"live");
    }

    #[test]
    fn corrupt_files_are_detected() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(directory.path()).unwrap();
        let digest = blobs.put(b"hello").unwrap().digest();
        fs::write(directory.path().join("sha256").join(digest.hex()), "jello").unwrap();
        assert!(matches!(blobs.read(digest, 10), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn collection_keeps_roots_what_they_name_and_pins() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(directory.path()).unwrap();
        let put = |bytes: &[u8]| blobs.put(bytes).unwrap().digest();
        let (config, layer) = (put(b"{}"), put(b"layer"));
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{{"digest":"{config}","size":2}},"layers":[{{"digest":"{layer}","size":5}}]}}"#
        );
        let root = put(manifest.as_bytes());
        let loose = put(b"loose");
        let pin = blobs.put(b"pinned").unwrap();
        let pinned = pin.digest();
        let collected = blobs.collect(&HashSet::from([root, Digest::of(b"never there")])).unwrap();
        assert_eq!(collected, Collected { blobs: 1, bytes: 5 });
        assert!(blobs.size(loose).is_none() && blobs.size(pinned).is_some());
        drop(pin);
        assert_eq!(blobs.collect(&HashSet::from([root])).unwrap().blobs, 1);
        assert!([root, config, layer].iter().all(|digest| blobs.size(*digest).is_some()));
        assert_eq!(blobs.collect(&HashSet::new()).unwrap().blobs, 3);
    }
}
