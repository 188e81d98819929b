//! The work of the driver for each unsettled state.

use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::{DiskSource, Live};
use cabana_store::Sandbox;
use cabana_types::error::chain;
use cabana_types::policy::OnFailure;
use cabana_types::sandbox::{EndCause, PauseCause, Seen, State, Transition};
use jiff::Timestamp;

use super::driver::{Driver, Outcome};
use super::error::{ChangeError, Operation};
use super::expiry::later;
use super::held::Held;
use super::launch;
use super::readiness::NotReady;
use super::tasks::Backoff;
use crate::failpoint;

impl Driver {
    /// Pauses a running sandbox with its memory. Where the budget has no room for that, a pause that no client asked
    /// for keeps only the disk; for a client, the memory was reserved before the intent was written.
    pub(super) async fn freeze(
        self: &Arc<Self>,
        held: &Held,
        sandbox: &Sandbox,
        why: &PauseCause,
    ) -> Result<Outcome, ChangeError> {
        let id = held.id();
        if !matches!(why, PauseCause::Asked { .. })
            && let Err(over) = self.memory.reserve(held, sandbox).await
        {
            tracing::info!(sandbox = %id, why = %over, "the memory budget is used up; keeping only the sandbox's disk");
            let reason = format!("its memory was given up: {over}");
            self.store.apply_with_reason(id.clone(), Transition::MemoryLost, reason, Timestamp::now()).await?;
            return Ok(Outcome::Advanced);
        }
        self.routes.withdraw(id);
        self.note_disk(held).await;
        failpoint::hit("pause.withdrawn");
        let frozen = held.freeze().await;
        failpoint::hit("pause.frozen");
        let live = held.adopt().await.unwrap_or_default();
        match (frozen, live) {
            (Ok(()), Some(_)) => {
                self.apply(id, Transition::Paused).await?;
                failpoint::hit("pause.written");
                self.memory.charge(held, sandbox).await;
                self.memory.reclaim(held).await;
                Ok(Outcome::Advanced)
            }
            (_, None) => {
                self.apply(id, Transition::MemoryLost).await?;
                Ok(Outcome::Advanced)
            }
            (Err(error), Some(live)) => {
                if let Err(error) = held.thaw().await {
                    tracing::error!(sandbox = %id, error = chain(&error), "could not thaw the sandbox");
                }
                let oom_kills = live.vitals.borrow().oom_kills;
                self.publish(held, sandbox, live, false, oom_kills);
                Ok(Outcome::Failed(Operation::Pause, error.into()))
            }
        }
    }

    /// Measures the disk, so that the next change of the sandbox writes how much of it is used.
    pub(super) async fn note_disk(&self, held: &Held) {
        if let Ok(stats) = held.stats().await {
            self.store.note_disk(held.id(), stats.disk_used);
        }
    }

    /// Stops a sandbox and keeps its disk.
    pub(super) async fn shut_down(self: &Arc<Self>, held: &Held, sandbox: &Sandbox) -> Result<Outcome, ChangeError> {
        let id = &sandbox.id;
        self.routes.withdraw(id);
        self.note_disk(held).await;
        if let Ok(Some(live)) = held.adopt().await {
            // A frozen guest cannot stop its processes.
            let _ = held.thaw().await;
            if let Err(error) = live.link.stop().await {
                tracing::warn!(sandbox = %id, %error, "the guest did not stop its processes; killing them");
            }
        }
        failpoint::hit("shut_down.told");
        self.stop_until_done(held).await?;
        failpoint::hit("shut_down.stopped");
        self.apply(id, Transition::Paused).await?;
        Ok(Outcome::Advanced)
    }

    /// Resumes a sandbox whose memory is in RAM.
    pub(super) async fn thaw(
        self: &Arc<Self>,
        held: &Held,
        sandbox: &Sandbox,
        seconds: Option<u64>,
    ) -> Result<Outcome, ChangeError> {
        let renewed = self.with_secrets(sandbox).await;
        let prepared = match Arc::ptr_eq(&renewed.egress, &sandbox.egress) {
            true => Ok(()),
            false => held.set_egress(Arc::clone(&renewed.egress)).await,
        };
        let thawed = match prepared {
            Ok(()) => held.thaw().await,
            Err(error) => Err(error),
        };
        failpoint::hit("resume.thawed");
        let live = held.adopt().await.unwrap_or_default();
        match (thawed, live) {
            (Ok(()), Some(live)) => self.resumed(held, sandbox, live, seconds).await,
            (Err(error), Some(_)) => Ok(Outcome::Failed(Operation::Resume, error.into())),
            (_, None) => {
                self.apply(held.id(), Transition::MemoryLost).await?;
                Ok(Outcome::Advanced)
            }
        }
    }

