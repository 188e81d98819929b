//! Laying sandboxes to rest and waking them. Each wish is written durably, then carried out in a task of its own, so that a client that
//! hangs up stops nothing halfway.

use std::sync::Arc;
use std::time::Duration;

use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::sandbox::{Kept, PauseCause, State, Transition};
use jiff::Timestamp;

use super::Lifecycle;
use super::driver::ChangeError;
use cabana_edge::Route;

/// How long a caller waits for a change. What takes longer goes on without it.
const PATIENCE: Duration = Duration::from_secs(120);

/// How to lay a sandbox to rest.
#[derive(Debug, Clone)]
pub struct Pause {
    /// Whether its processes stay, standing still.
    pub memory: bool,
    /// Whether it shall stay up if its guest does not answer.
    pub require_healthy: bool,
    /// Why.
    pub why: PauseCause,
}

/// What a touch of a sandbox that is not up led to.
#[derive(Debug)]
pub enum AutoResume {
    /// It is up.
    Resumed(Arc<Route>),
    /// It is not there for the one who touched it; in words, if it ever was.
    NotFound(Option<String>),
    /// It should have woken, and did not.
    Failed(ChangeError),
}

impl Lifecycle {
    /// Does something with a sandbox, in a task of its own that holds its lock.
    pub(super) async fn change<F>(
        self: &Arc<Self>,
        id: &SandboxId,
        act: impl FnOnce(Arc<Self>, SandboxId) -> F + Send + 'static,
    ) -> Result<Sandbox, ChangeError>
    where
        F: Future<Output = Result<Sandbox, ChangeError>> + Send,
    {
        if self.stopping.is_cancelled() {
            return Err(ChangeError::ShuttingDown);
        }
        let entry = self.registry.get(id).ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
        let (this, own) = (Arc::clone(self), id.clone());
        let task = self.tasks.spawn(async move {
            let _held = entry.take().await;
            let done = act(Arc::clone(&this), own.clone()).await;
            match done {
                // Somebody who does not wait for the lock ended it meanwhile.
                Err(ChangeError::Store(cabana_store::Error::Refused(_))) => Err(this.ended(&own).await),
                Err(ChangeError::Store(error)) if !matches!(error, cabana_store::Error::NoSandbox(_)) => {
                    // The intent may be written; then it will come about.
                    this.tasks.spawn(Arc::clone(&this).persevere(own));
                    Err(error.into())
                }
                done => done,
            }
        });
        match tokio::time::timeout(PATIENCE, task).await {
            Ok(done) => done.unwrap_or(Err(ChangeError::Store(cabana_store::Error::Closed))),
            Err(_) => Err(ChangeError::Slow(id.clone())),
        }
    }

    /// Lays a sandbox to rest. One that rests already, as asked or deeper, is a conflict, as E2B has it.
    pub async fn pause(self: &Arc<Self>, id: &SandboxId, pause: Pause) -> Result<Sandbox, ChangeError> {
        if pause.memory && !self.backend.can_freeze(id) {
            let text =
                "this server cannot keep the memory of a paused sandbox; pause its filesystem only (memory: false)";
            return Err(ChangeError::Unsupported(text.into()));
        }
        self.change(id, move |this, id| async move {
            let sandbox = this.drive(&id, None).await?;
            if pause.require_healthy && !this.is_healthy(&id).await {
                return Err(ChangeError::Unresponsive(id));
            }
            // Nothing is written yet: whoever is refused keeps a sandbox that runs.
            if pause.memory && sandbox.state == State::Running && matches!(pause.why, PauseCause::Asked { .. }) {
                this.make_bed(&sandbox).await.map_err(|why| ChangeError::OverBudget { id: id.clone(), why })?;
            }
            this.lay_down(&id, pause).await
        })
        .await
    }

    /// The caller holds the lock.
    pub(super) async fn lay_down(self: &Arc<Self>, id: &SandboxId, pause: Pause) -> Result<Sandbox, ChangeError> {
        let keep = if pause.memory { Kept::Ram } else { Kept::Disk };
        let transition = Transition::Pause { keep, why: pause.why };
        self.store.apply(id.clone(), transition, Timestamp::now()).await?;
        self.drive(id, None).await
    }

