//! Tests of the table of address classes.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn all(class: Class, addresses: &[&str]) {
    for text in addresses {
        assert_eq!(Class::of(text.parse().expect("address")), class, "{text}");
    }
}

#[track_caller]
fn scope(wanted: Scope, addresses: &[&str]) {
    for text in addresses {
        assert_eq!(Class::of(text.parse().expect("address")).scope(), wanted, "{text}");
    }
}

/// The first and last address of a range, and their neighbours outside.
fn edges(prefix: &Prefix) -> ([IpAddr; 2], Vec<IpAddr>) {
    match prefix.address {
        IpAddr::V4(first) => {
            let first = first.to_bits();
            let last = first | u32::MAX.checked_shr(prefix.length.into()).unwrap_or(0);
            let beside = [first.checked_sub(1), last.checked_add(1)].into_iter().flatten();
            let v4 = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
            ([v4(first), v4(last)], beside.map(v4).collect())
        }
        IpAddr::V6(first) => {
            let first = first.to_bits();
            let last = first | u128::MAX.checked_shr(prefix.length.into()).unwrap_or(0);
            let beside = [first.checked_sub(1), last.checked_add(1)].into_iter().flatten();
            let v6 = |bits| IpAddr::V6(Ipv6Addr::from_bits(bits));
            ([v6(first), v6(last)], beside.map(v6).collect())
        }
    }
}

#[test]
fn prefixes_cover_exactly_their_range() {
    for (prefix, class) in PREFIXES {
        let (inside, beside) = edges(prefix);
        assert_eq!(inside[0], prefix.address, "{prefix} begins with its own address");
        for address in inside {
            assert!(prefix.contains(address), "{prefix} {address}");
            let expected = PREFIXES.iter().filter(|(p, _)| p.contains(address)).max_by_key(|(p, _)| p.length);
            assert_eq!(Some(Class::of(address)), expected.map(|(_, class)| *class), "{address} in {prefix}");
        }
        for address in beside {
            assert!(!prefix.contains(address), "{prefix} {address}");
            assert!(
                Class::of(address) != *class || PREFIXES.iter().any(|(p, c)| p.contains(address) && c == class),
                "{address} beside {prefix} is not {class:?}"
            );
        }
    }
    for (n, (prefix, _)) in PREFIXES.iter().enumerate() {
        assert!(!PREFIXES[..n].iter().any(|(other, _)| other == prefix), "{prefix} twice");
    }
}

#[test]
fn classes_on_both_sides_of_each_boundary() {
    all(Class::Public, &["1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"]);
    all(Class::Public, &["128.0.0.0", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0"]);
    all(Class::Public, &["172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255"]);
    all(Class::Public, &["192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"]);
    all(Class::Public, &["198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255"]);
    all(Class::Public, &["2000::", "2001:200::", "2001:db7:ffff::", "2001:db9::", "3ffe:ffff::", "3fff:1000::"]);
    all(Class::Unassigned, &["1fff:ffff::", "4000::", "::2", "::ffff", "fbff:ffff::", "fe00::", "100::1", "5f00::1"]);
    all(Class::ThisNetwork, &["0.0.0.0", "0.255.255.255", "::"]);
    all(Class::Shared, &["100.64.0.0", "100.127.255.255", "100.100.100.199", "100.100.100.201"]);
    all(Class::Metadata, &["100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"]);
    all(Class::Protocol, &["192.0.0.0", "192.0.0.255", "192.88.99.0", "2001::", "2001:1ff:ffff::", "64:ff9b:1::"]);
    all(Class::Reserved, &["240.0.0.0", "255.255.255.254", "255.255.255.255"]);
    all(Class::Private, &["fc00::", "fdff:ffff::", "fec0::", "feff::", "10.255.255.255", "172.31.255.255"]);
}

/// Cases of the former list of webhooks.
#[test]
fn addresses_refused_for_webhooks() {
    scope(Scope::Public, &["1.1.1.1", "8.8.8.8", "100.63.0.1", "100.128.0.1", "172.32.0.1", "2606:4700::1111"]);
    scope(Scope::Public, &["::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1", "2001:4860:4860::8888"]);
    scope(Scope::Internal, &["127.0.0.1", "127.255.0.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"]);
    scope(Scope::Internal, &["100.64.0.1", "100.96.0.6", "100.127.255.255", "192.0.2.1", "198.18.0.1", "203.0.113.9"]);
    scope(Scope::Internal, &["::1", "fc00::1", "fd12::1", "::ffff:127.0.0.1", "::7f00:1", "64:ff9b::7f00:1"]);
    scope(Scope::Internal, &["2002:7f00:1::1", "2001::1", "2001:db8::1", "64:ff9b:1::1", "100::1", "4000::1"]);
    scope(Scope::Forbidden, &["0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.170.2", "224.0.0.1"]);
    scope(Scope::Forbidden, &["255.255.255.255", "240.0.0.1", "100.100.100.200", "::", "fe80::1", "ff02::1"]);
    scope(Scope::Forbidden, &["fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]);
    scope(Scope::Forbidden, &["::ffff:100.100.100.200"]);
}

/// Cases of the former list of registries.
#[test]
fn addresses_refused_for_registries() {
    scope(Scope::Public, &["1.1.1.1", "151.101.2.132", "2606:4700::1", "64:ff9b::101:101"]);
    scope(Scope::Internal, &["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.96.0.1", "::1", "fd12::1"]);
    scope(Scope::Internal, &["::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:a00:1::", "64:ff9b::a00:1", "198.18.0.1"]);
    scope(Scope::Forbidden, &["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1"]);
    scope(Scope::Forbidden, &["fd00:ec2::254", "100.100.100.200", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255"]);
    scope(Scope::Forbidden, &["2002:a9fe:a9fe::", "::169.254.169.254"]);
}

#[test]
fn addresses_closed_to_sandboxes() {
    let closed: Vec<String> = closed_to_sandboxes().iter().map(Prefix::to_string).collect();
    for former in [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ] {
        assert!(closed.iter().any(|prefix| prefix == former), "{former}");
    }
    assert!(closed.iter().any(|prefix| prefix == "168.63.129.16/32"));
    assert!(!closed.iter().any(|prefix| prefix == "100.100.100.200/32"), "it is inside another");
}

proptest! {
    #[test]
    fn closed_prefixes_match_the_table(bits: u32) {
        let address = IpAddr::V4(Ipv4Addr::from_bits(bits));
        let in_list = closed_to_sandboxes().iter().filter(|prefix| prefix.contains(address)).count();
        prop_assert_eq!(in_list, usize::from(Class::of(address).is_closed_to_sandboxes()));
    }

    #[test]
    fn embedded_ipv4_decides_the_class(bits: u32, rest: u64) {
        let inner = Ipv4Addr::from_bits(bits);
        let class = Class::of(inner.into());
        let [high, low] = [bits >> 16, bits & 0xffff].map(|half| u16::try_from(half).expect("a half"));
        for address in [
            inner.to_ipv6_mapped(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::from_bits((0x2002 << 112) | (u128::from(bits) << 80) | u128::from(rest)),
        ] {
            prop_assert_eq!(Class::of(address.into()), class, "{}", address);
        }
        prop_assert_ne!(Class::of(inner.to_ipv6_compatible().into()).scope(), Scope::Public);
    }
}