    /// Resumes a sandbox of which only the disk is kept.
    pub(super) async fn boot(
        self: &Arc<Self>,
        held: &Held,
        sandbox: &Sandbox,
        seconds: Option<u64>,
    ) -> Result<Outcome, ChangeError> {
        failpoint::hit("boot.begun");
        let renewed = self.with_secrets(sandbox).await;
        let authority = self.certificate(&renewed).await;
        let launched = held.launch(launch::of_sandbox(&renewed, DiskSource::Kept, authority)).await;
        failpoint::hit("boot.launched");
        match launched {
            Ok(live) => {
                // Its owner must be able to reach the disk, even if the start command failed.
                if let Err(NotReady::Failed(why)) = self.ready.wait(held, sandbox, &live).await {
                    self.note_not_ready(sandbox, why).await;
                }
                self.resumed(held, sandbox, live, seconds).await
            }
            Err(error) => Ok(Outcome::Failed(Operation::Resume, error.into())),
        }
    }

    async fn resumed(
        self: &Arc<Self>,
        held: &Held,
        sandbox: &Sandbox,
        live: Live,
        seconds: Option<u64>,
    ) -> Result<Outcome, ChangeError> {
        let now = Timestamp::now();
        let booted = !matches!(sandbox.state, State::Resuming { from, .. } if from.has_memory());
        let end_at = later(now, seconds.unwrap_or_else(|| sandbox.policy.auto_resume_seconds()));
        let sandbox = self.store.started(sandbox.id.clone(), now, end_at).await?;
        failpoint::hit("resume.written");
        self.registry.count_running(&sandbox.id, sandbox.resources);
        let oom_kills = live.vitals.borrow().oom_kills;
        self.publish(held, &sandbox, live, booted, oom_kills);
        self.teams.count_start(&sandbox.team);
        Ok(Outcome::Advanced)
    }

    /// Stops the rest of a failed sandbox and, where its policy says so, boots it again.
    pub(super) async fn after_failure(
        self: &Arc<Self>,
        held: &Held,
        sandbox: &Sandbox,
        cause: &EndCause,
    ) -> Result<Option<Outcome>, ChangeError> {
        let id = held.id();
        self.routes.withdraw(id);
        self.stop_until_done(held).await?;
        failpoint::hit("failure.stopped");
        self.registry.release(id);
        let again = sandbox.policy.on_failure == OnFailure::Replace && self.replacements.allow(id);
        if !again || self.registry.reserve(id, sandbox.resources).is_err() {
            return Ok(None);
        }
        tracing::info!(sandbox = %id, why = cause.describe(), "booting the failed sandbox from its disk");
        self.apply(id, Transition::Resume).await?;
        Ok(Some(Outcome::Advanced))
    }

    /// Stops a sandbox, with retries until that works or the server stops.
    async fn stop_until_done(&self, held: &Held) -> Result<(), ChangeError> {
        let mut backoff = Backoff::default();
        while let Err(error) = held.stop().await {
            tracing::error!(sandbox = %held.id(), error = chain(&error), "could not stop the sandbox; retrying");
            if !self.tasks.wait(&mut backoff).await {
                return Err(ChangeError::ShuttingDown);
            }
        }
        Ok(())
    }

    /// Records that a sandbox runs although it is not ready.
    async fn note_not_ready(&self, sandbox: &Sandbox, why: String) {
        let id = &sandbox.id;
        tracing::warn!(sandbox = %id, error = why, "the sandbox is not ready and runs nevertheless");
        let details = serde_json::json!({ "message": why });
        if let Err(error) = self.store.note(id.clone(), "not_ready", details, Timestamp::now()).await {
            tracing::warn!(sandbox = %id, error = chain(&error), "could not record that the sandbox is not ready");
        }
    }

    /// Takes over a running sandbox of an earlier server, if its processes are there.
    pub(super) async fn adopt_running(
        self: &Arc<Self>,
        held: &Held,
        sandbox: &Sandbox,
    ) -> Result<Seen, cabana_runtime::Error> {
        let id = held.id();
        let adopted = held.adopt().await.inspect_err(|error| {
            tracing::warn!(sandbox = %id, error = chain(error), "could not adopt the sandbox");
        })?;
        let Some(live) = adopted else { return Ok(Seen::NoProcesses) };
        // The earlier server may have died during a snapshot, or between a resize and writing it.
        held.thaw().await?;
        if let Err(error) = held.resize(sandbox.resources).await {
            tracing::warn!(sandbox = %id, error = chain(&error), "could not set the limits of the sandbox");
        }
        let oom_kills = live.vitals.borrow().oom_kills;
        self.registry.count_running(id, sandbox.resources);
        self.publish(held, sandbox, live, false, oom_kills);
        Ok(Seen::Processes)
    }

    /// Looks for the processes of a sandbox that an earlier server paused with its memory. If the backend
    /// does not answer, they count as there: the next resume finds out.
    pub(super) async fn adopt_paused(&self, held: &Held, sandbox: &Sandbox, limit: Duration) -> Seen {
        if let Ok(Ok(None)) = tokio::time::timeout(limit, held.adopt()).await {
            return Seen::NoProcesses;
        }
        self.memory.charge(held, sandbox).await;
        Seen::Processes
    }
}
