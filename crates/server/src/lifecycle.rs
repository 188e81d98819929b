//! Lifecycle makes the host match what the store says. Operations write their intent durably; tasks of this module then
//! act on it: they start, pause, resume, watch, expire and remove sandboxes. Whatever a crash interrupts,
//! [`Lifecycle::recover`] continues.
//!
//! [`Lifecycle`] is a facade over parts that each do one thing:
//!
//! | part | does |
//! |---|---|
//! | `Creator` | creates sandboxes |
//! | `Driver` | pauses, resumes, archives, resizes and watches them |
//! | `Remover` | ends and removes them |
//! | `Timers` | expires them |
//! | `Snapshots` | snapshots and forks |
//! | `BuildSandboxes` | sandboxes for steps of template builds |
//! | `Metering` | measures them, and pauses idle ones |
//! | `Maintenance` | removes orphans, applies the retention settings |
//! | `DiskWatch` | keeps one sandbox from taking the space of all, notices a pool that cannot be written |
//!
//! The parts share the `Registry`, which has an `Entry` for every sandbox that may have resources on the host. A task
//! that acts on a sandbox holds its entry's lock: `Held` is the proof, and the only way to the isolation backend.

mod archive;
mod archiver;
mod build_sandbox;
mod check;
mod create;
mod creation_times;
mod disk_watch;
mod driver;
mod egress;
mod entry;
mod error;
mod expiry;
mod held;
mod history;
mod idle;
mod journal;
mod launch;
mod maintenance;
mod metering;
mod pause;
mod paused_memory;
mod readiness;
mod reconcile;
mod recover;
mod registry;
mod removal;
mod replacement;
mod resize;
mod resume;
mod retention;
mod routes;
mod snapshots;
mod tasks;
mod timers;
mod trust;
mod usage;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::Isolations;
use cabana_storage::ColdStore;
use cabana_store::{Sandbox, Snapshot, Store};
use cabana_supervisor::{Restart, Supervisor};
use cabana_types::egress::Denials;
use cabana_types::sandbox::{EndCause, PauseCause};
use cabana_types::wire::{CapacityStatus, SandboxMetric, StorageStatus, TeamMetric};
use cabana_types::{EgressPolicy, Resources, SandboxId, TeamId, TemplateId};
use jiff::Timestamp;

use self::archiver::Archiver;
use self::build_sandbox::{BuildSandbox, BuildSandboxes};
use self::check::ConsistencyCheck;
pub use self::check::Difference;
use self::create::Creator;
use self::disk_watch::DiskWatch;
use self::driver::Driver;
use self::egress::DenialEvents;
use self::held::Host;
use self::maintenance::Maintenance;
use self::metering::Metering;
use self::paused_memory::MemoryBudget;
use self::readiness::ReadyCheck;
use self::recover::Recovery;
use self::registry::{CapacityLimits, Registry};
use self::removal::Remover;
use self::replacement::Replacements;
use self::retention::Retention;
use self::routes::Routes;
use self::snapshots::Snapshots;
use self::tasks::Tasks;
use self::timers::Timers;
use self::usage::Teams;
use crate::config::Config;
use crate::egress::Egress;
use crate::vault::Vault;
use cabana_edge::Directory;

pub(crate) use self::build_sandbox::{BuildSandboxError, BuildSandboxSpec};
pub use self::create::CreateRequest;
pub use self::creation_times::{CreationTimes, Phase};
pub use self::error::{ChangeError, CreateError, Failure, Operation};
pub use self::history::Range;
pub use self::journal::{JournalLine, LEVELS};
pub use self::pause::Pause;
pub use self::paused_memory::OverBudget;
pub use self::registry::Shortage;
pub use self::routes::RouteObserver;
pub use self::usage::UsageError;

/// How long tasks may take to end when the server stops. The next start continues what they leave.
const STOP_WAIT: Duration = Duration::from_secs(15);

/// Operations on sandboxes.
#[derive(Debug)]
pub struct Lifecycle {
    creator: Arc<Creator>,
    driver: Arc<Driver>,
    remover: Arc<Remover>,
    timers: Arc<Timers>,
    snapshots: Arc<Snapshots>,
    build_sandboxes: Arc<BuildSandboxes>,
    metering: Arc<Metering>,
    denial_events: Arc<DenialEvents>,
    maintenance: Arc<Maintenance>,
    disk_watch: Arc<DiskWatch>,
    check: ConsistencyCheck,
    /// Of the timers, metering, events, maintenance and disk watch.
    supervisor: Supervisor,
}

