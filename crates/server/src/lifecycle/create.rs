//! Creating a sandbox: its row is written first, and the answer is sent when it runs and that is written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_runtime::{DiskSource, Live};
use cabana_store::{Inserted, Sandbox};
use cabana_types::ActorId;
use cabana_types::error::chain;
use cabana_types::quota::Limits;
use cabana_types::sandbox::State;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::creation_times::{CreationTimes, Phase};
use super::driver::Driver;
use super::entry::Entry;
use super::error::CreateError;
use super::expiry::later;
use super::held::Held;
use super::launch;
use super::readiness::NotReady;
use super::removal::Remover;
use crate::failpoint;

/// A checked request for a new sandbox.
#[derive(Debug)]
pub struct CreateRequest {
    /// Its row, in state `creating`.
    pub sandbox: Sandbox,
    /// The client's API key.
    pub by: ActorId,
    /// Where its disk comes from.
    pub disk: DiskSource,
    /// Seconds from the start to its timeout.
    pub timeout: u64,
}

type Launched = Result<Live, cabana_runtime::Error>;
type Answer = oneshot::Sender<Result<Sandbox, CreateError>>;

/// Creates sandboxes.
#[derive(Debug)]
pub(super) struct Creator {
    driver: Arc<Driver>,
    remover: Arc<Remover>,
    /// Limits of teams that have none of their own.
    server: Limits,
    /// How long the backend may take to launch a sandbox.
    launch_limit: Duration,
    times: CreationTimes,
}

impl Creator {
    pub(super) fn new(driver: Arc<Driver>, remover: Arc<Remover>, server: Limits, launch_limit: Duration) -> Self {
        Self { driver, remover, server, launch_limit, times: CreationTimes::default() }
    }

    /// How long creations take.
    pub(super) fn times(&self) -> &CreationTimes {
        &self.times
    }

    /// Creates a sandbox, in a task of its own: a client that disconnects leaves nothing half done.
    pub(super) async fn create(self: &Arc<Self>, request: CreateRequest) -> Result<Sandbox, CreateError> {
        let tasks = &self.driver.tasks;
        if tasks.is_stopping() {
            return Err(CreateError::ShuttingDown);
        }
        let id = request.sandbox.id.clone();
        let (answer, answered) = oneshot::channel();
        tasks.spawn("create a sandbox", Arc::clone(self).run(request, answer));
        match answered.await {
            Ok(result) => result,
            // The task panicked: nothing of the sandbox may stay.
            Err(_) => {
                let failed = Arc::clone(&self.remover).create_failed(id.clone(), "the server failed".into());
                tasks.spawn("remove a sandbox", failed);
                Err(CreateError::Panicked { id })
            }
        }
    }

    async fn run(self: Arc<Self>, request: CreateRequest, answer: Answer) {
        let begin = Instant::now();
        // A repeated request is answered even if there is no capacity for another sandbox.
        if let Some(result) = self.repeated(&request.sandbox).await {
            return send(answer, result);
        }
        let id = request.sandbox.id.clone();
        let registry = &self.driver.registry;
        let entry = match registry.reserve(&id, request.sandbox.resources) {
            Ok(entry) => entry,
            Err(shortage) => return send(answer, Err(shortage.into())),
        };
        registry.host().assign(&id, &request.sandbox.isolation);
        let held = entry.hold().await;
        let refused = match self.insert(&request).await {
            Ok(None) => {
                self.times.observe(Phase::Admit, begin);
                return self.start(request, held, &entry, answer, begin).await;
            }
            Ok(Some(known)) => Ok(known),
            Err(error) => Err(error),
        };
        drop(held);
        registry.remove(&id);
        let result = match refused {
            Ok(known) => self.answer_repeated(&request.sandbox, known).await,
            Err(error) => Err(error),
        };
        send(answer, result);
    }

    /// Writes the row, unless the idempotency key belongs to a sandbox already; returns that one then.
    async fn insert(&self, request: &CreateRequest) -> Result<Option<Sandbox>, CreateError> {
        let inserted = self.driver.store.insert_sandbox(request.sandbox.clone(), request.by.clone(), self.server);
        match inserted.await? {
            Inserted::New => Ok(None),
            Inserted::Known(known) => Ok(Some(*known)),
        }
    }

