//! Adds the script that talks with the console to documents in the console's frames, while they stream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame};

use super::{csp, html};
use crate::response::escape;

/// Headers that describe the document as it was.
const VALIDATORS: [HeaderName; 7] = [
    CONTENT_LENGTH,
    ETAG,
    LAST_MODIFIED,
    ACCEPT_RANGES,
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// Asks for a whole document that can be read.
pub(super) fn prepare_request(headers: &mut HeaderMap) {
    for name in [IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_RANGE, RANGE] {
        headers.remove(name);
    }
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
}

/// Adds the script to a response, if it is an HTML document.
pub(super) fn insert(response: Response<Body>, console: &str) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if !is_document(parts.status, &parts.headers) || body.is_end_stream() {
        return Response::from_parts(parts, body);
    }
    let nonce = nonce();
    let nonce = csp::allow_own_script(&mut parts.headers, &nonce).then_some(nonce);
    for name in VALIDATORS {
        parts.headers.remove(name);
    }
    let kept_secret = has(&parts.headers, &CACHE_CONTROL, "no-store");
    parts
        .headers
        .insert(CACHE_CONTROL, HeaderValue::from_static(if kept_secret { "no-store" } else { "private, no-cache" }));
    parts.headers.append(VARY, HeaderValue::from_static("Sec-Fetch-Dest"));
    let tag = tag(console, nonce.as_deref());
    Response::from_parts(
        parts,
        Body::new(WithTag { body, tag, beginning: Some(BytesMut::new()), ready: VecDeque::new() }),
    )
}

/// A text that nobody can guess, for one response.
pub(super) fn nonce() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 18]>())
}

fn tag(console: &str, nonce: Option<&str>) -> Bytes {
    let nonce = nonce.map(|nonce| format!(" nonce=\"{nonce}\"")).unwrap_or_default();
    format!("<script src=\"/.cabana/bridge.js\" data-origin=\"{}\"{nonce}></script>", escape(console)).into()
}

fn has(headers: &HeaderMap, name: &HeaderName, part: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.map(str::to_ascii_lowercase).any(|value| value.contains(part))
}

/// Whether a response is an HTML document that can be read.
fn is_document(status: StatusCode, headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(Ok(kind)), None) = (types.next().map(HeaderValue::to_str), types.next()) else { return false };
    let kind = kind.to_ascii_lowercase();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    // The tag is ASCII, as is the beginning of a document in every other encoding of the web.
    let is_wide = kind.contains("utf-16") || kind.contains("utf-32") || kind.contains("ucs-2");
    let is_encoded = headers.get_all(CONTENT_ENCODING).iter().any(|value| value != "identity");
    essence == "text/html"
        && !is_wide
        && !is_encoded
        && (200..600).contains(&status.as_u16())
        && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED | StatusCode::PARTIAL_CONTENT)
        && !headers.contains_key(CONTENT_RANGE)
        && !has(headers, &CONTENT_DISPOSITION, "attachment")
}

/// A document with a tag in it. Every other byte is as it was.
struct WithTag {
    body: Body,
    tag: Bytes,
    /// What was read and not passed on, until the tag's place is known.
    beginning: Option<BytesMut>,
    ready: VecDeque<Frame<Bytes>>,
}

impl WithTag {
    /// Makes a frame of what was held back.
    fn release(&mut self, place: Option<usize>) {
        let Some(mut beginning) = self.beginning.take() else { return };
        if let Some(place) = place {
            let rest = beginning.split_off(place);
            beginning.reserve(self.tag.len() + rest.len());
            beginning.extend_from_slice(&self.tag);
            beginning.extend_from_slice(&rest);
        }
        if !beginning.is_empty() {
            self.ready.push_back(Frame::data(beginning.freeze()));
        }
    }
}

/// Whether a document begins with the mark of an encoding in which the tag would be noise.
fn is_wide(beginning: &[u8]) -> bool {
    beginning.starts_with(b"\xfe\xff") || beginning.starts_with(b"\xff\xfe")
}

impl HttpBody for WithTag {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(frame) = this.ready.pop_front() {
                return Poll::Ready(Some(Ok(frame)));
            }
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => Some(frame),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => None,
            };
            let Some(beginning) = &mut this.beginning else { return Poll::Ready(frame.map(Ok)) };
            let (place, trailers) = match frame.map(Frame::into_data) {
                Some(Ok(data)) => {
                    beginning.extend_from_slice(&data);
                    if beginning.len() < 2 {
                        continue;
                    }
                    match html::place(beginning, false) {
                        _ if is_wide(beginning) => (None, None),
                        Some(place) => (Some(place), None),
                        None => continue,
                    }
                }
                end => (html::place(beginning, true).filter(|_| !is_wide(beginning)), end.and_then(Result::err)),
            };
            this.release(place);
            this.ready.extend(trailers);
        }
    }

    fn is_end_stream(&self) -> bool {
        self.beginning.is_none() && self.ready.is_empty() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests;
