//! Range and conditional headers of a download.

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, RANGE};

/// The requested part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// From the first to the last byte, both inclusive.
    Range(u64, u64),
    /// The range is outside the file.
    Unsatisfiable,
}

/// Parses `Range`. Multiple ranges and malformed values are ignored, as the standard allows. `modified` and `etag` are the file's, for
/// `If-Range`.
pub(crate) fn part(headers: &HeaderMap, size: u64, modified: i64, etag: Option<&str>) -> Part {
    let Some(text) = single(headers, &RANGE).and_then(|v| v.trim().strip_prefix("bytes=")) else { return Part::Whole };
    if let Some(condition) = single(headers, &IF_RANGE)
        && Some(condition) != etag
        && seconds(condition) != Some(modified)
    {
        return Part::Whole;
    }
    parse(text.trim(), size)
}

fn parse(text: &str, size: u64) -> Part {
    let Some((first, last)) = text.split_once('-') else { return Part::Whole };
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    match (first.trim(), last.trim()) {
        ("", last) => match number(last) {
            None => Part::Whole,
            Some(0) => Part::Unsatisfiable,
            Some(_) if size == 0 => Part::Unsatisfiable,
            Some(count) => Part::Range(size.saturating_sub(count), size - 1),
        },
        (first, last) => {
            let Some(first) = number(first) else { return Part::Whole };
            let last = if last.is_empty() { Some(u64::MAX) } else { number(last) };
            match last {
                None => Part::Whole,
                Some(last) if last < first => Part::Whole,
                Some(_) if first >= size => Part::Unsatisfiable,
                Some(last) => Part::Range(first, last.min(size - 1)),
            }
        }
    }
}

/// Whether the client already has this version.
pub(crate) fn is_unmodified(headers: &HeaderMap, modified: i64) -> bool {
    !headers.contains_key(IF_NONE_MATCH)
        && single(headers, &IF_MODIFIED_SINCE).and_then(seconds).is_some_and(|since| modified <= since)
}

/// Whether the response may be compressed: the client accepts gzip and does not request a range.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    if [RANGE, IF_RANGE, IF_MODIFIED_SINCE, IF_NONE_MATCH].iter().any(|name| headers.contains_key(name)) {
        return false;
    }
    headers.get_all(ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|q| q > 0.0)
    })
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

fn seconds(date: &str) -> Option<i64> {
    let time = httpdate::parse_http_date(date).ok()?;
    time.duration_since(std::time::UNIX_EPOCH).ok().and_then(|d| i64::try_from(d.as_secs()).ok())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges() {
        for (text, size, expected) in [
            ("0-4", 10, Part::Range(0, 4)),
            ("5-", 10, Part::Range(5, 9)),
            ("5-99", 10, Part::Range(5, 9)),
            ("-3", 10, Part::Range(7, 9)),
            ("-30", 10, Part::Range(0, 9)),
            ("10-", 10, Part::Unsatisfiable),
            ("0-", 0, Part::Unsatisfiable),
            ("-0", 10, Part::Unsatisfiable),
            ("-5", 0, Part::Unsatisfiable),
            ("4-2", 10, Part::Whole),
            ("0-1,3-4", 10, Part::Whole),
            ("a-b", 10, Part::Whole),
            ("", 10, Part::Whole),
            ("+1-2", 10, Part::Whole),
            ("99999999999999999999-", 10, Part::Whole),
        ] {
            assert_eq!(parse(text, size), expected, "{text} of {size}");
        }
    }

    #[test]
    fn conditions() {
        let mut headers = HeaderMap::new();
        assert!(!is_unmodified(&headers, 5));
        headers.insert(IF_MODIFIED_SINCE, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:10 GMT"));
        assert!(is_unmodified(&headers, 10));
        assert!(!is_unmodified(&headers, 11));
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_static("bytes=1-2"));
        headers.insert(IF_RANGE, HeaderValue::from_static("Thu, 01 Jan 1970 00:00:10 GMT"));
        assert_eq!(part(&headers, 10, 10, None), Part::Range(1, 2));
        assert_eq!(part(&headers, 10, 11, None), Part::Whole);
        headers.insert(IF_RANGE, HeaderValue::from_static("\"ab\""));
        assert_eq!(part(&headers, 10, 10, Some("\"ab\"")), Part::Range(1, 2));
        assert_eq!(part(&headers, 10, 10, Some("\"cd\"")), Part::Whole);
        assert_eq!(part(&headers, 10, 10, None), Part::Whole);
    }

    #[test]
    fn gzip() {
        let accepts = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(text));
            accepts_gzip(&headers)
        };
        assert!(accepts("gzip") && accepts("br, GZIP;q=0.5") && accepts("deflate,gzip"));
        assert!(!accepts("identity") && !accepts("gzip;q=0") && !accepts("br, gzip;q=x"));
    }

    proptest! {
        #[test]
        fn ranges_lie_inside(text in "[0-9-]{0,8}", size in 0u64..1000) {
            if let Part::Range(first, last) = parse(&text, size) {
                prop_assert!(first <= last && last < size);
            }
        }
    }
}
