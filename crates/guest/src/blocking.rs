//! Runs file operations on blocking threads, off the single-threaded async runtime.

use connectrpc::ConnectError;

use crate::error::Problem;

/// An error type that can report a lost blocking thread, which happens only while the daemon shuts down.
pub(crate) trait Lost {
    fn lost() -> Self;
}

impl Lost for ConnectError {
    fn lost() -> Self {
        Self::internal("the operation was interrupted")
    }
}

impl Lost for Problem {
    fn lost() -> Self {
        Self::internal("the operation was interrupted")
    }
}

/// Runs `work` on a thread that may block.
pub(crate) async fn run<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: Lost + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(E::lost()))
}
