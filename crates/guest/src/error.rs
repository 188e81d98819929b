//! Errors: startup errors, the HTTP form `{"code":int,"message":str}`, and the mapping of kernel errors to HTTP and
//! Connect errors.

use std::io;
use std::path::Path;

use connectrpc::{ConnectError, ErrorCode};
use http::StatusCode;

/// A startup error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Invalid command line.
    #[error("usage: cabana-guest [--listen unix:PATH|ADDRESS:PORT --config FILE [--control PATH]]")]
    Usage,
    /// An inherited descriptor or a required system call failed.
    #[error("cannot {doing}")]
    System {
        doing: &'static str,
        #[source]
        cause: io::Error,
    },
    /// The configuration from the host is malformed.
    #[error("the configuration is not valid")]
    InvalidConfig(#[source] serde_json::Error),
}

impl Error {
    /// For `map_err` on system calls.
    pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |cause| Self::System { doing, cause: cause.into() }
    }
}

/// An error response to a plain HTTP request.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Problem {
    /// HTTP status, repeated in the body.
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The HTTP error for a failed file operation.
    pub(crate) fn io(doing: &str, path: &Path, cause: &io::Error) -> Self {
        if is_full(cause) {
            return Self::new(StatusCode::INSUFFICIENT_STORAGE, "not enough disk space available");
        }
        let status = match code_of(cause) {
            ErrorCode::NotFound => StatusCode::NOT_FOUND,
            ErrorCode::InvalidArgument | ErrorCode::FailedPrecondition => StatusCode::BAD_REQUEST,
            ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
            ErrorCode::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, format!("cannot {doing} '{}': {cause}", path.display()))
    }
}

impl From<cabana_form::Malformed> for Problem {
    fn from(malformed: cabana_form::Malformed) -> Self {
        Self::bad_request(malformed.to_string())
    }
}

/// Whether the disk is full or the quota exceeded.
pub(crate) fn is_full(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// The Connect error for a failed file operation.
pub(crate) fn rpc_io(doing: &str, path: &Path, cause: &io::Error) -> ConnectError {
    ConnectError::new(code_of(cause), format!("cannot {doing} '{}': {cause}", path.display()))
}

/// The Connect code for a kernel error.
pub(crate) fn code_of(cause: &io::Error) -> ErrorCode {
    match cause.raw_os_error() {
        Some(libc::ENOENT) => ErrorCode::NotFound,
        Some(libc::EEXIST) => ErrorCode::AlreadyExists,
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => ErrorCode::PermissionDenied,
        Some(libc::ENOTDIR | libc::EISDIR | libc::ELOOP | libc::ENAMETOOLONG | libc::EINVAL | libc::E2BIG) => {
            ErrorCode::InvalidArgument
        }
        Some(libc::ENOTEMPTY | libc::EBUSY | libc::EXDEV | libc::ETXTBSY | libc::ENXIO | libc::ENODEV) => {
            ErrorCode::FailedPrecondition
        }
        Some(libc::ENOSPC | libc::EDQUOT | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN | libc::EFBIG) => {
            ErrorCode::ResourceExhausted
        }
        _ if cause.kind() == io::ErrorKind::InvalidInput => ErrorCode::InvalidArgument,
        _ => ErrorCode::Internal,
    }
}
