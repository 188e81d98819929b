//! Numbers and times as headers and pax records spell them.

/// A time of modification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Time {
    /// Since 1970; negative before.
    pub seconds: i64,
    /// After the second, also before 1970: 0 to 999,999,999.
    pub nanoseconds: u32,
}

const BILLION: u32 = 1_000_000_000;

impl Time {
    /// A whole second.
    pub fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }

    /// Seconds with a fraction, as in a pax record: half a second before 1970 is `-0.5`.
    pub(crate) fn spell(self) -> String {
        let Self { seconds, nanoseconds } = self;
        let text = match (seconds < 0, nanoseconds) {
            (_, 0) => return seconds.to_string(),
            (false, after) => format!("{seconds}.{after:09}"),
            (true, after) => format!("-{}.{:09}", (seconds + 1).unsigned_abs(), BILLION - after),
        };
        text.trim_end_matches('0').to_owned()
    }

    /// Reads any spelling; digits beyond nanoseconds are dropped.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
        let mut parts = text.splitn(2, |b| *b == b'.');
        let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
        let fraction = parts.next().unwrap_or_default();
        if fraction.len() > 40 || fraction.iter().any(|b| !b.is_ascii_digit()) {
            return None;
        }
        let nanoseconds = (0..9).fold(0, |n, i| n * 10 + fraction.get(i).map_or(0, |digit| u32::from(digit - b'0')));
        Some(match (negative, nanoseconds) {
            (false, nanoseconds) => Self { seconds, nanoseconds },
            (true, 0) => Self { seconds: -seconds, nanoseconds: 0 },
            (true, _) => Self { seconds: -seconds - 1, nanoseconds: BILLION - nanoseconds },
        })
    }
}

/// Decimal digits and nothing else.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    digits(text, 10).filter(|_| !text.is_empty())
}

fn digits(text: &[u8], base: u32) -> Option<u64> {
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = char::from(*byte).to_digit(base)?;
        number.checked_mul(base.into())?.checked_add(digit.into())
    })
}

/// A number of a header that cannot be negative: octal, or GNU's base-256.
pub(crate) fn unsigned(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 == 0 { octal(field) } else { u64::try_from(binary(field)?).ok() }
}

/// A number of a header that can be negative.
pub(crate) fn signed(field: &[u8]) -> Option<i64> {
    if field[0] & 0x80 == 0 { i64::try_from(octal(field)?).ok() } else { binary(field) }
}

/// Octal digits with spaces before and spaces or NULs after; an empty field is zero.
pub(crate) fn octal(field: &[u8]) -> Option<u64> {
    let start = field.iter().position(|b| *b != b' ').unwrap_or(field.len());
    let number = &field[start..];
    let end = number.iter().position(|b| matches!(b, b' ' | 0)).unwrap_or(number.len());
    let is_blank = number[end..].iter().all(|b| matches!(b, b' ' | 0));
    digits(&number[..end], 8).filter(|_| is_blank)
}

/// GNU's base-256 form: two's complement after a marking bit.
fn binary(field: &[u8]) -> Option<i64> {
    let negative = field[0] & 0x40 != 0;
    let first = if negative { i64::from(field[0] | 0x80) - 256 } else { i64::from(field[0] & 0x3f) };
    field[1..].iter().try_fold(first, |value, byte| value.checked_mul(256)?.checked_add(i64::from(*byte)))
}

/// Writes octal digits that fill a field except for its last byte, a NUL.
pub(crate) fn put_octal(field: &mut [u8], number: u64) {
    let width = field.len() - 1;
    let digits = format!("{number:0width$o}");
    field[..width].copy_from_slice(&digits.as_bytes()[digits.len() - width..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_of_both_forms() {
        assert_eq!(octal(b"0000644\0"), Some(0o644));
        assert_eq!(octal(b"   644 \0"), Some(0o644));
        assert_eq!(octal(b"\0\0\0\0"), Some(0));
        assert_eq!(octal(b"77777777777\0"), Some(0o77_777_777_777));
        for bad in [&b"64x\0"[..], b"6 4\0", b"-1\0\0", b"8\0\0\0"] {
            assert_eq!(octal(bad), None);
        }
        assert_eq!(unsigned(&[0x80, 0, 0, 0, 0, 0, 1, 0]), Some(256));
        assert_eq!(unsigned(&[0xff; 8]), None, "no negative sizes");
        assert_eq!(signed(&[0xff; 12]), Some(-1));
        assert_eq!(unsigned(&[0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
    }

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
    fn other_spellings_of_times() {
        let parse = |text: &str| Time::parse(text.as_bytes()).map(|time| (time.seconds, time.nanoseconds));
        assert_eq!(parse("-1.25"), Some((-2, 750_000_000)));
        assert_eq!(parse("-3"), Some((-3, 0)));
        assert_eq!(parse("5."), Some((5, 0)));
        for text in ["", "-", ".", ".5", "+1", "1e3", "99999999999999999999", "1 ", "--1", "1e5"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
