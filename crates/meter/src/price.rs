//! Prices with the time from which they hold, and bills: amounts that are rounded often and never drift.

use cabana_types::UsageKind;
use cabana_types::money::{Micros, Overflow, half_even};

use crate::split::HOUR;

/// Parts of a micro in which bills count: a price for a GiB and an hour is one for 1024 MiB and this many microseconds.
const PARTS: i128 = 1024 * HOUR as i128;

/// The prices of all kinds over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prices {
    /// Sorted by time; the last one of a kind that is not later than a time holds then.
    list: Vec<(i64, UsageKind, Micros)>,
    cuts: Vec<i64>,
}

impl Prices {
    /// Prices from the times, in microseconds, from which they hold. Of two for the same time, the later one in the list holds.
    pub fn new(mut list: Vec<(i64, UsageKind, Micros)>) -> Self {
        list.sort_by_key(|(from, ..)| *from);
        let mut cuts: Vec<i64> = list.iter().map(|(from, ..)| *from).collect();
        cuts.dedup();
        Self { list, cuts }
    }

    /// When prices change, the earliest first.
    pub fn cuts(&self) -> &[i64] {
        &self.cuts
    }

    /// The price at a time; what has none is free.
    pub fn at(&self, kind: UsageKind, at: i64) -> Micros {
        let holds = self.list.iter().rev().find(|(from, of, _)| *of == kind && *from <= at);
        holds.map_or(Micros::ZERO, |(.., price)| *price)
    }

    /// What a quantity costs for a time from `at` on, rounded up.
    pub fn estimate(&self, demand: &[(UsageKind, u64)], at: i64, micros: i64) -> Result<Micros, Overflow> {
        let mut parts = 0i128;
        for (kind, quantity) in demand {
            parts = parts
                .checked_add(cost(*kind, i128::from(*quantity) * i128::from(micros), self.at(*kind, at))?)
                .ok_or(Overflow)?;
        }
        let up = parts.checked_add(PARTS - 1).ok_or(Overflow)?.div_euclid(PARTS);
        i64::try_from(up).map(Micros).map_err(|_| Overflow)
    }
}

/// The cost of an amount (units times microseconds) in parts of a micro.
fn cost(kind: UsageKind, amount: i128, price: Micros) -> Result<i128, Overflow> {
    let weight = match kind.priced_unit() {
        Some("vCPU-hour") => 1024,
        Some(_) => 1,
        None => 0,
    };
    amount.checked_mul(i128::from(price.0)).and_then(|cost| cost.checked_mul(weight)).ok_or(Overflow)
}

/// Adds up what one team has to pay. What is rounded off one amount is carried to the next, so that the sum of all amounts is
/// never more than half a micro from the exact sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bill {
    carry: i64,
}

impl Bill {
    /// Goes on with what was carried.
    pub fn carried(carry: i64) -> Self {
        Self { carry }
    }

    /// What is carried to the next amount, in parts of a micro.
    pub fn carry(self) -> i64 {
        self.carry
    }

    /// What an amount (units times microseconds) costs, in whole micros; halves go to the even neighbour.
    pub fn add(&mut self, kind: UsageKind, amount: i64, price: Micros) -> Result<Micros, Overflow> {
        let exact = cost(kind, i128::from(amount), price)?.checked_add(i128::from(self.carry)).ok_or(Overflow)?;
        let whole = half_even(exact, PARTS);
        let micros = i64::try_from(whole).map_err(|_| Overflow)?;
        self.carry = i64::try_from(exact - whole * PARTS).map_err(|_| Overflow)?;
        Ok(Micros(micros))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn prices_are_for_an_hour() {
        let mut bill = Bill::default();
        assert_eq!(bill.add(UsageKind::Vcpu, 2 * HOUR, Micros(40_000)), Ok(Micros(80_000)));
        assert_eq!(bill.add(UsageKind::MemoryMib, 512 * HOUR, Micros(10_000)), Ok(Micros(5_000)));
        assert_eq!(
            bill.add(UsageKind::OutputTokens, HOUR, Micros(10_000)),
            Ok(Micros::ZERO),
            "models have other prices"
        );
        assert_eq!(bill, Bill::default());
        assert_eq!(bill.add(UsageKind::Vcpu, i64::MAX, Micros(i64::MAX)), Err(Overflow));
    }

    #[test]
    fn the_latest_price_holds() {
        let vcpu = UsageKind::Vcpu;
        let prices = Prices::new(vec![
            (20, vcpu, Micros(3)),
            (10, vcpu, Micros(1)),
            (10, vcpu, Micros(2)),
            (15, UsageKind::DiskMib, Micros(9)),
        ]);
        assert_eq!([9, 10, 19, 20, 99].map(|at| prices.at(vcpu, at).0), [0, 2, 2, 3, 3]);
        assert_eq!(prices.cuts(), [10, 15, 20]);
    }

    #[test]
    fn an_estimate_is_rounded_up() {
        let prices = Prices::new(vec![(0, UsageKind::Vcpu, Micros(40_000)), (0, UsageKind::MemoryMib, Micros(1))]);
        let demand = [(UsageKind::Vcpu, 2), (UsageKind::MemoryMib, 1)];
        assert_eq!(prices.estimate(&demand, 5, HOUR / 4), Ok(Micros(20_001)));
        assert_eq!(prices.estimate(&demand, -1, HOUR / 4), Ok(Micros::ZERO));
    }

    proptest! {
        #[test]
        fn sums_are_exact_to_half_a_micro(
            amounts in prop::collection::vec((0usize..5, 0i64..2_000_000 * SECOND), 1..200),
            price in 0i64..100_000,
        ) {
            let kinds = [UsageKind::Vcpu, UsageKind::MemoryMib, UsageKind::PausedMemoryMib, UsageKind::DiskMib, UsageKind::ColdMib];
            let (mut bill, mut sum, mut exact) = (Bill::default(), 0i128, 0i128);
            for (kind, amount) in amounts {
                sum += i128::from(bill.add(kinds[kind], amount, Micros(price)).expect("small").0);
                exact += cost(kinds[kind], i128::from(amount), Micros(price)).expect("small");
                prop_assert_eq!(sum * PARTS + i128::from(bill.carry()), exact, "nothing is lost");
                prop_assert!(i128::from(bill.carry()).abs() * 2 <= PARTS);
            }
        }
    }
}
