//! Which addresses events may be sent to. Webhooks are named by holders of API keys, who shall not reach through the server what they
//! cannot reach themselves: the machine, its network, sandboxes, a cloud's metadata.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// On the internet.
    Public,
    /// This machine, its network, or one that means nothing outside; allowed where the configuration says so.
    Private,
    /// Never the address of a receiver: link-local (where clouds keep their metadata), multicast, "this" network.
    Never,
}

/// Where clouds keep their metadata outside of the link-local range.
const METADATA: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254))];

/// What an address is to us.
pub(super) fn class(address: IpAddr) -> Class {
    if METADATA.contains(&address) {
        return Class::Never;
    }
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => class_v6(address),
    }
}

fn class_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        [0, ..] | [169, 254, ..] | [224..=255, ..] => Class::Never,
        [10 | 127, ..]
        // Shared by providers; ours for sandboxes.
        | [100, 64..128, ..]
        | [172, 16..32, ..]
        | [192, 168, ..]
        // Protocols, documentation, measurements, relays.
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Class::Private,
        _ => Class::Public,
    }
}

fn class_v6(address: Ipv6Addr) -> Class {
    if let Some(inner) = address.to_ipv4_mapped() {
        return class(inner.into());
    }
    let [a, b, c, d, e, f, g, h] = address.segments();
    let inner = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f, g, h] {
        [0, 0, 0, 0, 0, 0, 0, 0] | [0xfe80..0xfec0, ..] | [0xff00..=0xffff, ..] => Class::Never,
        // IPv4 behind a translator or a relay is what it leads to.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => class(inner(high, low).into()),
        [0x2002, high, low, ..] => class(inner(high, low).into()),
        // Protocols (Teredo among them) and documentation.
        [0x2001, ..0x200 | 0xdb8, ..] | [0x3fff, ..0x1000, ..] => Class::Private,
        [0x2000..0x4000, ..] => Class::Public,
        _ => Class::Private,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn all(class_wanted: Class, addresses: &[&str]) {
        for text in addresses {
            assert_eq!(class(text.parse().expect("address")), class_wanted, "{text}");
        }
    }

    #[test]
    fn addresses_are_what_they_lead_to() {
        all(Class::Public, &["1.1.1.1", "8.8.8.8", "100.63.0.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111"]);
        all(Class::Public, &["::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1", "2001:4860:4860::8888"]);
        all(Class::Private, &["127.0.0.1", "127.255.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"]);
        all(Class::Private, &["100.64.0.1", "100.96.0.6", "100.127.255.255", "192.0.2.1", "198.18.0.1", "203.0.113.9"]);
        all(Class::Private, &["::1", "fc00::1", "fd12::1", "::ffff:127.0.0.1", "::7f00:1", "64:ff9b::7f00:1"]);
        all(Class::Private, &["2002:7f00:1::1", "2001::1", "2001:db8::1", "64:ff9b:1::1", "100::1", "4000::1"]);
        all(Class::Never, &["0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.170.2", "224.0.0.1", "255.255.255.255"]);
        all(Class::Never, &["240.0.0.1", "100.100.100.200", "::", "fe80::1", "ff02::1", "fd00:ec2::254"]);
        all(
            Class::Never,
            &["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::ffff:100.100.100.200"],
        );
    }
}
