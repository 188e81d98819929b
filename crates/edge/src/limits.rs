//! Limits of one listener.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use cabana_types::address::Prefix;
use http::HeaderMap;

use crate::rates::RateLimit;

/// Limits of one listener.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections; more wait in the kernel's queue.
    pub connections: usize,
    /// Open connections of one client: an IPv4 address, or an IPv6 network of 64 bits.
    pub client_connections: usize,
    /// Clients without a limit of their own: this machine, and proxies that stand for many clients.
    pub unlimited: Vec<Prefix>,
    /// Proxies that name the client in `X-Forwarded-For`.
    pub proxies: Vec<Prefix>,
    /// Requests of one client, unless it is this machine.
    pub rate: Option<Arc<RateLimit<IpAddr>>>,
    /// Time for a request head, from its first byte.
    pub head: Duration,
    /// Time between requests on one connection. E2B's clients keep connections for 300 seconds and expect them to live.
    pub idle: Duration,
    /// How long a client may leave a response unread. Some programs read the output of a command much later.
    pub unread: Duration,
    /// Time for responses in flight to finish when the listener closes.
    pub grace: Duration,
    /// Time for the TLS handshake.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16 * 1024,
            client_connections: 2048,
            unlimited: this_machine(),
            proxies: vec![],
            rate: None,
            head: Duration::from_secs(15),
            idle: Duration::from_secs(330),
            unread: Duration::from_secs(60 * 60),
            grace: Duration::from_secs(2),
            handshake: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The client that a request counts for; `None` for this machine.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        let peer = peer.to_canonical();
        let is_in = |prefixes: &[Prefix], address| prefixes.iter().any(|prefix| prefix.contains(address));
        if is_in(&self.proxies, peer) {
            // Every proxy adds the address that it sees at the end. What is before the first unknown one may be forged.
            let values = headers.get_all("x-forwarded-for").iter().rev();
            let mut named = values.flat_map(|value| value.as_bytes().rsplit(|b| *b == b',')).map(parse_address);
            return Some(match named.find(|named| named.is_none_or(|address| !is_in(&self.proxies, address))) {
                Some(Some(address)) => client_of(address),
                Some(None) | None => peer,
            });
        }
        (!is_in(&this_machine(), peer)).then(|| client_of(peer))
    }
}

/// An address as proxies write it, perhaps with a port.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    let bare = || text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    bare().or_else(with_port).map(|address| address.to_canonical())
}

/// The loopback addresses.
pub fn this_machine() -> Vec<Prefix> {
    let v4 = Prefix::new(IpAddr::from([127, 0, 0, 0]), 8);
    let v6 = Prefix::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 128);
    v4.into_iter().chain(v6).collect()
}

/// The address that stands for a client: an IPv6 client usually has a whole network of 64 bits.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_unknown_address_is_the_client() {
        let proxies = ["127.0.0.1", "10.0.0.0/24"].map(|proxy| proxy.parse().expect("prefix"));
        let limits = Limits { proxies: proxies.into(), ..Limits::default() };
        let client = |peer: &str, forwarded: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append("x-forwarded-for", http::HeaderValue::from_static(value));
            }
            limits.client(peer.parse().expect("address"), &headers).map(|client| client.to_string())
        };
        let named = |address: &str| Some(address.to_owned());
        assert_eq!(client("127.0.0.1", &["6.6.6.6, 192.0.2.1"]), named("192.0.2.1"));
        assert_eq!(client("127.0.0.1", &["6.6.6.6", "192.0.2.1:999, 10.0.0.7"]), named("192.0.2.1"));
        assert_eq!(client("10.0.0.9", &["[2001:db8::1]:443"]), named("2001:db8::"));
        assert_eq!(client("127.0.0.1", &["6.6.6.6, unknown"]), named("127.0.0.1"));
        assert_eq!(client("127.0.0.1", &[]), named("127.0.0.1"));
        assert_eq!(client("192.0.2.5", &["6.6.6.6"]), named("192.0.2.5"), "not a proxy");
        assert_eq!(client("127.0.0.2", &["6.6.6.6"]), None, "this machine");
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let client = |text: &str| client_of(text.parse().expect("address")).to_string();
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(client("192.0.2.7"), "192.0.2.7");
        assert_eq!(client("::ffff:192.0.2.7"), "192.0.2.7");
        assert!(this_machine().iter().any(|own| own.contains([127, 9, 9, 9].into())));
    }
}
