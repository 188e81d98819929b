//! Sending an archive to the store in parts as it is packed. An upload that does not come to its end is taken back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::unwritten;
use crate::Error;

/// All parts but the last are of this size, as some stores ask.
const PART: usize = 16 << 20;
/// S3 takes no more.
const MOST_PARTS: u64 = 10_000;
/// Parts under way at a time, beside the one that is being filled.
const UNDER_WAY: usize = 2;
/// How long cleaning up after a failure may take.
pub(super) const CLEANUP: Duration = Duration::from_secs(30);

pub(super) struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    parts: Option<Box<dyn MultipartUpload>>,
    under_way: JoinSet<object_store::Result<()>>,
    /// What is left at the end; all, if it is little.
    rest: Vec<Bytes>,
}

impl Upload {
    pub(super) fn new(store: Arc<dyn ObjectStore>, path: Path) -> Self {
        Self { store, path, parts: None, under_way: JoinSet::new(), rest: Vec::new() }
    }

    /// Takes chunks until there are no more.
    pub(super) async fn send(&mut self, mut chunks: mpsc::Receiver<Bytes>) -> Result<(), Error> {
        let (mut size, mut number) = (0, 0);
        while let Some(mut chunk) = chunks.recv().await {
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
            self.parts = Some(begun.map_err(unwritten("begin to write", &self.path))?);
        }
        while self.under_way.len() >= UNDER_WAY {
            self.wait_for_one().await?;
        }
        let payload = PutPayload::from_iter(std::mem::take(&mut self.rest));
        if let Some(parts) = &mut self.parts {
            self.under_way.spawn(parts.put_part(payload));
        }
        Ok(())
    }

    async fn wait_for_one(&mut self) -> Result<(), Error> {
        match self.under_way.join_next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(e))) => Err(unwritten("write", &self.path)(e)),
            Some(Err(e)) => Err(Error::Io { action: "send a part of an archive", source: e.into() }),
        }
    }

    /// Makes an object of what was sent.
    pub(super) async fn complete(&mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            let payload = PutPayload::from_iter(std::mem::take(&mut self.rest));
            self.store.put(&self.path, payload).await.map_err(unwritten("write", &self.path))?;
            return Ok(());
        }
        if !self.rest.is_empty() {
            self.send_part().await?;
        }
        while !self.under_way.is_empty() {
            self.wait_for_one().await?;
        }
        if let Some(parts) = &mut self.parts {
            match parts.complete().await {
                // If the answer to an earlier try was lost, the upload is no more, and the object may be there: it is read back anyway.
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(unwritten("finish", &self.path)(e)),
            }
        }
        self.parts = None;
        Ok(())
    }

    /// Takes back what was sent, if anything was, in a task of its own: it goes on also when nobody waits for it.
    pub(super) fn take_back(&mut self) -> Option<JoinHandle<()>> {
        let mut parts = self.parts.take()?;
        let mut under_way = std::mem::take(&mut self.under_way);
        let path = self.path.clone();
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            under_way.shutdown().await;
            match tokio::time::timeout(CLEANUP, parts.abort()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, %path, "an unfinished upload could not be taken back"),
                Err(_) => tracing::warn!(%path, "an unfinished upload could not be taken back in time"),
            }
        }))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.take_back();
    }
}
