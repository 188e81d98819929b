//! Errors of images and Dockerfiles. Messages are meant for the user who requested the build.

use crate::digest::Digest;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name of an image is not one.
    #[error("{text:?} is not the name of an image: {reason}")]
    InvalidReference { text: String, reason: String },
    /// A digest is malformed or of an algorithm other than SHA-256.
    #[error("{0:?} is not a SHA-256 digest (sha256: and 64 hexadecimal digits)")]
    InvalidDigest(String),
    /// An archive or one of its entries is not taken.
    #[error("the archive is refused: {}{reason}", at(path))]
    Refused {
        /// The entry; empty for the archive itself.
        path: String,
        reason: String,
    },
    /// The bytes are not those that the digest names.
    #[error("{what} is corrupt: its digest is {found} instead of {expected}")]
    Corrupt { what: String, expected: Digest, found: Digest },
    /// Something exceeds a limit.
    #[error("{what} is too large: more than {limit} bytes")]
    TooLarge {
        what: String,
        /// The limit.
        limit: u64,
    },
    /// What was found is not a container image.
    #[error("this is not an image that can be used: {0}")]
    NotAnImage(String),
    /// The image's manifest is of a form that was given up in 2017.
    #[error(
        "the image is in Docker's old format (schema 1), which is not supported: push it again with a current tool"
    )]
    Schema1,
    /// The image is not for this machine.
    #[error("the image does not run on {wanted}{}", offers(offered))]
    Platform {
        /// This machine's platform.
        wanted: String,
        /// The image's platforms.
        offered: String,
    },
    /// The registry requires other credentials, or any.
    #[error("{host} does not give access to {repository}: {hint}")]
    Unauthorized {
        /// The registry.
        host: String,
        /// The repository.
        repository: String,
        /// What to do.
        hint: String,
    },
    /// The registry does not have it.
    #[error("{what} is not in the registry {host}")]
    NotFound {
        /// The image, or a part of it.
        what: String,
        /// The registry.
        host: String,
    },
    /// The registry answers with an error.
    #[error("{host} answers {status}{}", said(message))]
    Status {
        /// The registry.
        host: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The registry cannot be reached, or the connection broke.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// The registry.
        host: String,
        /// What happened.
        reason: String,
    },
    /// The registry's behaviour is not accepted.
    #[error("{host} is not used: {reason}")]
    Distrusted {
        /// The registry.
        host: String,
        /// What it is.
        reason: String,
    },
    /// Credentials that cannot be used.
    #[error("the registry credentials cannot be used: {0}")]
    InvalidCredentials(String),
    /// An operation on a file or directory failed.
    #[error("{action} {path}")]
    Path {
        action: &'static str,
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// Reading or writing failed.
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        source: std::io::Error,
    },
    /// A Dockerfile cannot be built.
    #[error(transparent)]
    Dockerfile(#[from] crate::dockerfile::DockerfileError),
    /// What is asked of the build context is not possible.
    #[error("the build context: {0}")]
    Context(String),
    /// The caller no longer wants the result.
    #[error("cancelled")]
    Cancelled,
    /// It took longer than the caller allows.
    #[error("{0} took too long")]
    TimedOut(&'static str),
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

fn offers(offered: &str) -> String {
    if offered.is_empty() { String::new() } else { format!(": it is for {offered}") }
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// A name from an archive for display: no control characters, bounded.
pub(crate) fn shown(name: &[u8]) -> String {
    let mut text: String = name.escape_ascii().take(200).map(char::from).collect();
    if text.len() >= 200 {
        text.push('…');
    }
    text
}

impl From<cabana_archive::Error> for Error {
    fn from(error: cabana_archive::Error) -> Self {
        match error {
            cabana_archive::Error::Io(error) => crate::compression::read_error(error),
            cabana_archive::Error::Invalid { path, problem } => Self::refused(&path, problem),
        }
    }
}

impl Error {
    pub(crate) fn refused(path: &[u8], reason: impl Into<String>) -> Self {
        Self::Refused { path: shown(path), reason: reason.into() }
    }

    pub(crate) fn io(action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, source }
    }

    pub(crate) fn path(action: &'static str, path: impl AsRef<[u8]>) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |source| Self::Path { action, path: shown(path.as_ref()), source: source.into() }
    }

    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Status { status, .. } => *status >= 500 || matches!(status, 408 | 425 | 429),
            _ => false,
        }
    }
}
