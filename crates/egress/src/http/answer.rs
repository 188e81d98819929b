//! The proxy's own answers, as JSON. None contains a value of a secret or token.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use serde::Serialize;

/// A body: the server's, or the proxy's own.
pub(crate) type Body = Either<Incoming, Full<Bytes>>;

/// Why the proxy answers a request itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request is malformed or ambiguous.
    BadRequest(&'static str),
    /// It is for another host than its connection.
    OtherHost,
    /// A header of a rule cannot be filled in.
    Header(String),
    /// The server cannot be reached, or does not answer properly.
    Upstream(String),
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: u16,
    message: &'a str,
    error_code: &'static str,
}

impl Fault {
    pub(crate) fn answer(&self) -> Response<Body> {
        let (status, error_code, message) = match self {
            Self::BadRequest(reason) => (StatusCode::BAD_REQUEST, "egress_invalid_request", *reason),
            Self::OtherHost => (
                StatusCode::MISDIRECTED_REQUEST,
                "egress_other_host",
                "the Host header names another host or port than the connection is for: open a new connection",
            ),
            Self::Header(reason) => (StatusCode::BAD_GATEWAY, "egress_header_unavailable", reason.as_str()),
            Self::Upstream(reason) => (StatusCode::BAD_GATEWAY, "egress_upstream_failed", reason.as_str()),
        };
        let body = ErrorBody { code: status.as_u16(), message, error_code };
        let body = Bytes::from(serde_json::to_vec(&body).unwrap_or_default());
        let mut response = Response::new(Either::Right(Full::new(body)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        // The rest of the request's body is not read.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}
