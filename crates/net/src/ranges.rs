//! Policies and bounds as ranges of IPv4 addresses for the packet filter: disjoint, sorted, each with the number of the
//! rule that refuses it. The kernel stores the number as the packet's mark, so that it can count by rule.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use cabana_types::EgressPolicy;
use cabana_types::address::{Class, PREFIXES, Prefix, Scope};
use cabana_types::egress::{Bounds, Rule, Target};

/// Number of the rule of sandboxes that may connect nowhere.
pub(crate) const OFFLINE: u32 = 1;
/// Number of the operator's `only`.
pub(crate) const ONLY: u32 = 2;
/// First numbers of the other rules.
const CLASSES: u32 = 0x100;
const ON_LINK: u32 = 0x200;
const OPERATOR_DENY: u32 = 0x300;
const DENY_OUT: u32 = 0x400;
/// Entries of a list with a number of their own; further ones share one. So one sandbox has few counters.
const SEPARATE: usize = 64;
/// Most counters of one sandbox: see [`SEPARATE`].
pub(crate) const MOST_RULES: u32 = 256;

/// Classes, in the order of their numbers.
const ALL_CLASSES: [Class; 13] = [
    Class::Public,
    Class::Loopback,
    Class::Private,
    Class::Shared,
    Class::Protocol,
    Class::Documentation,
    Class::Benchmarking,
    Class::Unassigned,
    Class::ThisNetwork,
    Class::LinkLocal,
    Class::Metadata,
    Class::Multicast,
    Class::Reserved,
];

/// Addresses from the first to the last, and the number of the rule that refuses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: Ipv4Addr,
    pub(crate) last: Ipv4Addr,
    pub(crate) rule: u32,
}

/// First and last address of a prefix; `None` for IPv6.
fn ends(prefix: &Prefix) -> Option<(u32, u32)> {
    let IpAddr::V4(first) = prefix.address() else { return None };
    let first = first.to_bits();
    Some((first, first | u32::MAX.checked_shr(prefix.length().into()).unwrap_or(0)))
}

/// Makes overlapping ranges disjoint: the first of the list that contains an address decides. A range without a number
/// leaves its addresses out.
fn flatten(entries: impl IntoIterator<Item = ((u32, u32), Option<u32>)>) -> Vec<Range> {
    let entries: Vec<((u32, u32), Option<u32>)> = entries.into_iter().collect();
    // Positions at which ranges begin and end; an end is behind the last address.
    let mut edges: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * entries.len());
    for (order, ((first, last), _)) in entries.iter().enumerate() {
        edges.push((u64::from(*first), true, order));
        edges.push((u64::from(*last) + 1, false, order));
    }
    edges.sort_unstable();
    let mut ranges: Vec<Range> = Vec::new();
    let mut active = BTreeSet::new();
    let mut edges = edges.into_iter().peekable();
    while let Some((at, begins, order)) = edges.next() {
        if begins {
            active.insert(order);
        } else {
            active.remove(&order);
        }
        let Some((until, ..)) = edges.peek().filter(|(next, ..)| *next > at) else { continue };
        let Some(rule) = active.first().and_then(|order| entries[*order].1) else { continue };
        let address = |bits: u64| Ipv4Addr::from_bits(u32::try_from(bits).unwrap_or(u32::MAX));
        let (first, last) = (address(at), address(until - 1));
        match ranges.last_mut() {
            Some(before) if before.rule == rule && u64::from(before.last.to_bits()) + 1 == at => before.last = last,
            _ => ranges.push(Range { first, last, rule }),
        }
    }
    ranges
}

fn number(list: u32, position: usize) -> u32 {
    list + u32::try_from(position.min(SEPARATE)).unwrap_or(0)
}

/// What a policy decides, without the operator's bounds. Single addresses are kept apart: the kernel stores them as one
/// element instead of two, and faster.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Decided {
    /// Allowed, although they may be in a range that is denied.
    pub(crate) allowed: Vec<Ipv4Addr>,
    /// Denied, with the number of the rule; in no range.
    pub(crate) single: Vec<(Ipv4Addr, u32)>,
    /// Denied ranges.
    pub(crate) ranges: Vec<Range>,
}