    /// Starts a sandbox whose row is written. If that fails, the sandbox is removed before the client is answered.
    async fn start(&self, request: CreateRequest, held: Held, entry: &Entry, answer: Answer, begin: Instant) {
        failpoint::hit("create.written");
        let CreateRequest { sandbox, disk, timeout, .. } = request;
        let id = &sandbox.id;
        let launching = Instant::now();
        let started = match self.launch(&held, &sandbox, disk).await {
            Ok(Ok(live)) => {
                self.times.observe(Phase::Launch, launching);
                failpoint::hit("create.launched");
                self.started(&held, &sandbox, live, timeout).await
            }
            Ok(Err(source)) => {
                tracing::warn!(sandbox = %id, error = chain(&source), "could not launch the sandbox");
                Err(CreateError::Launch { id: id.clone(), source })
            }
            Err(launch) => {
                let seconds = self.launch_limit.as_secs();
                tracing::error!(sandbox = %id, seconds, "launching the sandbox takes too long");
                let message = format!("it was not up within {seconds} s");
                let failed = Arc::clone(&self.remover).create_failed(id.clone(), message);
                self.driver.tasks.spawn("remove a sandbox", failed);
                self.times.failures.inc();
                entry.created.set();
                send(answer, Err(CreateError::TooSlow { id: id.clone(), seconds }));
                // The removal waits for the lock until the backend is done with the launch.
                let _ = launch.await;
                return;
            }
        };
        drop(held);
        match &started {
            Ok(_) => self.times.observe(Phase::Total, begin),
            Err(_) => drop(self.times.failures.inc()),
        }
        if let Err(error) = &started {
            // If it was ended by another task, that one removes it too; doing it twice is harmless.
            let message = match error {
                CreateError::Launch { source, .. } => chain(source),
                error => error.to_string(),
            };
            Arc::clone(&self.remover).create_failed(id.clone(), message).await;
        }
        entry.created.set();
        send(answer, started);
    }

    /// Launches a sandbox. A launch that exceeds the limit is returned, to be awaited.
    async fn launch<'a>(
        &self,
        held: &'a Held,
        sandbox: &Sandbox,
        disk: DiskSource,
    ) -> Result<Launched, BoxFuture<'a, Launched>> {
        let sandbox = self.driver.with_secrets(sandbox).await;
        let authority = self.driver.certificate(&sandbox).await;
        let mut launch = held.launch(launch::of_sandbox(&sandbox, disk, authority)).boxed();
        match tokio::time::timeout(self.launch_limit, &mut launch).await {
            Ok(launched) => Ok(launched),
            Err(_) => Err(launch),
        }
    }

    /// Waits until a launched sandbox is ready, writes that it runs, and publishes it.
    async fn started(&self, held: &Held, sandbox: &Sandbox, live: Live, timeout: u64) -> Result<Sandbox, CreateError> {
        let driver = &self.driver;
        let id = &sandbox.id;
        let waiting = Instant::now();
        match driver.ready.wait(held, sandbox, &live).await {
            // If it was ended, the store says why.
            Ok(()) | Err(NotReady::Ending) => {}
            Err(NotReady::Stopping) => return Err(CreateError::ShuttingDown),
            Err(NotReady::Failed(why)) => {
                tracing::warn!(sandbox = %id, error = why, "the sandbox did not become ready");
                return Err(CreateError::NotReady { id: id.clone(), why });
            }
        }
        self.times.observe(Phase::Ready, waiting);
        let (now, writing) = (Timestamp::now(), Instant::now());
        match driver.store.started(id.clone(), now, later(now, timeout)).await {
            Ok(sandbox) => {
                self.times.observe(Phase::Commit, writing);
                driver.publish(held, &sandbox, live, true, 0);
                driver.teams.count_start(&sandbox.team);
                Ok(sandbox)
            }
            Err(cabana_store::Error::Refused(refused)) => match driver.store.sandbox(id).await? {
                Some(Sandbox { state: State::Ending { cause } | State::Ended { cause }, .. }) => {
                    Err(CreateError::Ended { id: id.clone(), cause })
                }
                _ => Err(cabana_store::Error::Refused(refused).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// The answer to a request whose idempotency key was used before.
    async fn repeated(&self, requested: &Sandbox) -> Option<Result<Sandbox, CreateError>> {
        let key = requested.idempotency.as_ref()?;
        match self.driver.store.sandbox_by_idempotency_key(&requested.team, &key.key).await {
            Ok(Some(known)) => Some(self.answer_repeated(requested, known).await),
            Ok(None) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Answers with the sandbox of the first request, when its creation is over.
    async fn answer_repeated(&self, requested: &Sandbox, mut known: Sandbox) -> Result<Sandbox, CreateError> {
        let driver = &self.driver;
        let key = known.idempotency.as_ref().map(|i| i.key.clone()).unwrap_or_default();
        if known.idempotency != requested.idempotency {
            return Err(CreateError::Conflict { key });
        }
        if known.state == State::Creating {
            if let Some(entry) = driver.registry.get(&known.id) {
                let limit = self.launch_limit + driver.ready.limit();
                let _ = tokio::time::timeout(limit, entry.created.wait()).await;
            }
            let current = driver.store.sandbox(&known.id).await?;
            known = current.ok_or_else(|| cabana_store::Error::NoSandbox(known.id.clone()))?;
        }
        let cause = match &known.state {
            State::Creating => "is still coming up".into(),
            State::Failed { cause } | State::Ending { cause } | State::Ended { cause } => cause.describe(),
            // It was created, even if it is paused now.
            _ => return Ok(known),
        };
        Err(CreateError::Spent { key, id: known.id, cause })
    }
}

/// A client that disconnected gets no answer; the sandbox is created all the same.
fn send(answer: Answer, result: Result<Sandbox, CreateError>) {
    drop(answer.send(result));
}
