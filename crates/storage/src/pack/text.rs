//! Numbers and times as an archive spells them.

/// A time of change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) seconds: i64,
    /// After the second, also before 1970: 0 to 999,999,999.
    pub(super) nanoseconds: u32,
}

const BILLION: u32 = 1_000_000_000;

impl Time {
    /// Seconds with a fraction. Before 1970 the whole is negative, so that half a second before is `-0.5`.
    pub(super) fn spell(self) -> String {
        let Self { seconds, nanoseconds } = self;
        let text = match (seconds < 0, nanoseconds) {
            (_, 0) => return seconds.to_string(),
            (false, after) => format!("{seconds}.{after:09}"),
            (true, after) => format!("-{}.{:09}", -(seconds + 1), BILLION - after),
        };
        text.trim_end_matches('0').to_owned()
    }

    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (negative, text) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let point = text.iter().position(|b| *b == b'.');
        let whole = i64::try_from(decimal(&text[..point.unwrap_or(text.len())])?).ok()?;
        let after = match point {
            None => 0,
            Some(at) => {
                let digits = &text[at + 1..];
                let width = u32::try_from(digits.len()).ok().filter(|n| *n <= 9)?;
                u32::try_from(decimal(digits)?).ok()? * 10u32.pow(9 - width)
            }
        };
        match (negative, after) {
            (false, nanoseconds) => Some(Self { seconds: whole, nanoseconds }),
            (true, 0) => Some(Self { seconds: -whole, nanoseconds: 0 }),
            (true, after) => Some(Self { seconds: -whole - 1, nanoseconds: BILLION - after }),
        }
    }
}

/// Digits alone.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    digits(text, 10)
}

/// Octal digits alone.
pub(super) fn octal(text: &[u8]) -> Option<u64> {
    digits(text, 8)
}

fn digits(text: &[u8], base: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = char::from(*byte).to_digit(base)?;
        number.checked_mul(base.into())?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn times_come_back(seconds in -(1i64 << 62)..1 << 62, nanoseconds in 0..BILLION) {
            let time = Time { seconds, nanoseconds };
            prop_assert_eq!(Time::parse(time.spell().as_bytes()), Some(time));
        }

        #[test]
        fn any_text_is_survived(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Time::parse(&text);
        }
    }

    #[test]
    fn times_are_spelled_as_others_do() {
        let spell = |seconds, nanoseconds| Time { seconds, nanoseconds }.spell();
        assert_eq!(spell(0, 0), "0");
        assert_eq!(spell(12, 340_000_000), "12.34");
        assert_eq!(spell(-1, 500_000_000), "-0.5");
        assert_eq!(spell(-2, 999_999_999), "-1.000000001");
        assert_eq!(spell(-7, 0), "-7");
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in ["", "-", ".", "1.", ".5", "+1", "1e3", "1.0000000001", "99999999999999999999", "1 ", "--1"] {
            assert_eq!(Time::parse(text.as_bytes()), None, "{text}");
        }
    }
}
