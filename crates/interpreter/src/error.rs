//! What can go wrong in the service itself; what goes wrong in a cell is an event.

use std::io;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot start: {0}")]
    Start(io::Error),
    #[error("cannot listen on port {0}: {1}")]
    Listen(u16, io::Error),
    #[error("There is no kernel for the language {0:?}; there are: {1}")]
    Language(String, String),
    #[error("Failed to set working directory: {0:?} is not a directory")]
    Directory(String),
    #[error("The {0} kernel could not be started: {1}")]
    Kernel(&'static str, String),
    #[error("Context {0} not found")]
    NoContext(String),
    #[error("There are {0} contexts, which is the limit: remove one")]
    TooMany(usize),
}
