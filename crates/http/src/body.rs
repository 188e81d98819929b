//! Request and response bodies with progress tracking and size limits.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::{Error, Kind};

/// When a request last made progress.
#[derive(Debug, Clone)]
pub(crate) struct Progress(Arc<Mutex<Instant>>);

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Progress {
    pub(crate) fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until there has been no progress for `limit`.
    pub(crate) async fn none_for(&self, limit: Duration) {
        loop {
            let end = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + limit;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

/// A request body that records progress each time the connection reads from it.
#[derive(Debug)]
pub(crate) struct RequestBody<B> {
    body: B,
    progress: Progress,
}

impl<B> RequestBody<B> {
    pub(crate) fn new(body: B, progress: Progress) -> Self {
        Self { body, progress }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.progress.touch();
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response. Dropping it ends the exchange.
#[derive(Debug)]
pub struct ResponseBody {
    body: Incoming,
    host: Arc<str>,
    stall: Option<Duration>,
    /// Set while waiting for data.
    timer: Option<Pin<Box<Sleep>>>,
    /// Remaining bytes of the limit.
    left: u64,
    limit: u64,
}

impl ResponseBody {
    pub(crate) fn new(body: Incoming, host: Arc<str>, stall: Option<Duration>, limit: Option<u64>) -> Self {
        let limit = limit.unwrap_or(u64::MAX);
        Self { body, host, stall, timer: None, left: limit, limit }
    }

    /// The sending host, with its port unless it is the scheme's default.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The next chunk.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        while let Some(frame) = self.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    fn error(&self, kind: Kind) -> Error {
        Error { host: self.host.to_string(), kind }
    }
}

/// The whole body of a response, up to `limit`.
pub async fn read(response: Response<ResponseBody>, limit: u64) -> Result<Bytes, Error> {
    let mut body = response.into_body();
    (body.left, body.limit) = (body.left.min(limit), body.limit.min(limit));
    Ok(body.collect().await?.to_bytes())
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let Some(stall) = self.stall else { return Poll::Pending };
            ready!(self.timer.get_or_insert_with(|| Box::pin(sleep(stall))).as_mut().poll(cx));
            return Poll::Ready(Some(Err(self.error(Kind::Stalled))));
        };
        self.timer = None;
        let Some(frame) = frame else { return Poll::Ready(None) };
        let frame = frame.map_err(|error| self.error(Kind::Body(error)));
        if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
            match self.left.checked_sub(data.len() as u64) {
                Some(left) => self.left = left,
                None => return Poll::Ready(Some(Err(self.error(Kind::TooLarge(self.limit))))),
            }
        }
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // A content length beyond the limit is hidden: readers allocate memory for it.
        let hint = self.body.size_hint();
        if hint.lower() > self.left { SizeHint::new() } else { hint }
    }
}
