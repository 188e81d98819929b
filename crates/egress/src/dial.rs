//! Connects for a sandbox: resolves the name, checks each address, and connects directly or through the policy's SOCKS5
//! proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cabana_types::egress::{Bounds, EgressProxy, HostName, Rule};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::ResolveError;
use crate::session::{Decision, Session, Way};
use crate::socks::{self, Login, SocksError};
use crate::stream::AnyStream;
use crate::wire::tune;

/// Addresses tried per name.
const MAX_ADDRESSES: usize = 4;
/// Delay before the next address is tried in parallel (RFC 8305).
const STAGGER: Duration = Duration::from_millis(250);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("the name cannot be resolved: {0}")]
    Resolve(#[from] ResolveError),
    #[error("the name has no address that may be connected to")]
    Denied,
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    #[error("cannot connect in time")]
    Timeout,
    #[error("the SOCKS5 proxy: {0}")]
    Socks(#[from] SocksError),
    #[error("the SOCKS5 proxy's address {0}")]
    ProxyAddress(&'static str),
    #[error("TLS to the SOCKS5 proxy: {0}")]
    ProxyTls(String),
}

/// Connects to where a decision says.
pub(crate) async fn dial(session: &Session, decision: &Decision) -> Result<AnyStream, DialError> {
    let connected = timeout(session.proxy.config.limits.connect, connect(session, decision));
    let result = connected.await.unwrap_or(Err(DialError::Timeout));
    if let Err(error) = &result {
        tracing::debug!(sandbox = %session.owner, original = %session.original, %error, "cannot connect for a sandbox");
    }
    if let (Err(DialError::Denied), Way::Name(name) | Way::Ruled(name)) = (&result, &decision.way) {
        session.deny(Some(name), Rule::Unresolved);
    }
    result
}

async fn connect(session: &Session, decision: &Decision) -> Result<AnyStream, DialError> {
    let port = session.original.port();
    let Decision { policy, bounds, way } = decision;
    let allowed = |address: &IpAddr| match way {
        Way::Name(_) => bounds.refuse_address(*address).is_none(),
        Way::Ruled(_) | Way::Address => policy.by_address(*address, bounds).allowed,
    };
    let found = match way {
        Way::Name(name) | Way::Ruled(name) => session.proxy.egress.resolve(session.index, name).await?,
        Way::Address => vec![IpAddr::V4(*session.original.ip())],
    };
    let Some(proxy) = &policy.egress_proxy else {
        let addresses: Vec<_> = found.into_iter().filter(allowed).map(|ip| SocketAddr::new(ip, port)).collect();
        return Ok(Box::new(first(session, bounds, addresses).await?));
    };
    // The SOCKS5 proxy chooses among the addresses, so all of them must be allowed.
    if found.is_empty() || !found.iter().all(allowed) {
        return Err(DialError::Denied);
    }
    let destination = match way {
        Way::Name(name) | Way::Ruled(name) => socks::Destination::Name(name, port),
        Way::Address => socks::Destination::Address(session.original.into()),
    };
    through(session, bounds, proxy, destination).await
}

/// A connection to the first address that answers.
async fn first(session: &Session, bounds: &Bounds, addresses: Vec<SocketAddr>) -> Result<TcpStream, DialError> {
    let mut waiting = addresses.into_iter().take(MAX_ADDRESSES);
    let (mut attempts, mut last) = (FuturesUnordered::new(), DialError::Denied);
    loop {
        match waiting.next() {
            Some(address) => attempts.push(connect_to(session, bounds, address)),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error.into(),
            },
            () = sleep(STAGGER), if waiting.len() > 0 => {}
        }
    }
}

async fn connect_to(session: &Session, bounds: &Bounds, address: SocketAddr) -> io::Result<TcpStream> {
    let stream = session.proxy.wire.connect(address).await?;
    // The host itself is closed to sandboxes, whatever addresses it has. A connection to an own address also comes from it.
    let own = stream.local_addr()?.ip() == address.ip();
    if own && !bounds.internal.iter().any(|prefix| prefix.contains(address.ip())) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the address is one of this machine's"));
    }
    tune(&stream)?;
    Ok(stream)
}

/// Connects through a SOCKS5 proxy. There is no direct connection if that fails.
async fn through(
    session: &Session,
    bounds: &Bounds,
    proxy: &EgressProxy,
    destination: socks::Destination<'_>,
) -> Result<AnyStream, DialError> {
    let (host, port) = proxy.address.rsplit_once(':').ok_or(DialError::ProxyAddress("has no port"))?;
    let port: u16 = port.parse().map_err(|_| DialError::ProxyAddress("has a malformed port"))?;
    let host = host.trim_matches(['[', ']']);
    let found = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => {
            let name: HostName = host.parse().map_err(|_| DialError::ProxyAddress("is malformed"))?;
            session.proxy.egress.resolve(session.index, &name).await?
        }
    };
    let public = found.into_iter().filter(|address| bounds.refuse_address(*address).is_none());
    let addresses: Vec<_> = public.map(|ip| SocketAddr::new(ip, port)).collect();
    if addresses.is_empty() {
        return Err(DialError::ProxyAddress("is not public"));
    }
    let tcp = first(session, bounds, addresses).await?;
    let login = proxy.username.as_deref().map(|user| Login { user, password: proxy.password.as_ref() });
    let mut stream: AnyStream = match &proxy.tls {
        Some(tls) if tls.enabled => {
            let failed = |error: &dyn std::fmt::Display| DialError::ProxyTls(error.to_string());
            let config = match &tls.ca_cert {
                Some(pem) => client_config(&Arc::new(roots(pem).map_err(|error| failed(&error))?), &[]),
                None => client_config(&session.proxy.config.roots, &[]),
            };
            let config = config.map_err(|error| failed(&error))?;
            let name = tls.server_name.as_deref().unwrap_or(host).to_owned();
            let name = ServerName::try_from(name).map_err(|error| failed(&error))?;
            let connector = TlsConnector::from(Arc::new(config));
            Box::new(connector.connect(name, tcp).await.map_err(|error| failed(&error))?)
        }
        _ => Box::new(tcp),
    };
    socks::connect(&mut stream, login, destination).await?;
    Ok(stream)
}

fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("caCert is malformed: {error}"))?;
        roots.add(certificate).map_err(|error| format!("caCert is malformed: {error}"))?;
    }
    if roots.is_empty() { Err("caCert has no certificate".to_owned()) } else { Ok(roots) }
}

/// TLS settings of a client that trusts `roots`.
pub(crate) fn client_config(roots: &Arc<RootCertStore>, protocols: &[&[u8]]) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(Arc::clone(roots))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // Sandboxes share no sessions.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}
