//! Cold storage: where the disks of archived sandboxes are kept, packed; a directory, or a bucket that speaks S3's protocol.
//!
//! An archive is one object, and a manifest beside it: the manifest is written last, after the object was read back and found right.
//! Every attempt has a generation of its own. The database names the one that counts, so whatever a crash leaves behind harms nothing
//! and is swept with the help of [`ColdStore::list`]. One server has a place (directory, or bucket and prefix) for itself.

mod config;
mod download;
mod http;
mod manifest;
mod pipe;
mod upload;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use cabana_types::SandboxId;
use cabana_types::error::chain;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio_util::sync::CancellationToken;

pub use config::{ColdConfig, Patience};
use manifest::{DATA, FORMAT, MANIFEST, Name};
pub use manifest::{Digest, Manifest};
use upload::Upload;

use crate::Error;
use crate::pack::{self, Limits, Packed, Selection, Unpacked};

/// A list of more objects is not ours.
const MOST_LISTED: usize = 2_000_000;

/// Cold storage.
#[derive(Clone)]
pub struct ColdStore {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// For people: where it is.
    place: String,
}

/// What to put into cold storage.
#[derive(Debug)]
pub struct Source {
    /// The disk's directory. Nothing may be changing it.
    pub disk: OwnedFd,
    /// What of it.
    pub selection: Selection,
    /// How much at most.
    pub limits: Limits,
}

/// What [`ColdStore::list`] found of one generation of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The sandbox.
    pub id: SandboxId,
    /// Which attempt to archive it.
    pub generation: u64,
    /// Whether its manifest is there. If not, it is being written, or was never finished.
    pub complete: bool,
    /// Bytes that it takes.
    pub bytes: u64,
    /// When the last of it was written.
    pub modified: jiff::Timestamp,
}

impl ColdStore {
    /// Sets cold storage up. A directory is made if it is not there, and what uploads left unfinished in it is removed; a bucket is not
    /// contacted yet.
    pub async fn open(config: &ColdConfig) -> Result<Self, Error> {
        let (store, prefix, place) = config.build().await?;
        Ok(Self { store, prefix, place })
    }

    /// Where it is, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Packs a disk and stores it as a new generation, whose number was never used before: streams it, reads it back and compares, and only then writes the manifest. After
    /// an error or a cancellation nothing of it counts; what could be removed is removed, after a cancellation without making the caller wait for it. When this returns, no thread reads the disk
    /// any more; if the future is dropped instead, one may for a moment.
    pub async fn put(
        &self,
        id: &SandboxId,
        generation: u64,
        source: Source,
        cancel: &CancellationToken,
    ) -> Result<(Manifest, Packed), Error> {
        let name = Name { id: id.clone(), generation };
        let result = self.try_put(&name, source, cancel).await;
        if result.is_err() {
            // Also when it was cancelled: a generation that failed is never looked at again. Whoever cancels has other plans, and a store that does
            // not answer must not keep them waiting.
            let cleaning = tokio::spawn(self.clone().clean_up(name));
            let _ = cancel.run_until_cancelled(cleaning).await;
        }
        result
    }

    async fn clean_up(self, name: Name) {
        let Name { id, generation } = name;
        let cleaned = tokio::time::timeout(upload::CLEANUP, self.delete(&id, generation)).await;
        if !matches!(cleaned, Ok(Ok(()))) {
            tracing::warn!(%id, generation, "an unfinished archive could not be removed now; it does not count");
        }
    }

