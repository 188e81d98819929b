//! What brings the world to what the store says. Handlers write intent through here, durably; tasks of this module act on it: they
//! bring sandboxes up, watch them, end them when their time is over, and remove what is left of them. Whatever a crash interrupts,
//! [`Lifecycle::recover`] takes up again.
//!
//! Each sandbox of which something may be in the world has an [`Entry`], whose lock is held by whoever asks the backend about it.

mod archive;
mod backoff;
mod build_sandbox;
mod check;
mod create;
mod driver;
mod expiry;
mod history;
mod idle;
mod journal;
mod maintenance;
mod pause;
mod paused_memory;
mod readiness;
mod recover;
mod registry;
mod removal;
mod replacement;
mod resize;
mod retention;
mod sampling;
mod snapshots;
mod usage;
mod watch;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use cabana_runtime::{Isolations, Live};
use cabana_storage::ColdStore;
use cabana_store::{Sandbox, Store};
use cabana_supervisor::{Restart, Supervisor};
use cabana_types::SandboxId;
use cabana_types::sandbox::{EndCause, State};
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{self, Config};
use crate::failpoint;
use cabana_edge::directory::{Directory, Route};
use expiry::Expiry;
use paused_memory::MemoryBudget;
use registry::{Entry, Registry};
use replacement::Replacements;
use sampling::Teams;
use usage::Meter;

pub(crate) use build_sandbox::{BuildSandboxError, BuildSandboxSpec};
pub use create::{CreateError, CreateRequest};
pub use driver::ChangeError;
pub use history::Range;
pub use journal::{LEVELS, Noted};
pub use pause::{AutoResume, Pause};
pub use paused_memory::OverBudget;
pub use usage::UsageError;

/// How long a caller waits until what it ended is removed. The intent is durable by then; the rest may go on without it.
const SWEEP_WAIT: Duration = Duration::from_secs(10);
/// How long tasks under way may take when the server stops. What they leave is taken up again at the next start.
const STOP_WAIT: Duration = Duration::from_secs(15);
/// Sandboxes that are removed at the same time.
const SWEEPS: usize = 16;

/// The lives of all sandboxes.
pub struct Lifecycle {
    store: Store,
    backend: Arc<Isolations>,
    directory: Arc<Directory>,
    registry: Registry,
    expiry: Expiry,
    teams: Teams,
    /// How often sandboxes are measured.
    sample_every: Duration,
    max_sandboxes: u32,
    /// Most sandboxes and snapshots of one team.
    max_of_team: u32,
    max_snapshots_of_team: u32,
    /// How long a sandbox may take to come up.
    launch_limit: Duration,
    /// How long its start and ready commands may take after that.
    ready_limit: Duration,
    sweeps: Semaphore,
    replacements: Replacements,
    /// Whether the memory of paused sandboxes is given back as far as the kernel can.
    reclaim: bool,
    memory_budget: MemoryBudget,
    retention: config::Retention,
    cold: Arc<ColdStore>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl std::fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lifecycle").field("backend", &self.backend.names()).finish_non_exhaustive()
    }
}

impl Lifecycle {
    /// Nothing runs yet: call [`Lifecycle::recover`], then [`Lifecycle::start`].
    pub fn new(
        store: Store,
        backend: Arc<Isolations>,
        cold: Arc<ColdStore>,
        directory: Arc<Directory>,
        config: &Config,
    ) -> Arc<Self> {
        let limits = &config.limits;
        Arc::new(Self {
            store,
            backend,
            directory,
            registry: Registry::default(),
            expiry: Expiry::default(),
            teams: Teams::default(),
            sample_every: Duration::from_secs(u64::from(config.metrics.interval_seconds)),
            max_sandboxes: limits.max_sandboxes,
            max_of_team: limits.max_team_sandboxes,
            max_snapshots_of_team: limits.max_team_snapshots,
            launch_limit: Duration::from_secs(u64::from(limits.start_seconds)),
            ready_limit: Duration::from_secs(u64::from(limits.ready_seconds)),
            sweeps: Semaphore::new(SWEEPS),
            replacements: Replacements::default(),
            reclaim: config.pause.reclaim_memory,
            memory_budget: MemoryBudget::new(&config.pause),
            retention: config.retention.clone(),
            cold,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        })
    }

    /// Starts the timers, metering and maintenance. They end with [`Lifecycle::stop`].
    pub fn start(self: &Arc<Self>, supervisor: &Supervisor) {
        let [timers, metering, maintenance] = std::array::from_fn(|_| Arc::clone(self));
        // Without timeouts the server breaks its promises; the others can wait.
        supervisor.restart("sandbox timers", Restart::or_end_process(), move |stop| {
            ended(Arc::clone(&timers).run_timer(), timers.stopping.clone(), stop)
        });
        supervisor.restart("metering", Restart::forever(), move |stop| {
            ended(Arc::clone(&metering).sample(), metering.stopping.clone(), stop)
        });
        supervisor.restart("maintenance", Restart::forever(), move |stop| {
            ended(Arc::clone(&maintenance).keep_house(), maintenance.stopping.clone(), stop)
        });
    }

