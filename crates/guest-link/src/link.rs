//! The link itself: addresses of one guest, and connecting to them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use crate::legacy;
use crate::stream::Stream;

/// How long to retry if the guest's accept queue is full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A full accept queue of a Unix socket fails with "would block" and gives no signal when there is room.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// A sandbox's address responds at once or not at all.
const TCP_TIMEOUT: Duration = Duration::from_secs(2);

/// A listener of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// Requests of the host itself: health, readiness, activity, stopping, bridges.
    Control,
    /// Requests of clients: E2B's API.
    Traffic,
}

/// Address of a sandbox's guest. A backend whose guest cannot have a socket on the host adds a variant (TCP with a
/// token, vsock).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestLink {
    /// Two Unix sockets on the host, and an IPv4 address that only the host can route to.
    Unix {
        /// Socket of [`Port::Control`].
        control: PathBuf,
        /// Socket of [`Port::Traffic`].
        traffic: PathBuf,
        /// Address of ports that listen on `0.0.0.0` inside.
        address: Ipv4Addr,
    },
    /// One Unix socket for both: a sandbox that an earlier version of the server launched. See `legacy.rs`.
    UnixShared {
        /// The socket.
        socket: PathBuf,
        /// Address of ports that listen on `0.0.0.0` inside.
        address: Ipv4Addr,
    },
}

impl GuestLink {
    /// Connects to a listener of the guest.
    pub async fn connect(&self, port: Port) -> io::Result<Stream> {
        let path = match (self, port) {
            (Self::Unix { control, .. }, Port::Control) => control,
            (Self::Unix { traffic, .. }, Port::Traffic) => traffic,
            (Self::UnixShared { socket, .. }, _) => socket,
        };
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        loop {
            match UnixStream::connect(path).await {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                    sleep(RETRY_INTERVAL).await;
                }
                result => return result.map(Stream::Unix),
            }
        }
    }

    /// Connects to a TCP port that listens on all addresses inside. Ports on loopback inside need [`crate::bridge`].
    pub async fn connect_tcp(&self, port: u16) -> io::Result<Stream> {
        let stream = timeout(TCP_TIMEOUT, TcpStream::connect((self.address(), port))).await??;
        stream.set_nodelay(true)?;
        Ok(Stream::Tcp(stream))
    }

    /// The address of its TCP ports, for TLS clients.
    pub fn address(&self) -> IpAddr {
        match self {
            Self::Unix { address, .. } | Self::UnixShared { address, .. } => (*address).into(),
        }
    }

    /// Whether a path must not be forwarded to [`Port::Traffic`]. False for every guest that has a control port: such a
    /// guest answers 404 itself.
    pub fn is_closed_to_traffic(&self, path: &str) -> bool {
        match self {
            Self::Unix { .. } => false,
            Self::UnixShared { .. } => legacy::CONTROL_PATHS.contains(&path),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, UnixListener};

    use super::*;

    /// Serves one connection with a fixed text.
    fn serve(listener: UnixListener, text: &'static [u8]) {
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(text).await.unwrap();
        });
    }

    async fn read(mut stream: Stream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn each_port_has_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        let [control, traffic] = ["control", "traffic"].map(|name| dir.path().join(name));
        serve(UnixListener::bind(&control).unwrap(), b"control");
        serve(UnixListener::bind(&traffic).unwrap(), b"traffic");
        let link = GuestLink::Unix { control, traffic, address: Ipv4Addr::LOCALHOST };
        assert_eq!(read(link.connect(Port::Traffic).await.unwrap()).await, "traffic");
        assert_eq!(read(link.connect(Port::Control).await.unwrap()).await, "control");
        assert!(!link.is_closed_to_traffic("/init"));
    }

    #[tokio::test]
    async fn a_guest_of_an_earlier_version_has_one_socket() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("guest.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let link = GuestLink::UnixShared { socket, address: Ipv4Addr::LOCALHOST };
        serve(listener, b"both");
        assert_eq!(read(link.connect(Port::Control).await.unwrap()).await, "both");
        for path in ["/init", "/bridge", "/stop", "/freeze"] {
            assert!(link.is_closed_to_traffic(path), "{path}");
        }
        for path in ["/health", "/files", "/", "/initial"] {
            assert!(!link.is_closed_to_traffic(path), "{path}");
        }
    }

    #[tokio::test]
    async fn tcp_ports_are_at_the_address() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let link = GuestLink::UnixShared { socket: PathBuf::new(), address: Ipv4Addr::LOCALHOST };
        assert!(matches!(link.connect_tcp(port).await.unwrap(), Stream::Tcp(_)));
        drop(listener);
        assert!(link.connect_tcp(port).await.is_err());
    }
}
