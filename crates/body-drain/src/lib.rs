//! Drains request bodies that the handler did not read to the end.
//!
//! hyper's HTTP/1 server polls a dropped request body once and, if bytes are still outstanding, closes the connection after the response
//! without announcing it. A client with a connection pool then sends its next request into a closed connection. This crate wraps the body,
//! takes it back when the handler drops it early, and reads the rest before the response is sent: at most 256 KiB, for at most
//! one second. If more is outstanding, the response says `connection: close`.

#![forbid(unsafe_code)]

mod reply_stream;
#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::timeout;

pub use reply_stream::ReplyStream;

/// How many bytes of an unread body are drained. Reading them costs less than a new connection.
const MAX_DRAIN_BYTES: u64 = 256 * 1024;
/// How long draining may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A request body that is handed to its [`Drain`] when it is dropped before its end.
#[derive(Debug)]
pub struct TrackedBody {
    body: Option<Incoming>,
    shared: Arc<Shared>,
}

/// Drains the body of one request; see [`track`].
#[derive(Debug)]
#[must_use = "the response must go through `finish`"]
pub struct Drain {
    shared: Arc<Shared>,
    version: Version,
    /// The client sent `expect` and sends the body only after `100 Continue`.
    expects_continue: bool,
}

#[derive(Debug)]
struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Lower bound of the bytes that are outstanding.
    outstanding: u64,
    /// The body has been polled, so the client has been sent `100 Continue` if it asked for it.
    polled: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The handler has it.
    Held,
    /// The handler dropped it before its end.
    Dropped(Incoming),
    /// The response has been sent while the handler still reads; `drain`: read the rest if the handler drops it.
    Responded { drain: bool },
    /// Read to its end, or failed.
    Ended,
}

/// Wraps the body of a request. The response must go through [`Drain::finish`].
pub fn track(request: Request<Incoming>) -> (Request<TrackedBody>, Drain) {
    let body = request.body();
    let phase = if body.is_end_stream() { Phase::Ended } else { Phase::Held };
    let state = State { outstanding: body.size_hint().lower(), polled: false, phase };
    let shared = Arc::new(Shared(Mutex::new(state)));
    let drain = Drain {
        shared: Arc::clone(&shared),
        version: request.version(),
        expects_continue: request.headers().contains_key(EXPECT),
    };
    (request.map(|body| TrackedBody { body: Some(body), shared }), drain)
}

impl Drain {
    /// Reads the rest of a dropped body and returns the response, with `connection: close` if the connection cannot be reused.
    /// `abandoned`: somebody still holds the body but will read no more of it.
    pub async fn finish<B>(self, mut response: Response<B>, abandoned: bool) -> Response<B> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        if !self.is_reusable(abandoned).await && self.version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn is_reusable(&self, abandoned: bool) -> bool {
        let dropped = {
            let mut state = self.shared.lock();
            let drain = !abandoned && state.outstanding <= MAX_DRAIN_BYTES;
            match std::mem::replace(&mut state.phase, Phase::Ended) {
                Phase::Held => {
                    state.phase = Phase::Responded { drain };
                    return drain;
                }
                // Reading would make hyper send `100 Continue`, and the client a body that nobody wants.
                Phase::Dropped(_) if self.expects_continue && !state.polled => return false,
                Phase::Dropped(body) => body,
                Phase::Responded { .. } | Phase::Ended => return true,
            }
        };
        read_to_end(dropped).await
    }
}

/// Reads the rest of a body within the limits; `false` if it did not end.
async fn read_to_end(mut body: Incoming) -> bool {
    if body.size_hint().lower() > MAX_DRAIN_BYTES {
        return false;
    }
    let rest = async {
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            read += frame.data_ref().map_or(0, |data| data.len() as u64);
            if read > MAX_DRAIN_BYTES {
                return false;
            }
        }
        true
    };
    timeout(DRAIN_TIMEOUT, rest).await.unwrap_or(false)
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        let mut state = this.shared.lock();
        state.polled = true;
        let frame = ready!(polled);
        state.outstanding = body.size_hint().lower();
        if !matches!(frame, Some(Ok(_))) || body.is_end_stream() {
            state.phase = Phase::Ended;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        let mut state = self.shared.lock();
        match state.phase {
            Phase::Held => state.phase = Phase::Dropped(body),
            Phase::Responded { drain: true } => {
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(read_to_end(body));
                }
            }
            Phase::Responded { drain: false } | Phase::Dropped(_) | Phase::Ended => {}
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
