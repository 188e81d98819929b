//! The one outbound HTTP client, for registries, webhooks, cold storage and the command line's API client. HTTP/1.1,
//! with or without TLS.
//!
//! Every request has a [`Config`]: trusted authorities, allowed addresses, timeouts, and limits of responses. Addresses
//! are checked after the name is resolved and before anything is sent, so a name that resolves differently on the
//! second lookup gains nothing.
//!
//! Why not `reqwest`: its resolver hook is not called for literal addresses, so an address policy would have to be
//! enforced a second time, also for each redirect, and informational (1xx) responses cannot be limited. What remains is
//! hyper's pooled client, which is used here directly, with rustls and ring as everywhere in Cabana: no second TLS
//! stack.

#![forbid(unsafe_code)]

mod address;
mod body;
mod connect;
mod error;
mod redirect;
#[cfg(test)]
mod tests;
mod trust;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;

pub use address::{AddressPolicy, Refusal};
use body::{Progress, RequestBody};
pub use body::{ResponseBody, read};
use connect::{Connector, Failed};
pub use error::{Error, Kind};
pub use redirect::authority;
pub use trust::{Trust, TrustError};

/// `user-agent` of requests that do not have one.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("cabana/", env!("CARGO_PKG_VERSION")));

/// Settings of a client.
#[derive(Debug, Clone)]
pub struct Config {
    /// Trusted certificate authorities.
    pub trust: Trust,
    /// Allowed addresses.
    pub addresses: AddressPolicy,
    pub timeouts: Timeouts,
    pub limits: Limits,
    /// Whether connections are reused. The address is checked once per connection.
    pub pooled: bool,
}

/// Timeouts of the steps of a request.
#[derive(Debug, Clone)]
pub struct Timeouts {
    /// For resolving a name, connecting to one address, and the TLS handshake: each.
    pub connect: Duration,
    /// From the connection, or the last byte of the request that was taken, to the head of the response.
    pub head: Option<Duration>,
    /// Between two chunks of the response's body.
    pub stall: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        let patient = Some(Duration::from_secs(30));
        Self { connect: Duration::from_secs(10), head: patient, stall: patient }
    }
}

/// Limits of responses.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a response's head; also the size of the connection's buffer.
    pub head_bytes: usize,
    /// Lines of a response's head.
    pub headers: usize,
    /// Informational (1xx) responses before the final one. hyper skips them without end.
    pub informational: u32,
    /// Bytes of a response's body.
    pub body_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_bytes: 64 << 10, headers: 100, informational: 16, body_bytes: None }
    }
}

/// Sends requests with bodies of type `B`. Cheap to clone; clones share connections.
#[derive(Debug)]
pub struct Client<B> {
    inner: legacy::Client<Connector, RequestBody<B>>,
    connector: Connector,
    timeouts: Timeouts,
    limits: Limits,
}

impl<B> Clone for Client<B> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            connector: self.connector.clone(),
            timeouts: self.timeouts.clone(),
            limits: self.limits.clone(),
        }
    }
}

impl<B> Client<B>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// A client without connections. Certificate authorities are loaded for the first TLS connection.
    pub fn new(config: Config) -> Self {
        let Config { trust, addresses, timeouts, limits, pooled } = config;
        let connector = Connector::new(trust, addresses, timeouts.connect);
        let mut builder = legacy::Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).http1_max_buf_size(limits.head_bytes).http1_max_headers(limits.headers);
        if !pooled {
            builder.pool_max_idle_per_host(0);
        }
        Self { inner: builder.build(connector.clone()), connector, timeouts, limits }
    }

    /// Loads the certificate authorities now, to fail early if there are none. Blocks.
    pub fn load_trust(&self) -> Result<(), TrustError> {
        self.connector.load_trust()
    }

    /// Sends a request to its absolute URI and returns the response when its head has arrived. Redirects are not
    /// followed.
    pub async fn send(&self, mut request: Request<B>) -> Result<Response<ResponseBody>, Error> {
        let host: Arc<str> = authority(request.uri()).into();
        let failed = |kind| Error { host: host.to_string(), kind };
        request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
        let informational = count_informational(&mut request, self.limits.informational);
        let mut connection = capture_connection(&mut request);
        let progress = Progress::default();
        let request = request.map(|body| RequestBody::new(body, progress.clone()));
        let head_timeout = async {
            match self.timeouts.head {
                Some(timeout) => {
                    // Connecting has its own timeouts.
                    let _ = connection.wait_for_connection_metadata().await;
                    progress.touch();
                    progress.none_for(timeout).await;
                }
                None => std::future::pending().await,
            }
        };
        let response = tokio::select! {
            response = self.inner.request(request) => response.map_err(|error| match Failed::taken_from(&error) {
                Some(kind) => failed(kind),
                None => failed(Kind::Exchange(error)),
            })?,
            () = informational.notified() => return Err(failed(Kind::Informational)),
            () = head_timeout => return Err(failed(Kind::HeadTimeout)),
        };
        let (stall, limit) = (self.timeouts.stall, self.limits.body_bytes);
        Ok(response.map(|body| ResponseBody::new(body, Arc::clone(&host), stall, limit)))
    }
}

/// Notifies when a request gets more informational responses than `limit`.
fn count_informational<B>(request: &mut Request<B>, limit: u32) -> Arc<Notify> {
    let (seen, exceeded) = (AtomicU32::new(0), Arc::new(Notify::new()));
    let notify = Arc::clone(&exceeded);
    hyper::ext::on_informational(request, move |_| {
        if seen.fetch_add(1, Ordering::Relaxed) >= limit {
            notify.notify_one();
        }
    });
    exceeded
}
