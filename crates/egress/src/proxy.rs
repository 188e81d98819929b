//! The listener: accepts redirected connections, finds out whose they are and which host they are for, and serves them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cabana_supervisor::{Restart, Supervisor, TaskSet};
use cabana_types::egress::{HostName, NAMED_PORTS};
use rustls::ClientConfig;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::dial::{client_config, dial};
use crate::hello::{self, Step};
use crate::http::{Scheme, serve_http};
use crate::intercept::intercept;
use crate::quota::Quota;
use crate::session::Session;
use crate::stream::{Begun, join};
use crate::wire::{Kernel, Wire, tune};
use crate::{Credentials, Egress, ProxyConfig};

const HTTP: u16 = 80;
/// Delay after an error of the listening socket.
const PAUSE: Duration = Duration::from_millis(20);
/// How long to wait for the address: the previous server may still be closing.
const BIND_TIMEOUT: Duration = Duration::from_secs(3);
const BACKLOG: u32 = 1024;
const RESTART: Restart = Restart::forever().delays(Duration::from_millis(50), Duration::from_secs(5));

/// What all connections share.
pub(crate) struct Proxy {
    pub(crate) egress: Arc<dyn Egress>,
    pub(crate) credentials: Arc<dyn Credentials>,
    pub(crate) wire: Arc<dyn Wire>,
    pub(crate) config: ProxyConfig,
    /// TLS to servers of intercepted connections.
    pub(crate) tls: Arc<ClientConfig>,
    quota: Arc<Quota>,
}

/// Why the proxy cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its address cannot be used.
    #[error("the egress proxy cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: io::Error },
    /// TLS cannot be set up.
    #[error("TLS of the egress proxy cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Starts the proxy and returns its address. It stops with the supervisor's scope.
pub async fn start(
    supervisor: &Supervisor,
    egress: Arc<dyn Egress>,
    credentials: Arc<dyn Credentials>,
    config: ProxyConfig,
) -> Result<SocketAddr, StartError> {
    start_with(supervisor, egress, credentials, config, Arc::new(Kernel)).await
}

/// Like [`start`], with another [`Wire`].
pub async fn start_with(
    supervisor: &Supervisor,
    egress: Arc<dyn Egress>,
    credentials: Arc<dyn Credentials>,
    config: ProxyConfig,
    wire: Arc<dyn Wire>,
) -> Result<SocketAddr, StartError> {
    let address = egress.listen();
    let failed = |source| StartError::Bind { address, source };
    let listener = bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let tls = Arc::new(client_config(&config.roots, &[b"http/1.1"])?);
    let quota = Quota::new(config.limits.per_sandbox, config.limits.total);
    let proxy = Arc::new(Proxy { egress, credentials, wire, config, tls, quota });
    // The socket and the connections outlive a restart of the task.
    let (listener, tasks) = (Arc::new(listener), TaskSet::new());
    supervisor.restart("egress proxy", RESTART, move |stop| {
        let accept = accept(Arc::clone(&proxy), Arc::clone(&listener), tasks.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(accept).await;
        }
    });
    Ok(address)
}

async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let deadline = Instant::now() + BIND_TIMEOUT;
    loop {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        match bound() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                sleep(PAUSE).await;
            }
            result => return result,
        }
    }
}

async fn accept(proxy: Arc<Proxy>, listener: Arc<TcpListener>, tasks: TaskSet, stop: CancellationToken) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the egress proxy cannot accept a connection");
                sleep(PAUSE).await;
                continue;
            }
        };
        let Some(session) = admit(&proxy, &stream, peer) else {
            reset(&stream);
            continue;
        };
        let stop = stop.clone();
        tasks.spawn("egress connection", async move {
            stop.run_until_cancelled(run(&session, stream)).await;
            session.ended.cancel();
        });
    }
}

