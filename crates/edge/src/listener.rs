//! The listener: accepts connections, guards them, and passes each request to the edge or to the API.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use crate::clients::{Clients, Place};
use crate::connection::{ClientAddress, Connection, Peer, Upgrading};
use crate::early_reply::{CutWhenGone, PeerStoppedReading};
use crate::edge::Edge;
use crate::guard::{Guard, PLACEHOLDER_PATH, Protocol, Rejection, Timeouts};
use crate::in_flight::{ClientRequest, ResponseBody};
pub use crate::limits::Limits;
use crate::tls::Tls;
use crate::{headers, response};

/// Delay after `accept` failed for lack of descriptors or memory: nothing signals when there are some again.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How often connections are looked for that can be closed while all places are taken.
const ROOM_RETRY: Duration = Duration::from_secs(1);
/// A dead client is detected after about three minutes.
const KEEPALIVE: Duration = Duration::from_secs(90);
const KEEPALIVE_PROBE: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 6;
/// Buffers of one connection; a request head fits in.
const MAX_BUFFER: usize = 128 * 1024;
const H2_STREAMS: u32 = 200;
/// Headers of one request with HTTP/2. What is larger is refused here, as with HTTP/1; what is far too large is refused
/// by the library, which does not make a browser forget its cookies.
const H2_HEADERS: usize = 64 * 1024;
const H2_HARD_LIMIT: u32 = 256 * 1024;
/// What a client may send with HTTP/2 before it is read, on a connection and in one stream of it. Connections of a client
/// beyond the first [`FEW`] get as little as the protocol allows: each may hold so much memory.
const H2_WINDOW: u32 = 1024 * 1024;
const H2_SMALL_WINDOW: u32 = 65_535;
const FEW: usize = 64;
const H2_PING: Duration = Duration::from_secs(30);
/// New connections get a short idle timeout once fewer than one in this many are free.
const CROWDED: usize = 4;
const CROWDED_IDLE: Duration = Duration::from_secs(5);

/// Serves until `shutdown`.
pub async fn serve(
    listener: TcpListener,
    edge: Arc<Edge>,
    api: Router,
    limits: Limits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    serve_with(listener, edge, api, limits, shutdown, false, |stream| async move { Ok(stream) }).await
}

/// Serves until `shutdown` with TLS.
pub async fn serve_tls(
    listener: TcpListener,
    edge: Arc<Edge>,
    api: Router,
    tls: &Tls,
    limits: Limits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    serve_with(listener, edge, api, limits, shutdown, true, |stream| tls.accept(stream)).await
}

/// Serves until `shutdown`, over streams that `wrap` makes of the accepted ones. `secure` says whether `wrap` does TLS.
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
    let clients = Arc::new(Clients::new(&limits));
    let grace = limits.grace;
    let front = Arc::new(Front { edge, api, limits, clients, shutdown, closing: CancellationToken::new() });
    let connections = TaskTracker::new();
    while let Some((stream, address, place)) = front.accept(&listener).await {
        let stream = wrap(stream);
        let front = front.clone();
        let connection = Arc::new(Connection::new(Peer { address, secure }, &front.closing, place));
        front.clients.add(&connection);
        connections.spawn(async move {
            let handshake = tokio::select! {
                done = timeout(front.limits.handshake, stream) => done,
                () = connection.closing.cancelled() => return,
            };
            match handshake {
                Ok(Ok(stream)) => front.serve(stream, connection).await,
                Ok(Err(error)) => tracing::debug!(%address, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%address, "TLS handshake timed out"),
            }
        });
    }
    drop(listener);
    connections.close();
    if timeout(grace, connections.wait()).await.is_err() {
        tracing::info!(open = connections.len(), "closing connections that are still open");
    }
    front.closing.cancel();
    connections.wait().await;
    Ok(())
}

/// What the connections of a listener share.
struct Front {
    edge: Arc<Edge>,
    api: Router,
    limits: Limits,
    clients: Arc<Clients>,
    shutdown: CancellationToken,
    /// Cancelled when all connections must end.
    closing: CancellationToken,
}

