//! Carries one request to a port of a sandbox and its answer back, both as streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use cabana_body_drain::TrackedBody;
use cabana_types::routing::GUEST_PORT;
use http::header::UPGRADE;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use hyper::upgrade::OnUpgrade;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::answer::Refusal;
use super::dial::dial;
use super::headers;
use super::link::Link;
use super::reach::Reach;
use super::tunnel;
use crate::directory::Busy;

/// How long a server of a user may think before it answers. The guest may think forever.
const ANSWER: Duration = Duration::from_secs(60 * 60);

/// On a response: its connection must be torn down when this fires before the body was sent.
#[derive(Clone)]
pub(super) struct Tethered(pub(super) CancellationToken);

/// On a response: whoever gave it reads no more of the request.
#[derive(Clone, Copy)]
pub(super) struct Deaf;

/// Another protocol that the client asks for, and its end of the connection once it is accepted.
pub(super) struct Wish {
    /// The protocol's name.
    pub(super) protocol: HeaderValue,
    /// Resolves to the client's byte stream.
    pub(super) client: OnUpgrade,
}

/// Carries a request whose headers are already fit for the sandbox.
pub(super) async fn forward(
    reach: Arc<Reach>,
    port: u16,
    mut request: Request<TrackedBody>,
    wish: Option<Wish>,
    link: Option<Arc<Link>>,
    busy: Busy,
) -> Result<Response<Body>, Refusal> {
    if let Some(wish) = &wish {
        headers::ask_upgrade(request.headers_mut(), wish.protocol.clone());
    }
    let (mut response, sender) = if port == GUEST_PORT {
        send(&reach, port, request).await?
    } else {
        timeout(ANSWER, send(&reach, port, request)).await.map_err(|_| Refusal::TooSlow)??
    };

    let closes = response.version() < Version::HTTP_11 || headers::names_close(response.headers());
    *response.version_mut() = Version::HTTP_11;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // Nobody may change the protocol without being asked.
        let wish = wish.ok_or(Refusal::NoAnswer)?;
        return Ok(switch(&reach, response, wish, link, busy));
    }
    if closes {
        response.extensions_mut().insert(Deaf);
    }
    headers::strip_hop_by_hop(response.headers_mut());
    let gone = reach.route.gone.clone();
    let mut lease = Some(Lease { reach, port, sender });
    let (mut parts, body) = response.into_parts();
    if body.is_end_stream() {
        give_back(&mut lease);
        return Ok(Response::from_parts(parts, Body::empty()));
    }
    parts.extensions.insert(Tethered(gone));
    Ok(Response::from_parts(parts, Body::new(Carried { body, lease, _busy: busy })))
}

/// Sends the request over an idle connection, or a new one. It is sent again only if hyper vouches that nothing of it was.
async fn send(
    reach: &Reach,
    port: u16,
    mut request: Request<TrackedBody>,
) -> Result<(Response<Incoming>, SendRequest<TrackedBody>), Refusal> {
    loop {
        let (mut sender, used) = match reach.take(port) {
            Some(sender) => (sender, true),
            None => (dial(reach, port).await?, false),
        };
        let mut failure = match sender.try_send_request(request).await {
            Ok(response) => return Ok((response, sender)),
            Err(failure) => failure,
        };
        if reach.route.gone.is_cancelled() {
            return Err(Refusal::NotFound(None));
        }
        match failure.take_message() {
            Some(unsent) if used => request = unsent,
            _ => {
                let error = failure.error();
                tracing::debug!(sandbox = %reach.route.id, port, %error, "no answer from a sandbox");
                return Err(if error.is_user() { Refusal::BrokenBody } else { Refusal::NoAnswer });
            }
        }
    }
}

fn switch(
    reach: &Reach,
    mut response: Response<Incoming>,
    wish: Wish,
    link: Option<Arc<Link>>,
    busy: Busy,
) -> Response<Body> {
    let accepted = response.headers().get(UPGRADE).cloned().unwrap_or(wish.protocol);
    let sandbox = hyper::upgrade::on(&mut response);
    let carried = tunnel::carry(wish.client, sandbox, reach.route.gone.clone(), link);
    tokio::spawn(async move {
        carried.await;
        drop(busy);
    });
    headers::strip_hop_by_hop(response.headers_mut());
    headers::ask_upgrade(response.headers_mut(), accepted);
    response.map(|_| Body::empty())
}

/// A connection that goes back to the idle ones after its answer.
struct Lease {
    reach: Arc<Reach>,
    port: u16,
    sender: SendRequest<TrackedBody>,
}

fn give_back(lease: &mut Option<Lease>) {
    if let Some(Lease { reach, port, sender }) = lease.take() {
        reach.put(port, sender);
    }
}

/// The body of an answer on its way to the client. Its connection is kept only if it was read to its end.
struct Carried {
    body: Incoming,
    lease: Option<Lease>,
    /// The sandbox does not sleep in the middle of an answer.
    _busy: Busy,
}

impl HttpBody for Carried {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if this.body.is_end_stream() {
                    give_back(&mut this.lease);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(axum::Error::new(error)))),
            None => {
                // The end of a sandbox must never look like the end of a stream.
                if this.lease.as_ref().is_some_and(|lease| lease.reach.route.gone.is_cancelled()) {
                    this.lease = None;
                    return Poll::Ready(Some(Err(axum::Error::new(Gone))));
                }
                give_back(&mut this.lease);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The sandbox ended in the middle of an answer.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox ended")]
struct Gone;
