//! Errors of isolation backends.

use std::path::PathBuf;

use cabana_types::SandboxId;
use cabana_types::error::chain;

/// An error of an isolation backend.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a file or directory failed.
    #[error("{action} {path}")]
    Path {
        /// The operation (`create`, `mount`, …).
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
    /// A system call or other IO without a path failed.
    #[error("{action}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The error of the system call.
        #[source]
        source: std::io::Error,
    },
    /// The launcher refused or failed.
    #[error("launching {id}: {message}")]
    Launch {
        /// The sandbox.
        id: SandboxId,
        /// The step and its error.
        message: String,
    },
    /// There is no free slot.
    #[error("all {limit} sandbox slots of this server are in use")]
    Full {
        /// How many there are.
        limit: u32,
    },
    /// The template's root filesystem is missing.
    #[error("the root filesystem of build {0} is missing")]
    NoBuild(cabana_types::BuildId),
    /// The kernel refused something.
    #[error("isolation")]
    Jail(#[source] cabana_jail::Error),
    /// The pool failed.
    #[error(transparent)]
    Storage(#[from] cabana_storage::Error),
    /// The network layer failed.
    #[error("network")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Several errors while cleaning up.
    #[error("cleaning up {what}: {}", join(errors))]
    Teardown {
        /// What was cleaned up.
        what: String,
        /// All errors.
        errors: Vec<Error>,
    },
    /// The backend does not offer this; see [`crate::IsolationFacts`].
    #[error("isolation {isolation} does not offer {what}")]
    NotOffered {
        /// The backend.
        isolation: &'static str,
        /// The operation.
        what: &'static str,
    },
    /// This server has no backend of that name.
    #[error("there is no isolation {name:?}; this server has: {known}")]
    UnknownIsolation {
        /// The name.
        name: String,
        /// The names of the backends.
        known: String,
    },
    /// What is wrong with this machine, and what to do.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    /// All errors of a teardown, if there were any.
    pub(crate) fn collected(id: &SandboxId, errors: Vec<Error>) -> Result<(), Error> {
        if errors.is_empty() { Ok(()) } else { Err(Error::Teardown { what: id.to_string(), errors }) }
    }
}

fn join(errors: &[Error]) -> String {
    errors.iter().map(|e| chain(e)).collect::<Vec<_>>().join("; ")
}
