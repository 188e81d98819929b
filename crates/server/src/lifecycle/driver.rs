//! The one loop that brings the world to what a sandbox's row says. Whoever wants something writes the intent first; then this does it,
//! step by step, each written when it is done. After a crash the next server goes on from whatever step was written last.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use cabana_runtime::{DiskSource, LaunchSpec, Root};
use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::guest::GuestConfig;
use cabana_types::policy::OnFailure;
use cabana_types::sandbox::{EndCause, Kept, PauseCause, State, Transition};
use futures_util::FutureExt;
use jiff::Timestamp;

use super::backoff::Backoff;
use super::readiness::Unready;
use super::{Lifecycle, OverBudget, later};
use crate::failpoint;

/// Why a sandbox is not in the state that was wanted.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It is ending or has ended.
    #[error("the sandbox {id} {}", cause.describe())]
    Ended {
        /// Which.
        id: SandboxId,
        /// Why.
        cause: EndCause,
    },
    /// Its state does not allow it.
    #[error("the sandbox {id} is {state}")]
    Conflict {
        /// Which.
        id: SandboxId,
        /// What it is.
        state: &'static str,
    },
    /// There are as many up as there may be.
    #[error("all {limit} sandboxes are in use")]
    Capacity {
        /// How many.
        limit: u32,
    },
    /// It cannot be paused with its memory; it keeps running.
    #[error("the sandbox {id} cannot be paused with its memory")]
    OverBudget {
        /// Which.
        id: SandboxId,
        /// Why not.
        #[source]
        why: OverBudget,
    },
    /// Its team keeps as many snapshots as it may.
    #[error("the team has {limit} snapshots")]
    Snapshots {
        /// How many.
        limit: u32,
    },
    /// It was tried and did not work; the sandbox is as before.
    #[error("the sandbox {id} could not be {what}: {message}")]
    Failed {
        /// Which.
        id: SandboxId,
        /// `paused`, `resumed`, …
        what: &'static str,
        /// Why not.
        message: String,
    },
    /// Somebody else wanted something of it meanwhile, and got it.
    #[error("work on the sandbox {0} was interrupted")]
    Interrupted(SandboxId),
    /// It uses more memory than it shall have.
    #[error("the sandbox {id} uses {used} MiB of memory")]
    InUse {
        /// Which.
        id: SandboxId,
        /// How much, MiB.
        used: u64,
    },
    /// Its guest does not answer.
    #[error("the guest of the sandbox {0} does not answer")]
    Unresponsive(SandboxId),
    /// The backend cannot do it.
    #[error("{0}")]
    Unsupported(String),
    /// It takes longer than a caller should wait; it goes on.
    #[error("the sandbox {0} is still changing")]
    Slow(SandboxId),
    /// The server stops.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The store failed.
    #[error("the store")]
    Store(#[from] cabana_store::Error),
}

/// What a sandbox could not be because somebody else wanted something of it.
pub(super) const INTERRUPTED: &str = "left in peace";

/// No backend writes checkpoints yet.
const NO_CHECKPOINTS: &str = "this server's backend cannot write or restore checkpoints";

