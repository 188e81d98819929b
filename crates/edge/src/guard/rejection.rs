//! Why the guard rejects a request, as status and message of the response.

use http::StatusCode;

/// The response to a rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) status: StatusCode,
    pub(crate) message: &'static str,
}

impl Rejection {
    /// The request is malformed or ambiguous.
    pub(super) const fn bad(message: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message }
    }

    pub(crate) const HEAD_TOO_LARGE: Self = Self {
        status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        message: "the request head is too large: at most 64 KiB and 100 headers are accepted",
    };

    pub(super) const HEAD_TOO_SLOW: Self =
        Self { status: StatusCode::REQUEST_TIMEOUT, message: "the request head did not arrive in time" };
}
