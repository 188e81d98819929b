//! The name server of the sandboxes: passes their queries to the host's resolvers. It answers nobody else, and
//! refuses those without internet. What comes in is hostile, so everything is bounded.

mod packet;
mod quota;
mod resolvers;
mod upstream;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use crate::Error;
use crate::ledger::Ledger;
use crate::plan::Plan;
use packet::{Query, Refusal};
use quota::Quota;
use resolvers::Resolvers;
use upstream::Upstream;

const PORT: u16 = 53;

/// Longest query; real ones are below 512 bytes.
const LONGEST_QUERY: usize = 4096;

/// Queries on their way, of one sandbox and of all.
const QUERIES: (usize, usize) = (64, 1024);

/// TCP connections, of one sandbox and of all.
const CONNECTIONS: (usize, usize) = (8, 256);

/// How long a TCP connection may be silent, and how long it may last.
const IDLE: Duration = Duration::from_secs(10);
const CONNECTION_LIFE: Duration = Duration::from_secs(120);

/// After an error of a socket that serves all.
const PAUSE: Duration = Duration::from_millis(20);

/// Bytes that the socket for all keeps until they are read: what some thousand queries take. The packet filter sees to it that no sandbox
/// fills it alone.
const BUFFER: usize = 4 << 20;

/// How long to wait for the address to become free: the server before us may still be closing.
const BIND_PATIENCE: Duration = Duration::from_secs(3);

/// What every query needs.
struct Desk {
    plan: Arc<Plan>,
    ledger: Arc<Ledger>,
    upstream: Upstream,
    queries: Quota,
    connections: Quota,
}

/// Who asks.
enum Asker {
    /// A sandbox with internet.
    Online(u32),
    /// A sandbox without.
    Offline(u32),
}

/// Binds the forwarder's address and serves in the background.
pub(crate) async fn start(
    plan: Arc<Plan>,
    ledger: Arc<Ledger>,
    resolvers: Vec<SocketAddr>,
) -> Result<Vec<AbortHandle>, Error> {
    let address = SocketAddr::new(IpAddr::V4(plan.dns()), PORT);
    let (udp, tcp) = bind(address).await.map_err(|source| Error::DnsBind { address, source })?;
    let upstream = Upstream::new(Resolvers::new(resolvers, plan.dns()));
    let queries = Quota::new(QUERIES.0, QUERIES.1);
    let connections = Quota::new(CONNECTIONS.0, CONNECTIONS.1);
    let desk = Arc::new(Desk { plan, ledger, upstream, queries, connections });
    let udp = tokio::spawn(serve_udp(Arc::clone(&desk), Arc::new(udp)));
    let tcp = tokio::spawn(serve_tcp(desk, tcp));
    Ok(vec![udp.abort_handle(), tcp.abort_handle()])
}

async fn bind(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let deadline = Instant::now() + BIND_PATIENCE;
    loop {
        let bound = async {
            let tcp = TcpSocket::new_v4()?;
            tcp.set_reuseaddr(true)?;
            tcp.bind(address)?;
            let tcp = tcp.listen(128)?;
            let udp = UdpSocket::bind(address).await?;
            enlarge(&udp);
            Ok((udp, tcp))
        };
        match bound.await {
            Err::<_, io::Error>(e) if e.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// Gives a socket a large buffer: beyond what the machine allows everybody where we may, else as much as that.
fn enlarge(socket: &UdpSocket) {
    use nix::sys::socket::{setsockopt, sockopt};
    let enlarged =
        setsockopt(socket, sockopt::RcvBufForce, &BUFFER).or_else(|_| setsockopt(socket, sockopt::RcvBuf, &BUFFER));
    if let Err(error) = enlarged {
        debug!(%error, "the name server's buffer stays as it is");
    }
}

async fn serve_udp(desk: Arc<Desk>, socket: Arc<UdpSocket>) {
    let mut under_way = JoinSet::new();
    let mut buffer = vec![0; LONGEST_QUERY + 1];
    loop {
        while under_way.try_join_next().is_some() {}
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(e) => {
                // Errors of earlier answers may be reported here (a sandbox that is gone); they concern nobody else.
                debug!(error = %e, "receiving DNS queries");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(asker) = desk.asker(from) else { continue };
        if length > LONGEST_QUERY {
            continue;
        }
        // Too many at once: silence makes the sender ask again later.
        let Some(permit) = desk.queries.enter(asker.index()) else { continue };
        let (desk, socket, bytes) = (Arc::clone(&desk), Arc::clone(&socket), buffer[..length].to_vec());
        under_way.spawn(async move {
            if let Some(answer) = desk.answer(&asker, &bytes, false).await {
                // Who asked may be gone.
                let _ = socket.send_to(&answer, from).await;
            }
            drop(permit);
        });
    }
}

async fn serve_tcp(desk: Arc<Desk>, listener: TcpListener) {
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                // Out of descriptors, or a connection that is gone again: neither is helped by a busy loop.
                warn!(error = %e, "accepting DNS connections");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(asker) = desk.asker(from) else { continue };
        let Some(permit) = desk.connections.enter(asker.index()) else { continue };
        let desk = Arc::clone(&desk);
        open.spawn(async move {
            if let Ok(Err(e)) = timeout(CONNECTION_LIFE, desk.converse(stream, from)).await {
                debug!(error = %e, "a DNS connection ended early");
            }
            drop(permit);
        });
    }
}

impl Asker {
    fn index(&self) -> u32 {
        match self {
            Asker::Online(index) | Asker::Offline(index) => *index,
        }
    }
}

impl Desk {
    /// The sandbox behind a source address, which the packet filter has checked.
    fn asker(&self, from: SocketAddr) -> Option<Asker> {
        let IpAddr::V4(address) = from.ip() else { return None };
        let index = self.plan.index_of(address)?;
        Some(if self.ledger.internet(index)? { Asker::Online(index) } else { Asker::Offline(index) })
    }

    /// The answer to a query; `None` if it deserves none.
    async fn answer(&self, asker: &Asker, bytes: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let query = match Query::read(bytes) {
            Ok(query) => query,
            Err(Refusal::Silence) => return None,
            Err(Refusal::Code(code)) => return packet::bare_answer(bytes, code),
        };
        if matches!(asker, Asker::Offline(_)) {
            return Some(query.failure(packet::REFUSED));
        }
        Some(self.upstream.ask(&query, tcp).await.unwrap_or_else(|| query.failure(packet::SERVFAIL)))
    }

    /// One TCP connection: query after query, each with its length before it.
    async fn converse(&self, mut stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        loop {
            let length = match timeout(IDLE, stream.read_u16()).await {
                Err(_) => return Ok(()),
                Ok(Err(e)) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Ok(length) => usize::from(length?),
            };
            if length > LONGEST_QUERY {
                return Ok(());
            }
            let mut bytes = vec![0; length];
            timeout(IDLE, stream.read_exact(&mut bytes)).await??;
            // Its rights may have changed since the query before.
            let Some(asker) = self.asker(from) else { return Ok(()) };
            let Some(_permit) = self.queries.enter(asker.index()) else { return Ok(()) };
            let Some(answer) = self.answer(&asker, &bytes, true).await else { return Ok(()) };
            let Ok(length) = u16::try_from(answer.len()) else { return Ok(()) };
            let framed = [&length.to_be_bytes()[..], &answer].concat();
            timeout(IDLE, stream.write_all(&framed)).await??;
        }
    }
}