/// Whose connection it is. `None` if it is nobody's, was not redirected, or is one too many.
fn admit(proxy: &Arc<Proxy>, stream: &TcpStream, peer: SocketAddr) -> Option<Arc<Session>> {
    let SocketAddr::V4(peer) = peer else { return None };
    let original = proxy.wire.original(stream).ok()?;
    let own = stream.local_addr().ok()?;
    if SocketAddr::V4(original) == own || tune(stream).is_err() {
        tracing::debug!(%peer, "a connection to the egress proxy was not redirected");
        return None;
    }
    let source = proxy.egress.connected(*peer.ip())?;
    let Some(permit) = proxy.quota.take(source.index) else {
        let denial = cabana_types::egress::Denial {
            at: jiff::Timestamp::now(),
            protocol: cabana_types::egress::Protocol::Tcp,
            destination: original.to_string(),
            rule: "too many connections".to_owned(),
        };
        proxy.egress.deny(source.index, denial);
        return None;
    };
    Some(Session::new(Arc::clone(proxy), source, original, permit))
}

/// Serves a connection with everything that belongs to it, until it has to be cut.
async fn run(session: &Arc<Session>, stream: TcpStream) {
    let served = async {
        serve(session, stream).await;
        session.tasks.close();
        session.tasks.wait().await;
    };
    tokio::select! {
        biased;
        () = session.cut() => {}
        () = served => {}
    }
}

async fn serve(session: &Arc<Session>, mut stream: TcpStream) {
    let (port, limits) = (session.original.port(), session.proxy.config.limits);
    let mut first = BytesMut::new();
    if NAMED_PORTS.contains(&port) {
        // In some protocols the server speaks first; such a connection has no name.
        match timeout(limits.silence, stream.read_buf(&mut first)).await {
            Ok(Ok(1..)) | Err(_) => {}
            Ok(Ok(0) | Err(_)) => return,
        }
    }
    match first.first() {
        Some(&hello::HANDSHAKE) => match read_hello(session, &mut stream, &mut first).await {
            Some(hello) => serve_tls(session, stream, first.freeze(), hello).await,
            None => reset(&stream),
        },
        Some(_) if port == HTTP => {
            let stream = Begun { first: first.freeze(), stream };
            serve_http(session, stream, Scheme::Plain).await;
        }
        _ => pass(session, stream, first.freeze(), None).await,
    }
}

/// Reads until the ClientHello is complete.
async fn read_hello(session: &Session, stream: &mut TcpStream, first: &mut BytesMut) -> Option<hello::Hello> {
    let deadline = Instant::now() + session.proxy.config.limits.head;
    loop {
        let needed = match hello::parse(first) {
            Ok(Step::Complete(hello)) => return Some(hello),
            Ok(Step::Need(needed)) => needed,
            Err(error) => {
                session.deny(None, error);
                return None;
            }
        };
        while first.len() < needed {
            match timeout_at(deadline, stream.read_buf(first)).await {
                Ok(Ok(1..)) => {}
                Ok(Ok(0) | Err(_)) | Err(_) => return None,
            }
        }
    }
}

async fn serve_tls(session: &Arc<Session>, stream: TcpStream, first: Bytes, hello: hello::Hello) {
    let intercepts = |name: &HostName| match session.decide(Some(name)) {
        Ok(decision) => decision.policy.intercepts(name),
        Err(_) => false,
    };
    match hello.name {
        Some(name) if intercepts(&name) => intercept(session, Begun { first, stream }, name).await,
        name => {
            if hello.hides_name {
                tracing::trace!(sandbox = %session.owner, "a ClientHello may hide another name");
            }
            pass(session, stream, first, name.as_ref()).await;
        }
    }
}

/// Passes a connection on as it is, if it is allowed.
async fn pass(session: &Session, stream: TcpStream, first: Bytes, name: Option<&HostName>) {
    let decision = match session.decide(name) {
        Ok(decision) => decision,
        Err(rule) => {
            session.deny(name, rule);
            return reset(&stream);
        }
    };
    match dial(session, &decision).await {
        Ok(upstream) => join(Begun { first, stream }, upstream, session.proxy.config.limits.idle).await,
        Err(_) => reset(&stream),
    }
}

/// Makes the kernel reset the connection when it is closed: the sandbox gets an error instead of an empty answer.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}
