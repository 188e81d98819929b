//! A small HTTP client for registries: one connection for each request, every step within a time, addresses checked
//! before connecting, redirections followed without credentials.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cabana_types::error::chain;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use url::Url;

use super::addresses::Reach;
use crate::error::{Error, Result};
use crate::sources::Sources;

const MAX_REDIRECTS: usize = 5;
const MAX_MESSAGE: u64 = 16 << 10;
const MAX_ADDRESSES: usize = 4;

/// How long each step of a request may take.
#[derive(Debug, Clone)]
pub struct Patience {
    /// To resolve a name, connect to one address, and agree on TLS: each.
    pub connect: Duration,
    /// From the request to the headers of the answer.
    pub answer: Duration,
    /// Between two pieces of a body.
    pub idle: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), answer: Duration::from_secs(30), idle: Duration::from_secs(30) }
    }
}

/// The client. Certificates of the system are read at the first need.
pub(super) struct Http {
    pub(super) sources: Arc<Sources>,
    pub(super) patience: Patience,
    tls: OnceLock<Arc<ClientConfig>>,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Ends the connection with the answer.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer whose body has not been read.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    host: String,
    body: Incoming,
    idle: Duration,
    _connection: Connection,
}

/// Host and port as in image names: without the scheme's own port.
pub(super) fn authority(url: &Url) -> Result<String> {
    let host = url.host_str().ok_or_else(|| distrusted("", format!("{url} has no host")))?;
    Ok(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn distrusted(host: &str, reason: impl Into<String>) -> Error {
    Error::Distrusted { host: host.to_owned(), reason: reason.into() }
}

fn unreachable(host: &str, reason: impl Into<String>) -> Error {
    Error::Unreachable { host: host.to_owned(), reason: reason.into() }
}

impl Http {
    pub(super) fn new(sources: Arc<Sources>, patience: Patience) -> Self {
        Self { sources, patience, tls: OnceLock::new() }
    }

    /// Sends a request and follows redirections of `GET`s.
    pub(super) async fn send(&self, method: Method, url: Url, mut headers: HeaderMap, body: Bytes) -> Result<Answer> {
        let mut url = url;
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.once(&method, &url, &headers, body.clone()).await?;
            let is_redirection = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) && method == Method::GET;
            let Some(location) = answer.headers.get(header::LOCATION).filter(|_| is_redirection) else {
                return Ok(answer);
            };
            let host = authority(&url)?;
            let next = location.to_str().ok().filter(|text| text.len() <= 8192).and_then(|text| url.join(text).ok());
            let next = next.ok_or_else(|| distrusted(&host, "it redirects to something that is not a URL"))?;
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err(distrusted(&host, "it redirects from https to plain http"));
            }
            // Another host must not see what was meant for this one.
            if authority(&next)? != host || next.scheme() != url.scheme() {
                headers.remove(header::AUTHORIZATION);
            }
            url = next;
        }
        Err(distrusted(&authority(&url)?, "it redirects without end"))
    }

    async fn once(&self, method: &Method, url: &Url, headers: &HeaderMap, body: Bytes) -> Result<Answer> {
        let host = authority(url)?;
        let stream = self.connect(url, &host).await?;
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.max_buf_size(64 << 10).max_headers(100);
        let (mut sender, connection) = timeout(self.patience.answer, builder.handshake(TokioIo::new(stream)))
            .await
            .map_err(|_| unreachable(&host, "it does not answer in time"))?
            .map_err(|error| unreachable(&host, chain(&error)))?;
        let connection = Connection(tokio::spawn(async move {
            let _ = connection.await;
        }));
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .body(Full::new(body))
            .map_err(|error| distrusted(&host, error.to_string()))?;
        *request.headers_mut() = headers.clone();
        let host_header = HeaderValue::from_str(&host).map_err(|error| distrusted(&host, error.to_string()))?;
        request.headers_mut().insert(header::HOST, host_header);
        let agent = HeaderValue::from_static(concat!("cabana/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().insert(header::USER_AGENT, agent);
        let answer = timeout(self.patience.answer, sender.send_request(request))
            .await
            .map_err(|_| unreachable(&host, "it does not answer in time"))?
            .map_err(|error| unreachable(&host, chain(&error)))?;
        let (parts, body) = answer.into_parts();
        let idle = self.patience.idle;
        Ok(Answer { status: parts.status, headers: parts.headers, host, body, idle, _connection: connection })
    }

    async fn connect(&self, url: &Url, host: &str) -> Result<Box<dyn Stream>> {
        let is_tls = match url.scheme() {
            "https" => true,
            "http" => false,
            other => return Err(distrusted(host, format!("{other}:// is not a scheme of registries"))),
        };
        let port = url.port_or_known_default().unwrap_or(443);
        let mut last = unreachable(host, "its name has no address");
        for address in self.resolve(url, host, port).await? {
            match timeout(self.patience.connect, TcpStream::connect(address)).await {
                Ok(Ok(stream)) if !is_tls => return Ok(Box::new(stream)),
                Ok(Ok(stream)) => return self.secure(url, host, stream).await,
                Ok(Err(error)) => last = unreachable(host, error.to_string()),
                Err(_) => last = unreachable(host, "it cannot be connected to in time"),
            }
        }
        Err(last)
    }

    async fn resolve(&self, url: &Url, host: &str, port: u16) -> Result<Vec<SocketAddr>> {
        let reach = if self.sources.is_internal(host) { Reach::Internal } else { Reach::Public };
        let found: Vec<SocketAddr> = match url.host() {
            Some(url::Host::Ipv4(address)) => vec![(IpAddr::V4(address), port).into()],
            Some(url::Host::Ipv6(address)) => vec![(IpAddr::V6(address), port).into()],
            Some(url::Host::Domain(name)) => timeout(self.patience.connect, tokio::net::lookup_host((name, port)))
                .await
                .map_err(|_| unreachable(host, "its name cannot be resolved in time"))?
                .map_err(|error| unreachable(host, format!("its name cannot be resolved: {error}")))?
                .collect(),
            None => Vec::new(),
        };
        let allowed: Vec<SocketAddr> =
            found.iter().copied().filter(|address| reach.allows(address.ip())).take(MAX_ADDRESSES).collect();
        if allowed.is_empty() && !found.is_empty() {
            let reason = "its address is not public; the operator can allow it as an internal host";
            return Err(distrusted(host, reason));
        }
        Ok(allowed)
    }

    async fn secure(&self, url: &Url, host: &str, stream: TcpStream) -> Result<Box<dyn Stream>> {
        let config = match self.tls.get() {
            Some(config) => config.clone(),
            None => {
                let sources = self.sources.clone();
                let config = tokio::task::spawn_blocking(move || trust(&sources.authorities))
                    .await
                    .map_err(|error| unreachable(host, error.to_string()))?
                    .map_err(|reason| distrusted(host, reason))?;
                self.tls.get_or_init(|| config).clone()
            }
        };
        let name = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|error| distrusted(host, error.to_string()))?;
        let connector = tokio_rustls::TlsConnector::from(config);
        match timeout(self.patience.connect, connector.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Box::new(stream)),
            // A certificate does not become right by waiting.
            Ok(Err(error)) if error.to_string().contains("certificate") => Err(distrusted(host, error.to_string())),
            Ok(Err(error)) => Err(unreachable(host, format!("TLS: {error}"))),
            Err(_) => Err(unreachable(host, "it does not agree on TLS in time")),
        }
    }
}

