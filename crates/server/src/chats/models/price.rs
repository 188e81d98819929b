//! What a call of a model costs.

use cabana_agent::model::Tokens;

use crate::config::Price;

/// Tokens that a price is for.
const MILLION: u128 = 1_000_000;

impl Price {
    /// The cost in micros, rounded once; halves go to the even neighbour.
    pub(crate) fn cost(&self, tokens: Tokens) -> u64 {
        let cached = tokens.cached.min(tokens.input);
        let part = |count: u64, price: u64| u128::from(count) * u128::from(price);
        let sum = part(tokens.input - cached, self.input)
            .saturating_add(part(cached, self.cached.unwrap_or(self.input)))
            .saturating_add(part(tokens.output, self.output));
        let (whole, rest) = (sum / MILLION, sum % MILLION);
        let up = match rest.cmp(&(MILLION / 2)) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => whole % 2,
            std::cmp::Ordering::Greater => 1,
        };
        u64::try_from(whole + up).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(input: u64, cached: u64, output: u64) -> Tokens {
        Tokens { input, cached, output }
    }

    #[test]
    fn costs_are_exact() {
        let price = Price { input: 3_000_000, cached: Some(300_000), output: 15_000_000 };
        for (counts, cost) in [
            (tokens(0, 0, 0), 0),
            (tokens(1_000_000, 0, 0), 3_000_000),
            (tokens(1_000_000, 1_000_000, 0), 300_000),
            (tokens(1000, 400, 10), 600 * 3 + 120 + 150),
            // More cached than there were: all of them.
            (tokens(10, 50, 0), 3),
        ] {
            assert_eq!(price.cost(counts), cost, "{counts:?}");
        }
        let unknown = Price { input: 2_000_000, cached: None, output: 0 };
        assert_eq!(unknown.cost(tokens(10, 10, 0)), 20, "cached tokens cost what others do");
        let most = Price { input: u64::MAX, cached: None, output: u64::MAX };
        assert_eq!(most.cost(tokens(u64::MAX, 0, u64::MAX)), u64::MAX);
    }

    #[test]
    fn halves_go_to_the_even_neighbour() {
        let price = Price { input: 500_000, cached: None, output: 0 };
        for (count, cost) in [(1, 0), (2, 1), (3, 2), (4, 2), (5, 2), (7, 4)] {
            assert_eq!(price.cost(tokens(count, 0, 0)), cost, "{count}");
        }
        let odd = Price { input: 500_001, cached: None, output: 0 };
        assert_eq!((odd.cost(tokens(1, 0, 0)), odd.cost(tokens(5, 0, 0))), (1, 3));
    }

    proptest! {
        #[test]
        fn a_cost_is_within_half_a_micro(input in 0u64..1 << 40, output in 0u64..1 << 40, one in 0u64..1 << 40, two in 0u64..1 << 40) {
            let price = Price { input: one, cached: None, output: two };
            let exact = u128::from(input) * u128::from(one) + u128::from(output) * u128::from(two);
            let cost = price.cost(tokens(input, 0, output));
            if cost < u64::MAX {
                prop_assert!((u128::from(cost) * MILLION).abs_diff(exact) <= MILLION / 2);
            }
        }
    }
}
