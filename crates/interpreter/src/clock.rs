//! The time as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in ISO 8601 with microseconds and zone.
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text(since.as_secs(), since.subsec_micros())
}

fn text(seconds: u64, micros: u32) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+00:00")
}

/// Year, month and day of a number of days since 1970, in years that begin in March, where the leap day is the last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year, if month < 10 { month + 3 } else { month - 9 });
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(text(951_782_400, 1), "2000-02-29T00:00:00.000001+00:00");
        assert_eq!(text(1_795_000_000, 0), "2026-11-18T11:06:40.000000+00:00");
        assert_eq!(text(4_107_542_399, 999_999), "2100-02-28T23:59:59.999999+00:00");
        assert_eq!(text(4_107_542_400, 0), "2100-03-01T00:00:00.000000+00:00");
    }
}
