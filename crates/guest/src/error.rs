//! Errors: why the daemon cannot start, the HTTP form `{"code":int,"message":str}`, and how the kernel's errors map to either form.

use std::io;
use std::path::Path;

use connectrpc::{ConnectError, ErrorCode};
use http::StatusCode;

/// Why the daemon cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line is wrong.
    #[error("usage: cabana-guest [--listen unix:PATH|ADDRESS:PORT --config FILE [--control PATH]]")]
    Usage,
    /// An inherited descriptor or a system call that the daemon cannot do without.
    #[error("cannot {doing}")]
    System {
        doing: &'static str,
        #[source]
        cause: io::Error,
    },
    /// The configuration is not what the host should have written.
    #[error("the configuration is not valid")]
    InvalidConfig(#[source] serde_json::Error),
}

impl Error {
    /// For `map_err` on system calls.
    pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |cause| Self::System { doing, cause: cause.into() }
    }
}

/// A refusal of a plain HTTP request.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Problem {
    /// HTTP status, repeated in the body.
    pub(crate) status: StatusCode,
    /// What the client shows.
    pub(crate) message: String,
}

impl Problem {
    /// A refusal with this status.
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 401.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    /// 404.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// 500.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The HTTP form of a failed file operation.
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

/// Whether the disk or the quota is full.
pub(crate) fn is_full(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// The Connect form of a failed file operation.
pub(crate) fn rpc_io(doing: &str, path: &Path, cause: &io::Error) -> ConnectError {
    ConnectError::new(code_of(cause), format!("cannot {doing} '{}': {cause}", path.display()))
}

/// The Connect code of the kernel's error.
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
