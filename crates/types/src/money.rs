//! Amounts of money: whole millionths of the currency, without floats.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Millionths in one unit of the currency.
const UNIT: i64 = 1_000_000;
/// Digits behind the point.
const DIGITS: usize = 6;

/// An amount of money in millionths of the currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub i64);

/// An amount that no number of 64 bits can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the amount is too large")]
pub struct Overflow;

/// A text that is not an amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an amount; write it like 12 or 0.05, with at most six digits behind the point")]
pub struct InvalidAmount(String);

impl Micros {
    /// What a new wallet has.
    pub const ZERO: Self = Self(0);
    /// The largest amount that is accepted from outside. Programs that read numbers as floats get it exactly.
    pub const MOST: Self = Self(1_000_000_000_000_000);

    /// The sum.
    pub fn plus(self, other: Self) -> Result<Self, Overflow> {
        self.0.checked_add(other.0).map(Self).ok_or(Overflow)
    }

    /// The difference.
    pub fn minus(self, other: Self) -> Result<Self, Overflow> {
        self.0.checked_sub(other.0).map(Self).ok_or(Overflow)
    }

    /// The same amount with the other sign.
    pub fn negated(self) -> Result<Self, Overflow> {
        self.0.checked_neg().map(Self).ok_or(Overflow)
    }
}

impl fmt::Display for Micros {
    /// The exact amount with at least two digits behind the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, rest) = (self.0.unsigned_abs() / UNIT.unsigned_abs(), self.0.unsigned_abs() % UNIT.unsigned_abs());
        let digits = format!("{rest:0DIGITS$}");
        let shown = digits.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{whole}.{}", &digits[..shown])
    }
}

impl FromStr for Micros {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let invalid = || InvalidAmount(text.chars().take(40).collect());
        let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (whole, rest) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(rest) || rest.len() > DIGITS {
            return Err(invalid());
        }
        let whole: i64 = whole.parse().map_err(|_| invalid())?;
        let rest: i64 = format!("{rest:0<DIGITS$}").parse().map_err(|_| invalid())?;
        let micros = whole.checked_mul(UNIT).and_then(|whole| whole.checked_add(rest)).ok_or_else(invalid)?;
        Ok(Self(if negative { -micros } else { micros }))
    }
}

/// Divides and rounds to the nearest whole number; halves go to the even neighbour. The divisor is positive.
pub fn half_even(number: i128, divisor: i128) -> i128 {
    let (floor, rest) = (number.div_euclid(divisor), number.rem_euclid(divisor));
    match (rest * 2).cmp(&divisor) {
        std::cmp::Ordering::Less => floor,
        std::cmp::Ordering::Equal => floor + floor.rem_euclid(2),
        std::cmp::Ordering::Greater => floor + 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_written_as_people_read_them() {
        for (micros, text) in [
            (0, "0.00"),
            (12_400_000, "12.40"),
            (-300_000, "-0.30"),
            (1, "0.000001"),
            (i64::MIN, "-9223372036854.775808"),
        ] {
            assert_eq!(Micros(micros).to_string(), text);
        }
        for (text, micros) in [("12", 12_000_000), ("0.05", 50_000), ("-1.5", -1_500_000), ("0.000001", 1)] {
            assert_eq!(text.parse(), Ok(Micros(micros)));
        }
        for bad in ["", "-", "1.", ".5", "1.0000001", "1e3", "+1", "1,5", " 1", "99999999999999999999", "--1", "NaN"] {
            assert!(bad.parse::<Micros>().is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_wraps_around() {
        assert_eq!(Micros(i64::MAX).plus(Micros(1)), Err(Overflow));
        assert_eq!(Micros(i64::MIN).minus(Micros(1)), Err(Overflow));
        assert_eq!(Micros(i64::MIN).negated(), Err(Overflow));
        assert_eq!(Micros(5).minus(Micros(7)), Ok(Micros(-2)));
    }

    #[test]
    fn halves_go_to_the_even_neighbour() {
        for (number, expected) in
            [(1, 0), (2, 1), (3, 2), (5, 2), (6, 3), (7, 4), (-1, 0), (-2, -1), (-3, -2), (-5, -2)]
        {
            assert_eq!(half_even(number, 2), expected, "{number}/2");
        }
        assert_eq!((half_even(10, 4), half_even(-10, 4), half_even(14, 4)), (2, -2, 4));
    }

    proptest! {
        #[test]
        fn text_is_read_back(micros in -Micros::MOST.0..=Micros::MOST.0) {
            prop_assert_eq!(Micros(micros).to_string().parse(), Ok(Micros(micros)));
        }

        #[test]
        fn rounding_is_to_the_nearest(number in -(1i128 << 100)..1i128 << 100, divisor in 1i128..1 << 60) {
            let rounded = half_even(number, divisor);
            prop_assert!((rounded * divisor - number).abs() * 2 <= divisor);
        }
    }
}
