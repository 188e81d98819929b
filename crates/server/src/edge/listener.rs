//! The one listener: takes connections in, guards them, and gives each request to the edge or to the API.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::forward::{Deaf, Tethered};
use super::guard::{Guard, Patience, Protocol, STAND_IN_PATH};
use super::link::{Link, Peer};
use super::{Edge, answer, headers};
use crate::tls::Tls;

/// What one listener bears.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections open at once; more wait in the kernel's queue.
    pub connections: usize,
    /// Time for a request head, from its first byte.
    pub head: Duration,
    /// Time between requests on one connection. E2B's clients keep connections for 300 seconds and expect them to live.
    pub idle: Duration,
    /// Time for answers under way to end when the listener closes.
    pub grace: Duration,
    /// Time to agree on encryption.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16 * 1024,
            head: Duration::from_secs(15),
            idle: Duration::from_secs(330),
            grace: Duration::from_secs(2),
            handshake: Duration::from_secs(10),
        }
    }
}

/// After running out of descriptors or memory the kernel gives no sign when there are some again.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// A dead client is noticed after about three minutes, however silent its stream.
const KEEPALIVE: Duration = Duration::from_secs(90);
const KEEPALIVE_PROBE: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 6;
/// Buffers of one connection; a request head fits in.
const MAX_BUFFER: usize = 128 * 1024;
const H2_STREAMS: u32 = 200;
const H2_HEADERS: u32 = 64 * 1024;
const H2_PING: Duration = Duration::from_secs(30);
/// How busy the listener may be before idle connections have to go early.
const CROWDED: usize = 4;
const CROWDED_IDLE: Duration = Duration::from_secs(5);

/// Serves until `shutdown`, with the default limits.
pub async fn serve(listener: TcpListener, edge: Arc<Edge>, api: Router, shutdown: CancellationToken) -> io::Result<()> {
    serve_with(listener, edge, api, Limits::default(), shutdown, false, |stream| async move { Ok(stream) }).await
}

/// Serves until `shutdown` with TLS, with the default limits.
pub async fn serve_tls(
    listener: TcpListener,
    edge: Arc<Edge>,
    api: Router,
    tls: &Tls,
    shutdown: CancellationToken,
) -> io::Result<()> {
    serve_with(listener, edge, api, Limits::default(), shutdown, true, |stream| tls.accept(stream)).await
}

/// Serves until `shutdown`, over streams that `wrap` makes of the accepted ones: with TLS, `secure` is true.
pub async fn serve_with<S, W, F>(
    listener: TcpListener,
    edge: Arc<Edge>,
    api: Router,
    limits: Limits,
    shutdown: CancellationToken,
    secure: bool,
    wrap: W,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    W: Fn(TcpStream) -> F,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(limits.connections));
    let grace = limits.grace;
    let front = Arc::new(Front { edge, api, limits, places, shutdown, closing: CancellationToken::new() });
    let connections = TaskTracker::new();
    while let Some((stream, address, place)) = front.accept(&listener).await {
        let stream = wrap(stream);
        let front = front.clone();
        connections.spawn(async move {
            let agreed = tokio::select! {
                agreed = timeout(front.limits.handshake, stream) => agreed,
                () = front.closing.cancelled() => return,
            };
            match agreed {
                Ok(Ok(stream)) => front.carry(stream, Peer { address, secure }, place).await,
                Ok(Err(error)) => tracing::debug!(%address, %error, "no agreement on encryption"),
                Err(_) => tracing::debug!(%address, "no agreement on encryption in time"),
            }
        });
    }
    drop(listener);
    connections.close();
    if timeout(grace, connections.wait()).await.is_err() {
        tracing::info!(open = connections.len(), "cutting connections that are still open");
    }
    front.closing.cancel();
    connections.wait().await;
    Ok(())
}

/// Everything the connections of a listener share.
struct Front {
    edge: Arc<Edge>,
    api: Router,
    limits: Limits,
    places: Arc<Semaphore>,
    shutdown: CancellationToken,
    /// Cancelled when whatever is still open must end.
    closing: CancellationToken,
}

