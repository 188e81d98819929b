//! Address policy: which addresses a client may connect to.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use cabana_types::address::{Class, Scope, carried};
use tokio::net::UdpSocket;

/// Which addresses a client may connect to. URLs often come from users who must not reach through the server what they
/// cannot reach themselves: the host, its network, sandboxes, a cloud's metadata service.
#[derive(Debug, Clone)]
pub enum AddressPolicy {
    /// Every address: the URL is the operator's or the user's own.
    Any,
    /// Public addresses, and internal ones.
    Internal,
    /// Public addresses that are not this machine's. Hosts in `internal_hosts` may have internal addresses too.
    Public {
        /// Host, with the port unless it is the scheme's default.
        internal_hosts: BTreeSet<String>,
    },
}

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It belongs to a private network.
    Internal,
    /// It belongs to this machine.
    Own,
    /// It is a metadata service or not a server's address.
    Forbidden,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Internal => "is not public",
            Self::Own => "is not public: it is one of this machine's",
            Self::Forbidden => "is not public and never allowed",
        })
    }
}

impl AddressPolicy {
    /// Public addresses only.
    pub fn public() -> Self {
        Self::Public { internal_hosts: BTreeSet::new() }
    }

    /// Checks an address before connecting.
    pub(crate) async fn check(&self, authority: &str, address: SocketAddr) -> Result<(), Refusal> {
        let internal = match self {
            Self::Any => return Ok(()),
            Self::Internal => true,
            Self::Public { internal_hosts } => internal_hosts.contains(authority),
        };
        match Class::of(address.ip()).scope() {
            Scope::Forbidden => Err(Refusal::Forbidden),
            Scope::Internal if internal => Ok(()),
            Scope::Internal => Err(Refusal::Internal),
            Scope::Public if !internal && is_own(address.ip()).await => Err(Refusal::Own),
            Scope::Public => Ok(()),
        }
    }
}

/// Whether an address, or the IPv4 address embedded in it, belongs to this machine.
pub(crate) async fn is_own(address: IpAddr) -> bool {
    let inner = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => carried(v6),
    };
    is_local(address).await
        || match inner {
            Some(inner) => is_local(inner.into()).await,
            None => false,
        }
}

/// Packets to an address of this machine leave from that same address. Connecting a UDP socket sends nothing.
async fn is_local(address: IpAddr) -> bool {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let Ok(socket) = UdpSocket::bind(any).await else { return false };
    // The port does not matter, but 0 is refused by some systems.
    socket.connect((address, 9)).await.is_ok() && socket.local_addr().is_ok_and(|local| local.ip() == address)
}
