//! The builds in progress: started, cancelled and waited for by their id. Waiters are notified however the work of a
//! build ends, even by a panic.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_supervisor::{OnDrop, TaskSet};
use cabana_types::BuildId;
use tokio_util::sync::CancellationToken;

/// Builds in progress, by id.
#[derive(Debug, Default)]
pub(super) struct InProgress {
    builds: Arc<Mutex<HashMap<BuildId, Entry>>>,
    tasks: TaskSet,
}

#[derive(Debug, Clone)]
struct Entry {
    cancel: CancellationToken,
    /// Cancelled when the work has ended.
    ended: CancellationToken,
}

impl InProgress {
    /// Runs the work of a build. Its token is cancelled by [`InProgress::cancel`] and [`InProgress::stop`].
    pub(super) fn start<F>(&self, build: &BuildId, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let entry = Entry { cancel: self.tasks.stop_token().child_token(), ended: CancellationToken::new() };
        self.lock().insert(build.clone(), entry.clone());
        let (builds, id) = (Arc::clone(&self.builds), build.clone());
        let ended = OnDrop::new(move || {
            lock(&builds).remove(&id);
            entry.ended.cancel();
        });
        let work = work(entry.cancel);
        self.tasks.spawn("build", async move {
            let _ended = ended;
            work.await;
        });
    }

    /// Runs another task, which is waited for like the builds.
    pub(super) fn tasks(&self) -> &TaskSet {
        &self.tasks
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.tasks.is_stopping()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Waits until a build is no longer in progress. `false` if it still is after `limit`.
    pub(super) async fn wait(&self, build: &BuildId, limit: Duration) -> bool {
        let Some(found) = self.lock().get(build).cloned() else { return true };
        tokio::time::timeout(limit, found.ended.cancelled()).await.is_ok()
    }

    /// Cancels a build, if it is in progress, and waits for it. `false` if it still is after `limit`.
    pub(super) async fn cancel(&self, build: &BuildId, limit: Duration) -> bool {
        if let Some(found) = self.lock().get(build) {
            found.cancel.cancel();
        }
        self.wait(build, limit).await
    }

    /// Cancels all builds and waits for them. `false` if some still are in progress after `limit`.
    pub(super) async fn stop(&self, limit: Duration) -> bool {
        self.tasks.stop(limit).await
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<BuildId, Entry>> {
        lock(&self.builds)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn id(n: u8) -> BuildId {
        BuildId::from_random([n; 16])
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_leaves_no_waiter_hanging() {
        let builds = InProgress::default();
        let (panic, panicking) = tokio::sync::oneshot::channel::<()>();
        builds.start(&id(1), |_cancel| async {
            let _ = panicking.await;
            panic!("on purpose");
        });
        let id1 = id(1);
        let waiting = builds.wait(&id1, LIMIT);
        let trigger = async { panic.send(()).expect("send") };
        let (ended, ()) = tokio::join!(waiting, trigger);
        assert!(ended);
        assert!(builds.cancel(&id(1), LIMIT).await, "a build that is not in progress has ended");
        assert_eq!(builds.len(), 0);
        assert!(builds.stop(LIMIT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_build_times_out() {
        let builds = InProgress::default();
        builds.start(&id(1), |_cancel| std::future::pending());
        builds.start(&id(2), |cancel| async move { cancel.cancelled().await });
        assert!(!builds.wait(&id(1), LIMIT).await);
        assert!(!builds.cancel(&id(1), LIMIT).await);
        assert!(builds.cancel(&id(2), LIMIT).await);
        assert_eq!(builds.len(), 1);
        assert!(!builds.stop(LIMIT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_cancels_all() {
        let builds = InProgress::default();
        for n in 1..4 {
            builds.start(&id(n), |cancel| async move { cancel.cancelled().await });
        }
        assert!(builds.stop(LIMIT).await);
        assert!(builds.is_stopping());
        assert_eq!(builds.len(), 0);
    }
}