    /// Wakes a sandbox for so many seconds; `false` in the answer if it was up. With `fresh`, it boots from its disk even if its memory is there.
    pub async fn resume(
        self: &Arc<Self>,
        id: &SandboxId,
        seconds: u64,
        fresh: bool,
    ) -> Result<(Sandbox, bool), ChangeError> {
        let woke = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = Arc::clone(&woke);
        let sandbox = self
            .change(id, move |this, id| async move {
                this.leave_archiving(&id).await?;
                let mut sandbox = this.drive(&id, Some(seconds)).await?;
                if sandbox.state == State::Running {
                    return Ok(sandbox);
                }
                if fresh && matches!(sandbox.state, State::Paused { kept, .. } if kept.has_memory()) {
                    let State::Paused { why, .. } = sandbox.state else { return Ok(sandbox) };
                    sandbox = this.lay_down(&id, Pause { memory: false, require_healthy: false, why }).await?;
                }
                told.store(true, std::sync::atomic::Ordering::Relaxed);
                this.raise(&sandbox, seconds).await
            })
            .await?;
        Ok((sandbox, woke.load(std::sync::atomic::Ordering::Relaxed)))
    }

    /// Wakes a sandbox that rests or failed. The caller holds the lock.
    async fn raise(self: &Arc<Self>, sandbox: &Sandbox, seconds: u64) -> Result<Sandbox, ChangeError> {
        let id = &sandbox.id;
        // One step is taken back if there is no room: the place comes first.
        if self.registry.reserve(id, self.max_sandboxes).is_none() {
            return Err(ChangeError::Capacity { limit: self.max_sandboxes });
        }
        let resumed = match self.store.apply(id.clone(), Transition::Resume, Timestamp::now()).await {
            Ok(_) => self.drive(id, Some(seconds)).await,
            Err(error) => Err(error.into()),
        };
        if resumed.is_err() && self.directory.get(id).is_none() {
            self.registry.vacate(id);
        }
        resumed
    }

    /// Makes a sandbox usable again, whatever became of it: a failed one boots from its disk, one whose guest hangs too, a sleeping one wakes, and
    /// what is half done is brought to its end.
    pub async fn recover_sandbox(self: &Arc<Self>, id: &SandboxId, why: PauseCause) -> Result<Sandbox, ChangeError> {
        self.change(id, move |this, id| async move {
            this.leave_archiving(&id).await?;
            let mut sandbox = match this.drive(&id, None).await {
                // It stayed as it was; that can be worked with.
                Err(ChangeError::Failed { .. }) => this.store.sandbox(&id).await?,
                driven => Some(driven?),
            }
            .ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
            match sandbox.state {
                State::Running if this.is_healthy(&id).await => return Ok(sandbox),
                State::Running => {
                    sandbox = this.lay_down(&id, Pause { memory: false, require_healthy: false, why }).await?;
                }
                State::Creating => return Err(ChangeError::Conflict { id, state: "creating" }),
                _ => {}
            }
            let seconds = sandbox.policy.auto_resume_seconds();
            this.raise(&sandbox, seconds).await
        })
        .await
    }

    async fn is_healthy(&self, id: &SandboxId) -> bool {
        match self.directory.get(id) {
            Some(route) => route.link.is_healthy().await,
            None => false,
        }
    }

    /// A request came for a sandbox that is not up: wakes it if its owner wants that, once however many come.
    pub async fn auto_resume(self: &Arc<Self>, id: &SandboxId) -> AutoResume {
        let sandbox = match self.store.sandbox(id).await {
            Ok(Some(sandbox)) => sandbox,
            Ok(None) => return AutoResume::NotFound(None),
            Err(error) => return AutoResume::Failed(error.into()),
        };
        let wakes = match &sandbox.state {
            state if state.is_paused() => sandbox.policy.auto_resume,
            State::Resuming { .. } => true,
            // It may have come up just now.
            State::Running => true,
            _ => false,
        };
        if !wakes {
            return AutoResume::NotFound(super::why_not_running(&sandbox));
        }
        match self.resume(id, sandbox.policy.auto_resume_seconds(), false).await {
            Ok(_) => match self.directory.get(id) {
                Some(route) => AutoResume::Resumed(route),
                None => AutoResume::NotFound(None),
            },
            Err(error) => AutoResume::Failed(error),
        }
    }
}
