//! From a URI to a connection: resolve, check each address, connect, TLS handshake.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::redirect::authority;
use crate::{AddressPolicy, Kind, Trust, TrustError};

/// Addresses tried per name.
const MAX_ADDRESSES: usize = 4;
/// Delay before the next address is tried in parallel (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);
/// Idle time after which the kernel sends keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(30);

type Tcp = TokioIo<TcpStream>;

#[derive(Debug, Clone)]
pub(crate) struct Connector(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    trust: Trust,
    tls: OnceLock<Arc<ClientConfig>>,
    addresses: AddressPolicy,
    timeout: Duration,
}

impl Connector {
    pub(crate) fn new(trust: Trust, addresses: AddressPolicy, timeout: Duration) -> Self {
        Self(Arc::new(Shared { trust, tls: OnceLock::new(), addresses, timeout }))
    }

    pub(crate) fn load_trust(&self) -> Result<(), TrustError> {
        let config = self.0.trust.load()?;
        self.0.tls.get_or_init(|| config);
        Ok(())
    }

    async fn connect(&self, uri: &Uri) -> Result<MaybeHttpsStream<Tcp>, Kind> {
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(Kind::Url("it is neither http:// nor https://".to_owned())),
        };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = self.first(self.allowed(&authority(uri), host, port).await?).await?;
        if secure { self.handshake(host, stream).await } else { Ok(TokioIo::new(stream).into()) }
    }

    /// The allowed addresses of a host. Nothing is resolved again after this check.
    async fn allowed(&self, authority: &str, host: &str, port: u16) -> Result<Vec<SocketAddr>, Kind> {
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(address) => vec![(address, port).into()],
            Err(_) => timeout(self.0.timeout, tokio::net::lookup_host((host, port)))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
                .map_err(Kind::Resolve)?
                .collect(),
        };
        let (mut allowed, mut refused) = (Vec::new(), Kind::NoAddress);
        for address in found {
            match self.0.addresses.check(authority, address).await {
                Ok(()) => allowed.push(address),
                Err(reason) => refused = Kind::Refused { address: address.ip(), reason },
            }
            if allowed.len() == MAX_ADDRESSES {
                break;
            }
        }
        if allowed.is_empty() { Err(refused) } else { Ok(allowed) }
    }

    /// A connection to the first address that responds.
    async fn first(&self, addresses: Vec<SocketAddr>) -> Result<TcpStream, Kind> {
        let (mut waiting, mut attempts, mut last) = (addresses.into_iter(), FuturesUnordered::new(), Kind::NoAddress);
        loop {
            match waiting.next() {
                Some(address) => attempts.push(connect_to(address, self.0.timeout)),
                None if attempts.is_empty() => return Err(last),
                None => {}
            }
            tokio::select! {
                Some(attempt) = attempts.next() => match attempt {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                },
                () = sleep(STAGGER), if waiting.len() > 0 => {}
            }
        }
    }

    async fn handshake(&self, host: &str, stream: TcpStream) -> Result<MaybeHttpsStream<Tcp>, Kind> {
        let config = match self.0.tls.get() {
            Some(config) => Arc::clone(config),
            None => {
                let shared = Arc::clone(&self.0);
                let loaded = tokio::task::spawn_blocking(move || shared.trust.load()).await;
                let config = loaded.map_err(|error| Kind::Tls(io::Error::other(error)))?.map_err(Kind::Trust)?;
                Arc::clone(self.0.tls.get_or_init(|| config))
            }
        };
        let name = self.0.trust.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(|error| Kind::Url(error.to_string()))?;
        let handshake = TlsConnector::from(config).connect(name, TokioIo::new(TokioIo::new(stream)));
        match timeout(self.0.timeout, handshake).await {
            Ok(Ok(stream)) => Ok(stream.into()),
            Ok(Err(error)) => Err(tls_error(error)),
            Err(_) => Err(Kind::Tls(io::ErrorKind::TimedOut.into())),
        }
    }
}

async fn connect_to(address: SocketAddr, limit: Duration) -> Result<TcpStream, Kind> {
    let connected = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE)?;
        Ok(stream)
    };
    let connected = timeout(limit, connected).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    connected.map_err(|source| Kind::Connect { address, source })
}

/// Certificate errors are permanent; other failures may be temporary.
fn tls_error(error: io::Error) -> Kind {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls @ (rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)) => {
            Kind::Certificate(rustls.clone())
        }
        _ => Kind::Tls(error),
    }
}

/// Carries a [`Kind`] through hyper's client, whose error only lends its cause.
#[derive(Debug, thiserror::Error)]
#[error("connect")]
pub(crate) struct Failed(Mutex<Option<Kind>>);

impl Failed {
    pub(crate) fn taken_from(error: &legacy::Error) -> Option<Kind> {
        let failed = std::error::Error::source(error)?.downcast_ref::<Self>()?;
        failed.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl tower::Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Tcp>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failed>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(&uri).await.map_err(|kind| Failed(Mutex::new(Some(kind)))) })
    }
}
