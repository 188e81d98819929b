//! One request to one receiver: resolve, check the very address that is connected to, connect, post, read the status. Redirects are not
//! followed and connections not kept: each delivery is checked anew.

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::Host;

use super::letter::Letter;
use super::target::{InvalidTarget, Target, permitted};

/// Addresses of one name that are looked at.
const MAX_ADDRESSES: usize = 8;
/// What one of them gets of the whole time, so that others can be tried too.
const SHARE: u32 = 2;
/// Head of an answer.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How much of an answer's body is read, so that the receiver can finish it, and for how long. It is not looked at.
const MAX_BODY_BYTES: usize = 4 * 1024;
const BODY_LIMIT: Duration = Duration::from_secs(1);
/// Length of an error's text.
const MAX_ERROR_CHARS: usize = 300;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("e2b-webhook-id");
const DELIVERY_ID: HeaderName = HeaderName::from_static("e2b-delivery-id");
const SIGNATURE_VERSION: HeaderName = HeaderName::from_static("e2b-signature-version");
const SIGNATURE: HeaderName = HeaderName::from_static("e2b-signature");

/// Sends letters.
#[derive(Debug)]
pub(super) struct Post {
    allow_private: bool,
    limit: Duration,
    /// Made when it is first needed: reading the machine's authorities takes a while.
    tls: OnceCell<Arc<ClientConfig>>,
}

/// Why a letter did not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum Undelivered {
    #[error("its URL cannot be used")]
    Target(#[source] InvalidTarget),
    #[error("resolve {host}")]
    Resolve {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("{host} has no address")]
    NoAddress { host: String },
    #[error("{host} leads to where events are not sent")]
    Refused {
        host: String,
        #[source]
        source: InvalidTarget,
    },
    #[error("connect to {address}")]
    Connect {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("encrypt the connection")]
    Tls(#[source] io::Error),
    #[error("this machine has no certificate authorities: install ca-certificates")]
    NoAuthorities,
    #[error("send the event")]
    Exchange(#[source] hyper::Error),
    #[error("build the request")]
    Build(#[source] http::Error),
    #[error("no answer within {} s", .0.as_secs())]
    TooSlow(Duration),
    #[error("answered with status {0}")]
    Status(u16),
}

impl Undelivered {
    /// The status of the answer, if there was one.
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(*status),
            _ => None,
        }
    }

    /// Whether another try cannot go better.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Target(_) | Self::Build(_))
    }

    /// What went wrong, for the webhook's owner.
    pub(super) fn to_text(&self) -> String {
        let text = cabana_types::error::chain(self);
        text.chars().filter(|c| !c.is_control()).take(MAX_ERROR_CHARS).collect()
    }
}

impl Post {
    pub(super) fn new(allow_private: bool, limit: Duration) -> Self {
        Self { allow_private, limit, tls: OnceCell::new() }
    }

    /// Sends a letter; the status if it is one of success.
    pub(super) async fn send(&self, url: &str, letter: &Letter) -> Result<u16, Undelivered> {
        let target = Target::parse(url, self.allow_private).map_err(Undelivered::Target)?;
        let sent = tokio::time::timeout(self.limit, self.exchange(&target, letter));
        let status = sent.await.map_err(|_| Undelivered::TooSlow(self.limit))??;
        if (200..300).contains(&status) { Ok(status) } else { Err(Undelivered::Status(status)) }
    }

    async fn exchange(&self, target: &Target, letter: &Letter) -> Result<u16, Undelivered> {
        let request = request(target, letter)?;
        let stream = self.connect(target).await?;
        if !target.is_encrypted() {
            return speak(stream, request).await;
        }
        let connector = TlsConnector::from(Arc::clone(self.tls.get_or_try_init(trusting).await?));
        let name = match target.url().host() {
            Some(Host::Ipv4(address)) => ServerName::from(IpAddr::from(address)),
            Some(Host::Ipv6(address)) => ServerName::from(IpAddr::from(address)),
            Some(Host::Domain(name)) => {
                ServerName::try_from(name.to_owned()).map_err(|e| Undelivered::Tls(io::Error::other(e)))?
            }
            None => return Err(Undelivered::NoAddress { host: String::new() }),
        };
        speak(connector.connect(name, stream).await.map_err(Undelivered::Tls)?, request).await
    }

