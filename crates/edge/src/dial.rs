//! Opens connections to a sandbox over its guest link: to the guest's traffic port, to other ports directly, and to ports that listen on
//! loopback inside through the guest's bridge.

use std::io;

use cabana_body_drain::TrackedBody;
use cabana_guest_link::Port as LinkPort;
use cabana_http1::{Bounded, Head, Sender, handshake};
use cabana_types::routing::GUEST_PORT;
use hyper::body::Body;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::early_reply::ReplyStream;
use crate::response::ProxyError;
use crate::traffic;
use crate::upstream::{ConnectionPermit, Upstream};

/// Opens a connection to a port.
pub(crate) async fn dial(upstream: &Upstream, port: u16) -> Result<Sender<TrackedBody>, ProxyError> {
    let permit = upstream.permit().ok_or(ProxyError::TooManyConnections)?;
    if port == GUEST_PORT {
        let stream = upstream
            .route
            .link
            .connect(LinkPort::Traffic)
            .await
            .map_err(|error| port_closed(upstream, port, &error))?;
        let head = Head::default();
        return start_http(upstream, head.plain(ReplyStream::new(stream)), head, Some(permit))
            .await
            .map_err(|error| port_closed(upstream, port, &error));
    }
    if upstream.is_bridged(port) {
        // The bridge worked last time; by now a direct connection may.
        match bridge(upstream, port).await {
            Ok(upgraded) => return connect_http(upstream, port, TokioIo::new(upgraded), permit).await,
            Err(_) => {
                let stream =
                    upstream.route.link.connect_tcp(port).await.map_err(|error| port_closed(upstream, port, &error))?;
                upstream.set_bridged(port, false);
                return connect_http(upstream, port, ReplyStream::new(stream), permit).await;
            }
        }
    }
    match upstream.route.link.connect_tcp(port).await {
        Ok(stream) => connect_http(upstream, port, ReplyStream::new(stream), permit).await,
        Err(_) => {
            let upgraded = bridge(upstream, port).await.map_err(|error| port_closed(upstream, port, &error))?;
            upstream.set_bridged(port, true);
            connect_http(upstream, port, TokioIo::new(upgraded), permit).await
        }
    }
}

async fn connect_http<T>(
    upstream: &Upstream,
    port: u16,
    io: T,
    permit: ConnectionPermit,
) -> Result<Sender<TrackedBody>, ProxyError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let head = Head::default();
    if !upstream.route.traffic.https_ports.contains(&port) {
        let started = start_http(upstream, head.plain(io), head, Some(permit)).await;
        return started.map_err(|error| port_closed(upstream, port, &error));
    }
    let encrypted = async {
        let stream = traffic::connect_tls(upstream.route.link.address(), head.encrypted(io)).await?;
        start_http(upstream, head.decrypted(stream), head, Some(permit)).await
    };
    encrypted.await.map_err(|error: io::Error| {
        tracing::debug!(sandbox = %upstream.route.id, port, %error, "port does not speak TLS");
        ProxyError::NoResponse
    })
}

fn port_closed(upstream: &Upstream, port: u16, error: &io::Error) -> ProxyError {
    tracing::debug!(sandbox = %upstream.route.id, port, %error, "port is not open");
    ProxyError::PortClosed
}

/// A connection to a port on the sandbox's loopback, through the guest.
async fn bridge(upstream: &Upstream, port: u16) -> io::Result<hyper::upgrade::Upgraded> {
    let stream = upstream.route.link.connect(LinkPort::Control).await?;
    let head = Head::default();
    let mut sender = start_http(upstream, head.plain(ReplyStream::new(stream)), head, None).await?;
    cabana_guest_link::bridge(&mut sender, port, upstream.route.access_token.as_ref()).await
}

/// Starts HTTP over a stream. Its task ends with the stream, with the last sender, or with the sandbox.
async fn start_http<T, B>(
    upstream: &Upstream,
    io: Bounded<T>,
    head: Head,
    permit: Option<ConnectionPermit>,
) -> io::Result<Sender<B>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (sender, connection) = handshake(io, head).await?;
    let gone = upstream.route.gone.clone();
    tokio::spawn(async move {
        let _permit = permit;
        tokio::select! {
            biased;
            () = gone.cancelled() => {}
            ended = connection.with_upgrades() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection to a sandbox ended");
                }
            }
        }
    });
    Ok(sender)
}
