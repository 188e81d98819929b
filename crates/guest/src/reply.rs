//! The response body type, and constructors of simple responses.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;
use serde::Serialize;

use crate::error::Problem;

/// Error of a body; it closes the connection.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// Response body.
pub(crate) type Body = UnsyncBoxBody<Bytes, BodyError>;

/// A body of known bytes.
pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(never).boxed_unsync()
}

/// A streamed body.
pub(crate) fn stream(pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(pieces.map_ok(Frame::data).map_err(BodyError::from)).boxed_unsync()
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(never).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    json_text(status, serde_json::to_vec(value).unwrap_or_else(|_| b"null".to_vec()))
}

/// A JSON response that is text already.
pub(crate) fn json_text(status: StatusCode, text: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(bytes(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    code: u16,
    message: &'a str,
}

/// An error response.
pub(crate) fn problem(problem: &Problem) -> Response<Body> {
    json(problem.status, &ProblemBody { code: problem.status.as_u16(), message: &problem.message })
}

fn never(never: Infallible) -> BodyError {
    match never {}
}
