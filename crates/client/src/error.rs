//! Errors of the client.

use std::error::Error as StdError;

use cabana_types::{ErrorCode, SandboxId};

/// Result of every call.
pub type Result<T> = std::result::Result<T, Error>;

/// A cause that comes from a library below.
pub(crate) type Cause = Box<dyn StdError + Send + Sync>;

/// An error of the client. `action` names the call, as in "list sandboxes".
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The base URL cannot be used.
    #[error("`{url}` is not a usable API URL: {reason}")]
    InvalidUrl {
        url: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A value cannot be sent as it is.
    #[error("{0}")]
    InvalidInput(String),
    /// No connection to the server could be made.
    #[error("cannot reach the server at {url}")]
    Unreachable {
        /// The base URL.
        url: String,
        #[source]
        source: Cause,
    },
    /// The connection broke.
    #[error("cannot {action}: the connection failed")]
    Connection {
        action: &'static str,
        #[source]
        source: Cause,
    },
    /// There was no response in time.
    #[error("cannot {action}: no response within {seconds} s")]
    TimedOut { action: &'static str, seconds: u64 },
    /// The server refused; the message is its own.
    #[error("cannot {action}: {message}")]
    Api {
        action: &'static str,
        status: u16,
        message: String,
        /// The machine-readable cause, if it was sent and is known.
        code: Option<ErrorCode>,
    },
    /// The guest returned an error.
    #[error("cannot {action}: {message}")]
    Guest { action: &'static str, code: connectrpc::ErrorCode, message: String },
    /// The sandbox went away while it was being used.
    #[error("sandbox {id} ended: {reason}")]
    Gone {
        id: SandboxId,
        /// The server's reason.
        reason: String,
    },
    /// The response is malformed.
    #[error("cannot {action}: unexpected response: {reason}")]
    Answer {
        action: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The data to send could not be read.
    #[error("cannot {action}: the data to send could not be read")]
    Source {
        action: &'static str,
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// Whether the caller can fix it: a wrong value, a missing sandbox, a refused key.
    pub fn is_callers_fault(&self) -> bool {
        use connectrpc::ErrorCode as Code;
        match self {
            Self::InvalidUrl { .. } | Self::InvalidInput(_) | Self::Gone { .. } | Self::Source { .. } => true,
            // The edge returns 502 for a sandbox that does not exist or a port that is closed.
            Self::Api { status, .. } => (400..500).contains(status) || *status == 502,
            Self::Guest { code, .. } => matches!(
                code,
                Code::InvalidArgument
                    | Code::NotFound
                    | Code::AlreadyExists
                    | Code::PermissionDenied
                    | Code::FailedPrecondition
                    | Code::OutOfRange
                    | Code::Unauthenticated
                    | Code::DeadlineExceeded
            ),
            Self::Unreachable { .. } | Self::Connection { .. } | Self::TimedOut { .. } | Self::Answer { .. } => false,
        }
    }

    /// Whether the requested object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { status: 404, .. } | Self::Guest { code: connectrpc::ErrorCode::NotFound, .. })
    }

    /// Whether the object already exists.
    pub fn is_already_exists(&self) -> bool {
        matches!(self, Self::Guest { code: connectrpc::ErrorCode::AlreadyExists, .. })
    }

    /// Whether a timeout that the caller set has passed.
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::Guest { code: connectrpc::ErrorCode::DeadlineExceeded, .. })
    }

    /// The guest's error code, as in `invalid_argument`.
    pub fn guest_code(&self) -> Option<&'static str> {
        match self {
            Self::Guest { code, .. } => Some(code.as_str()),
            _ => None,
        }
    }

    /// Whether the connection broke, as it does when a sandbox is killed under a stream.
    pub(crate) fn is_connection(&self) -> bool {
        matches!(self, Self::Connection { .. } | Self::Unreachable { .. })
            || matches!(self, Self::Api { status: 502, .. })
    }
}

/// The innermost cause: "Connection refused" instead of the three layers around it.
pub(crate) fn root_cause(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(inner) = innermost.source() {
        innermost = inner;
    }
    innermost.to_string()
}
