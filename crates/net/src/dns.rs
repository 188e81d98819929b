//! The DNS forwarder of the sandboxes: forwards their queries to the servers of their policy, or to the host's resolvers.
//! It ignores other clients and refuses names that the policy does not allow to resolve. The input is untrusted, so
//! everything is bounded.

mod lookup;
mod packet;
mod quota;
mod resolvers;
mod upstream;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use cabana_supervisor::{Restart, Supervisor};
use cabana_types::EgressPolicy;
use cabana_types::address::Prefix;
use cabana_types::egress::{Bounds, Denial, Protocol, Proxied, Rule};
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use crate::Error;
use crate::addressing::Addressing;
use crate::egress::SharedBounds;
use crate::ledger::Ledger;
use crate::tenant::Tenant;
pub(crate) use lookup::Lookup;
use packet::{Query, Refusal};
use quota::Quota;
use resolvers::Resolvers;
use upstream::Upstream;

const PORT: u16 = 53;
/// Port to which queries to other servers are redirected. Only root may listen on it.
pub(crate) const REDIRECTED_PORT: u16 = 1021;

/// Longest query; real ones are below 512 bytes.
const LONGEST_QUERY: usize = 4096;

/// Concurrent queries, per sandbox and in total.
const QUERIES: (usize, usize) = (64, 1024);

/// TCP connections, per sandbox and in total.
const CONNECTIONS: (usize, usize) = (8, 256);

/// Idle timeout and maximum duration of a TCP connection.
const IDLE: Duration = Duration::from_secs(10);
const CONNECTION_LIFE: Duration = Duration::from_secs(120);

/// Delay after an error of a listening socket.
const PAUSE: Duration = Duration::from_millis(20);

/// Receive buffer of the UDP socket: several thousand queries. The packet filter limits the rate of each sandbox,
/// so that a single one cannot fill it.
const BUFFER: usize = 4 << 20;

/// How long to wait for the address: the previous server may still be closing.
const BIND_TIMEOUT: Duration = Duration::from_secs(3);

const RESTART: Restart = Restart::forever().delays(Duration::from_millis(50), Duration::from_secs(5));

/// State shared by all queries.
struct Forwarder {
    addressing: Arc<Addressing>,
    ledger: Arc<Ledger>,
    bounds: Arc<SharedBounds>,
    upstream: Arc<Upstream>,
    queries: Quota,
    connections: Quota,
}

/// The sandbox that sent a query.
struct Asker {
    index: u32,
    tenant: Arc<Tenant>,
}

/// Binds the forwarder's address and serves in the background.
pub(crate) async fn start(
    supervisor: &Supervisor,
    addressing: Arc<Addressing>,
    ledger: Arc<Ledger>,
    bounds: Arc<SharedBounds>,
    resolvers: Vec<SocketAddr>,
) -> Result<Arc<Lookup>, Error> {
    let bind = async |port| {
        let address = SocketAddr::new(IpAddr::V4(addressing.dns()), port);
        bind(address).await.map_err(|source| Error::DnsBind { address, source })
    };
    let (direct, redirected) = (bind(PORT).await?, bind(REDIRECTED_PORT).await?);
    let upstream = Arc::new(Upstream::new(Resolvers::new(resolvers, addressing.dns())));
    let lookup = Arc::new(Lookup::new(Arc::clone(&upstream)));
    let queries = Quota::new(QUERIES.0, QUERIES.1);
    let connections = Quota::new(CONNECTIONS.0, CONNECTIONS.1);
    let forwarder = Arc::new(Forwarder { addressing, ledger, bounds, upstream, queries, connections });
    for ((udp, tcp), names) in [
        (direct, ["DNS over UDP", "DNS over TCP"]),
        (redirected, ["redirected DNS over UDP", "redirected DNS over TCP"]),
    ] {
        // The sockets outlive a restart of the tasks, so that no other program can take the address.
        let (udp, tcp) = (Arc::new(udp), Arc::new(tcp));
        let (for_udp, for_tcp) = (Arc::clone(&forwarder), Arc::clone(&forwarder));
        supervisor.restart(names[0], RESTART, move |stop| {
            let serve = serve_udp(Arc::clone(&for_udp), Arc::clone(&udp));
            async move {
                stop.run_until_cancelled(serve).await;
            }
        });
        supervisor.restart(names[1], RESTART, move |stop| {
            let serve = serve_tcp(Arc::clone(&for_tcp), Arc::clone(&tcp));
            async move {
                stop.run_until_cancelled(serve).await;
            }
        });
    }
    Ok(lookup)
}

