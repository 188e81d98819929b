//! Queries the resolvers: each query has its own port and id, and the next resolver is tried if one does not respond.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use super::packet::{Query, Verdict};
use super::resolvers::Resolvers;

/// By then the sandbox has timed out, too.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum timeout of one resolver.
const LEAST_TRY: Duration = Duration::from_secs(1);

/// Longest UDP response; a longer one is fetched over TCP.
const LONGEST_UDP: usize = 8192;

/// Number of unrelated packets after which someone is assumed to guess ids.
const MOST_STRANGERS: usize = 32;

#[derive(Debug)]
pub(super) struct Upstream {
    resolvers: Resolvers,
    /// Index of the resolver that responded last; the next query starts there.
    good: AtomicUsize,
}

impl Upstream {
    pub(super) fn new(resolvers: Resolvers) -> Upstream {
        Upstream { resolvers, good: AtomicUsize::new(0) }
    }

    /// The response of the host's resolvers with the client's id; `None` if none responded in time. `tcp` is the client's
    /// transport, which limits the size of the response.
    pub(super) async fn ask(&self, query: &Query, tcp: bool) -> Option<Vec<u8>> {
        let start = self.good.load(Ordering::Relaxed);
        let (answer, number) = ask_each(&self.resolvers.current(), start, query, tcp).await?;
        if let Some(number) = number {
            self.good.store(number, Ordering::Relaxed);
        }
        Some(answer)
    }
}

/// The response of one of the servers, and the number of the server if it is not a failure.
pub(super) async fn ask_each(
    servers: &[SocketAddr],
    start: usize,
    query: &Query,
    tcp: bool,
) -> Option<(Vec<u8>, Option<usize>)> {
    if servers.is_empty() {
        return None;
    }
    let deadline = Instant::now() + TIMEOUT;
    // A packet can get lost: even a single resolver is tried twice.
    let tries = servers.len().max(2);
    let share = (TIMEOUT / u32::try_from(tries).unwrap_or(u32::MAX)).max(LEAST_TRY);
    let mut fallback = None;
    for attempt in 0..tries {
        let number = (start + attempt) % servers.len();
        let until = deadline.min(Instant::now() + share);
        match timeout_at(until, fetch(servers[number], query, tcp)).await {
            Ok(Ok((answer, false))) => return Some((query.own(answer), Some(number))),
            // A failure is returned if no other resolver does better.
            Ok(Ok((answer, true))) => fallback = Some(answer),
            Ok(Err(_)) | Err(_) => {}
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    fallback.map(|answer| (query.own(answer), None))
}

/// One resolver's response, and whether it is a failure.
async fn fetch(server: SocketAddr, query: &Query, tcp: bool) -> io::Result<(Vec<u8>, bool)> {
    let (short, verdict) = over_udp(server, query).await?;
    if !verdict.truncated {
        return Ok((short, verdict.failed));
    }
    match timeout(TIMEOUT / 2, over_tcp(server, query)).await {
        Ok(Ok((whole, verdict))) if tcp || whole.len() <= query.limit() => Ok((whole, verdict.failed)),
        // A truncated UDP response makes the client retry over TCP.
        _ if !tcp => Ok((short, verdict.failed)),
        Ok(Err(e)) => Err(e),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn over_udp(server: SocketAddr, query: &Query) -> io::Result<(Vec<u8>, Verdict)> {
    let any: SocketAddr =
        if server.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    let id = rand::random();
    socket.send(&query.with_id(id)).await?;
    let mut buffer = vec![0; LONGEST_UDP];
    for _ in 0..MOST_STRANGERS {
        let length = socket.recv(&mut buffer).await?;
        if let Some(mut verdict) = query.judge(&buffer[..length], id) {
            // A full buffer may hold a truncated packet.
            verdict.truncated |= length == LONGEST_UDP;
            return Ok((buffer[..length].to_vec(), verdict));
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

async fn over_tcp(server: SocketAddr, query: &Query) -> io::Result<(Vec<u8>, Verdict)> {
    let mut stream = TcpStream::connect(server).await?;
    let id = rand::random();
    let bytes = query.with_id(id);
    let length = u16::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes()[..], &bytes].concat()).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    let verdict = query.judge(&answer, id).ok_or(io::ErrorKind::InvalidData)?;
    Ok((answer, verdict))
}
