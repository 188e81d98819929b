//! Downloads one blob into the store: resumed where it broke off, retried, verified, and never larger than the manifest says.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use rand::Rng;

use super::session::Session;
use super::{Event, Progress, PullLimits};
use crate::blobs::{Blobs, Partial};
use crate::error::{Error, Result};
use crate::manifest::Descriptor;

/// Bytes that are buffered before they are written.
const CHUNK: usize = 1 << 20;

pub(super) struct Download<'a> {
    pub(super) blobs: &'a Blobs,
    pub(super) descriptor: &'a Descriptor,
    pub(super) limits: &'a PullLimits,
    pub(super) progress: &'a Progress,
}

/// Waits before the next attempt: exponential backoff with jitter.
pub(super) async fn backoff(first: Duration, attempt: u32) {
    let most = first.saturating_mul(1 << attempt.min(6)).min(Duration::from_secs(20));
    let share = rand::rng().random_range(0.5..1.0);
    tokio::time::sleep(most.mul_f64(share)).await;
}

impl Download<'_> {
    /// Downloads it from one registry.
    pub(super) async fn from(&self, session: &Session<'_>) -> Result<()> {
        let mut partial = self.begin().await?;
        let mut attempt = 0;
        loop {
            let (result, back) = self.attempt(session, partial).await;
            let error = match (result, back) {
                (Ok(()), Some(done)) => match self.commit(done).await {
                    // Wrong bytes are not resumed: start again.
                    Err(Error::Corrupt { expected, found, .. }) => {
                        partial = self.begin().await?;
                        Error::Corrupt { what: format!("a layer from {}", session.host), expected, found }
                    }
                    other => return other,
                },
                (Err(error), Some(part)) if error.is_transient() => {
                    partial = part;
                    error
                }
                (Err(error), _) => return Err(error),
                (Ok(()), None) => return Err(session.distrusted("the download was lost")),
            };
            attempt += 1;
            if attempt >= self.limits.attempts || (attempt >= 2 && matches!(error, Error::Corrupt { .. })) {
                return Err(error);
            }
            self.progress.report(&Event::Retry { what: self.descriptor.digest.to_string(), reason: error.to_string() });
            backoff(self.limits.backoff, attempt).await;
        }
    }

    /// One request. Returns the partial blob, unless its file fails.
    async fn attempt(&self, session: &Session<'_>, mut partial: Partial) -> (Result<()>, Option<Partial>) {
        let digest = self.descriptor.digest;
        let mut headers = HeaderMap::new();
        let begun = partial.length();
        if begun > 0
            && let Ok(range) = HeaderValue::from_str(&format!("bytes={begun}-"))
        {
            headers.insert(header::RANGE, range);
        }
        let response = match session.get(&format!("blobs/{digest}"), headers, &format!("blob {digest}")).await {
            Ok(response) => response,
            Err(Error::Status { status: 416, .. }) => {
                let error = Error::Unreachable { host: session.host.clone(), reason: "it cannot resume".to_owned() };
                return match partial.restart() {
                    Ok(()) => (Err(error), Some(partial)),
                    Err(error) => (Err(error), None),
                };
            }
            Err(error) => return (Err(error), Some(partial)),
        };
        let resumed = response.status() == StatusCode::PARTIAL_CONTENT
            && response
                .headers()
                .get(header::CONTENT_RANGE)
                .and_then(|value| value.to_str().ok())
                .is_some_and(|range| range.starts_with(&format!("bytes {begun}-")));
        if begun > 0
            && !resumed
            && let Err(error) = partial.restart()
        {
            return (Err(error), None);
        }
        if response.status() == StatusCode::PARTIAL_CONTENT && !resumed {
            return (Err(session.distrusted("it sends another part of a blob than it was asked for")), Some(partial));
        }
        let mut body = response.into_body();
        let mut gathered: Vec<u8> = Vec::new();
        loop {
            let piece = body.piece().await.map_err(Error::from);
            let ended = !matches!(piece, Ok(Some(_)));
            if let Ok(Some(piece)) = &piece {
                gathered.extend_from_slice(piece);
            }
            if partial.length() + gathered.len() as u64 > self.descriptor.size {
                return (Err(session.distrusted("it sends more than the manifest promises")), Some(partial));
            }
            if gathered.len() >= CHUNK || ended {
                partial = match write(partial, std::mem::take(&mut gathered)).await {
                    Ok(partial) => partial,
                    Err(error) => return (Err(error), None),
                };
                let (done, total) = (partial.length(), self.descriptor.size);
                self.progress.report(&Event::Blob { digest, done, total });
            }
            match piece {
                Err(error) => return (Err(error), Some(partial)),
                Ok(None) if partial.length() < self.descriptor.size => {
                    let reason = "it stopped in the middle of a blob".to_owned();
                    return (Err(Error::Unreachable { host: session.host.clone(), reason }), Some(partial));
                }
                Ok(None) => return (Ok(()), Some(partial)),
                Ok(Some(_)) => {}
            }
        }
    }

    async fn begin(&self) -> Result<Partial> {
        let (blobs, size) = (self.blobs.clone(), self.descriptor.size);
        blocking(move || blobs.begin_announced(size)).await
    }

    async fn commit(&self, partial: Partial) -> Result<()> {
        let digest = self.descriptor.digest;
        blocking(move || partial.commit(&format!("blob {digest}"), Some(digest)).map(|_| ())).await
    }
}

async fn write(mut partial: Partial, bytes: Vec<u8>) -> Result<Partial> {
    blocking(move || partial.write(&bytes).map(|()| partial)).await
}

/// Runs blocking file work off the async threads.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::Io { action: "work on files", source: std::io::Error::other(error) }),
    }
}