impl Front {
    /// The next connection; `None` when the listener is to close.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
        let place = tokio::select! {
            () = self.shutdown.cancelled() => return None,
            place = self.places.clone().acquire_owned() => place.ok()?,
        };
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => return None,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    if let Err(error) = prepare(&stream) {
                        tracing::debug!(%address, %error, "socket options");
                    }
                    return Some((stream, address, place));
                }
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections for now");
                    tokio::select! {
                        () = self.shutdown.cancelled() => return None,
                        () = sleep(EXHAUSTED) => {}
                    }
                }
            }
        }
    }

    /// Serves one connection to its end.
    async fn carry<S>(self: Arc<Self>, stream: S, peer: Peer, place: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let crowded = self.places.available_permits() < self.limits.connections / CROWDED;
        let idle = if crowded { self.limits.idle.min(CROWDED_IDLE) } else { self.limits.idle };
        let link = Arc::new(Link::new(peer, self.closing.clone(), place));
        let mut guard = Guard::new(stream, link.clone(), Patience { head: self.limits.head, idle });
        let protocol = tokio::select! {
            protocol = guard.protocol() => protocol,
            () = self.shutdown.cancelled() => return,
        };
        let ended = match protocol {
            Ok(Protocol::Http1) => self.http1(guard, link).await,
            Ok(Protocol::Http2) => self.http2(guard, link, idle).await,
            Err(error) => {
                tracing::debug!(peer = %peer.address, %error, "connection broke before a request");
                return;
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %peer.address, %error, "connection ended");
        }
    }

    async fn http1<S>(self: &Arc<Self>, guard: Guard<S>, link: Arc<Link>) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request| self.clone().answer(request, link.clone()));
        let connection = http1::Builder::new()
            // The guard has its own clock: hyper sees no byte of an unfinished head.
            .header_read_timeout(None)
            .max_buf_size(MAX_BUFFER)
            .serve_connection(TokioIo::new(guard), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let mut leaving = false;
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                // Dropping the connection leaves its answer without an end, as it must be.
                () = poll_fn(|cx| link.poll_tether(cx)) => return Ok(()),
                () = self.closing.cancelled() => return Ok(()),
                () = self.shutdown.cancelled(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn http2<S>(self: &Arc<Self>, guard: Guard<S>, link: Arc<Link>, idle: Duration) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = {
            let (front, link) = (self.clone(), link.clone());
            service_fn(move |request| front.clone().answer(request, link.clone()))
        };
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(H2_STREAMS)
            .max_header_list_size(H2_HEADERS)
            .max_send_buf_size(MAX_BUFFER)
            .keep_alive_interval(H2_PING)
            .serve_connection(TokioIo::new(guard), service);
        let mut connection = pin!(connection);
        let mut leaving = false;
        let mut look = pin!(sleep(idle));
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                () = self.closing.cancelled() => return Ok(()),
                () = self.shutdown.cancelled(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = look.as_mut(), if !leaving => {
                    let until = link.quiet_since().unwrap_or_else(Instant::now) + idle;
                    if until <= Instant::now() {
                        leaving = true;
                        connection.as_mut().graceful_shutdown();
                    } else {
                        look.set(sleep_until(until));
                    }
                }
            }
        }
    }

    /// Answers one request.
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        link: Arc<Link>,
    ) -> Result<Response<Reply>, Infallible> {
        let busy = Busy::new(link.clone());
        if request.uri().path() == STAND_IN_PATH
            && let Some(rejection) = link.rejection()
        {
            return Ok(answer::rejected(rejection).map(|body| Reply { body, _busy: busy }));
        }
        let wish = headers::upgrade_asked(request.version(), request.method(), request.headers()).is_some();
        let (mut request, drain) = cabana_body_drain::track(request);
        request.extensions_mut().insert(link.peer);
        request.extensions_mut().insert(link.clone());
        let mut response = match self.edge.route(request).await {
            Ok(response) => response,
            Err(mut request) => {
                request.extensions_mut().remove::<Arc<Link>>();
                request.extensions_mut().insert(ConnectInfo(link.peer.address));
                let Ok(response) = self.api.clone().call(request.map(Body::new)).await;
                response
            }
        };
        if wish {
            link.decide(response.status() == StatusCode::SWITCHING_PROTOCOLS);
        }
        if let Some(Tethered(gone)) = response.extensions_mut().remove() {
            link.tether(gone);
        }
        let deaf = response.extensions_mut().remove::<Deaf>().is_some();
        let response = drain.finish(response, deaf).await;
        Ok(response.map(|body| Reply { body, _busy: busy }))
    }
}

/// Small messages leave at once, and dead clients are noticed.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_PROBE)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    Ok(())
}

/// Errors of accept that concern only the connection that would have been accepted.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | WouldBlock)
}

/// A request under way.
struct Busy(Arc<Link>);

impl Busy {
    fn new(link: Arc<Link>) -> Self {
        link.begin();
        Self(link)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The body of an answer; while it lives the connection is not idle.
struct Reply {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Reply {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
