//! Which addresses a registry may have. The name of an image comes from whoever asks for a build, and must not make
//! the server talk to its own machine, its neighbours, or a cloud's metadata service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far requests may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Public addresses only.
    Public,
    /// Any but those that are never a registry's: the operator has named the host.
    Internal,
}

impl Reach {
    pub(super) fn allows(self, address: IpAddr) -> bool {
        let address = plain(address);
        !is_never(address) && (self == Self::Internal || is_public(address))
    }
}

/// IPv4 addresses come in several disguises of IPv6.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let s = v6.segments();
    let last = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // Mapped and compatible, NAT64, 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] => last(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => last(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => last(high, low),
        [0x2002, high, low, ..] => last(high, low),
        _ => address,
    }
}

/// Metadata services, link-local, and what is no single machine.
fn is_never(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || v4.octets()[0] == 0
                || v4 == Ipv4Addr::new(100, 100, 100, 200)
        }
        IpAddr::V6(v6) => {
            v6.is_multicast()
                || v6.is_unspecified()
                || v6.is_unicast_link_local()
                || v6 == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            !(v4.is_loopback()
                || v4.is_private()
                || v4.is_documentation()
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && (b == 18 || b == 19))
                || a >= 240)
        }
        // Everything that is routed lies here; the documentation's range does too.
        IpAddr::V6(v6) => v6.segments()[0] & 0xe000 == 0x2000 && v6.segments()[..2] != [0x2001, 0xdb8],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_configured_hosts_may_be_near() {
        for public in ["1.1.1.1", "151.101.2.132", "2606:4700::1", "64:ff9b::101:101"] {
            assert!(Reach::Public.allows(public.parse().unwrap()), "{public}");
        }
        for near in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.96.0.1",
            "::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "2002:a00:1::",
            "64:ff9b::a00:1",
            "198.18.0.1",
        ] {
            let near: IpAddr = near.parse().unwrap();
            assert!(!Reach::Public.allows(near), "{near}");
            assert!(Reach::Internal.allows(near), "{near}");
        }
        for never in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "2002:a9fe:a9fe::",
            "::169.254.169.254",
        ] {
            let never: IpAddr = never.parse().unwrap();
            assert!(!Reach::Public.allows(never) && !Reach::Internal.allows(never), "{never}");
        }
    }
}
