//! The driver: the loop that reconciles the host with a sandbox's row. An operation first writes its intent to the row; then the driver
//! does what the state asks for, one transition at a time, each written when it is done. After a crash the next server continues from the
//! last transition that was written.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cabana_store::{Sandbox, Store};
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::sandbox::{Kept, State, Transition};
use futures_util::FutureExt;
use jiff::Timestamp;

use super::archiver::Archiver;
use super::error::{ChangeError, Failure, Operation};
use super::held::Held;
use super::paused_memory::MemoryBudget;
use super::readiness::ReadyCheck;
use super::registry::Registry;
use super::replacement::Replacements;
use super::routes::Routes;
use super::tasks::{Backoff, Tasks};
use super::usage::Teams;
use crate::vault::Vault;

/// How long a client waits for an operation. What takes longer continues in the background.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// Changes the state of existing sandboxes.
#[derive(Debug)]
pub(super) struct Driver {
    pub(super) store: Store,
    pub(super) registry: Arc<Registry>,
    pub(super) routes: Arc<Routes>,
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) archiver: Arc<Archiver>,
    pub(super) ready: ReadyCheck,
    pub(super) teams: Arc<Teams>,
    pub(super) vault: Arc<Vault>,
    pub(super) replacements: Replacements,
    pub(super) tasks: Tasks,
}

/// Result of the work that one state asks for.
pub(super) enum Outcome {
    /// The next transition is written.
    Advanced,
    /// The work failed and was undone on the host; the row is rolled back next.
    Failed(Operation, Failure),
    /// Another operation interrupted the work, which is undone as above.
    Interrupted,
}

impl Driver {
    /// Runs an operation in a task of its own that holds the sandbox, so that a client that disconnects stops nothing halfway.
    pub(super) async fn change<F>(
        self: &Arc<Self>,
        id: &SandboxId,
        operation: impl FnOnce(Arc<Self>, Held) -> F + Send + 'static,
    ) -> Result<Sandbox, ChangeError>
    where
        F: Future<Output = Result<Sandbox, ChangeError>> + Send,
    {
        if self.tasks.is_stopping() {
            return Err(ChangeError::ShuttingDown);
        }
        let entry = self.registry.get(id).ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
        let (this, own) = (Arc::clone(self), id.clone());
        let task = self.tasks.run("change a sandbox", async move {
            let held = entry.hold_interrupting().await;
            match operation(Arc::clone(&this), held).await {
                // A kill does not wait for the lock.
                Err(ChangeError::Store(cabana_store::Error::Refused(_))) => Err(this.conflict(&own).await),
                Err(ChangeError::Store(error))
                    if !matches!(error, cabana_store::Error::NoSandbox(_) | cabana_store::Error::Quota(_)) =>
                {
                    // The intent may be written; then it is carried out.
                    this.tasks.spawn("drive a sandbox", Arc::clone(&this).drive_until_settled(own));
                    Err(error.into())
                }
                done => done,
            }
        });
        match tokio::time::timeout(WAIT_LIMIT, task).await {
            Ok(done) => done.unwrap_or(Err(ChangeError::Store(cabana_store::Error::Closed))),
            Err(_) => Err(ChangeError::Slow(id.clone())),
        }
    }

    /// Drives a sandbox until its state is settled and returns its row. `seconds` is its timeout if this resumes it.
    pub(super) async fn drive(self: &Arc<Self>, held: &Held, seconds: Option<u64>) -> Result<Sandbox, ChangeError> {
        let id = held.id();
        let mut rolled_back = None;
        loop {
            let sandbox = self.store.sandbox(id).await?;
            let sandbox = sandbox.ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
            // A panic of the backend must not end this task: the row is rolled back as after any other failure.
            let work = AssertUnwindSafe(self.advance(held, &sandbox, seconds)).catch_unwind().await;
            let outcome = work.unwrap_or(Ok(Some(Outcome::Failed(Operation::Change, Failure::Panicked))))?;
            rolled_back = match outcome {
                Some(Outcome::Advanced) => rolled_back,
                Some(Outcome::Failed(operation, failure)) => {
                    tracing::warn!(sandbox = %id, error = %failure, "the sandbox could not be {operation}");
                    self.roll_back(&sandbox, failure.to_string()).await?;
                    Some(ChangeError::Failed { id: id.clone(), operation, failure })
                }
                Some(Outcome::Interrupted) => {
                    tracing::info!(sandbox = %id, "work on the sandbox was interrupted");
                    self.roll_back(&sandbox, "it was interrupted by another operation".into()).await?;
                    Some(ChangeError::Interrupted(id.clone()))
                }
                None => {
                    self.settle(&sandbox);
                    return rolled_back.map_or(Ok(sandbox), Err);
                }
            };
        }
    }

