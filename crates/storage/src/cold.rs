//! Cold storage: keeps the packed disks of archived sandboxes in a directory or in an S3-compatible bucket.
//!
//! An archive is one object with a manifest beside it. The manifest is written last, after the object was read back and verified. Every
//! attempt has its own generation. The database names the one that is valid, so what a crash leaves behind does no harm and is removed with
//! the help of [`ColdStore::list`]. A location (directory, or bucket and prefix) belongs to one server.

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

use cabana_fs::space::Space;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio_util::sync::CancellationToken;

pub use config::{ColdConfig, Timeouts};
use manifest::{DATA, FORMAT, MANIFEST, Name};
pub use manifest::{Digest, Manifest};
use upload::Upload;

use crate::Error;
use crate::pack::{self, Limits, Packed, Selection, Unpacked};

/// A location with more objects is not ours.
const MOST_LISTED: usize = 2_000_000;

/// Cold storage.
#[derive(Clone)]
pub struct ColdStore {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// For `Debug`.
    location: String,
    /// Where archives have to fit.
    space: Space,
}

/// What to put into cold storage.
#[derive(Debug)]
pub struct Source {
    /// The disk's directory. Nothing may be changing it.
    pub disk: OwnedFd,
    /// The parts to pack.
    pub selection: Selection,
    /// How much may be packed.
    pub limits: Limits,
}

/// One generation of a sandbox's archive, as [`ColdStore::list`] found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredArchive {
    /// The sandbox.
    pub id: SandboxId,
    /// The attempt to archive it.
    pub generation: u64,
    /// Whether its manifest exists. If not, it is being written or was never finished.
    pub complete: bool,
    /// Bytes that it takes.
    pub bytes: u64,
    /// When the last of it was written.
    pub modified: jiff::Timestamp,
}

impl ColdStore {
    /// Opens cold storage. A directory is created if it is missing, and unfinished uploads in it are removed; a bucket is
    /// not contacted yet.
    pub async fn open(config: &ColdConfig) -> Result<Self, Error> {
        let (store, prefix, location) = config.build().await?;
        Ok(Self { store, prefix, location, space: Space::unlimited() })
    }

    /// The same store, whose archives have to fit into a space.
    pub fn within(self, space: Space) -> Self {
        Self { space, ..self }
    }

    /// Packs a disk and stores it as a new generation, whose number was never used before: uploads it, reads it back
    /// and compares it, and only then writes the manifest. After an error or a cancellation the generation is invalid
    /// and its objects are removed where possible; after a cancellation this does not wait for the removal. When this
    /// returns, no thread reads the disk any more; if the future is dropped, a thread may read it a moment longer.
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
            // Also after a cancellation: a failed generation is never used. A caller that cancels must not wait for a store
            // that does not respond.
            let cleaning = tokio::spawn(self.clone().clean_up(name));
            let _ = cancel.run_until_cancelled(cleaning).await;
        }
        result
    }

    async fn clean_up(self, name: Name) {
        let Name { id, generation } = name;
        let cleaned = tokio::time::timeout(upload::CLEANUP, self.delete(&id, generation)).await;
        if !matches!(cleaned, Ok(Ok(()))) {
            tracing::warn!(%id, generation, "could not remove an unfinished archive; it is ignored");
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
        let (mut writer, chunks) = pipe::to_store();
        let stopped = stop.clone();
        let packing = tokio::task::spawn_blocking(move || {
            let Source { disk, selection, limits } = source;
            let packed = pack::pack(disk, &selection, &mut writer, &limits, &stopped)?;
            let (length, digest) = writer.finish().map_err(pack_io)?;
            Ok::<_, Error>((packed, length, digest))
        });
        let mut upload = Upload::new(Arc::clone(&self.store), path.clone(), &self.space)?;
        let sent = or_cancelled(cancel, upload.send(chunks)).await;
        if sent.is_err() {
            stop.cancel();
        }
        // In every case the thread ends before this function.
        let packed = packing.await.map_err(|e| Error::Io { action: "pack a disk", source: e.into() });
        let (packed, length, digest) = match (sent, packed.and_then(|packed| packed)) {
            (Ok(()), Ok(packed)) => packed,
            (Err(e), _) | (Ok(()), Err(e)) => {
                if let Some(aborted) = upload.abort() {
                    let _ = cancel.run_until_cancelled(aborted).await;
                }
                return Err(e);
            }
        };
        or_cancelled(cancel, upload.complete()).await?;
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
        or_cancelled(cancel, self.write_manifest(name, &manifest)).await?;
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
        self.store.put(&path, manifest.encode()?.into()).await.map_err(request_failed("write", &path))?;
        if self.read_manifest(name).await? != *manifest {
            return Err(damaged(&path, "what was read back is not what was written"));
        }
        Ok(())
    }

    async fn read_manifest(&self, name: &Name) -> Result<Manifest, Error> {
        let path = self.path(name, MANIFEST);
        let found = self.store.get(&path).await.map_err(read_failed("read", &path))?;
        if found.meta.size > manifest::LONGEST {
            return Err(damaged(&path, "it is too long for a manifest"));
        }
        let bytes = found.bytes().await.map_err(read_failed("read", &path))?;
        Manifest::decode(&bytes, name).map_err(|problem| damaged(&path, &problem))
    }

    /// Unpacks a generation into a disk's directory, whose `upper` is missing or empty, and flushes it. `expected` is the digest that
    /// [`Self::put`] returned, if it is known: without it, someone who can write to the store can replace an archive with another. After an
    /// error the caller removes what is in the directory; no thread writes to it any more.
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
        let manifest = or_cancelled(cancel, self.read_manifest(&name)).await?;
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
            // No system call failed, so the archive itself is unreadable.
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

    /// Deletes a generation, if it is there. The manifest goes first, so that a partly deleted one never seems complete.
    pub async fn delete(&self, id: &SandboxId, generation: u64) -> Result<(), Error> {
        let name = Name { id: id.clone(), generation };
        for suffix in [MANIFEST, DATA] {
            let path = self.path(&name, suffix);
            match self.store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(request_failed("delete", &path)(e)),
            }
        }
        Ok(())
    }

    /// All generations, complete or not, ordered by sandbox and generation.
    pub async fn list(&self) -> Result<Vec<StoredArchive>, Error> {
        let mut found: BTreeMap<(SandboxId, u64), StoredArchive> = BTreeMap::new();
        let mut objects = self.store.list(Some(&self.prefix));
        let mut seen = 0;
        while let Some(object) = objects.try_next().await.map_err(request_failed("list", &self.prefix))? {
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
            let kept = found.entry((name.id.clone(), name.generation)).or_insert(StoredArchive {
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

/// The store's own `Debug` output would contain the secret key.
impl fmt::Debug for ColdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColdStore").field("location", &self.location).finish_non_exhaustive()
    }
}

/// Waits for the work, or fails when it is cancelled.
async fn or_cancelled<T>(cancel: &CancellationToken, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
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

/// A failed read.
fn read_failed(action: &'static str, path: &Path) -> impl FnOnce(object_store::Error) -> Error {
    move |e| match e {
        object_store::Error::NotFound { .. } => Error::ColdMissing { name: path.to_string() },
        other => request_failed(action, path)(other),
    }
}

/// Any other failed request: here "not found" refers to the bucket.
fn request_failed(action: &'static str, path: &Path) -> impl FnOnce(object_store::Error) -> Error {
    move |e| Error::Cold { action, name: path.to_string(), source: Box::new(e) }
}
