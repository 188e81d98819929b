//! Uploads an archive in parts while it is packed. An unfinished upload is aborted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cabana_fs::space::{Reservation, Space};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::request_failed;
use crate::Error;

/// All parts except the last have this size, as some stores require.
const PART: usize = 16 << 20;
/// The limit of S3.
const MOST_PARTS: u64 = 10_000;
/// Parts uploaded at a time, besides the one that is being filled.
const IN_FLIGHT: usize = 2;
/// How long cleaning up after a failure may take.
pub(super) const CLEANUP: Duration = Duration::from_secs(30);

pub(super) struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    parts: Option<Box<dyn MultipartUpload>>,
    in_flight: JoinSet<object_store::Result<()>>,
    /// The part that is being filled; everything, if it is small.
    rest: Vec<Bytes>,
    /// Where it has to fit: nobody knows its size before it is packed.
    space: Reservation,
}

impl Upload {
    pub(super) fn new(store: Arc<dyn ObjectStore>, path: Path, space: &Space) -> Result<Self, Error> {
        let space = space.reserve(0).map_err(no_space)?;
        Ok(Self { store, path, parts: None, in_flight: JoinSet::new(), rest: Vec::new(), space })
    }

    /// Sends chunks until there are no more.
    pub(super) async fn send(&mut self, mut chunks: mpsc::Receiver<Bytes>) -> Result<(), Error> {
        let (mut size, mut number) = (0, 0);
        while let Some(mut chunk) = chunks.recv().await {
            self.space.spend(chunk.len() as u64).map_err(no_space)?;
            while size + chunk.len() >= PART {
                self.rest.push(chunk.split_to(PART - size));
                size = 0;
                number += 1;
                if number > MOST_PARTS {
                    return Err(Error::Archive {
                        path: self.path.to_string(),
                        problem: format!("it is larger than {} GiB", (PART as u64 * MOST_PARTS) >> 30),
                    });
                }
                self.send_part().await?;
            }
            size += chunk.len();
            if !chunk.is_empty() {
                self.rest.push(chunk);
            }
        }
        Ok(())
    }

    async fn send_part(&mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            let begun = self.store.put_multipart(&self.path).await;
            self.parts = Some(begun.map_err(request_failed("begin to write", &self.path))?);
        }
        while self.in_flight.len() >= IN_FLIGHT {
            self.wait_for_one().await?;
        }
        let payload = PutPayload::from_iter(std::mem::take(&mut self.rest));
        if let Some(parts) = &mut self.parts {
            self.in_flight.spawn(parts.put_part(payload));
        }
        Ok(())
    }

    async fn wait_for_one(&mut self) -> Result<(), Error> {
        match self.in_flight.join_next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(e))) => Err(request_failed("write", &self.path)(e)),
            Some(Err(e)) => Err(Error::Io { action: "send a part of an archive", source: e.into() }),
        }
    }

    /// Completes the object.
    pub(super) async fn complete(&mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            let payload = PutPayload::from_iter(std::mem::take(&mut self.rest));
            self.store.put(&self.path, payload).await.map_err(request_failed("write", &self.path))?;
            return Ok(());
        }
        if !self.rest.is_empty() {
            self.send_part().await?;
        }
        while !self.in_flight.is_empty() {
            self.wait_for_one().await?;
        }
        if let Some(parts) = &mut self.parts {
            match parts.complete().await {
                // If the response to an earlier attempt was lost, the upload is gone and the object may exist: it is read back anyway.
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(request_failed("finish", &self.path)(e)),
            }
        }
        self.parts = None;
        Ok(())
    }

    /// Aborts the upload, if one was begun, in its own task: it continues without a waiter.
    pub(super) fn abort(&mut self) -> Option<JoinHandle<()>> {
        let mut parts = self.parts.take()?;
        let mut in_flight = std::mem::take(&mut self.in_flight);
        let path = self.path.clone();
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            in_flight.shutdown().await;
            match tokio::time::timeout(CLEANUP, parts.abort()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, %path, "could not abort an unfinished upload"),
                Err(_) => tracing::warn!(%path, "could not abort an unfinished upload in time"),
            }
        }))
    }
}

fn no_space(source: std::io::Error) -> Error {
    Error::Io { action: "store an archive", source }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.abort();
    }
}