    /// Connects to the first address that may be connected to and answers.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Undelivered> {
        let host = target.url().host_str().unwrap_or_default().to_owned();
        let addresses = resolve(target).await.map_err(|source| Undelivered::Resolve { host: host.clone(), source })?;
        let mut failed = None;
        for address in addresses {
            // Nothing is sent to an address before it is checked, and nothing is resolved again after.
            if let Err(source) = self.check(address).await {
                failed.get_or_insert(Undelivered::Refused { host: host.clone(), source });
                continue;
            }
            let connected = tokio::time::timeout(self.limit / SHARE, TcpStream::connect(address)).await;
            match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(source) => failed = Some(Undelivered::Connect { address, source }),
            }
        }
        Err(failed.unwrap_or(Undelivered::NoAddress { host }))
    }

    async fn check(&self, address: SocketAddr) -> Result<(), InvalidTarget> {
        permitted(address.ip(), self.allow_private)?;
        if !self.allow_private && is_own(address).await {
            return Err(InvalidTarget::Private(address.ip().to_string()));
        }
        Ok(())
    }
}

async fn resolve(target: &Target) -> io::Result<Vec<SocketAddr>> {
    let port = target.port();
    match target.url().host() {
        Some(Host::Ipv4(address)) => Ok(vec![SocketAddr::from((address, port))]),
        Some(Host::Ipv6(address)) => Ok(vec![SocketAddr::from((address, port))]),
        Some(Host::Domain(name)) => Ok(tokio::net::lookup_host((name, port)).await?.take(MAX_ADDRESSES).collect()),
        None => Ok(vec![]),
    }
}

/// Whether an address is one of this machine's: what is sent there leaves from the same one. Connecting a UDP socket sends nothing.
async fn is_own(address: SocketAddr) -> bool {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let Ok(socket) = UdpSocket::bind(any).await else { return false };
    socket.connect(address).await.is_ok() && socket.local_addr().is_ok_and(|local| local.ip() == address.ip())
}

fn request(target: &Target, letter: &Letter) -> Result<Request<Full<Bytes>>, Undelivered> {
    let url = target.url();
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let host = url.host_str().unwrap_or_default();
    let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    Request::post(path)
        .header(HOST, host)
        .header(USER_AGENT, HeaderValue::from_static(concat!("cabana/", env!("CARGO_PKG_VERSION"))))
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(CONNECTION, HeaderValue::from_static("close"))
        .header(WEBHOOK_ID, letter.webhook.as_str())
        .header(DELIVERY_ID, &letter.id)
        .header(SIGNATURE_VERSION, HeaderValue::from_static("v1"))
        .header(SIGNATURE, &letter.signature)
        .body(Full::new(Bytes::copy_from_slice(&letter.body)))
        .map_err(Undelivered::Build)
}

/// Sends a request over a connection; the status of its answer.
async fn speak<S>(stream: S, request: Request<Full<Bytes>>) -> Result<u16, Undelivered>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(Undelivered::Exchange)?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection));
    let response = sender.send_request(request).await.map_err(Undelivered::Exchange)?;
    let status = response.status().as_u16();
    let _ = tokio::time::timeout(BODY_LIMIT, drain(response)).await;
    Ok(status)
}

async fn drain(response: Response<Incoming>) {
    let (mut body, mut read) = (response.into_body(), 0);
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read >= MAX_BODY_BYTES {
            return;
        }
    }
}

/// Trusts whom this machine trusts.
async fn trusting() -> Result<Arc<ClientConfig>, Undelivered> {
    let native = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(native.map(|found| found.certs).unwrap_or_default());
    if roots.is_empty() {
        return Err(Undelivered::NoAuthorities);
    }
    configure(roots)
}

fn configure(roots: RootCertStore) -> Result<Arc<ClientConfig>, Undelivered> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Undelivered::Tls(io::Error::other(e)))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
