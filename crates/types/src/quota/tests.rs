//! Tests of the decision about quotas.

use proptest::prelude::*;

use super::*;

fn amounts() -> impl Strategy<Value = Amounts> {
    prop::array::uniform8(prop_oneof![0..5_u64, Just(u64::MAX)]).prop_map(Amounts)
}

fn limits() -> impl Strategy<Value = Limits> {
    prop::array::uniform8(prop::option::of(0..8_u64)).prop_map(Limits)
}

proptest! {
    #[test]
    fn what_fits_stays_within_every_limit(used in amounts(), wanted in amounts(), limits in limits()) {
        let exceeds = |kind: QuotaKind| {
            let sum = u128::from(used.get(kind)) + u128::from(wanted.get(kind));
            wanted.get(kind) > 0 && limits.get(kind).is_some_and(|limit| sum > u128::from(limit))
        };
        match check(&used, &wanted, &limits) {
            Ok(()) => prop_assert!(!QuotaKind::ALL.iter().any(|kind| exceeds(*kind))),
            Err(e) => {
                prop_assert!(exceeds(e.kind));
                prop_assert_eq!((e.used, e.wanted), (used.get(e.kind), wanted.get(e.kind)));
                prop_assert_eq!(Some(e.limit), limits.get(e.kind));
            }
        }
    }

    #[test]
    fn limits_survive_json(limits in limits()) {
        let text = serde_json::to_string(&limits).expect("json");
        prop_assert_eq!(serde_json::from_str::<Limits>(&text).expect("json"), limits);
    }

    #[test]
    fn own_limits_come_first(own in limits(), plan in limits()) {
        for kind in QuotaKind::ALL {
            prop_assert_eq!(own.or(plan).get(*kind), own.get(*kind).or_else(|| plan.get(*kind)));
        }
    }
}

#[test]
fn a_limit_below_what_is_used_refuses_only_more() {
    let limits = Limits::default().with(QuotaKind::Vcpu, Some(2));
    let used = Amounts::default().with(QuotaKind::Vcpu, 8);
    assert_eq!(check(&used, &Amounts::default().with(QuotaKind::DiskMb, 100), &limits), Ok(()));
    let refused = check(&used, &Amounts::default().with(QuotaKind::Vcpu, 1), &limits);
    assert_eq!(refused, Err(Exceeded { kind: QuotaKind::Vcpu, used: 8, wanted: 1, limit: 2 }));
}

#[test]
fn limits_are_in_their_range() {
    assert_eq!(QuotaKind::Instances.limit(0), Ok(0));
    assert!(QuotaKind::Turns.limit(0).is_err(), "a turn would wait for ever");
    assert_eq!(QuotaKind::DiskMb.limit(1_000_000_000_000), Ok(MAX_LIMIT));
    let error = QuotaKind::DiskMb.limit(-1).expect_err("negative");
    assert_eq!(error.to_string(), "the limit of disk_mb must be between 0 and 1000000000000, not -1");
    assert!(QuotaKind::DiskMb.limit(i64::MAX).is_err());
}

#[test]
fn every_kind_is_found_by_its_text() {
    for kind in QuotaKind::ALL {
        assert_eq!(QuotaKind::parse(kind.as_str()), Some(*kind));
    }
    assert_eq!(QuotaKind::parse("gpu"), None);
}
