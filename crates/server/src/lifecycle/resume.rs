//! Resuming a sandbox: by an API call, by a request for a paused one, or to recover one that failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cabana_edge::{AutoResume, ResumeError, Route};
use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::sandbox::{Kept, PauseCause, State};
use futures_util::future::BoxFuture;
use jiff::Timestamp;

use super::Lifecycle;
use super::driver::Driver;
use super::error::ChangeError;
use super::held::Held;

/// The edge resumes sandboxes through this.
impl AutoResume for Lifecycle {
    fn resume<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<Arc<Route>, ResumeError>> {
        Box::pin(self.driver.auto_resume(id))
    }

    fn reason<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<String>> {
        Box::pin(self.driver.why_not_running(id))
    }
}

impl Driver {
    /// Resumes a sandbox with a new timeout; the answer is `false` if it was running. With `fresh`, it boots from its
    /// disk even if its memory is kept.
    pub(super) async fn resume(
        self: &Arc<Self>,
        id: &SandboxId,
        seconds: u64,
        fresh: bool,
    ) -> Result<(Sandbox, bool), ChangeError> {
        let resumed = Arc::new(AtomicBool::new(false));
        let was_paused = Arc::clone(&resumed);
        let sandbox = self
            .change(id, move |this, held| async move {
                this.cancel_archiving(&held).await?;
                let mut sandbox = this.drive(&held, Some(seconds)).await?;
                if sandbox.state == State::Running {
                    return Ok(sandbox);
                }
                if let State::Paused { kept, ref why } = sandbox.state
                    && fresh
                    && kept.has_memory()
                {
                    sandbox = this.pause_held(&held, Kept::Disk, why.clone()).await?;
                }
                was_paused.store(true, Ordering::Relaxed);
                this.resume_held(&held, &sandbox, seconds).await
            })
            .await?;
        Ok((sandbox, resumed.load(Ordering::Relaxed)))
    }

    /// Resumes a paused or failed sandbox.
    async fn resume_held(
        self: &Arc<Self>,
        held: &Held,
        sandbox: &Sandbox,
        seconds: u64,
    ) -> Result<Sandbox, ChangeError> {
        let id = &sandbox.id;
        // Before the intent is written: without capacity the row does not change.
        self.registry.reserve(id, sandbox.resources)?;
        // One that is only thawed needs no new space.
        if !matches!(sandbox.state, State::Paused { kept: Kept::Ram, .. })
            && let Some(pool) = self.registry.host().pool()
            && let Err(source) = pool.check_space().await
        {
            self.registry.release(id);
            return Err(ChangeError::Storage { id: id.clone(), source });
        }
        let resumed = match self.store.resume(id.clone(), Timestamp::now()).await {
            Ok(_) => self.drive(held, Some(seconds)).await,
            Err(error) => Err(error.into()),
        };
        if resumed.is_err() && self.routes.get(id).is_none() {
            self.registry.release(id);
        }
        resumed
    }

    /// Makes a sandbox usable again: boots a failed one or one whose guest hangs from its disk, resumes a paused one,
    /// and completes a change that was interrupted.
    pub(super) async fn recover(self: &Arc<Self>, id: &SandboxId, why: PauseCause) -> Result<Sandbox, ChangeError> {
        self.change(id, move |this, held| async move {
            let id = held.id();
            this.cancel_archiving(&held).await?;
            let mut sandbox = match this.drive(&held, None).await {
                // It was rolled back to a settled state.
                Err(ChangeError::Failed { .. }) => this.store.sandbox(id).await?,
                driven => Some(driven?),
            }
            .ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
            match sandbox.state {
                State::Running if this.is_healthy(id).await => return Ok(sandbox),
                State::Running => sandbox = this.pause_held(&held, Kept::Disk, why).await?,
                State::Creating => return Err(ChangeError::Conflict { id: id.clone(), state: "creating" }),
                _ => {}
            }
            let seconds = sandbox.policy.auto_resume_seconds();
            this.resume_held(&held, &sandbox, seconds).await
        })
        .await
    }

    /// Resumes a sandbox for a request that came while it did not run, if its policy says so. Concurrent requests resume it once.
    async fn auto_resume(self: &Arc<Self>, id: &SandboxId) -> Result<Arc<Route>, ResumeError> {
        let sandbox = match self.store.sandbox(id).await {
            Ok(Some(sandbox)) => sandbox,
            Ok(None) => return Err(ResumeError::NotFound(None)),
            Err(error) => return Err(ResumeError::Failed(chain(&ChangeError::from(error)))),
        };
        let resumes = match &sandbox.state {
            state if state.is_paused() => sandbox.policy.auto_resume,
            // It may have started since the request came.
            State::Resuming { .. } | State::Running => true,
            _ => false,
        };
        if !resumes {
            return Err(ResumeError::NotFound(why_not_running(&sandbox)));
        }
        match self.resume(id, sandbox.policy.auto_resume_seconds(), false).await {
            Ok(_) => self.routes.get(id).ok_or(ResumeError::NotFound(None)),
            Err(ChangeError::Ended { .. }) => Err(ResumeError::NotFound(self.why_not_running(id).await)),
            Err(error @ ChangeError::Capacity(_)) => Err(ResumeError::AtCapacity(chain(&error))),
            Err(ChangeError::Store(error @ cabana_store::Error::Quota(_))) => {
                Err(ResumeError::AtCapacity(crate::error::ApiError::from(error).message().to_owned()))
            }
            Err(error) => Err(ResumeError::Failed(chain(&error))),
        }
    }

    /// Why a sandbox does not run, if it ever existed.
    async fn why_not_running(&self, id: &SandboxId) -> Option<String> {
        why_not_running(&self.store.sandbox(id).await.ok().flatten()?)
    }
}

/// Why a sandbox does not run, as a sentence for clients.
fn why_not_running(sandbox: &Sandbox) -> Option<String> {
    match &sandbox.state {
        State::Pausing { why, .. } | State::Paused { why, .. } | State::Archiving { why, .. } => {
            Some(format!("The sandbox {}; connect to it to resume it.", why.describe()))
        }
        State::Failed { cause } => Some(format!("The sandbox {}; recover it to boot from its disk.", cause.describe())),
        State::Ending { cause } | State::Ended { cause } => Some(format!("The sandbox {}.", cause.describe())),
        State::Creating | State::Running | State::Resuming { .. } => None,
    }
}
