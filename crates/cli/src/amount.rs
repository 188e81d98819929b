//! Parsing and formatting of durations, sizes and times.

use jiff::Timestamp;

/// Parses seconds: `90`, `90s`, `5m`, `2h`, `1d`.
pub(crate) fn parse_seconds(text: &str) -> Result<i64, String> {
    let (number, unit) = split(text);
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("expected seconds, or a number with s, m, h or d, as in 90, 5m or 2h".to_owned()),
    };
    let number: i64 = number.parse().map_err(|_| "expected a number, as in 90, 5m or 2h".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "too long".to_owned())
}

/// Parses mebibytes: `512`, `512M`, `2G`, `1T`.
pub(crate) fn parse_mebibytes(text: &str) -> Result<i64, String> {
    let (number, unit) = split(text);
    let factor = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" | "m" => 1,
        "g" => 1024,
        "t" => 1024 * 1024,
        _ => return Err("expected MiB, or a number with M, G or T, as in 512 or 2G".to_owned()),
    };
    let number: i64 = number.parse().map_err(|_| "expected a number, as in 512 or 2G".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "too much".to_owned())
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// Parses `NAME=VALUE`.
pub(crate) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// `3m ago`, `in 2h`, `now`.
pub(crate) fn relative(time: Timestamp, now: Timestamp) -> String {
    let seconds = time.as_second().saturating_sub(now.as_second());
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {}", short(seconds)),
        _ => format!("{} ago", short(seconds.saturating_neg())),
    }
}

/// `45s`, `3m`, `2h 5m`, `4d`.
pub(crate) fn short(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => match seconds % 3600 / 60 {
            0 => format!("{}h", seconds / 3600),
            minutes => format!("{}h {minutes}m", seconds / 3600),
        },
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `512 MiB`, `10 GiB`.
pub(crate) fn mebibytes(amount: u64) -> String {
    if amount >= 1024 && amount.is_multiple_of(1024) {
        format!("{} GiB", amount / 1024)
    } else {
        format!("{amount} MiB")
    }
}

/// How long something took: `40 ms`, `1.2 s`, `3 min 4 s`.
pub(crate) fn milliseconds(amount: u64) -> String {
    match amount {
        0..100 => format!("{amount} ms"),
        100..60_000 => format!("{}.{} s", amount / 1000, amount % 1000 / 100),
        _ => format!("{} min {} s", amount / 60_000, amount % 60_000 / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_calls() {
        for (amount, text) in [(0, "0 ms"), (99, "99 ms"), (1250, "1.2 s"), (59_999, "59.9 s"), (184_000, "3 min 4 s")]
        {
            assert_eq!(milliseconds(amount), text);
        }
    }

    #[test]
    fn amounts() {
        assert_eq!(parse_seconds("90"), Ok(90));
        assert_eq!(parse_seconds("5m"), Ok(300));
        assert_eq!(parse_seconds("2h"), Ok(7200));
        assert_eq!(parse_seconds("1d"), Ok(86_400));
        for wrong in ["", "m", "-1", "1w", "1.5h", "99999999999999999999", "9223372036854775807d"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_mebibytes("512"), Ok(512));
        assert_eq!(parse_mebibytes("2G"), Ok(2048));
        assert_eq!(parse_mebibytes("2GiB"), Ok(2048));
        assert!(parse_mebibytes("2K").is_err());
        assert_eq!(parse_pair("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(parse_pair("=x").is_err());
    }

    #[test]
    fn times() {
        let now = Timestamp::from_second(1_000_000).expect("time");
        let at = |offset: i64| relative(Timestamp::from_second(1_000_000 + offset).expect("time"), now);
        assert_eq!(at(0), "now");
        assert_eq!(at(-45), "45s ago");
        assert_eq!(at(-180), "3m ago");
        assert_eq!(at(7500), "in 2h 5m");
        assert_eq!(at(400_000), "in 4d");
        assert_eq!(mebibytes(512), "512 MiB");
        assert_eq!(mebibytes(10_240), "10 GiB");
    }
}