    /// Stops acting. Sandboxes stay up; what is under way gets a while to finish.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_WAIT, self.tasks.wait()).await.is_err() {
            tracing::warn!("some work on sandboxes is left for the next start");
        }
    }

    /// Ends a sandbox. Returns when it is gone for every caller, and usually when nothing of it is left.
    pub async fn kill(self: &Arc<Self>, id: &SandboxId, cause: EndCause) -> Result<(), cabana_store::Error> {
        let (this, id) = (Arc::clone(self), id.clone());
        // In a task of its own: a client that hangs up must not stop it between the intent and the deed.
        let task = self.tasks.spawn(async move {
            this.store.end(id.clone(), cause, Timestamp::now()).await?;
            failpoint::hit("kill.written");
            Ok(this.sweep(&id))
        });
        let entry = task.await.unwrap_or(Err(cabana_store::Error::Closed))?;
        let _ = tokio::time::timeout(SWEEP_WAIT, entry.attempted.cancelled()).await;
        Ok(())
    }

    /// Sets when a sandbox expires; with `extend`, never to an earlier time.
    pub async fn set_timeout(
        self: &Arc<Self>,
        id: &SandboxId,
        seconds: u64,
        extend: bool,
    ) -> Result<Sandbox, cabana_store::Error> {
        let entry = self.registry.get(id).ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
        let (this, id) = (Arc::clone(self), id.clone());
        let task = self.tasks.spawn(async move {
            // Under the lock, so that of two changes the later one also has the timer.
            let held = entry.lock.lock().await;
            let now = Timestamp::now();
            let sandbox = this.store.set_end_at(id.clone(), later(now, seconds), extend, now).await?;
            if seconds == 0 && !extend {
                // The caller shall see the effect, so it is not left to the timer.
                this.expiry.remove(&id);
                drop(held);
                this.expire(&id, sandbox.end_at).await;
            } else {
                this.expiry.set(&id, sandbox.end_at, now);
            }
            Ok(sandbox)
        });
        task.await.unwrap_or(Err(cabana_store::Error::Closed))
    }

    /// How many sandboxes are up.
    pub fn running(&self) -> usize {
        self.directory.len()
    }

    /// How many there may be.
    pub fn max_sandboxes(&self) -> u32 {
        self.max_sandboxes
    }

    /// Where root filesystems are kept, if they can be made here.
    pub(crate) fn pool(&self) -> Option<&Arc<cabana_storage::Pool>> {
        self.backend.pool()
    }

    /// The isolation backends.
    pub fn isolations(&self) -> &Isolations {
        &self.backend
    }

    /// How long start and ready commands may take.
    pub(crate) fn ready_limit(&self) -> Duration {
        self.ready_limit
    }

    /// Makes a sandbox that is up reachable, watches it and sets its timer. The caller holds the entry's lock.
    fn publish(self: &Arc<Self>, sandbox: &Sandbox, live: Live, oom_kills_told: u64) {
        let gone = CancellationToken::new();
        self.directory.insert(Route {
            id: live.id.clone(),
            link: live.link,
            access_token: sandbox.access_token.clone(),
            traffic: sandbox.traffic.clone(),
            in_flight: Arc::default(),
            gone: gone.clone(),
        });
        self.expiry.set(&live.id, sandbox.end_at, Timestamp::now());
        let entry = self.registry.entry(&live.id);
        match &mut *entry.meter.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(meter) => meter.again(sandbox),
            meter => *meter = Some(Meter::new(sandbox)),
        }
        self.tasks.spawn(Arc::clone(self).watch(live.id, live.vitals, gone, oom_kills_told));
    }

    /// Takes a sandbox off the edge and the timer.
    fn withdraw(&self, id: &SandboxId) {
        self.directory.remove(id);
        self.expiry.remove(id);
    }
}

/// What became of a sandbox that is not up, in a sentence for whoever asks for it.
pub fn why_not_running(sandbox: &Sandbox) -> Option<String> {
    match &sandbox.state {
        State::Pausing { why, .. } | State::Paused { why, .. } | State::Archiving { why, .. } => {
            Some(format!("The sandbox {}; connect to it to resume it.", why.describe()))
        }
        State::Failed { cause } => {
            Some(format!("The sandbox {}; recover it to go on from its disk.", cause.describe()))
        }
        State::Ending { cause } | State::Ended { cause } => Some(format!("The sandbox {}.", cause.describe())),
        State::Creating | State::Running | State::Resuming { .. } => None,
    }
}

/// Runs a task that ends when lifecycle is stopping, and then waits for its supervisor to stop too. If it ends before
/// that, it has failed.
async fn ended(task: impl Future<Output = ()>, stopping: CancellationToken, stop: CancellationToken) {
    task.await;
    if stopping.is_cancelled() {
        stop.cancelled().await;
    }
}

/// A time so many seconds later; the bounds of timeouts keep it far from the end of time.
fn later(at: Timestamp, seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    at.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}
