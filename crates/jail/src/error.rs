//! Errors of this crate.

use std::path::PathBuf;

use rustix::io::Errno;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{step}")]
    Step {
        step: &'static str,
        #[source]
        source: Errno,
    },
    /// An operation on a path failed.
    #[error("{action} {path}")]
    Path {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The launcher returned an error of its own or of the sandbox's first process.
    #[error("{0}")]
    Launch(String),
    /// The launcher has exited or violates the protocol.
    #[error("the launcher {0}")]
    Launcher(&'static str),
    /// The machine lacks a required feature.
    #[error("{0}")]
    Unsupported(String),
}

/// Names the step whose system call failed.
pub(crate) trait During<T> {
    fn during(self, step: &'static str) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, Errno> {
    fn during(self, step: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Step { step, source })
    }
}
