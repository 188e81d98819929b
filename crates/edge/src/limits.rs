//! Limits of one listener.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use cabana_types::address::Prefix;

/// Limits of one listener.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections; more wait in the kernel's queue.
    pub connections: usize,
    /// Open connections of one client: an IPv4 address, or an IPv6 network of 64 bits.
    pub client_connections: usize,
    /// Clients without a limit of their own: this machine, and proxies that stand for many clients.
    pub unlimited: Vec<Prefix>,
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
            head: Duration::from_secs(15),
            idle: Duration::from_secs(330),
            unread: Duration::from_secs(60 * 60),
            grace: Duration::from_secs(2),
            handshake: Duration::from_secs(10),
        }
    }
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
    fn an_ipv6_network_is_one_client() {
        let client = |text: &str| client_of(text.parse().expect("address")).to_string();
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(client("192.0.2.7"), "192.0.2.7");
        assert_eq!(client("::ffff:192.0.2.7"), "192.0.2.7");
        assert!(this_machine().iter().any(|own| own.contains([127, 9, 9, 9].into())));
    }
}