async fn bind(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let deadline = Instant::now() + BIND_TIMEOUT;
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

/// Enlarges the receive buffer of a socket: beyond the system's limit if permitted, else up to it.
fn enlarge(socket: &UdpSocket) {
    use nix::sys::socket::{setsockopt, sockopt};
    let enlarged =
        setsockopt(socket, sockopt::RcvBufForce, &BUFFER).or_else(|_| setsockopt(socket, sockopt::RcvBuf, &BUFFER));
    if let Err(error) = enlarged {
        debug!(%error, "the DNS socket keeps its default buffer");
    }
}

async fn serve_udp(forwarder: Arc<Forwarder>, socket: Arc<UdpSocket>) {
    let mut under_way = JoinSet::new();
    let mut buffer = vec![0; LONGEST_QUERY + 1];
    loop {
        while under_way.try_join_next().is_some() {}
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(e) => {
                // May be the error of an earlier response to a sandbox that is gone.
                debug!(error = %e, "receiving DNS queries");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(asker) = forwarder.asker(from) else { continue };
        if length > LONGEST_QUERY {
            continue;
        }
        // Too many at once: drop it; the sender retries.
        let Some(permit) = forwarder.queries.enter(asker.index) else { continue };
        let (forwarder, socket, bytes) = (Arc::clone(&forwarder), Arc::clone(&socket), buffer[..length].to_vec());
        under_way.spawn(async move {
            if let Some(answer) = forwarder.answer(&asker, &bytes, false).await {
                // The sandbox may be gone.
                let _ = socket.send_to(&answer, from).await;
            }
            drop(permit);
        });
    }
}

async fn serve_tcp(forwarder: Arc<Forwarder>, listener: Arc<TcpListener>) {
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(e) => {
                // Out of descriptors, or the connection is gone already: avoid a busy loop.
                warn!(error = %e, "accepting DNS connections");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(asker) = forwarder.asker(from) else { continue };
        let Some(permit) = forwarder.connections.enter(asker.index) else { continue };
        let forwarder = Arc::clone(&forwarder);
        open.spawn(async move {
            if let Ok(Err(e)) = timeout(CONNECTION_LIFE, forwarder.serve_connection(stream, from)).await {
                debug!(error = %e, "a DNS connection ended early");
            }
            drop(permit);
        });
    }
}

impl Forwarder {
    /// The sandbox of a source address, which the packet filter has verified.
    fn asker(&self, from: SocketAddr) -> Option<Asker> {
        let IpAddr::V4(address) = from.ip() else { return None };
        let index = self.addressing.index_of(address)?;
        Some(Asker { index, tenant: self.ledger.tenant(index)? })
    }

    /// The response to a query; `None` if it gets none.
    async fn answer(&self, asker: &Asker, bytes: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let query = match Query::read(bytes) {
            Ok(query) => query,
            Err(Refusal::Silence) => return None,
            Err(Refusal::Code(code)) => return packet::bare_answer(bytes, code),
        };
        let (policy, bounds) = (asker.tenant.policy(), self.bounds.get());
        if let Some(rule) = refuse(&query, &policy, &bounds) {
            let (at, destination, rule) = (Timestamp::now(), query.name(), rule.to_string());
            asker.tenant.deny(Denial { at, protocol: Protocol::Dns, destination, rule });
            return Some(query.failure(packet::REFUSED));
        }
        if query.is_service_binding() && policy.proxied(&bounds) != Proxied::None {
            return Some(query.failure(packet::NOERROR));
        }
        let answer = if policy.dns_servers.is_empty() {
            self.upstream.ask(&query, tcp).await
        } else {
            let servers = lookup::servers(&policy, &bounds);
            upstream::ask_each(&servers, 0, &query, tcp).await.map(|(answer, _)| answer)
        };
        Some(answer.unwrap_or_else(|| query.failure(packet::SERVFAIL)))
    }

    /// Serves one TCP connection: length-prefixed queries, one after the other.
    async fn serve_connection(&self, mut stream: TcpStream, from: SocketAddr) -> io::Result<()> {
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
            // Its access may have changed since the last query.
            let Some(asker) = self.asker(from) else { return Ok(()) };
            let Some(_permit) = self.queries.enter(asker.index) else { return Ok(()) };
            let Some(answer) = self.answer(&asker, &bytes, true).await else { return Ok(()) };
            let Ok(length) = u16::try_from(answer.len()) else { return Ok(()) };
            let framed = [&length.to_be_bytes()[..], &answer].concat();
            timeout(IDLE, stream.write_all(&framed)).await??;
        }
    }
}

/// The rule by which a query is refused; `None` if it is allowed.
fn refuse(query: &Query, policy: &EgressPolicy, bounds: &Bounds) -> Option<Rule> {
    match query.host().filter(|_| query.is_internet_class()) {
        Some(name) => {
            let verdict = policy.resolves(&name, bounds);
            (!verdict.allowed).then_some(verdict.rule)
        }
        // No rule can be about it.
        None if policy.denies_all() => Some(Rule::DenyOut(Prefix::ALL_V4)),
        None if bounds.names_hosts() => Some(Rule::OperatorOnly),
        None => None,
    }
}