impl Lifecycle {
    /// Nothing runs yet: call [`Lifecycle::recover`], then [`Lifecycle::start`].
    pub fn new(
        store: Store,
        backends: Arc<Isolations>,
        cold: Arc<ColdStore>,
        directory: Arc<Directory>,
        vault: Arc<Vault>,
        config: &Config,
        supervisor: &Supervisor,
    ) -> Arc<Self> {
        let limits = &config.limits;
        let quotas = config.quotas();
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        let tasks = Tasks::default();
        let host = Host::new(backends);
        let capacity = CapacityLimits::new(limits, host.pool().and_then(|pool| pool.size().ok()));
        let registry = Arc::new(Registry::new(host, capacity));
        let routes = Arc::new(Routes::new(directory));
        let memory = Arc::new(MemoryBudget::new(&config.pause));
        let archiver = Arc::new(Archiver::new(store.clone(), Arc::clone(&cold), tasks.clone()));
        let driver = Arc::new(Driver {
            store: store.clone(),
            registry: Arc::clone(&registry),
            routes: Arc::clone(&routes),
            memory: Arc::clone(&memory),
            archiver: Arc::clone(&archiver),
            ready: ReadyCheck::new(seconds(limits.ready_seconds), tasks.clone()),
            teams: Arc::new(Teams::default()),
            vault,
            replacements: Replacements::default(),
            tasks: tasks.clone(),
        });
        let remover = Arc::new(Remover::new(
            store.clone(),
            Arc::clone(&registry),
            Arc::clone(&routes),
            memory,
            Arc::clone(&archiver),
            tasks.clone(),
        ));
        let creator =
            Arc::new(Creator::new(Arc::clone(&driver), Arc::clone(&remover), quotas, seconds(limits.start_seconds)));
        let snapshots =
            Arc::new(Snapshots::new(store.clone(), Arc::clone(&registry), Arc::clone(&creator), quotas, tasks.clone()));
        let retention = Retention {
            store: store.clone(),
            driver: Arc::clone(&driver),
            remover: Arc::clone(&remover),
            config: config.retention.clone(),
        };
        Arc::new(Self {
            timers: Arc::new(Timers::new(store.clone(), Arc::clone(&driver), Arc::clone(&remover))),
            build_sandboxes: Arc::new(BuildSandboxes::new(
                Arc::clone(&registry),
                Egress::new(&config.egress).default_policy(None),
                tasks.clone(),
            )),
            denial_events: Arc::new(DenialEvents {
                driver: Arc::clone(&driver),
                interval: seconds(config.egress.event_seconds),
            }),
            metering: Arc::new(Metering::new(Arc::clone(&driver), seconds(config.metrics.interval_seconds))),
            maintenance: Arc::new(Maintenance {
                store: store.clone(),
                registry: Arc::clone(&registry),
                snapshots: Arc::clone(&snapshots),
                archiver,
                retention,
            }),
            disk_watch: Arc::new(DiskWatch::new(Arc::clone(&driver))),
            check: ConsistencyCheck { store, registry, routes, cold },
            supervisor: supervisor.scope(),
            creator,
            driver,
            remover,
            snapshots,
        })
    }

    /// Writes that sandboxes were ended before this start because their disks were read-only. Before [`Lifecycle::recover`].
    pub async fn disks_lost(&self, sandboxes: Vec<SandboxId>) {
        let (driver, remover) = (Arc::clone(&self.driver), Arc::clone(&self.remover));
        Recovery { driver, remover }.disks_lost(sandboxes).await;
    }

    /// Recovers the sandboxes of an earlier server, before the first request is served.
    pub async fn recover(&self) -> Result<(), cabana_store::Error> {
        self.snapshots.remove_unfinished(true).await;
        let (driver, remover) = (Arc::clone(&self.driver), Arc::clone(&self.remover));
        Arc::new(Recovery { driver, remover }).run().await
    }

