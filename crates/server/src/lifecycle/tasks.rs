//! Tasks that belong to one operation or one sandbox. All are spawned here, so that a stopping server can wait for them.

use std::time::Duration;

pub(super) use cabana_supervisor::Backoff;
use cabana_supervisor::{Panicked, TaskSet};
use tokio::task::JoinHandle;

/// A handle to start tasks and to see whether the server is stopping. Clones share both.
#[derive(Debug, Clone, Default)]
pub(super) struct Tasks(TaskSet);

impl Tasks {
    /// Starts a task.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Result<T, Panicked>> {
        self.0.spawn(name, task)
    }

    /// Runs work to its end in a task of its own, even if the caller is dropped. `None` if it panicked.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.spawn(name, work).await.ok()?.ok()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.0.is_stopping()
    }

    /// Resolves when the server stops.
    pub(super) async fn stopping(&self) {
        self.0.stop_token().cancelled().await;
    }

    /// Waits for the next retry. Returns `false` if the server stops first.
    pub(super) async fn wait(&self, backoff: &mut Backoff) -> bool {
        backoff.wait(self.0.stop_token()).await
    }

    /// Tells all tasks to stop and waits for them. Returns `false` if some did not end within the limit.
    pub(super) async fn stop(&self, limit: Duration) -> bool {
        self.0.stop(limit).await
    }
}
