//! Request bodies, watched. Where an answer comes before its request's body was read, hyper closes the connection without a word, and a
//! client that keeps its connections loses the next request. So what is left of a body is read within bounds before the answer goes
//! out; where more is to come, the answer says `connection: close`.

#![forbid(unsafe_code)]

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

/// How much of an unwanted body is read. Less than a second request costs.
const MAX_LEFT: u64 = 256 * 1024;
/// For how long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The body of a request. Dropped before its end, it goes back to the [`Watch`].
#[derive(Debug)]
pub struct Intake {
    body: Option<Incoming>,
    shared: Arc<Shared>,
}

/// What is known about the body of a request while it is answered.
#[derive(Debug)]
#[must_use = "the answer must be settled"]
pub struct Watch {
    shared: Arc<Shared>,
    version: Version,
    /// The client waits for a word before it sends the body.
    waits: bool,
}

#[derive(Debug)]
struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Bytes that are still to come at least.
    to_come: u64,
    /// Somebody asked for the body.
    asked: bool,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Somebody has it.
    Held,
    /// Nobody wanted it to its end.
    Left(Incoming),
    /// The answer is on its way; what is left later may be read to keep the connection, or not.
    Answered { keep: bool },
    /// Nothing more will come.
    Ended,
}

/// Watches the body of a request until [`Watch::settle`].
pub fn watch(request: Request<Incoming>) -> (Request<Intake>, Watch) {
    let body = request.body();
    let phase = if body.is_end_stream() { Phase::Ended } else { Phase::Held };
    let state = State { to_come: body.size_hint().lower(), asked: false, phase };
    let shared = Arc::new(Shared(Mutex::new(state)));
    let watch = Watch {
        shared: Arc::clone(&shared),
        version: request.version(),
        waits: request.headers().contains_key(EXPECT),
    };
    (request.map(|body| Intake { body: Some(body), shared }), watch)
}

impl Watch {
    /// To be called with the answer, when whoever made it has dropped the body or still reads it. Reads what is left, and says in the
    /// answer where the connection cannot be used again. `deaf` says that whoever reads the body will read no more of it.
    pub async fn settle<B>(self, mut response: Response<B>, deaf: bool) -> Response<B> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response;
        }
        if !self.is_reusable(deaf).await && self.version < Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn is_reusable(&self, deaf: bool) -> bool {
        let left = {
            let mut state = self.shared.lock();
            let keep = !deaf && state.to_come <= MAX_LEFT;
            match std::mem::replace(&mut state.phase, Phase::Ended) {
                Phase::Held => {
                    state.phase = Phase::Answered { keep };
                    return keep;
                }
                // Reading would tell the client to send what nobody wants.
                Phase::Left(_) if self.waits && !state.asked => return false,
                Phase::Left(body) => body,
                Phase::Answered { .. } | Phase::Ended => return true,
            }
        };
        read_rest(left).await
    }
}

/// Reads what is left of a body; whether that was all.
async fn read_rest(mut body: Incoming) -> bool {
    if body.size_hint().lower() > MAX_LEFT {
        return false;
    }
    let rest = async {
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            read += frame.data_ref().map_or(0, |data| data.len() as u64);
            if read > MAX_LEFT {
                return false;
            }
        }
        true
    };
    timeout(PATIENCE, rest).await.unwrap_or(false)
}

impl Body for Intake {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        let mut state = this.shared.lock();
        state.asked = true;
        let frame = ready!(polled);
        state.to_come = body.size_hint().lower();
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

impl Drop for Intake {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        let mut state = self.shared.lock();
        match state.phase {
            Phase::Held => state.phase = Phase::Left(body),
            Phase::Answered { keep: true } => {
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(read_rest(body));
                }
            }
            Phase::Answered { keep: false } | Phase::Left(_) | Phase::Ended => {}
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