    /// Starts the timers, metering, maintenance and disk watch.
    pub fn start(&self) {
        let timers = Arc::clone(&self.timers);
        self.supervisor.restart("sandbox timers", Restart::or_end_process(), move |stop| Arc::clone(&timers).run(stop));
        let metering = Arc::clone(&self.metering);
        self.supervisor.restart("metering", Restart::forever(), move |stop| Arc::clone(&metering).run(stop));
        let denials = Arc::clone(&self.denial_events);
        self.supervisor.restart("denial events", Restart::forever(), move |stop| Arc::clone(&denials).run(stop));
        let maintenance = Arc::clone(&self.maintenance);
        self.supervisor.restart("maintenance", Restart::forever(), move |stop| Arc::clone(&maintenance).run(stop));
        let watch = Arc::clone(&self.disk_watch);
        self.supervisor.restart("disk watch", Restart::forever(), move |stop| Arc::clone(&watch).run(stop));
    }

    /// Stops all tasks. Sandboxes keep running; operations get some time to finish.
    pub async fn stop(&self) {
        let (late, done) = tokio::join!(self.supervisor.stop(STOP_WAIT), self.driver.tasks.stop(STOP_WAIT));
        if !late.is_empty() || !done {
            tracing::warn!("some work on sandboxes is left for the next start");
        }
    }

    /// Tells somebody of sandboxes that run or do not run any more, from now on.
    pub fn observe_routes(&self, observer: Arc<dyn RouteObserver>) {
        self.driver.routes.observe(observer);
    }

    /// Creates a sandbox.
    pub async fn create(&self, request: CreateRequest) -> Result<Sandbox, CreateError> {
        self.creator.create(request).await
    }

    /// Ends a sandbox. Returns when clients do not find it any more, and usually when nothing of it is left.
    pub async fn kill(&self, id: &SandboxId, cause: EndCause) -> Result<(), cabana_store::Error> {
        self.remover.kill(id, cause).await
    }

    /// Pauses a sandbox. One that is paused already, with as much or less kept, is a conflict, as in E2B.
    pub async fn pause(&self, id: &SandboxId, pause: Pause) -> Result<Sandbox, ChangeError> {
        self.driver.pause(id, pause).await
    }

    /// Resumes a sandbox with a new timeout; the answer is `false` if it was running. With `fresh`, it boots from its
    /// disk even if its memory is kept.
    pub async fn resume(&self, id: &SandboxId, seconds: u64, fresh: bool) -> Result<(Sandbox, bool), ChangeError> {
        self.driver.resume(id, seconds, fresh).await
    }

    /// Makes a sandbox usable again: boots a failed one or one whose guest hangs from its disk, resumes a paused one.
    pub async fn recover_sandbox(&self, id: &SandboxId, why: PauseCause) -> Result<Sandbox, ChangeError> {
        self.driver.recover(id, why).await
    }

    /// Moves a sandbox's disk to cold storage: the whole disk, or only the paths that recycling keeps.
    pub async fn archive(&self, id: &SandboxId, whole: bool, why: PauseCause) -> Result<Sandbox, ChangeError> {
        self.driver.archive(id, whole, why).await
    }

    /// Changes the limits of a sandbox: at once if it runs, otherwise when it is resumed.
    pub async fn resize(
        &self,
        id: &SandboxId,
        choose: impl FnOnce(Resources) -> Resources + Send + 'static,
    ) -> Result<Sandbox, ChangeError> {
        self.driver.resize(id, choose).await
    }

    /// Replaces where a sandbox may connect: at once if it runs, otherwise when it is resumed.
    pub async fn set_egress(&self, id: &SandboxId, policy: Arc<EgressPolicy>) -> Result<Sandbox, ChangeError> {
        self.driver.set_egress(id, policy).await
    }

    /// What a sandbox was denied since it was started.
    pub async fn denials(&self, id: &SandboxId) -> Denials {
        self.driver.denials(id).await
    }

    /// Sets when a sandbox expires; with `extend`, never to an earlier time.
    pub async fn set_timeout(
        &self,
        id: &SandboxId,
        seconds: u64,
        extend: bool,
    ) -> Result<Sandbox, cabana_store::Error> {
        self.timers.set_timeout(id, seconds, extend).await
    }