/// How far one step led.
pub(super) enum Went {
    /// On.
    On,
    /// Back to where it was, because of this.
    Back(&'static str, String),
}

impl Lifecycle {
    /// Takes the steps that a sandbox's state wants, until it wants none, and answers with the row. `seconds` is how long it shall live if this wakes
    /// it. The caller holds the entry's lock.
    pub(super) async fn drive(self: &Arc<Self>, id: &SandboxId, seconds: Option<u64>) -> Result<Sandbox, ChangeError> {
        let mut back = None;
        loop {
            let sandbox = self.store.sandbox(id).await?;
            let sandbox = sandbox.ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
            // A fault of the backend must leave the sandbox where its row says, not the task dead with the lock.
            let step = AssertUnwindSafe(self.take_next(&sandbox, seconds)).catch_unwind().await;
            match step.unwrap_or_else(|_| Ok(Some(Went::Back("changed", "the server failed".into())))) {
                Ok(Some(Went::On)) => {}
                Ok(Some(Went::Back(what, message))) => {
                    tracing::warn!(sandbox = %id, error = message, "a sandbox could not be {what}");
                    let stayed = match sandbox.state {
                        State::Pausing { .. } => Transition::PauseFailed,
                        State::Archiving { .. } => Transition::ArchiveFailed,
                        _ => Transition::ResumeFailed,
                    };
                    self.store.apply_with_reason(id.clone(), stayed, message.clone(), Timestamp::now()).await?;
                    back = Some(match what {
                        INTERRUPTED => ChangeError::Interrupted(id.clone()),
                        _ => ChangeError::Failed { id: id.clone(), what, message },
                    });
                }
                Ok(None) => {
                    self.settled(&sandbox);
                    return match back {
                        Some(error) => Err(error),
                        None => Ok(sandbox),
                    };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The same, again and again until it works: for changes that nobody waits for.
    pub(super) async fn persevere(self: Arc<Self>, id: SandboxId) {
        let mut pause = Backoff::new();
        loop {
            let Some(entry) = self.registry.get(&id) else { return };
            let held = entry.lock.lock().await;
            match self.drive(&id, None).await {
                // Where the store refused, somebody ended it meanwhile, and sweeps it.
                Err(ChangeError::Store(error))
                    if !matches!(error, cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) =>
                {
                    tracing::error!(sandbox = %id, error = chain(&error), "could not go on with a sandbox; trying again");
                }
                _ => return,
            }
            drop(held);
            if !pause.wait(&self.stopping).await {
                return;
            }
        }
    }

    /// Places in the registry and on the edge follow the state.
    fn settled(&self, sandbox: &Sandbox) {
        if !sandbox.state.uses_capacity() {
            self.registry.vacate(&sandbox.id);
        }
        if !matches!(sandbox.state, State::Paused { kept: Kept::Ram, .. }) {
            self.memory_budget.leave(&sandbox.id);
        }
    }

    /// Takes the next step; `None` if there is none.
    async fn take_next(self: &Arc<Self>, sandbox: &Sandbox, seconds: Option<u64>) -> Result<Option<Went>, ChangeError> {
        match sandbox.state {
            State::Pausing { to: Kept::Ram, ref why } => self.freeze(sandbox, why).await.map(Some),
            State::Pausing { to: Kept::Checkpoint { .. }, .. } => Ok(Some(Went::Back("paused", NO_CHECKPOINTS.into()))),
            State::Pausing { .. } => self.shut_down(sandbox).await.map(Some),
            State::Resuming { from: Kept::Ram, .. } => self.thaw(sandbox, seconds).await.map(Some),
            State::Resuming { from: Kept::Checkpoint { .. }, .. } => {
                Ok(Some(Went::Back("resumed", NO_CHECKPOINTS.into())))
            }
            State::Resuming { from: Kept::Disk, .. } => self.boot(sandbox, seconds).await.map(Some),
            State::Resuming { from: Kept::Archive { generation, .. }, .. } => {
                self.restore(sandbox, generation).await.map(Some)
            }
            State::Archiving { generation, whole, .. } => self.pack(sandbox, generation, whole).await.map(Some),
            State::Paused { kept: Kept::Archive { .. }, .. } => {
                self.drop_disk(sandbox).await;
                Ok(None)
            }
            State::Failed { ref cause } => self.after_failure(sandbox, cause).await,
            State::Ending { ref cause } | State::Ended { ref cause } => {
                Err(ChangeError::Ended { id: sandbox.id.clone(), cause: cause.clone() })
            }
            State::Creating | State::Running | State::Paused { .. } => Ok(None),
        }
    }

    async fn step(&self, sandbox: &Sandbox, step: Transition) -> Result<Went, ChangeError> {
        self.store.apply(sandbox.id.clone(), step, Timestamp::now()).await?;
        Ok(Went::On)
    }

    /// From running to standing still. Where there is no room for its memory, what nobody asked for keeps the disk alone; whoever asked was let in before.
    async fn freeze(self: &Arc<Self>, sandbox: &Sandbox, why: &PauseCause) -> Result<Went, ChangeError> {
        let id = &sandbox.id;
        if let Err(crowded) = self.make_bed(sandbox).await
            && !matches!(why, PauseCause::Asked { .. })
        {
            tracing::info!(sandbox = %id, why = %crowded, "no room for the memory of a sandbox; its disk alone is kept");
            let told = format!("its memory was given up: {crowded}");
            self.store.apply_with_reason(id.clone(), Transition::MemoryLost, told, Timestamp::now()).await?;
            return Ok(Went::On);
        }
        self.withdraw(id);
        failpoint::hit("pause.withdrawn");
        let frozen = self.backend.freeze(id).await;
        failpoint::hit("pause.frozen");
        let alive = self.backend.adopt(id).await.unwrap_or_default();
        match (frozen, alive) {
            (Ok(()), Some(_)) => {
                let went = self.step(sandbox, Transition::Paused).await?;
                failpoint::hit("pause.written");
                self.count_memory(sandbox).await;
                if self.reclaim {
                    self.backend.reclaim(id).await;
                }
                Ok(went)
            }
            (_, None) => self.step(sandbox, Transition::MemoryLost).await,
            (Err(error), Some(live)) => {
                if let Err(error) = self.backend.thaw(id).await {
                    tracing::error!(sandbox = %id, error = chain(&error), "could not thaw a sandbox");
                }
                let told = live.vitals.borrow().oom_kills;
                self.publish(sandbox, live, told);
                Ok(Went::Back("paused", chain(&error)))
            }
        }
    }

    /// Everything is stopped in order; the disk stays.
    async fn shut_down(self: &Arc<Self>, sandbox: &Sandbox) -> Result<Went, ChangeError> {
        let id = &sandbox.id;
        self.withdraw(id);
        if let Ok(Some(live)) = self.backend.adopt(id).await {
            // One that slept with its memory must be awake to end.
            let _ = self.backend.thaw(id).await;
            if let Err(error) = live.link.stop().await {
                tracing::warn!(sandbox = %id, %error, "the guest did not stop its processes in order; they are killed");
            }
        }
        failpoint::hit("shut_down.told");
        self.until_done(id, "stop", || self.backend.stop(id)).await?;
        failpoint::hit("shut_down.stopped");
        self.step(sandbox, Transition::Paused).await
    }

    /// From standing still to running.
    async fn thaw(self: &Arc<Self>, sandbox: &Sandbox, seconds: Option<u64>) -> Result<Went, ChangeError> {
        let id = &sandbox.id;
        let thawed = self.backend.thaw(id).await;
        failpoint::hit("resume.thawed");
        let live = self.backend.adopt(id).await.unwrap_or_default();
        match (thawed, live) {
            (Ok(()), Some(live)) => self.arrive_again(sandbox, live, seconds).await,
            (Err(error), Some(_)) => Ok(Went::Back("resumed", chain(&error))),
            (_, None) => self.step(sandbox, Transition::MemoryLost).await,
        }
    }

    /// From the disk alone to running.
    async fn boot(self: &Arc<Self>, sandbox: &Sandbox, seconds: Option<u64>) -> Result<Went, ChangeError> {
        failpoint::hit("boot.begun");
        let launched = self.backend.launch(spec(sandbox, DiskSource::Kept)).await;
        failpoint::hit("boot.launched");
        match launched {
            Ok(live) => {
                // Its owner must get at the disk, whatever became of the start command.
                if let Err(Unready::Failed(why)) = self.until_ready(sandbox, &live).await {
                    self.note_unready(&sandbox.id, why).await;
                }
                self.arrive_again(sandbox, live, seconds).await
            }
            Err(error) => Ok(Went::Back("resumed", chain(&error))),
        }
    }

    async fn arrive_again(
        self: &Arc<Self>,
        sandbox: &Sandbox,
        live: cabana_runtime::Live,
        seconds: Option<u64>,
    ) -> Result<Went, ChangeError> {
        let now = Timestamp::now();
        let end_at = later(now, seconds.unwrap_or_else(|| sandbox.policy.auto_resume_seconds()));
        let sandbox = self.store.started(sandbox.id.clone(), now, end_at).await?;
        failpoint::hit("resume.written");
        self.registry.place(&sandbox.id);
        let told = live.vitals.borrow().oom_kills;
        self.publish(&sandbox, live, told);
        self.teams.started(&sandbox.team);
        Ok(Went::On)
    }

    /// What is left of a sandbox that ended by itself goes; where its policy says so, it boots afresh.
    async fn after_failure(self: &Arc<Self>, sandbox: &Sandbox, cause: &EndCause) -> Result<Option<Went>, ChangeError> {
        let id = &sandbox.id;
        self.withdraw(id);
        self.until_done(id, "stop", || self.backend.stop(id)).await?;
        failpoint::hit("failure.stopped");
        self.registry.vacate(id);
        let again = sandbox.policy.on_failure == OnFailure::Replace && self.replacements.allow(id);
        if !again || self.registry.reserve(id, self.max_sandboxes).is_none() {
            return Ok(None);
        }
        tracing::info!(sandbox = %id, why = cause.describe(), "booting a failed sandbox afresh from its disk");
        self.step(sandbox, Transition::Resume).await.map(Some)
    }

    /// Does something that must be done, however often it takes; stops only with the server.
    pub(super) async fn until_done<F>(
        &self,
        id: &SandboxId,
        what: &str,
        mut act: impl FnMut() -> F,
    ) -> Result<(), ChangeError>
    where
        F: Future<Output = Result<(), cabana_runtime::Error>>,
    {
        let mut pause = Backoff::new();
        while let Err(error) = act().await {
            tracing::error!(sandbox = %id, error = chain(&error), "could not {what} a sandbox; trying again");
            if !pause.wait(&self.stopping).await {
                return Err(ChangeError::ShuttingDown);
            }
        }
        Ok(())
    }

    /// What became of a sandbox whose state refused a step.
    pub(super) async fn ended(&self, id: &SandboxId) -> ChangeError {
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

/// What the backend is told to bring a sandbox up.
pub(super) fn spec(sandbox: &Sandbox, disk: DiskSource) -> LaunchSpec {
    let mut env_vars = sandbox.boot.env.clone();
    env_vars.extend(sandbox.env_vars.clone());
    let mib = |mb: u32| u64::from(mb) * 1024 * 1024;
    LaunchSpec {
        id: sandbox.id.clone(),
        root: Root::Build { build: sandbox.build.clone(), disk },
        resources: sandbox.resources,
        mounts: Vec::new(),
        internet: sandbox.internet,
        guest: GuestConfig {
            sandbox_id: sandbox.id.clone(),
            template_id: sandbox.template.to_string(),
            access_token: sandbox.access_token.clone(),
            env_vars,
            default_user: sandbox.boot.default_user.clone(),
            default_workdir: sandbox.boot.default_workdir.clone(),
            start: sandbox.boot.start.clone(),
            ready: sandbox.boot.ready.clone(),
            cpu_count: sandbox.resources.cpu_count,
            memory_bytes: mib(sandbox.resources.memory_mb),
            disk_bytes: mib(sandbox.resources.disk_mb),
        },
    }
}
