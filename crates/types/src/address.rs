//! Classes of IP addresses: one table for everything that decides where traffic may go. The outbound HTTP client checks
//! each address before it connects; the packet filter of sandboxes is built from the same rows.
//!
//! The rows follow IANA's special-purpose registries, plus the metadata services of clouds. The most specific prefix
//! wins. IPv6 addresses that carry an IPv4 address (mapped, NAT64, 6to4) have the class of that address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Purpose of an address range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Reachable on the internet.
    Public,
    /// This machine.
    Loopback,
    /// Private networks (RFC 1918, unique local).
    Private,
    /// Carrier-grade NAT (RFC 6598). Cabana numbers its sandboxes from it.
    Shared,
    /// Protocol assignments and transition mechanisms: Teredo, 6to4 relays, local NAT64, ORCHID.
    Protocol,
    /// Examples in documents.
    Documentation,
    /// Measurements of network devices.
    Benchmarking,
    /// IPv6 outside of the space that is assigned for global use.
    Unassigned,
    /// "This" network; the unspecified address.
    ThisNetwork,
    /// One link. Most clouds serve their metadata here.
    LinkLocal,
    /// A metadata service of a cloud outside of the link-local range.
    Metadata,
    /// Groups of hosts.
    Multicast,
    /// Reserved (240.0.0.0/4), with the broadcast address.
    Reserved,
}

/// Who may connect to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Anybody.
    Public,
    /// Hosts that the operator allows.
    Internal,
    /// Nobody: it is a metadata service or not a unicast address.
    Forbidden,
}

impl Class {
    /// Class of an address.
    pub fn of(address: IpAddr) -> Self {
        let inner = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => carried(v6),
        };
        match inner {
            Some(inner) => Self::of(inner.into()),
            None => row(address).unwrap_or_else(|| match address {
                IpAddr::V4(_) => Self::Public,
                IpAddr::V6(v6) => compatible(v6).unwrap_or(Self::Unassigned),
            }),
        }
    }

    /// Who may connect to it.
    pub fn scope(self) -> Scope {
        match self {
            Self::Public => Scope::Public,
            Self::Loopback
            | Self::Private
            | Self::Shared
            | Self::Protocol
            | Self::Documentation
            | Self::Benchmarking
            | Self::Unassigned => Scope::Internal,
            Self::ThisNetwork | Self::LinkLocal | Self::Metadata | Self::Multicast | Self::Reserved => Scope::Forbidden,
        }
    }

    /// Whether the packet filter rejects it for sandboxes. Documentation ranges are allowed: the internet does not
    /// route them, and test networks use them in place of public addresses.
    pub fn is_closed_to_sandboxes(self) -> bool {
        !matches!(self, Self::Public | Self::Documentation)
    }
}