    /// Drives a sandbox for which no client waits, and retries while the store fails.
    pub(super) async fn drive_until_settled(self: Arc<Self>, id: SandboxId) {
        let mut backoff = Backoff::default();
        loop {
            let Some(entry) = self.registry.get(&id) else { return };
            let held = entry.hold().await;
            match self.drive(&held, None).await {
                // If the store refused, the sandbox was ended and is being removed.
                Err(ChangeError::Store(error))
                    if !matches!(error, cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) =>
                {
                    tracing::error!(sandbox = %id, error = chain(&error), "could not drive the sandbox; retrying");
                }
                _ => return,
            }
            drop(held);
            if !self.tasks.wait(&mut backoff).await {
                return;
            }
        }
    }

    /// Does what the state asks for; `None` if it is settled.
    async fn advance(
        self: &Arc<Self>,
        held: &Held,
        sandbox: &Sandbox,
        seconds: Option<u64>,
    ) -> Result<Option<Outcome>, ChangeError> {
        let outcome = match sandbox.state {
            State::Pausing { to: Kept::Ram, ref why } => self.freeze(held, sandbox, why).await,
            State::Pausing { to: Kept::Checkpoint { .. }, .. } => {
                Ok(Outcome::Failed(Operation::Pause, Failure::NoCheckpoints))
            }
            State::Pausing { .. } => self.shut_down(held, sandbox).await,
            State::Resuming { from: Kept::Ram, .. } => self.thaw(held, sandbox, seconds).await,
            State::Resuming { from: Kept::Checkpoint { .. }, .. } => {
                Ok(Outcome::Failed(Operation::Resume, Failure::NoCheckpoints))
            }
            State::Resuming { from: Kept::Disk, .. } => self.boot(held, sandbox, seconds).await,
            State::Resuming { from: Kept::Archive { generation, .. }, .. } => {
                self.archiver.restore(held, sandbox, generation).await
            }
            State::Archiving { generation, whole, .. } => self.archiver.pack(held, sandbox, generation, whole).await,
            State::Paused { kept: Kept::Archive { .. }, .. } => {
                Archiver::delete_disk(held).await;
                return Ok(None);
            }
            State::Failed { ref cause } => return self.after_failure(held, sandbox, cause).await,
            State::Ending { ref cause } | State::Ended { ref cause } => {
                Err(ChangeError::Ended { id: sandbox.id.clone(), cause: cause.clone() })
            }
            State::Creating | State::Running | State::Paused { .. } => return Ok(None),
        };
        outcome.map(Some)
    }

    pub(super) async fn apply(&self, id: &SandboxId, transition: Transition) -> Result<Sandbox, cabana_store::Error> {
        self.store.apply(id.clone(), transition, Timestamp::now()).await
    }

    /// Returns the row to the settled state from which the failed work started.
    async fn roll_back(&self, sandbox: &Sandbox, reason: String) -> Result<(), cabana_store::Error> {
        let transition = match sandbox.state {
            State::Pausing { .. } => Transition::PauseFailed,
            State::Archiving { .. } => Transition::ArchiveFailed,
            _ => Transition::ResumeFailed,
        };
        self.store.apply_with_reason(sandbox.id.clone(), transition, reason, Timestamp::now()).await.map(drop)
    }

    /// Releases the capacity and the memory that a settled sandbox does not use.
    fn settle(&self, sandbox: &Sandbox) {
        if !sandbox.state.uses_capacity() {
            self.registry.release(&sandbox.id);
        }
        if !matches!(sandbox.state, State::Paused { kept: Kept::Ram, .. }) {
            self.memory.release(&sandbox.id);
        }
    }

    /// The error for a sandbox whose state refused a transition.
    async fn conflict(&self, id: &SandboxId) -> ChangeError {
        match self.store.sandbox(id).await {
            Ok(Some(Sandbox { state: State::Ending { cause } | State::Ended { cause }, .. })) => {
                ChangeError::Ended { id: id.clone(), cause }
            }
            Ok(Some(sandbox)) => ChangeError::Conflict { id: id.clone(), state: sandbox.state.name() },
            Ok(None) => cabana_store::Error::NoSandbox(id.clone()).into(),
            Err(error) => error.into(),
        }
    }
}
