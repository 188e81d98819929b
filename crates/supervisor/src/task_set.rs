//! Work that belongs to one request or one sandbox.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{Panicked, catch_panic};

/// Tasks that are waited for at shutdown. A panic is logged with the task's name and returned to the waiter.
#[derive(Debug, Clone, Default)]
pub struct TaskSet {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl TaskSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancelled when the set stops.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Whether the set stops or has stopped.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Tasks that run.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether no task runs.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Starts a task. It runs to its end even if the handle is dropped.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Result<T, Panicked>> {
        self.tasks.spawn(async move {
            let result = catch_panic(task).await;
            if let Err(reason) = &result {
                tracing::error!(task = name, %reason, "a task panicked");
            }
            result
        })
    }

    /// Cancels the stop token and waits for the tasks. `false` if some still run after `limit`.
    pub async fn stop(&self, limit: Duration) -> bool {
        self.stop.cancel();
        self.tasks.close();
        tokio::time::timeout(limit, self.tasks.wait()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panics_reach_the_waiter_and_do_not_block_the_stop() {
        let tasks = TaskSet::new();
        let failed = tasks.spawn("test", async { panic!("on purpose") });
        let panicked = failed.await.expect("join");
        assert_eq!(panicked.map_err(|e| e.to_string()), Err::<(), _>("panicked: on purpose".to_owned()));
        assert_eq!(tasks.spawn("test", async { 5 }).await.expect("join"), Ok(5));
        assert!(tasks.stop(Duration::from_secs(5)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn stop_waits_for_a_bounded_time() {
        let tasks = TaskSet::new();
        let stop = tasks.stop_token().clone();
        tasks.spawn("polite", async move { stop.cancelled().await });
        assert!(tasks.clone().stop(Duration::from_secs(5)).await);
        tasks.spawn("stuck", std::future::pending::<()>());
        assert!(!tasks.stop(Duration::from_secs(5)).await);
        assert_eq!(tasks.len(), 1);
    }
}