    async fn try_put(
        &self,
        name: &Name,
        source: Source,
        cancel: &CancellationToken,
    ) -> Result<(Manifest, Packed), Error> {
        let path = self.path(name, DATA);
        let stop = cancel.child_token();
        let _stop_when_dropped = stop.clone().drop_guard();
        let (mut writer, chunks) = pipe::outward();
        let stopped = stop.clone();
        let packing = tokio::task::spawn_blocking(move || {
            let Source { disk, selection, limits } = source;
            let packed = pack::pack(disk, &selection, &mut writer, &limits, &stopped)?;
            let (length, digest) = writer.finish().map_err(pack_io)?;
            Ok::<_, Error>((packed, length, digest))
        });
        let mut upload = Upload::new(Arc::clone(&self.store), path.clone());
        let sent = unless(cancel, upload.send(chunks)).await;
        if sent.is_err() {
            stop.cancel();
        }
        // Whatever happened, the thread ends before we do.
        let packed = packing.await.map_err(|e| Error::Io { action: "pack a disk", source: e.into() });
        let (packed, length, digest) = match (sent, packed.and_then(|packed| packed)) {
            (Ok(()), Ok(packed)) => packed,
            (Err(e), _) | (Ok(()), Err(e)) => {
                if let Some(taken_back) = upload.take_back() {
                    let _ = cancel.run_until_cancelled(taken_back).await;
                }
                return Err(e);
            }
        };
        unless(cancel, upload.complete()).await?;
        self.compare(&path, length, digest, cancel).await?;
        let manifest = Manifest {
            format: FORMAT,
            sandbox_id: name.id.clone(),
            generation: name.generation,
            length,
            sha256: digest,
            created_at: jiff::Timestamp::now(),
            bytes: packed.bytes,
            entries: packed.entries,
        };
        unless(cancel, self.write_manifest(name, &manifest)).await?;
        Ok((manifest, packed))
    }

    /// Reads an object back and compares it with what was written.
    async fn compare(&self, path: &Path, length: u64, digest: Digest, cancel: &CancellationToken) -> Result<(), Error> {
        let read = download::stream(&self.store, path, length, cancel, |mut input, _| {
            std::io::copy(&mut input, &mut std::io::sink()).map_err(pack_io)?;
            input.finish().map_err(pack_io)
        });
        let read = read.await?;
        if read != (length, digest) {
            return Err(damaged(path, "what was read back is not what was written"));
        }
        Ok(())
    }

    async fn write_manifest(&self, name: &Name, manifest: &Manifest) -> Result<(), Error> {
        let path = self.path(name, MANIFEST);
        self.store.put(&path, manifest.encode()?.into()).await.map_err(unwritten("write", &path))?;
        if self.read_manifest(name).await? != *manifest {
            return Err(damaged(&path, "what was read back is not what was written"));
        }
        Ok(())
    }

    async fn read_manifest(&self, name: &Name) -> Result<Manifest, Error> {
        let path = self.path(name, MANIFEST);
        let found = self.store.get(&path).await.map_err(cold("read", &path))?;
        if found.meta.size > manifest::LONGEST {
            return Err(damaged(&path, "it is too long for a manifest"));
        }
        let bytes = found.bytes().await.map_err(cold("read", &path))?;
        Manifest::decode(&bytes, name).map_err(|problem| damaged(&path, &problem))
    }

    /// Unpacks a generation into a disk's directory, whose `upper` is missing or empty, and waits until it is safely on disk. `expected`
    /// is the digest that [`Self::put`] returned, if it is known: without it one who can write to the store can exchange an archive
    /// for another. After an error the caller removes what is in the directory; no thread writes to it any more then.
    pub async fn get(
        &self,
        id: &SandboxId,
        generation: u64,
        expected: Option<&Digest>,
        disk: OwnedFd,
        limits: &Limits,
        cancel: &CancellationToken,
    ) -> Result<(Manifest, Unpacked), Error> {
        let name = Name { id: id.clone(), generation };
        let path = self.path(&name, DATA);
        let manifest = unless(cancel, self.read_manifest(&name)).await?;
        if expected.is_some_and(|expected| *expected != manifest.sha256) {
            return Err(damaged(&self.path(&name, MANIFEST), "it is not the manifest that was written"));
        }
        let limits = *limits;
        let unpacked = download::stream(&self.store, &path, manifest.length, cancel, move |mut input, stop| {
            let unpacked = pack::unpack(&mut input, &disk, &limits, stop)?;
            let read = input.finish().map_err(pack_io)?;
            rustix::fs::syncfs(disk.as_fd()).map_err(|e| pack_io(e.into()))?;
            Ok((unpacked, read))
        });
        let (unpacked, read) = unpacked.await.map_err(|e| match &e {
            // No system call failed, so it was the archive that could not be read.
            Error::Path { source, .. } | Error::Io { source, .. } if source.raw_os_error().is_none() => {
                damaged(&path, &chain(&e))
            }
            _ => e,
        })?;
        if read != (manifest.length, manifest.sha256) {
            return Err(damaged(&path, "its digest is not that of its manifest"));
        }
        if (unpacked.entries, unpacked.bytes) != (manifest.entries, manifest.bytes) {
            return Err(damaged(&path, "it does not hold what its manifest says"));
        }
        Ok((manifest, unpacked))
    }

