//! The content of a file as an answer: whole, or a range of it.

use std::io::SeekFrom;
use std::ops::Range;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use cabana_store::AttachmentRow;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use crate::api::content::{SHOWN, disposition};
use crate::error::ApiError;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// What a client asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    Part(Range<u64>),
    /// It has no such range.
    Nothing,
}

/// The answer to a request for the content of a file.
pub(in crate::api) async fn answer(
    row: &AttachmentRow,
    mut file: File,
    inline: bool,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let size = file.metadata().await.map_err(|error| ApiError::internal(&error))?.len();
    let etag = format!("\"{}\"", row.sha256);
    let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let same =
        |tags: &str| tags.split(',').any(|tag| [etag.as_str(), "*"].contains(&tag.trim().trim_start_matches("W/")));
    let wanted = match header(RANGE).filter(|_| header(IF_RANGE).is_none_or(|tag| tag == etag)) {
        Some(text) => wanted(text, size),
        None => Wanted::Whole,
    };
    let mut answer = match wanted {
        _ if header(IF_NONE_MATCH).is_some_and(same) => StatusCode::NOT_MODIFIED.into_response(),
        Wanted::Nothing => {
            let mut answer = StatusCode::RANGE_NOT_SATISFIABLE.into_response();
            set(&mut answer, CONTENT_RANGE, &format!("bytes */{size}"));
            answer
        }
        Wanted::Whole => body(file, size, StatusCode::OK),
        Wanted::Part(range) => {
            file.seek(SeekFrom::Start(range.start)).await.map_err(|error| ApiError::internal(&error))?;
            let mut answer = body(file, range.end - range.start, StatusCode::PARTIAL_CONTENT);
            set(&mut answer, CONTENT_RANGE, &format!("bytes {}-{}/{size}", range.start, range.end - 1));
            answer
        }
    };
    let image = SHOWN.into_iter().find(|kind| inline && *kind == row.media_type);
    let name = row.name.rsplit('/').next().unwrap_or_default();
    set(&mut answer, CONTENT_TYPE, image.unwrap_or("application/octet-stream"));
    set(&mut answer, ETAG, &etag);
    set(&mut answer, ACCEPT_RANGES, "bytes");
    set(&mut answer, X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(&mut answer, CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'");
    // Asked for each time, so that nobody sees it who may not any more.
    set(&mut answer, CACHE_CONTROL, "private, no-cache");
    answer.headers_mut().insert(CONTENT_DISPOSITION, disposition(image.is_some(), name));
    Ok(answer)
}

fn body(file: File, length: u64, status: StatusCode) -> Response {
    let pieces = ReaderStream::with_capacity(file.take(length), PIECE);
    let mut answer = (status, Body::from_stream(pieces)).into_response();
    answer.headers_mut().insert(CONTENT_LENGTH, length.into());
    answer
}

fn set(answer: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// The one range of a header; of several, and of what is no range of bytes, the whole file.
fn wanted(header: &str, size: u64) -> Wanted {
    let Some((first, last)) = header.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Wanted::Whole;
    };
    let number = |text: &str| {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().unwrap_or(u64::MAX))
    };
    let range = match (first.trim(), last.trim()) {
        ("", last) => number(last).map(|count| size.saturating_sub(count)..size),
        (first, "") => number(first).map(|first| first..size),
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => Some(first..size.min(last.saturating_add(1))),
            _ => None,
        },
    };
    match range {
        None => Wanted::Whole,
        Some(range) if range.is_empty() => Wanted::Nothing,
        Some(range) => Wanted::Part(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (header, expected) in [
            ("bytes=0-4", Wanted::Part(0..5)),
            ("bytes=3-", Wanted::Part(3..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-30", Wanted::Part(0..10)),
            ("bytes=9-99999999999999999999", Wanted::Part(9..10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-4", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
            ("", Wanted::Whole),
        ] {
            assert_eq!(wanted(header, 10), expected, "{header}");
        }
        assert_eq!(wanted("bytes=0-", 0), Wanted::Nothing);
    }
}
