//! Bringing a sandbox up: the request is written first, the answer comes when it is up and written.

use std::pin::pin;
use std::sync::Arc;

use cabana_runtime::{DiskSource, Live};
use cabana_store::{Inserted, Sandbox};
use cabana_types::sandbox::{EndCause, State};
use cabana_types::{KeyId, SandboxId};
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::driver::spec;
use super::readiness::Unready;
use super::{Lifecycle, SWEEP_WAIT, later};
use crate::failpoint;

/// A request for a sandbox that passed every check.
#[derive(Debug)]
pub struct CreateRequest {
    /// Its row, in state `creating`.
    pub sandbox: Sandbox,
    /// Whose key asked.
    pub by: KeyId,
    /// Where its disk comes from.
    pub disk: DiskSource,
    /// Seconds from coming up to expiry.
    pub timeout: u64,
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There are as many as there may be.
    #[error("all {limit} sandboxes are in use")]
    Capacity {
        /// How many.
        limit: u32,
    },
    /// The team has as many as it may.
    #[error("the team has {limit} sandboxes")]
    TeamFull {
        /// How many.
        limit: u32,
    },
    /// The idempotency key belongs to another request.
    #[error("the idempotency key {key} was used with another request")]
    Conflict {
        /// The key.
        key: String,
    },
    /// The idempotency key belongs to a sandbox that is gone.
    #[error("the sandbox {id} of the idempotency key {key} {cause}")]
    Spent {
        /// The key.
        key: String,
        /// The sandbox.
        id: SandboxId,
        /// What became of it.
        cause: String,
    },
    /// It was ended while it came up.
    #[error("the sandbox {id} was ended while it came up")]
    Ended {
        /// The sandbox.
        id: SandboxId,
        /// Why.
        cause: EndCause,
    },
    /// The backend could not bring it up.
    #[error("launch {id}")]
    Launch {
        /// The sandbox.
        id: SandboxId,
        /// Why not.
        #[source]
        source: cabana_runtime::Error,
    },
    /// It took too long.
    #[error("the sandbox {id} was not up within {seconds} s")]
    TooSlow {
        /// The sandbox.
        id: SandboxId,
        /// How long it had.
        seconds: u64,
    },
    /// It came up, but its start command failed or its ready command did not succeed in time.
    #[error("{why}")]
    NotReady {
        /// The sandbox.
        id: SandboxId,
        /// Why not, with the last output.
        why: String,
    },
    /// Something below panicked.
    #[error("bringing the sandbox {id} up panicked")]
    Fault {
        /// The sandbox.
        id: SandboxId,
    },
    /// The server stops.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The store failed.
    #[error("the store")]
    Store(#[from] cabana_store::Error),
}

type Answer = oneshot::Sender<Result<Sandbox, CreateError>>;

impl Lifecycle {
    /// Makes a sandbox. A client that hangs up leaves nothing half done: the work goes on in a task of its own.
    pub async fn create(self: &Arc<Self>, request: CreateRequest) -> Result<Sandbox, CreateError> {
        if self.stopping.is_cancelled() {
            return Err(CreateError::ShuttingDown);
        }
        let id = request.sandbox.id.clone();
        let (answer, answered) = oneshot::channel();
        self.tasks.spawn(Arc::clone(self).bring_about(request, answer));
        match answered.await {
            Ok(result) => result,
            // The task is gone without an answer: a fault of ours, and nothing of the sandbox may stay.
            Err(_) => {
                self.tasks.spawn(Arc::clone(self).fail(id.clone(), "the server failed".into()));
                Err(CreateError::Fault { id })
            }
        }
    }

