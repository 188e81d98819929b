//! Sends one request to a port of a sandbox and its response back, both as streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use cabana_body_drain::TrackedBody;
use cabana_http1::Sender;
use cabana_types::routing::GUEST_PORT;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::UPGRADE;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::upgrade::OnUpgrade;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::cuts::Cuts;
use crate::dial::dial;
use crate::early_reply::{CutWhenGone, PeerStoppedReading};
use crate::edge::ResumeError;
use crate::headers;
use crate::hold::Hold;
use crate::patience::Patience;
use crate::response::ProxyError;
use crate::tunnel;
use crate::upstream::Upstream;

/// How long a server in a sandbox may take to respond. The guest has no limit.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// An upgrade that the client requests.
pub(crate) struct Upgrade {
    pub(crate) protocol: HeaderValue,
    /// Resolves to the client's byte stream.
    pub(crate) client: OnUpgrade,
}

/// What a request carries on its way.
pub(crate) struct Passage {
    pub(crate) upgrade: Option<Upgrade>,
    pub(crate) connection: Option<Arc<Connection>>,
    pub(crate) hold: Hold,
    pub(crate) patience: Patience,
    /// The response is cut when one of these is cancelled.
    pub(crate) until: Vec<CancellationToken>,
}

/// Forwards a request whose headers are already prepared for the sandbox.
pub(crate) async fn forward(
    upstream: Arc<Upstream>,
    port: u16,
    mut request: Request<TrackedBody>,
    passage: Passage,
) -> Result<Response<Body>, ProxyError> {
    let Passage { upgrade, connection, hold, patience, until } = passage;
    if let Some(upgrade) = &upgrade {
        headers::set_upgrade(request.headers_mut(), upgrade.protocol.clone());
    }
    let (mut response, sender) = if port == GUEST_PORT {
        send(&upstream, port, request, patience).await?
    } else {
        timeout(RESPONSE_TIMEOUT, send(&upstream, port, request, patience)).await.map_err(|_| ProxyError::Timeout)??
    };

    let closes = response.version() < Version::HTTP_11 || headers::names_close(response.headers());
    *response.version_mut() = Version::HTTP_11;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // A server must not switch protocols unless the client requested it.
        let upgrade = upgrade.ok_or(ProxyError::NoResponse)?;
        let cuts = Cuts::new(upstream.route.gone.clone(), until);
        return Ok(switch_protocols(cuts, response, upgrade, connection, hold));
    }
    if closes {
        response.extensions_mut().insert(PeerStoppedReading);
    }
    headers::strip_hop_by_hop(response.headers_mut());
    let cuts = Cuts::new(upstream.route.gone.clone(), until.clone());
    let revoked = (!until.is_empty()).then(|| async move { crate::cuts::any(&until).await }.boxed());
    let mut lease = Some(Lease { upstream, port, sender });
    let (mut parts, body) = response.into_parts();
    if body.is_end_stream() {
        give_back(&mut lease);
        return Ok(Response::from_parts(parts, Body::empty()));
    }
    parts.extensions.insert(CutWhenGone(cuts));
    Ok(Response::from_parts(parts, Body::new(ResponseBody { body, lease, revoked, _hold: hold })))
}

/// Sends the request over an idle connection, or a new one. It is retried only if hyper guarantees that nothing of it was sent.
async fn send(
    upstream: &Upstream,
    port: u16,
    mut request: Request<TrackedBody>,
    mut patience: Patience,
) -> Result<(Response<Incoming>, Sender<TrackedBody>), ProxyError> {
    loop {
        let (mut sender, used) = match upstream.take(port) {
            Some(sender) => (sender, true),
            None => match dial(upstream, port).await {
                Ok(sender) => (sender, false),
                Err(ProxyError::PortClosed) if port != GUEST_PORT && patience.wait(upstream, port).await => continue,
                Err(error) => return Err(error),
            },
        };
        let failure = match sender.send(request).await {
            Ok(response) => return Ok((response, sender)),
            Err(failure) => failure,
        };
        if upstream.route.gone.is_cancelled() {
            return Err(ProxyError::NotRunning(ResumeError::NotFound(None)));
        }
        match (failure.unsent, failure.head) {
            (Some(unsent), _) if used => request = unsent,
            (_, Some(error)) => {
                tracing::debug!(sandbox = %upstream.route.id, port, %error, "unusable response from a sandbox");
                return Err(ProxyError::BadHead(error));
            }
            (_, None) => {
                let error = failure.error;
                tracing::debug!(sandbox = %upstream.route.id, port, %error, "no response from a sandbox");
                return Err(if error.is_user() { ProxyError::BrokenBody } else { ProxyError::NoResponse });
            }
        }
    }
}

fn switch_protocols(
    cuts: Cuts,
    mut response: Response<Incoming>,
    upgrade: Upgrade,
    connection: Option<Arc<Connection>>,
    hold: Hold,
) -> Response<Body> {
    let accepted = response.headers().get(UPGRADE).cloned().unwrap_or(upgrade.protocol);
    let sandbox = hyper::upgrade::on(&mut response);
    let tunnel = tunnel::copy(upgrade.client, sandbox, cuts, connection);
    // Ends with the sandbox, with the listener, or with the right to see it.
    tokio::spawn(async move {
        tunnel.await;
        drop(hold);
    });
    headers::strip_hop_by_hop(response.headers_mut());
    headers::set_upgrade(response.headers_mut(), accepted);
    response.map(|_| Body::empty())
}

/// A connection that becomes idle after its response.
struct Lease {
    upstream: Arc<Upstream>,
    port: u16,
    sender: Sender<TrackedBody>,
}

fn give_back(lease: &mut Option<Lease>) {
    if let Some(Lease { upstream, port, sender }) = lease.take() {
        upstream.put(port, sender);
    }
}

/// The body of a response on its way to the client. The connection to the sandbox is reused only if the body was read to its end.
struct ResponseBody {
    body: Incoming,
    lease: Option<Lease>,
    /// Resolves when the client may no longer see it. The connection is cut as well, but only with HTTP/1.
    revoked: Option<BoxFuture<'static, ()>>,
    /// The sandbox is not paused in the middle of a response.
    _hold: Hold,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.revoked.as_mut().is_some_and(|revoked| revoked.poll_unpin(cx).is_ready()) {
            (this.revoked, this.lease) = (None, None);
            return Poll::Ready(Some(Err(axum::Error::new(Revoked))));
        }
        match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if this.body.is_end_stream() {
                    give_back(&mut this.lease);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(axum::Error::new(error)))),
            None => {
                // The end of the sandbox must not look like the end of the stream.
                if this.lease.as_ref().is_some_and(|lease| lease.upstream.route.gone.is_cancelled()) {
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

/// The client may no longer see the response.
#[derive(Debug, thiserror::Error)]
#[error("access has ended")]
struct Revoked;

/// The sandbox ended in the middle of a response.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox ended")]
struct Gone;