/// A range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), length }
    }

    const fn v6(high: [u16; 4], low: [u16; 4], length: u8) -> Self {
        let [a, b, c, d] = high;
        let [e, f, g, h] = low;
        Self { address: IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), length }
    }

    /// Whether an address is in the range. IPv4 and IPv6 ranges are disjoint.
    pub fn contains(&self, address: IpAddr) -> bool {
        let beyond = |bits: u8| bits - self.length;
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(beyond(32).into()).unwrap_or(0) == 0
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                (a.to_bits() ^ b.to_bits()).checked_shr(beyond(128).into()).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl Prefix {
    /// All IPv4 addresses.
    pub const ALL_V4: Self = Self::v4(0, 0, 0, 0, 0);
    /// All IPv6 addresses.
    pub const ALL_V6: Self = Self::v6(NONE, NONE, 0);

    /// The range of a length around an address; bits beyond the length are cleared. `None` if the length is too large.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32_u32.checked_sub(length.into())?).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128_u32.checked_sub(length.into())?).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Some(Self { address, length })
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Number of leading bits that its addresses have in common.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether it is a single address.
    pub fn is_single(&self) -> bool {
        self.length == if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// Whether it contains all addresses of its family.
    pub fn is_all(&self) -> bool {
        self.length == 0
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// A text is neither an address nor a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an IP address or CIDR range")]
pub struct InvalidPrefix;

impl FromStr for Prefix {
    type Err = InvalidPrefix;

    /// Parses `address` or `address/length`. IPv4-mapped IPv6 addresses become IPv4 ones, because that is where packets to them are sent.
    fn from_str(text: &str) -> Result<Self, InvalidPrefix> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| InvalidPrefix)?;
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => whole,
            // `u8` would take a sign and leading zeros.
            Some(text) if text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit()) => {
                text.parse().map_err(|_| InvalidPrefix)?
            }
            Some(_) => return Err(InvalidPrefix),
        };
        match (address, address.to_canonical()) {
            (IpAddr::V6(_), v4 @ IpAddr::V4(_)) if length >= 96 => Self::new(v4, length - 96),
            _ => Self::new(address, length),
        }
        .ok_or(InvalidPrefix)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

const NONE: [u16; 4] = [0; 4];

/// Special-purpose ranges. The most specific prefix wins.
pub const PREFIXES: &[(Prefix, Class)] = &[
    (Prefix::v4(0, 0, 0, 0, 8), Class::ThisNetwork),
    (Prefix::v4(10, 0, 0, 0, 8), Class::Private),
    (Prefix::v4(100, 64, 0, 0, 10), Class::Shared),
    // Alibaba Cloud.
    (Prefix::v4(100, 100, 100, 200, 32), Class::Metadata),
    (Prefix::v4(127, 0, 0, 0, 8), Class::Loopback),
    // Azure: WireServer, with the settings of extensions.
    (Prefix::v4(168, 63, 129, 16, 32), Class::Metadata),
    (Prefix::v4(169, 254, 0, 0, 16), Class::LinkLocal),
    (Prefix::v4(172, 16, 0, 0, 12), Class::Private),
    (Prefix::v4(192, 0, 0, 0, 24), Class::Protocol),
    // Oracle Cloud, first generation.
    (Prefix::v4(192, 0, 0, 192, 32), Class::Metadata),
    (Prefix::v4(192, 0, 2, 0, 24), Class::Documentation),
    (Prefix::v4(192, 88, 99, 0, 24), Class::Protocol),
    (Prefix::v4(192, 168, 0, 0, 16), Class::Private),
    (Prefix::v4(198, 18, 0, 0, 15), Class::Benchmarking),
    (Prefix::v4(198, 51, 100, 0, 24), Class::Documentation),
    (Prefix::v4(203, 0, 113, 0, 24), Class::Documentation),
    (Prefix::v4(224, 0, 0, 0, 4), Class::Multicast),
    (Prefix::v4(240, 0, 0, 0, 4), Class::Reserved),
    (Prefix::v6(NONE, NONE, 128), Class::ThisNetwork),
    (Prefix::v6(NONE, [0, 0, 0, 1], 128), Class::Loopback),
    // All globally routed addresses.
    (Prefix::v6([0x2000, 0, 0, 0], NONE, 3), Class::Public),
    // Includes Teredo (2001::/32).
    (Prefix::v6([0x2001, 0, 0, 0], NONE, 23), Class::Protocol),
    (Prefix::v6([0x2001, 0xdb8, 0, 0], NONE, 32), Class::Documentation),
    (Prefix::v6([0x3fff, 0, 0, 0], NONE, 20), Class::Documentation),
    (Prefix::v6([0x64, 0xff9b, 1, 0], NONE, 48), Class::Protocol),
    (Prefix::v6([0xfc00, 0, 0, 0], NONE, 7), Class::Private),
    // Amazon EC2, Google Compute Engine.
    (Prefix::v6([0xfd00, 0xec2, 0, 0], [0, 0, 0, 0x254], 128), Class::Metadata),
    (Prefix::v6([0xfd20, 0xce, 0, 0], [0, 0, 0, 0x254], 128), Class::Metadata),
    (Prefix::v6([0xfe80, 0, 0, 0], NONE, 10), Class::LinkLocal),
    // Site-local, deprecated.
    (Prefix::v6([0xfec0, 0, 0, 0], NONE, 10), Class::Private),
    (Prefix::v6([0xff00, 0, 0, 0], NONE, 8), Class::Multicast),
];

/// IPv4 prefixes that are closed to sandboxes; none contains another.
pub fn closed_to_sandboxes() -> Vec<Prefix> {
    let closed = || {
        PREFIXES
            .iter()
            .filter(|(prefix, class)| prefix.address.is_ipv4() && class.is_closed_to_sandboxes())
            .map(|(prefix, _)| *prefix)
    };
    let is_covered =
        |inner: &Prefix| closed().any(|outer| outer.length < inner.length && outer.contains(inner.address));
    closed().filter(|prefix| !is_covered(prefix)).collect()
}

/// The embedded IPv4 address that packets to an IPv6 address are sent to: mapped, NAT64, 6to4.
pub fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(joined(high, low))
        }
        _ => None,
    }
}

/// `::a.b.c.d`, deprecated: has the class of the embedded IPv4 address, but is never public.
fn compatible(address: Ipv6Addr) -> Option<Class> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
            Some(Class::of(joined(high, low).into())).filter(|&class| class != Class::Public)
        }
        _ => None,
    }
}

fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low))
}

fn row(address: IpAddr) -> Option<Class> {
    let rows = PREFIXES.iter().filter(|(prefix, _)| prefix.contains(address));
    rows.max_by_key(|(prefix, _)| prefix.length).map(|&(_, class)| class)
}

#[cfg(test)]
mod tests;
