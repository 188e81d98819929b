//! Contents of files of a sandbox, streamed from its guest to a client. They are hostile: no browser takes them for a page of this origin.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use cabana_guest_link::Port;
use cabana_types::ErrorCode;
use cabana_types::guest::tools::{DOWNLOAD_PATH, MEDIA_TYPE_HEADER, Refusal};
use futures_util::StreamExt;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HOST, IF_RANGE, LAST_MODIFIED, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use tokio::time::timeout;

use super::entering::Entered;
use crate::error::ApiError;

/// How long the guest may take to begin its answer.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Bytes of an error of the guest.
const MAX_ERROR: usize = 8192;
/// Images that a browser may show in place.
pub(super) const SHOWN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Why the guest did not send a file.
pub(super) enum FetchError {
    Refused(Refusal),
    Unresponsive,
}

/// A file on its way from the guest.
pub(super) struct Fetched {
    status: StatusCode,
    headers: HeaderMap,
    body: Body,
}

/// Asks the guest for a file, or for the range of it that the client asks for.
pub(super) async fn fetch(entered: Entered, query: &str, headers: &HeaderMap) -> Result<Fetched, FetchError> {
    let Entered { route, in_flight, .. } = entered;
    let mut request = Request::get(format!("{DOWNLOAD_PATH}?{query}")).header(HOST, "guest");
    for name in [RANGE, IF_RANGE] {
        if let Some(value) = headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Empty::<bytes::Bytes>::new()).map_err(|_| FetchError::Unresponsive)?;
    let response = timeout(ANSWER_TIME, route.link.request(Port::Control, request)).await;
    let response = response.ok().and_then(Result::ok).ok_or(FetchError::Unresponsive)?;
    let status = response.status();
    if status == StatusCode::UNPROCESSABLE_ENTITY || status == StatusCode::NOT_FOUND {
        let said = timeout(ANSWER_TIME, Limited::new(response.into_body(), MAX_ERROR).collect()).await;
        let said = said.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        return Err(serde_json::from_slice(&said).map_or(FetchError::Unresponsive, FetchError::Refused));
    }
    if !status.is_success() && status != StatusCode::RANGE_NOT_SATISFIABLE {
        return Err(FetchError::Unresponsive);
    }
    let (parts, body) = response.into_parts();
    // The sandbox does not become idle in the middle of a download. One that ends or is paused cuts it: that is not its end.
    let state = (body.into_data_stream(), route.gone.clone(), in_flight);
    let pieces = futures_util::stream::unfold(state, |(mut body, gone, in_flight)| async move {
        let piece = tokio::select! {
            biased;
            piece = body.next() => piece?.map_err(io::Error::other),
            () = gone.cancelled() => Err(io::ErrorKind::ConnectionAborted.into()),
        };
        Some((piece, (body, gone, in_flight)))
    });
    Ok(Fetched { status, headers: parts.headers, body: Body::from_stream(pieces) })
}

impl Fetched {
    /// Whether it is a directory, packed.
    pub(super) fn is_archive(&self) -> bool {
        self.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/gzip"))
    }

    /// Its bytes.
    pub(super) fn into_body(self) -> Body {
        self.body
    }

    /// The image that it is, if a browser may show it in place.
    pub(super) fn image(&self) -> Option<&'static str> {
        let said = self.headers.get(MEDIA_TYPE_HEADER)?;
        SHOWN.into_iter().find(|name| said.as_bytes() == name.as_bytes())
    }

    /// The answer to the client: a download, or an image that is shown in place.
    pub(super) fn answer(self, name: &str, image: Option<&'static str>) -> Response {
        let mut answer = (self.status, self.body).into_response();
        let answered = answer.headers_mut();
        for name in [CONTENT_LENGTH, CONTENT_RANGE, ACCEPT_RANGES, LAST_MODIFIED] {
            if let Some(value) = self.headers.get(&name) {
                answered.insert(name, value.clone());
            }
        }
        if let Some(etag) = self.headers.get(ETAG).filter(|etag| is_etag(etag.as_bytes())) {
            answered.insert(ETAG, etag.clone());
        }
        let kind = image.unwrap_or("application/octet-stream");
        answered.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        answered.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        answered.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
        answered.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
        answered.insert(CONTENT_DISPOSITION, disposition(image.is_some(), name));
        answer
    }
}

/// Whether this is a SHA-256 in lower-case hexadecimal and quotes.
pub(super) fn is_etag(text: &[u8]) -> bool {
    let inner = text.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    inner.is_some_and(|hex| hex.len() == 64 && hex.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// With a name that any client understands.
pub(super) fn disposition(inline: bool, name: &str) -> HeaderValue {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_graphic() && !matches!(c, '"' | '\\') || c == ' ' { c } else { '_' })
        .collect();
    let encoded: String = name
        .bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() || b"-._~".contains(&b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect();
    let how = if inline { "inline" } else { "attachment" };
    let text = format!("{how}; filename=\"{plain}\"; filename*=UTF-8''{encoded}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("attachment"))
}

pub(super) fn unresponsive() -> ApiError {
    ApiError::new(ErrorCode::SandboxUnresponsive, "The sandbox does not respond; try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless() {
        assert_eq!(disposition(false, "a b.txt"), "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
        assert_eq!(
            disposition(true, "ä\"\r\n.txt"),
            "inline; filename=\"____.txt\"; filename*=UTF-8''%C3%A4%22%0D%0A.txt"
        );
    }

    #[test]
    fn an_etag_of_a_guest_is_a_digest() {
        let digest = format!("\"{}\"", "0a".repeat(32));
        assert!(is_etag(digest.as_bytes()));
        for other in ["", "\"", "\"\"", &digest.replace('a', "A"), &digest[1..], "*", &format!("W/{digest}")] {
            assert!(!is_etag(other.as_bytes()), "{other}");
        }
    }
}
