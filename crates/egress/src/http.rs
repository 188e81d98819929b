//! HTTP/1 of sandboxes: every request is checked on its own, gets the secrets that its host's rules and placeholders say,
//! and is sent on a connection that was made for its host.
//!
//! hyper parses the request and writes it anew, so the server reads what was checked: nothing that another parser could
//! read differently (bare LF, `Content-Length` beside `Transfer-Encoding`, a request hidden in a body) gets through.

mod answer;
mod exchange;
mod fill;
mod replace;
mod target;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use cabana_types::egress::HostName;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use self::exchange::Exchange;
use crate::session::Session;
use crate::stream::{Activity, Lingering, Stream, Watched};

/// How long a sandbox may take for a request head, or be silent between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Bytes and headers of a head.
pub(super) const MAX_HEAD: usize = 64 * 1024;
pub(super) const MAX_HEADERS: usize = 128;

/// How the sandbox connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Without TLS: each request names its host.
    Plain,
    /// With TLS to this host.
    Tls(HostName),
}

/// Why a connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is denied")]
pub(crate) struct Closed;

impl From<Infallible> for Closed {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Serves the requests of a connection.
pub(crate) async fn serve_http(session: &Arc<Session>, stream: impl Stream, scheme: Scheme) {
    let activity = Activity::new();
    let io = TokioIo::new(Lingering::new(Watched { stream, activity: activity.clone() }));
    let exchange = Arc::new(Exchange::new(Arc::clone(session), scheme));
    let service = service_fn(move |request| Arc::clone(&exchange).handle(request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD)
        .preserve_header_case(true)
        .auto_date_header(false)
        .serve_connection(io, service)
        .with_upgrades();
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(sandbox = %session.owner, %error, "an HTTP connection of a sandbox ended");
            }
        }
        () = activity.idle(session.proxy.config.limits.idle) => {}
    }
}