fn trust(authorities: &[PathBuf]) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for path in authorities {
        let unreadable =
            |error: &dyn std::fmt::Display| format!("the authorities in {} cannot be read: {error}", path.display());
        let found = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))?;
        let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| unreadable(&error))?;
        roots.add_parsable_certificates(found);
    }
    if roots.is_empty() {
        return Err("no certificate authorities were found: install ca-certificates".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

impl Answer {
    /// The next piece of the body.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>> {
        loop {
            let frame = timeout(self.idle, self.body.frame())
                .await
                .map_err(|_| unreachable(&self.host, "it stopped sending"))?;
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(unreachable(&self.host, chain(&error))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The whole body, if it is no longer than `limit`.
    pub(super) async fn whole(mut self, what: &str, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece().await? {
            if (bytes.len() + piece.len()) as u64 > limit {
                return Err(Error::TooLarge { what: what.to_owned(), limit });
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// What the body of an error says, for people.
    pub(super) async fn message(self) -> String {
        let bytes = self.whole("the error", MAX_MESSAGE).await.unwrap_or_default();
        let parsed: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
        let said = parsed.as_ref().and_then(|value| {
            let first = value.pointer("/errors/0/message").or_else(|| value.pointer("/message"));
            first
                .or_else(|| value.pointer("/details"))
                .or_else(|| value.pointer("/error"))
                .and_then(|text| text.as_str())
        });
        let text = match said {
            Some(text) => text.to_owned(),
            None => String::from_utf8_lossy(&bytes).into_owned(),
        };
        text.chars().filter(|c| !c.is_control()).take(300).collect::<String>().trim().to_owned()
    }

    /// An answer that should not be one.
    pub(super) async fn into_error(self) -> Error {
        let (host, status) = (self.host.clone(), self.status.as_u16());
        let message = self.message().await;
        Error::Status { host, status, message }
    }
}