    /// Takes a snapshot of a sandbox's disk, optionally with a name.
    pub async fn snapshot(&self, id: &SandboxId, name: Option<String>) -> Result<Snapshot, ChangeError> {
        self.snapshots.take(id, name).await
    }

    /// Takes a snapshot that the caller removes with [`Lifecycle::remove_temporary_snapshot`].
    pub async fn temporary_snapshot(&self, id: &SandboxId) -> Result<Snapshot, ChangeError> {
        self.snapshots.take_temporary(id).await
    }

    /// Removes a temporary snapshot.
    pub async fn remove_temporary_snapshot(&self, id: &TemplateId) {
        self.snapshots.remove(id).await;
    }

    /// An error if the state of a sandbox does not allow a snapshot.
    pub fn check_snapshot(sandbox: &Sandbox) -> Result<(), ChangeError> {
        snapshots::check_snapshot(sandbox)
    }

    /// Deletes a snapshot; `false` if there is none.
    pub async fn delete_snapshot(&self, id: &TemplateId) -> Result<bool, cabana_store::Error> {
        self.snapshots.delete(id).await
    }

    /// Creates sandboxes from a temporary snapshot of another one.
    pub async fn fork(
        &self,
        id: &SandboxId,
        requests: Vec<CreateRequest>,
    ) -> Result<Vec<Result<Sandbox, CreateError>>, ChangeError> {
        self.snapshots.fork(id, requests).await
    }

    /// Starts a build sandbox.
    pub(crate) async fn build_sandbox(&self, spec: BuildSandboxSpec) -> Result<BuildSandbox, BuildSandboxError> {
        self.build_sandboxes.start(spec).await
    }

    /// What a running sandbox used, oldest first.
    pub async fn usage(&self, id: &SandboxId, range: Range) -> Result<Vec<SandboxMetric>, UsageError> {
        self.metering.usage(id, range).await
    }

    /// The last sample of a running sandbox.
    pub async fn last_usage(&self, id: &SandboxId) -> Option<SandboxMetric> {
        self.metering.last_usage(id).await
    }

    /// Bytes of its disk that a running sandbox uses, if that can be measured.
    pub async fn disk_used(&self, id: &SandboxId) -> Option<u64> {
        self.metering.disk_used(id).await
    }

    /// What a team ran, oldest first.
    pub fn team_usage(&self, team: &TeamId, range: Range) -> Vec<TeamMetric> {
        self.metering.team_usage(team, range)
    }

    /// The journal of a running sandbox's guest, oldest first.
    pub async fn journal(&self, id: &SandboxId, since: Timestamp) -> Vec<JournalLine> {
        journal::read(self.driver.routes.get(id), since).await
    }

    /// Describes every difference between the store and the host.
    pub async fn differences(&self) -> Result<Vec<Difference>, ChangeError> {
        self.check.run().await
    }

    /// How many sandboxes run.
    pub fn running(&self) -> usize {
        self.driver.routes.len()
    }

    /// How many sandboxes may run.
    pub fn max_sandboxes(&self) -> u32 {
        self.driver.registry.limit()
    }

    /// What running sandboxes may use together.
    pub fn capacity(&self) -> CapacityStatus {
        self.driver.registry.capacity()
    }

    /// How long the phases of creations take.
    pub fn creation_times(&self) -> &CreationTimes {
        self.creator.times()
    }

    /// The state of the pool, if there is one.
    pub fn storage(&self) -> Option<StorageStatus> {
        self.disk_watch.status()
    }

    /// Cancelled when the pool has to be mounted again, for which the server has to start anew.
    pub fn remount(&self) -> tokio_util::sync::CancellationToken {
        self.disk_watch.remount()
    }

    /// How long start and ready commands may take.
    pub(crate) fn ready_limit(&self) -> Duration {
        self.driver.ready.limit()
    }

    /// The pool of root filesystems, if the backend has one.
    pub(crate) fn pool(&self) -> Option<&Arc<cabana_storage::Pool>> {
        self.driver.registry.host().pool()
    }

    /// The isolation backends, to ask what they offer. What concerns one sandbox is up to the methods above.
    pub fn isolations(&self) -> &Isolations {
        self.driver.registry.host().isolations()
    }
}
