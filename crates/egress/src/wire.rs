//! What the proxy asks of the kernel. Tests have their own, because redirecting needs a packet filter.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use async_trait::async_trait;
use rustix::net::sockopt;
use tokio::net::TcpStream;

/// Idle time after which the kernel sends keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Redirected connections, and new ones.
#[async_trait]
pub trait Wire: Send + Sync {
    /// Where the sandbox wanted to connect to.
    fn original(&self, stream: &TcpStream) -> io::Result<SocketAddrV4>;

    /// Connects.
    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// The kernel.
#[derive(Debug, Clone, Copy)]
pub struct Kernel;

#[async_trait]
impl Wire for Kernel {
    fn original(&self, stream: &TcpStream) -> io::Result<SocketAddrV4> {
        Ok(sockopt::ip_original_dst(stream)?)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}

/// Prepares a connection: small writes are sent at once, and a peer that is gone is noticed.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    Ok(())
}