impl Decided {
    /// Whether it denies nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.single.is_empty() && self.ranges.is_empty()
    }

    /// Entries that the kernel holds for it.
    pub(crate) fn len(&self) -> usize {
        self.allowed.len() + self.single.len() + self.ranges.len()
    }

    pub(crate) fn of(policy: &EgressPolicy) -> Decided {
        let mut allowed: Vec<Ipv4Addr> = Vec::new();
        let mut wide = Vec::new();
        for target in &policy.allow_out {
            let Target::Address(prefix) = target else { continue };
            match (ends(prefix), prefix.is_single()) {
                (Some((address, _)), true) => allowed.push(Ipv4Addr::from_bits(address)),
                (Some(ends), false) => wide.push((ends, None)),
                (None, _) => {}
            }
        }
        allowed.sort_unstable();
        allowed.dedup();
        let denied = policy.deny_out.iter().enumerate();
        let denied = denied.filter_map(|(n, prefix)| ends(prefix).map(|ends| (ends, Some(number(DENY_OUT, n)))));
        let denied = flatten(wide.into_iter().chain(denied));
        let (single, ranges): (Vec<Range>, Vec<Range>) = denied.into_iter().partition(|r| r.first == r.last);
        let single = single.into_iter().map(|range| (range.first, range.rule)).collect();
        Decided { allowed, single, ranges }
    }
}

/// What nobody may connect to; see [`Bounds::refuse_address`].
pub(crate) fn closed(bounds: &Bounds) -> Vec<Range> {
    let class_of = |number: u32| ALL_CLASSES.get((number - CLASSES) as usize).copied();
    let mut rows: Vec<&(Prefix, Class)> = PREFIXES.iter().collect();
    rows.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length()));
    let classes = flatten(rows.into_iter().filter_map(|(prefix, class)| {
        let position = ALL_CLASSES.iter().position(|known| known == class);
        ends(prefix).map(|ends| (ends, position.map(|n| number(CLASSES, n))))
    }));
    let of_class = |wanted: fn(Class) -> bool| {
        let fits = move |range: &&Range| class_of(range.rule).is_some_and(wanted);
        classes.iter().filter(fits).map(|range| ((range.first.to_bits(), range.last.to_bits()), Some(range.rule)))
    };
    let denied = bounds.deny.iter().enumerate().filter_map(|(n, target)| match target {
        Target::Address(prefix) => ends(prefix).map(|ends| (ends, Some(number(OPERATOR_DENY, n)))),
        Target::Host(_) => None,
    });
    let opened = bounds.internal.iter().filter_map(|prefix| ends(prefix).map(|ends| (ends, None)));
    let on_link = bounds.on_link.iter().enumerate();
    let on_link = on_link.filter_map(|(n, prefix)| ends(prefix).map(|ends| (ends, Some(number(ON_LINK, n)))));
    let forbidden = of_class(|class| matches!(class.scope(), Scope::Forbidden));
    flatten(denied.chain(forbidden).chain(opened).chain(of_class(Class::is_closed_to_sandboxes)).chain(on_link))
}

/// All that the operator allows; `None` if that is not limited.
pub(crate) fn only(bounds: &Bounds) -> Option<Vec<Range>> {
    let allowed = bounds.only.iter().filter_map(|target| match target {
        Target::Address(prefix) => ends(prefix).map(|ends| (ends, Some(ONLY))),
        Target::Host(_) => None,
    });
    (!bounds.only.is_empty()).then(|| flatten(allowed))
}

