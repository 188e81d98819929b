//! File operations leave the one thread that serves everybody.

use connectrpc::ConnectError;

use crate::error::Problem;

/// What a call answers when its thread was lost, which happens only as the daemon ends.
pub(crate) trait Lost {
    /// The answer.
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

/// Runs on a thread that may block.
pub(crate) async fn run<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: Lost + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(E::lost()))
}
