//! Pieces of intervals: within one hour, and with one price.

/// Microseconds of an hour.
pub const HOUR: i64 = 3_600_000_000;

/// A part of an interval within one hour, from its first microsecond to the one after its last. Times are microseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Hours since 1970 UTC.
    pub hour: i64,
    pub from: i64,
    pub until: i64,
}

impl Piece {
    /// Its length, microseconds.
    pub fn length(self) -> i64 {
        self.until - self.from
    }
}

/// The hour that a time is in.
pub fn hour_of(at: i64) -> i64 {
    at.div_euclid(HOUR)
}

/// Splits a time at the borders of hours and at `cuts`, which are sorted. The pieces follow each other without gaps.
pub fn split(from: i64, until: i64, cuts: &[i64]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = from;
    while at < until {
        let hour = hour_of(at);
        let border = (hour + 1).saturating_mul(HOUR).min(until);
        let cut = cuts.iter().copied().find(|cut| *cut > at).unwrap_or(i64::MAX);
        let end = border.min(cut);
        pieces.push(Piece { hour, from: at, until: end });
        at = end;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_end_at_hours_and_cuts() {
        let parts: Vec<_> =
            split(HOUR - 5, 2 * HOUR + 1, &[10, HOUR + 7]).iter().map(|p| (p.hour, p.length())).collect();
        assert_eq!(parts, [(0, 5), (1, 7), (1, HOUR - 7), (2, 1)]);
        assert_eq!((split(5, 5, &[]), split(9, 5, &[])), (vec![], vec![]));
        assert_eq!(hour_of(-1), -1);
    }

    proptest! {
        #[test]
        fn no_microsecond_is_lost_or_doubled(
            from in -5 * HOUR..5 * HOUR,
            length in 0..30 * HOUR,
            mut cuts in prop::collection::vec(-5 * HOUR..40 * HOUR, 0..5),
        ) {
            cuts.sort_unstable();
            let pieces = split(from, from + length, &cuts);
            prop_assert_eq!(pieces.iter().map(|piece| piece.length()).sum::<i64>(), length);
            let mut at = from;
            for piece in pieces {
                prop_assert_eq!(piece.from, at);
                prop_assert!(piece.length() > 0);
                prop_assert_eq!((hour_of(piece.from), hour_of(piece.until - 1)), (piece.hour, piece.hour));
                prop_assert!(!cuts.iter().any(|cut| piece.from < *cut && *cut < piece.until));
                at = piece.until;
            }
        }

        #[test]
        fn splitting_in_steps_is_the_same(from in 0..HOUR, first in 0..5 * HOUR, second in 0..5 * HOUR) {
            let whole = split(from, from + first + second, &[]);
            let mut parts = split(from, from + first, &[]);
            parts.extend(split(from + first, from + first + second, &[]));
            let by_hour = |pieces: &[Piece], hour| pieces.iter().filter(|p| p.hour == hour).map(|p| p.length()).sum::<i64>();
            for hour in 0..12 {
                prop_assert_eq!(by_hour(&whole, hour), by_hour(&parts, hour));
            }
        }
    }
}
