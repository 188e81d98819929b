//! Why the guard refuses a request, as the status and words of the answer.

use http::StatusCode;

/// An answer for a request that is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::edge) struct Rejection {
    /// Status of the answer.
    pub(in crate::edge) status: StatusCode,
    /// What was wrong with the request.
    pub(in crate::edge) message: &'static str,
}

impl Rejection {
    /// The bytes could be read in more than one way, or in none.
    pub(super) const fn bad(message: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message }
    }

    pub(super) const HEAD_TOO_LARGE: Self = Self {
        status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        message: "the request head is too large: at most 64 KiB and 100 headers are accepted",
    };

    pub(super) const HEAD_TOO_SLOW: Self =
        Self { status: StatusCode::REQUEST_TIMEOUT, message: "the request head did not arrive in time" };
}
