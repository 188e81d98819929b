//! The supervisor of long-lived tasks.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::failpoint::Panics;
use crate::restart::{History, Next};
use crate::{Panicked, Restart, catch_panic};

/// Why the process has to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fatal {
    /// The task that failed.
    pub task: &'static str,
    /// Why it failed.
    pub reason: String,
}

impl std::fmt::Display for Fatal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the task \"{}\" failed and the server cannot run without it: {}", self.task, self.reason)
    }
}

impl std::error::Error for Fatal {}

/// What a supervised task returns: nothing, or why it failed.
pub trait Outcome: Send + 'static {
    /// The failure, if it is one.
    fn failure(self) -> Option<String>;
}

impl Outcome for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: std::fmt::Display + Send + 'static> Outcome for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// Supervises long-lived tasks. Cheap to clone; must be used inside a Tokio runtime.
///
/// Every task is handed a token and returns soon after it is cancelled. A task that returns earlier has failed, as has
/// one that panics or returns an error.
#[derive(Debug, Clone)]
pub struct Supervisor {
    shared: Arc<Shared>,
    scope: Arc<Scope>,
}

/// What all scopes of a process share.
#[derive(Debug)]
struct Shared {
    fatal: watch::Sender<Option<Fatal>>,
    /// How many times each task was started again.
    restarts: Mutex<BTreeMap<&'static str, u64>>,
    panics: Panics,
}

/// Tasks that stop together. Dropping the last handle of a scope drops its tasks.
#[derive(Debug)]
struct Scope {
    stop: CancellationToken,
    abort: CancellationToken,
    tasks: TaskTracker,
    running: Running,
}

/// How many tasks of each name run or wait to be started again.
type Running = Arc<Mutex<BTreeMap<&'static str, usize>>>;

impl Drop for Scope {
    fn drop(&mut self) {
        self.stop.cancel();
        self.abort.cancel();
    }
}

impl Default for Supervisor {
    fn default() -> Self {
        Self::new()
    }
}

impl Supervisor {
    /// A supervisor without tasks.
    pub fn new() -> Self {
        let shared = Shared { fatal: watch::Sender::new(None), restarts: Mutex::default(), panics: Panics::new() };
        Self { shared: Arc::new(shared), scope: Arc::new(Scope::new()) }
    }

    /// A supervisor whose tasks are stopped on their own; fatal failures are reported to all scopes.
    pub fn scope(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), scope: Arc::new(Scope::new()) }
    }

    /// Cancelled when the tasks of this scope have to stop.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.scope.stop
    }

    /// Waits until a task has failed in such a way that the process has to end, and returns the first such failure.
    pub async fn fatal(&self) -> Fatal {
        let mut fatal = self.shared.fatal.subscribe();
        let found = fatal.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(fatal) => fatal,
            // The sender lives as long as we do.
            None => std::future::pending().await,
        }
    }

    /// Runs a task, and starts it again whenever it fails. `start` is called for each run.
    pub fn restart<S, F>(&self, name: &'static str, policy: Restart, mut start: S)
    where
        S: FnMut(CancellationToken) -> F + Send + 'static,
        F: Future<Output: Outcome> + Send,
    {
        let mut watched = self.watch(name, policy);
        self.spawn(async move {
            loop {
                // The call itself is inside the future, so that its panic is caught too.
                let run = async { start(watched.stop.clone()).await.failure() };
                let ended = catch_panic(watched.shared.panics.run(name, run)).await;
                if !watched.wait_for_restart(ended).await {
                    return;
                }
            }
        });
    }

    /// Runs a task without which nothing in the process can be right: if it fails, the process ends.
    pub fn essential<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        let watched = self.watch(name, Restart::forever());
        let task = task(self.scope.stop.clone());
        self.spawn(async move {
            let run = async move { task.await.failure() };
            let ended = catch_panic(watched.shared.panics.run(name, run)).await;
            if let Some(reason) = watched.failure(ended) {
                watched.end_process(reason);
            }
        });
    }

    /// Like [`restart`](Self::restart), on a thread of its own with a Tokio runtime of its own. For work that blocks or
    /// changes what belongs to a thread, such as its namespaces.
    pub fn restart_thread<S, F>(&self, name: &'static str, policy: Restart, start: S)
    where
        S: Fn(CancellationToken) -> F + Send + Sync + 'static,
        F: Future<Output: Outcome>,
    {
        let start = Arc::new(start);
        let mut watched = self.watch(name, policy);
        self.spawn(async move {
            loop {
                let (start, stop, shared) = (Arc::clone(&start), watched.stop.clone(), Arc::clone(&watched.shared));
                let ended = on_thread(name, move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    let run = async move { start(stop).await.failure() };
                    match runtime {
                        Ok(runtime) => runtime.block_on(catch_panic(shared.panics.run(name, run))),
                        Err(error) => Ok(Some(format!("cannot make a runtime: {error}"))),
                    }
                });
                if !watched.wait_for_restart(ended.await).await {
                    return;
                }
            }
        });
    }

    /// Cancels the token of this scope and waits for its tasks; drops those that have not ended after `limit` and
    /// returns their names. Threads cannot be dropped.
    pub async fn stop(&self, limit: Duration) -> Vec<&'static str> {
        self.scope.stop.cancel();
        self.scope.tasks.close();
        if tokio::time::timeout(limit, self.scope.tasks.wait()).await.is_ok() {
            return Vec::new();
        }
        let late = self.tasks();
        tracing::warn!(tasks = ?late, "tasks did not stop in time and are aborted");
        self.scope.abort.cancel();
        late
    }

    /// How many times the task of that name was started again, in all scopes.
    pub fn restarts(&self, name: &str) -> u64 {
        lock(&self.shared.restarts).get(name).copied().unwrap_or(0)
    }

    /// The names of the tasks of this scope that run or wait to be started again.
    pub fn tasks(&self) -> Vec<&'static str> {
        lock(&self.scope.running).iter().filter(|(_, count)| **count > 0).map(|(name, _)| *name).collect()
    }

    /// Makes a task of that name panic, in any scope. `false` if no task runs at all.
    #[cfg(feature = "failpoints")]
    pub fn inject_panic(&self, name: &str) -> bool {
        self.shared.panics.inject(name) > 0
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let abort = self.scope.abort.clone();
        self.scope.tasks.spawn(async move {
            abort.run_until_cancelled(task).await;
        });
    }

    fn watch(&self, name: &'static str, policy: Restart) -> Watched {
        let running = Arc::clone(&self.scope.running);
        *lock(&running).entry(name).or_default() += 1;
        let (shared, stop) = (Arc::clone(&self.shared), self.scope.stop.clone());
        Watched { name, shared, stop, running, history: History::new(policy) }
    }
}

