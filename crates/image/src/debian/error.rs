//! Errors of installing Debian packages.

use std::path::PathBuf;

/// Why the root filesystem could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation on a file or directory failed.
    #[error("{action} {path}")]
    Path {
        /// `read`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A system call or other IO without a path failed.
    #[error("{action}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{program} failed: {output}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The last lines of its output.
        output: String,
    },
    /// A program is missing on this host.
    #[error("{0} is not installed: apt-get install {0}")]
    NotInstalled(&'static str),
}