/// The rule with a number, as it is shown.
pub(crate) fn rule(number: u32, policy: &EgressPolicy, bounds: &Bounds) -> String {
    let position = (number & 0xff) as usize;
    let rule = match number & !0xff {
        _ if number == OFFLINE => Some(Rule::DenyOut(Prefix::ALL_V4)),
        _ if number == ONLY => Some(Rule::OperatorOnly),
        CLASSES => ALL_CLASSES.get(position).map(|class| Rule::Class(*class)),
        _ if position >= SEPARATE => None,
        ON_LINK => bounds.on_link.get(position).map(|prefix| Rule::OnLink(*prefix)),
        OPERATOR_DENY => bounds.deny.get(position).map(|target| Rule::OperatorDeny(target.clone())),
        DENY_OUT => policy.deny_out.get(position).map(|prefix| Rule::DenyOut(*prefix)),
        _ => None,
    };
    rule.map_or_else(|| "other".to_owned(), |rule| rule.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find(ranges: &[Range], address: Ipv4Addr) -> Option<u32> {
        let mut found = ranges.iter().filter(|range| (range.first..=range.last).contains(&address));
        let rule = found.next().map(|range| range.rule);
        assert!(found.next().is_none(), "{address} is in two ranges");
        rule
    }

    /// What the rules of the packet filter do with a packet of a sandbox that is not offline.
    fn kernel(policy: &EgressPolicy, bounds: &Bounds, address: Ipv4Addr) -> Option<u32> {
        let outside = || only(bounds).is_some_and(|ranges| find(&ranges, address).is_none());
        let decided = || {
            let Decided { allowed, single, ranges } = Decided::of(policy);
            let mut single = single.iter().filter(|(denied, _)| *denied == address).map(|(_, rule)| *rule);
            let (single, range) = (single.next(), find(&ranges, address));
            assert!(single.is_none() || range.is_none(), "{address} is denied twice");
            single.or(range).filter(|_| !allowed.contains(&address))
        };
        find(&closed(bounds), address).or_else(|| outside().then_some(ONLY)).or_else(decided)
    }

    /// Prefixes that often overlap.
    fn prefix() -> impl Strategy<Value = Prefix> {
        let bits = prop_oneof![any::<u32>(), (0..64_u32).prop_map(|n| 0x0808_0000 | n << 10), Just(0xc0a8_0101)];
        (bits, prop_oneof![0..=32_u8, 16..=26_u8])
            .prop_map(|(bits, length)| Prefix::new(Ipv4Addr::from_bits(bits).into(), length).unwrap())
    }

    fn target() -> impl Strategy<Value = Target> {
        prop_oneof![4 => prefix().prop_map(Target::Address), 1 => Just("*.example.com".parse().unwrap())]
    }

    fn prefixes(most: usize) -> impl Strategy<Value = Vec<Prefix>> {
        proptest::collection::vec(prefix(), 0..most)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        /// The packet filter and [`EgressPolicy::by_address`] agree on every address, and on the rule.
        #[test]
        fn the_kernel_decides_like_the_policy(
            allow_out in proptest::collection::vec(target(), 0..12),
            deny_out in prefixes(12),
            deny in proptest::collection::vec(target(), 0..3),
            only in prop_oneof![3 => Just(vec![]), 1 => proptest::collection::vec(target(), 0..4)],
            internal in prefixes(3),
            on_link in prefixes(3),
            random in proptest::collection::vec(any::<u32>(), 8),
        ) {
            let policy = EgressPolicy { allow_out, deny_out, ..EgressPolicy::default() };
            let bounds = Bounds { deny, only, internal, on_link };
            let decided = Decided::of(&policy);
            let single = decided.allowed.iter().map(|a| (*a, 0)).chain(decided.single.iter().copied());
            let single: Vec<Range> = single.map(|(first, rule)| Range { first, last: first, rule }).collect();
            let ranges = [closed(&bounds), decided.ranges, single].concat();
            // The edges of all ranges, too.
            let edges = ranges.iter().flat_map(|range| {
                let (first, last) = (range.first.to_bits(), range.last.to_bits());
                [first.wrapping_sub(1), first, last, last.wrapping_add(1)]
            });
            for bits in edges.chain(random) {
                let address = Ipv4Addr::from_bits(bits);
                let expected = policy.by_address(address.into(), &bounds);
                let decided = kernel(&policy, &bounds, address);
                prop_assert_eq!(decided.is_none(), expected.allowed, "{} {:?}", address, expected);
                if let Some(number) = decided {
                    prop_assert_eq!(rule(number, &policy, &bounds), expected.rule.to_string(), "{}", address);
                }
            }
        }
    }

    #[test]
    fn every_class_has_a_number() {
        assert!(PREFIXES.iter().all(|(_, class)| ALL_CLASSES.contains(class)));
    }

    #[test]
    fn many_entries_stay_few_ranges_and_counters() {
        let prefix = |n: u32| Prefix::new(Ipv4Addr::from_bits(0x0800_0000 + (n << 8)).into(), 25).unwrap();
        let policy = EgressPolicy {
            allow_out: (0..2048).map(|n| Target::Address(prefix(n))).collect(),
            deny_out: vec![Prefix::ALL_V4],
            ..EgressPolicy::default()
        };
        assert_eq!(Decided::of(&policy).ranges.len(), 2049);
        let policy = EgressPolicy { deny_out: (0..2048).map(prefix).collect(), ..EgressPolicy::default() };
        let ranges = Decided::of(&policy).ranges;
        assert_eq!(ranges.len(), 2048);
        let rules: BTreeSet<u32> = ranges.iter().map(|range| range.rule).collect();
        assert_eq!(rules.len(), SEPARATE + 1);
        assert_eq!(rule(ranges[2000].rule, &policy, &Bounds::default()), "other");
        let lists = [&policy.allow_out.len(), &3];
        assert!(ALL_CLASSES.len() + (SEPARATE + 1) * lists.len() + (SEPARATE + 1) + 2 <= MOST_RULES as usize);
    }
}