impl Scope {
    fn new() -> Self {
        Self {
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            tasks: TaskTracker::new(),
            running: Arc::default(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a function on a new thread and returns what it returns.
async fn on_thread(
    name: &str,
    work: impl FnOnce() -> Result<Option<String>, Panicked> + Send + 'static,
) -> Result<Option<String>, Panicked> {
    let (done, result) = oneshot::channel();
    // The kernel cuts longer names.
    let short = name.chars().take(15).collect();
    let spawned = std::thread::Builder::new().name(short).spawn(move || done.send(work()));
    match spawned {
        Ok(_) => result.await.unwrap_or_else(|_| Ok(Some("its thread panicked".to_owned()))),
        Err(error) => Ok(Some(format!("cannot start a thread: {error}"))),
    }
}

/// One supervised task. It does not keep its scope alive.
struct Watched {
    name: &'static str,
    shared: Arc<Shared>,
    stop: CancellationToken,
    running: Running,
    history: History,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.running).get_mut(self.name) {
            *count -= 1;
        }
    }
}

impl Watched {
    /// Why a run was a failure. `None` if it ended because it had to.
    fn failure(&self, ended: Result<Option<String>, Panicked>) -> Option<String> {
        match ended {
            Err(panicked) => Some(panicked.to_string()),
            Ok(Some(reason)) => Some(reason),
            Ok(None) if self.stop.is_cancelled() => None,
            Ok(None) => Some("ended unexpectedly".to_owned()),
        }
    }

    /// Waits until the task is to be started again. `false` if it is not.
    async fn wait_for_restart(&mut self, ended: Result<Option<String>, Panicked>) -> bool {
        let Some(reason) = self.failure(ended) else { return false };
        if self.stop.is_cancelled() {
            tracing::warn!(task = self.name, reason, "a task failed while stopping");
            return false;
        }
        let delay = match self.history.failed(Instant::now()) {
            Next::RestartAfter(delay) => delay,
            Next::EndProcess => {
                self.end_process(format!("{reason} (too many failures in a short time)"));
                return false;
            }
        };
        tracing::error!(task = self.name, reason, ?delay, "a task failed; restarting it");
        let waited = self.stop.run_until_cancelled(tokio::time::sleep(delay)).await.is_some();
        if waited {
            *lock(&self.shared.restarts).entry(self.name).or_default() += 1;
        }
        waited
    }

    fn end_process(&self, reason: String) {
        tracing::error!(task = self.name, reason, "a task failed that the server cannot run without");
        self.shared.fatal.send_if_modified(|fatal| {
            let first = fatal.is_none();
            if first {
                *fatal = Some(Fatal { task: self.name, reason });
            }
            first
        });
    }
}