impl Front {
    /// The next connection; `None` when the listener is to close.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, SocketAddr, Place)> {
        loop {
            let permit = loop {
                self.clients.make_room();
                tokio::select! {
                    () = self.shutdown.cancelled() => return None,
                    permit = self.clients.permit() => break permit?,
                    // By then some may have become idle.
                    () = sleep(ROOM_RETRY) => {}
                }
            };
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => return None,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    let Some(place) = self.clients.enter(address, permit) else {
                        tracing::debug!(%address, "refused a connection: this client has too many");
                        continue;
                    };
                    if let Err(error) = prepare(&stream) {
                        tracing::debug!(%address, %error, "could not set socket options");
                    }
                    return Some((stream, address, place));
                }
                Err(error) if is_per_connection(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections, retrying");
                    tokio::select! {
                        () = self.shutdown.cancelled() => return None,
                        () = sleep(ACCEPT_RETRY) => {}
                    }
                }
            }
        }
    }

    /// Serves one connection to its end.
    async fn serve<S>(self: Arc<Self>, stream: S, connection: Arc<Connection>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let crowded = self.clients.is_crowded(CROWDED);
        let idle = if crowded { self.limits.idle.min(CROWDED_IDLE) } else { self.limits.idle };
        let peer = connection.peer;
        let mut guard = Guard::new(stream, connection.clone(), Timeouts { head: self.limits.head, idle });
        let protocol = tokio::select! {
            protocol = guard.protocol() => protocol,
            () = self.shutdown.cancelled() => return,
            () = connection.closing.cancelled() => return,
        };
        let ended = match protocol {
            Ok(Protocol::Http1) => self.http1(guard, connection).await,
            Ok(Protocol::Http2) => self.http2(guard, connection, idle).await,
            Err(error) => {
                tracing::debug!(peer = %peer.address, %error, "connection failed before a request");
                return;
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %peer.address, %error, "connection ended");
        }
    }

    async fn http1<S>(self: &Arc<Self>, guard: Guard<S>, client: Arc<Connection>) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|request| self.clone().handle(request, client.clone()));
        let connection = http1::Builder::new()
            // The guard has its own timeout: hyper sees no byte of an unfinished head.
            .header_read_timeout(None)
            .max_buf_size(MAX_BUFFER)
            .preserve_header_case(true)
            .serve_connection(TokioIo::new(guard), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let mut leaving = false;
        let mut unread = pin!(self.unread_for_long(&client));
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                // Dropping the connection leaves its response without an end.
                () = poll_fn(|cx| client.poll_cut(cx)) => return Ok(()),
                () = client.closing.cancelled() => return Ok(()),
                () = unread.as_mut() => return Ok(()),
                () = self.shutdown.cancelled(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn http2<S>(self: &Arc<Self>, guard: Guard<S>, client: Arc<Connection>, idle: Duration) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = {
            let (front, client) = (self.clone(), client.clone());
            service_fn(move |request| front.clone().handle(request, client.clone()))
        };
        let window = if client.place.is_beyond(FEW) { H2_SMALL_WINDOW } else { H2_WINDOW };
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_connection_window_size(window)
            .initial_stream_window_size(window)
            .max_concurrent_streams(H2_STREAMS)
            .max_header_list_size(H2_HARD_LIMIT)
            .max_send_buf_size(MAX_BUFFER)
            .keep_alive_interval(H2_PING)
            .serve_connection(TokioIo::new(guard), service);
        let mut connection = pin!(connection);
        let mut leaving = false;
        let mut idle_timer = pin!(sleep(idle));
        let mut unread = pin!(self.unread_for_long(&client));
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                () = client.closing.cancelled() => return Ok(()),
                () = unread.as_mut() => return Ok(()),
                () = self.shutdown.cancelled(), if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = idle_timer.as_mut(), if !leaving => {
                    let until = client.idle_since().unwrap_or_else(Instant::now) + idle;
                    if until <= Instant::now() {
                        leaving = true;
                        connection.as_mut().graceful_shutdown();
                    } else {
                        idle_timer.set(sleep_until(until));
                    }
                }
            }
        }
    }

    /// Resolves when the client has not read any of its responses for too long.
    async fn unread_for_long(&self, client: &Connection) {
        let mut next = Instant::now() + self.limits.unread;
        loop {
            sleep_until(next).await;
            next = client.unread_since().unwrap_or_else(Instant::now) + self.limits.unread;
            if next <= Instant::now() {
                tracing::debug!(peer = %client.peer.address, "closing a connection: the client does not read");
                return;
            }
        }
    }

    /// Handles one request.
    async fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        client: Arc<Connection>,
    ) -> Result<Response<ResponseBody>, TooManyRequests> {
        let Some(in_flight) = ClientRequest::new(client.clone()) else {
            tracing::debug!(peer = %client.peer.address, "refused a request: this client has too many in flight");
            return Err(TooManyRequests);
        };
        if request.uri().path() == PLACEHOLDER_PATH
            && let Some(rejection) = client.rejection()
        {
            return Ok(response::rejected(rejection).map(|body| ResponseBody { body, in_flight }));
        }
        if request.version() == Version::HTTP_2 && headers::size(request.headers()) > H2_HEADERS {
            return Ok(response::rejected(Rejection::HEAD_TOO_LARGE).map(|body| ResponseBody { body, in_flight }));
        }
        let upgrade = headers::requested_upgrade(request.version(), request.method(), request.headers()).is_some();
        let address = self.limits.client(client.peer.address.ip(), request.headers());
        let allowed = match (&self.limits.rate, &address) {
            (Some(rate), Some(address)) => rate.check(address),
            _ => Ok(()),
        };
        let (mut request, drain) = cabana_body_drain::track(request);
        request.extensions_mut().insert(client.peer);
        request.extensions_mut().insert(client.clone());
        let routed = match allowed {
            Ok(()) => self.edge.route(request).await,
            Err(too_many) => Ok(response::too_many(too_many)),
        };
        let mut response = match routed {
            Ok(response) => response,
            Err(mut request) => {
                request.extensions_mut().remove::<Arc<Connection>>();
                request.extensions_mut().insert(ConnectInfo(client.peer.address));
                request.extensions_mut().insert(ClientAddress(address));
                if upgrade {
                    request.extensions_mut().insert(Upgrading::new(client.clone()));
                }
                let Ok(response) = self.api.clone().call(request.map(Body::new)).await;
                response
            }
        };
        if upgrade {
            client.decide_upgrade(response.status() == StatusCode::SWITCHING_PROTOCOLS);
        }
        if let Some(CutWhenGone(cuts)) = response.extensions_mut().remove() {
            client.cut_when(cuts);
        }
        let stopped_reading = response.extensions_mut().remove::<PeerStoppedReading>().is_some();
        let response = drain.finish(response, stopped_reading).await;
        Ok(response.map(|body| ResponseBody { body, in_flight }))
    }
}

/// Sends small messages at once, and detects dead clients.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_PROBE)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    Ok(())
}

/// Errors of accept that concern only the connection that would have been accepted.
fn is_per_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted | WouldBlock)
}

/// Ends a stream, or a connection with HTTP/1: an answer would take the memory that is to be saved.
#[derive(Debug, thiserror::Error)]
#[error("too many requests in flight")]
struct TooManyRequests;