    /// Removes a generation; one that is not there is fine. The manifest goes first, so that no half is ever taken for whole.
    pub async fn delete(&self, id: &SandboxId, generation: u64) -> Result<(), Error> {
        let name = Name { id: id.clone(), generation };
        for suffix in [MANIFEST, DATA] {
            let path = self.path(&name, suffix);
            match self.store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(unwritten("delete", &path)(e)),
            }
        }
        Ok(())
    }

    /// Everything that is there, finished or not, in the order of sandboxes and generations.
    pub async fn list(&self) -> Result<Vec<Kept>, Error> {
        let mut found: BTreeMap<(SandboxId, u64), Kept> = BTreeMap::new();
        let mut objects = self.store.list(Some(&self.prefix));
        let mut seen = 0;
        while let Some(object) = objects.try_next().await.map_err(unwritten("list", &self.prefix))? {
            seen += 1;
            if seen > MOST_LISTED {
                return Err(damaged(&self.prefix, "there are too many objects"));
            }
            let ours =
                object.location.prefix_match(&self.prefix).and_then(|mut rest| match (rest.next(), rest.next()) {
                    (Some(file), None) => Name::parse(file.as_ref()),
                    _ => None,
                });
            let Some((name, suffix)) = ours else { continue };
            let modified =
                jiff::Timestamp::from_millisecond(object.last_modified.timestamp_millis()).unwrap_or_default();
            let kept = found.entry((name.id.clone(), name.generation)).or_insert(Kept {
                id: name.id,
                generation: name.generation,
                complete: false,
                bytes: 0,
                modified,
            });
            kept.complete |= suffix == MANIFEST;
            kept.bytes = kept.bytes.saturating_add(object.size);
            kept.modified = kept.modified.max(modified);
        }
        Ok(found.into_values().collect())
    }

    fn path(&self, name: &Name, suffix: &str) -> Path {
        self.prefix.clone().join(name.file(suffix))
    }
}

/// The store's own description would hold the key.
impl fmt::Debug for ColdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColdStore").field("place", &self.place).finish_non_exhaustive()
    }
}

/// Gives up waiting when it is cancelled.
async fn unless<T>(cancel: &CancellationToken, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match cancel.run_until_cancelled(work).await {
        Some(done) => done,
        None => Err(Error::Cancelled),
    }
}

fn pack_io(source: std::io::Error) -> Error {
    Error::Io { action: "move an archive", source }
}

fn damaged(path: &Path, problem: &str) -> Error {
    Error::ColdDamaged { name: path.to_string(), problem: problem.to_owned() }
}

/// An error of reading.
fn cold(action: &'static str, path: &Path) -> impl FnOnce(object_store::Error) -> Error {
    move |e| match e {
        object_store::Error::NotFound { .. } => Error::ColdMissing { name: path.to_string() },
        other => unwritten(action, path)(other),
    }
}

/// An error of writing: there "not found" speaks of the bucket.
fn unwritten(action: &'static str, path: &Path) -> impl FnOnce(object_store::Error) -> Error {
    move |e| Error::Cold { action, name: path.to_string(), source: Box::new(e) }
}
