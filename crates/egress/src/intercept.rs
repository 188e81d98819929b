//! Ends TLS of a host whose requests are changed, with a certificate that only this sandbox trusts, and serves the requests inside.

use std::sync::Arc;

use cabana_types::egress::HostName;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::http::{Scheme, serve_http};
use crate::session::Session;
use crate::stream::Stream;

/// Serves an intercepted connection. A sandbox that does not trust its authority ends the handshake.
pub(crate) async fn intercept(session: &Arc<Session>, stream: impl Stream, name: HostName) {
    let limits = session.proxy.config.limits;
    let prepared = async {
        let authority = session.proxy.credentials.authority(&session.owner).await.map_err(|error| error.to_string())?;
        authority.server_config(&name).map_err(|error| error.to_string())
    };
    let config = match timeout(limits.connect, prepared).await {
        Ok(Ok(config)) => config,
        Ok(Err(error)) => {
            tracing::warn!(sandbox = %session.owner, host = %name, error, "a connection cannot be intercepted");
            return;
        }
        Err(_) => return,
    };
    match timeout(limits.head, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => serve_http(session, stream, Scheme::Tls(name)).await,
        Ok(Err(error)) => {
            tracing::debug!(sandbox = %session.owner, host = %name, %error, "TLS handshake with a sandbox failed");
        }
        Err(_) => {}
    }
}
