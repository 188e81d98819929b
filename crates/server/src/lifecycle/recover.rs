//! Recovery at the start of the server: adopts sandboxes that run, and continues what an earlier server did not finish.
//! Resources without a row are found by maintenance, whose first round follows at once.

use std::sync::Arc;
use std::time::Duration;

use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::sandbox::{EndCause, Kept, Seen, State, Transition};
use futures_util::StreamExt;
use jiff::Timestamp;

use super::driver::Driver;
use super::removal::Remover;
use super::tasks::Backoff;

/// Sandboxes that are recovered at the same time.
const AT_ONCE: usize = 16;
/// How long adopting one sandbox may delay the start.
const ADOPT_LIMIT: Duration = Duration::from_secs(10);
/// Attempts to adopt a sandbox before it counts as lost.
const ADOPT_ATTEMPTS: u32 = 6;

/// Recovers sandboxes of an earlier server.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) driver: Arc<Driver>,
    pub(super) remover: Arc<Remover>,
}

impl Recovery {
    /// Recovers all sandboxes that have not ended. What takes long continues in the background.
    pub(super) async fn run(self: &Arc<Self>) -> Result<(), cabana_store::Error> {
        let sandboxes = self.driver.store.live_sandboxes().await?;
        for sandbox in &sandboxes {
            self.driver.registry.entry(&sandbox.id);
            self.driver.registry.host().assign(&sandbox.id, &sandbox.isolation);
        }
        let count = sandboxes.len();
        futures_util::stream::iter(sandboxes)
            .for_each_concurrent(AT_ONCE, |sandbox| Arc::clone(self).recover(sandbox))
            .await;
        if count > 0 {
            tracing::info!(
                sandboxes = count,
                running = self.driver.routes.len(),
                "recovered sandboxes of an earlier server"
            );
        }
        Ok(())
    }

    async fn recover(self: Arc<Self>, sandbox: Sandbox) {
        let id = &sandbox.id;
        match sandbox.state {
            State::Creating => self.apply_restart(&sandbox, Seen::NoProcesses).await,
            State::Ending { .. } | State::Ended { .. } => {
                self.remover.remove(id);
            }
            State::Running => match tokio::time::timeout(ADOPT_LIMIT, self.adopt(&sandbox)).await {
                Ok(Ok(seen)) => self.apply_restart(&sandbox, seen).await,
                Ok(Err(_)) | Err(_) => {
                    tracing::warn!(sandbox = %id, "could not adopt the sandbox; retrying");
                    self.driver.routes.expiry.set(id, sandbox.end_at, Timestamp::now());
                    let this = Arc::clone(&self);
                    self.driver.tasks.spawn("adopt a sandbox", async move { this.adopt_later(sandbox).await });
                }
            },
            // Only memory in RAM can have been lost.
            State::Paused { kept: Kept::Ram, .. } => {
                let held = self.driver.registry.entry(id).hold().await;
                let seen = self.driver.adopt_paused(&held, &sandbox, ADOPT_LIMIT).await;
                drop(held);
                self.apply_restart(&sandbox, seen).await;
            }
            _ => self.continue_from(&sandbox),
        }
    }

    /// Applies the transition that the state machine has for a restart, and continues from there.
    async fn apply_restart(self: &Arc<Self>, sandbox: &Sandbox, seen: Seen) {
        let Some(transition) = sandbox.state.on_restart(seen) else { return };
        let mut backoff = Backoff::default();
        loop {
            match self.driver.apply(&sandbox.id, transition.clone()).await {
                Ok(sandbox) => {
                    tracing::warn!(sandbox = %sandbox.id, state = sandbox.state.name(), "the sandbox did not survive the restart");
                    return self.continue_from(&sandbox);
                }
                Err(cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) => {
                    return self.continue_from(sandbox);
                }
                Err(error) => {
                    tracing::error!(sandbox = %sandbox.id, error = chain(&error), "could not write the state of the sandbox; retrying");
                    if !self.driver.tasks.wait(&mut backoff).await {
                        return;
                    }
                }
            }
        }
    }

    /// Writes that the disks of sandboxes were lost, which were ended for it before this server started.
    pub(super) async fn disks_lost(&self, sandboxes: Vec<SandboxId>) {
        for id in sandboxes {
            match self.driver.apply(&id, Transition::Fail(EndCause::DiskLost)).await {
                Ok(_) => tracing::warn!(sandbox = %id, "the sandbox was ended because its disk was read-only"),
                // It was paused, or is a build sandbox.
                Err(cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) => {}
                Err(error) => {
                    tracing::warn!(sandbox = %id, error = chain(&error), "could not write why the sandbox ended");
                }
            }
        }
    }

    /// Drives or removes a sandbox in the background, as its state asks for.
    fn continue_from(&self, sandbox: &Sandbox) {
        if matches!(sandbox.state, State::Ending { .. }) {
            self.remover.remove(&sandbox.id);
            return;
        }
        if sandbox.state.uses_capacity() {
            self.driver.registry.count_running(&sandbox.id, sandbox.resources);
        }
        let driven = Arc::clone(&self.driver).drive_until_settled(sandbox.id.clone());
        self.driver.tasks.spawn("drive a sandbox", driven);
    }

    async fn adopt(&self, sandbox: &Sandbox) -> Result<Seen, cabana_runtime::Error> {
        let held = self.driver.registry.entry(&sandbox.id).hold().await;
        self.driver.adopt_running(&held, sandbox).await
    }

    /// Retries to adopt a sandbox: one error must not end it, and must not delay the start.
    async fn adopt_later(self: Arc<Self>, mut sandbox: Sandbox) {
        let mut backoff = Backoff::default();
        for _ in 0..ADOPT_ATTEMPTS {
            if !self.driver.tasks.wait(&mut backoff).await {
                return;
            }
            // It may have been killed, or its timeout changed.
            match self.driver.store.sandbox(&sandbox.id).await {
                Ok(Some(current)) if current.state == State::Running => sandbox = current,
                Ok(_) => return,
                Err(_) => continue,
            }
            if let Ok(seen) = self.adopt(&sandbox).await {
                return self.apply_restart(&sandbox, seen).await;
            }
        }
        tracing::error!(sandbox = %sandbox.id, "could not adopt the sandbox; it counts as lost");
        self.apply_restart(&sandbox, Seen::NoProcesses).await;
    }
}