    async fn bring_about(self: Arc<Self>, request: CreateRequest, answer: Answer) {
        // A caller that has gone away is told nothing; the sandbox stands all the same.
        let tell = |result| drop(answer.send(result));
        let id = request.sandbox.id.clone();
        // A repeated request is answered even when there is no room for another sandbox.
        if let Some(result) = self.repeated(&request.sandbox).await {
            return tell(result);
        }
        let Some(entry) = self.registry.reserve(&id, self.max_sandboxes) else {
            return tell(Err(CreateError::Capacity { limit: self.max_sandboxes }));
        };
        let held = entry.lock.lock().await;
        match self.store.insert_sandbox(request.sandbox.clone(), request.by.clone(), self.max_of_team).await {
            Ok(Inserted::New) => {}
            Ok(Inserted::Full) => {
                drop(held);
                self.registry.forget(&id);
                return tell(Err(CreateError::TeamFull { limit: self.max_of_team }));
            }
            Ok(Inserted::Known(known)) => {
                drop(held);
                self.registry.forget(&id);
                return tell(self.known(&request.sandbox, *known).await);
            }
            Err(error) => {
                drop(held);
                self.registry.forget(&id);
                return tell(Err(error.into()));
            }
        }
        failpoint::hit("create.written");
        self.backend.assign(&id, &request.sandbox.isolation);
        let mut launch = pin!(self.backend.launch(spec(&request.sandbox, request.disk)));
        match tokio::time::timeout(self.launch_limit, &mut launch).await {
            Ok(Ok(live)) => {
                failpoint::hit("create.launched");
                let result = match self.until_ready(&request.sandbox, &live).await {
                    // If somebody ended it meanwhile, the store says so.
                    Ok(()) | Err(Unready::Doomed) => self.arrive(&id, live, request.timeout).await,
                    Err(Unready::Stopping) => Err(CreateError::ShuttingDown),
                    Err(Unready::Failed(why)) => {
                        tracing::warn!(sandbox = %id, error = why, "a sandbox did not become ready");
                        Err(CreateError::NotReady { id: id.clone(), why })
                    }
                };
                drop(held);
                match result {
                    Ok(sandbox) => {
                        entry.settled.cancel();
                        tell(Ok(sandbox));
                    }
                    Err(error) => {
                        // Whoever ended it meanwhile sweeps it; sweeping twice does no harm.
                        Arc::clone(&self).fail(id, error.to_string()).await;
                        entry.settled.cancel();
                        tell(Err(error));
                    }
                }
            }
            Ok(Err(source)) => {
                drop(held);
                let text = cabana_types::error::chain(&source);
                tracing::warn!(sandbox = %id, error = text, "a sandbox could not be created");
                Arc::clone(&self).fail(id.clone(), text).await;
                entry.settled.cancel();
                tell(Err(CreateError::Launch { id, source }));
            }
            Err(_) => {
                let seconds = self.launch_limit.as_secs();
                tracing::error!(sandbox = %id, seconds, "a sandbox does not come up");
                let ending =
                    tokio::spawn(Arc::clone(&self).fail(id.clone(), format!("it was not up within {seconds} s")));
                entry.settled.cancel();
                tell(Err(CreateError::TooSlow { id, seconds }));
                // The backend does one thing at a time for a sandbox: the sweep waits for the lock until this is over.
                let _ = launch.await;
                drop(held);
                let _ = ending.await;
            }
        }
    }

    /// It is up: writes that down, then lets everybody know.
    async fn arrive(self: &Arc<Self>, id: &SandboxId, live: Live, timeout: u64) -> Result<Sandbox, CreateError> {
        let now = Timestamp::now();
        match self.store.started(id.clone(), now, later(now, timeout)).await {
            Ok(sandbox) => {
                self.publish(&sandbox, live, 0);
                self.teams.started(&sandbox.team);
                Ok(sandbox)
            }
            Err(cabana_store::Error::Refused(refused)) => match self.store.sandbox(id).await? {
                Some(Sandbox { state: State::Ending { cause } | State::Ended { cause }, .. }) => {
                    Err(CreateError::Ended { id: id.clone(), cause })
                }
                _ => Err(cabana_store::Error::Refused(refused).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Ends a sandbox that did not come up, and waits a while until nothing of it is left.
    async fn fail(self: Arc<Self>, id: SandboxId, message: String) {
        let mut pause = super::backoff::Backoff::new();
        loop {
            let cause = EndCause::CreateFailed { message: message.clone() };
            match self.store.end(id.clone(), cause, Timestamp::now()).await {
                Ok(_) | Err(cabana_store::Error::Refused(_)) => break,
                Err(cabana_store::Error::NoSandbox(_)) => return self.registry.forget(&id),
                Err(error) => {
                    let error = cabana_types::error::chain(&error);
                    tracing::error!(sandbox = %id, error, "could not write that a creation failed; trying again");
                    if !pause.wait(&self.stopping).await {
                        return;
                    }
                }
            }
        }
        let entry = self.sweep(&id);
        let _ = tokio::time::timeout(SWEEP_WAIT, entry.attempted.cancelled()).await;
    }

    /// The answer to a request that was made before, if it was.
    async fn repeated(&self, request: &Sandbox) -> Option<Result<Sandbox, CreateError>> {
        let key = request.idempotency.as_ref()?;
        match self.store.sandbox_by_idempotency_key(&request.team, &key.key).await {
            Ok(Some(known)) => Some(self.known(request, known).await),
            Ok(None) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// What is answered about the sandbox that a repeated request asked for before.
    async fn known(&self, request: &Sandbox, mut known: Sandbox) -> Result<Sandbox, CreateError> {
        let key = known.idempotency.as_ref().map(|i| i.key.clone()).unwrap_or_default();
        if known.idempotency != request.idempotency {
            return Err(CreateError::Conflict { key });
        }
        if known.state == State::Creating {
            if let Some(entry) = self.registry.get(&known.id) {
                tokio::select! {
                    () = entry.settled.cancelled() => {}
                    () = tokio::time::sleep(self.launch_limit + self.ready_limit) => {}
                }
            }
            known =
                self.store.sandbox(&known.id).await?.ok_or_else(|| cabana_store::Error::NoSandbox(known.id.clone()))?;
        }
        let cause = match &known.state {
            State::Creating => "is still coming up".into(),
            State::Failed { cause } | State::Ending { cause } | State::Ended { cause } => cause.describe(),
            // Also asleep it is the sandbox that was made.
            _ => return Ok(known),
        };
        Err(CreateError::Spent { key, id: known.id, cause })
    }
}
