//! Taking up what an earlier server left: sandboxes that are up, and those that were on their way. What nobody remembers is found by
//! the housekeeping, whose first round follows at once.

use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::Live;
use cabana_store::Sandbox;
use cabana_types::sandbox::{State, Step};
use futures_util::StreamExt;
use jiff::Timestamp;

use super::Lifecycle;
use super::backoff::Backoff;
use crate::error::Error;

/// Sandboxes that are looked at concurrently.
const AT_ONCE: usize = 16;
/// How long taking over one sandbox may hold up the start.
const ADOPT_LIMIT: Duration = Duration::from_secs(10);
/// Tries to take over a sandbox before it counts as lost.
const ADOPT_TRIES: u32 = 6;

impl Lifecycle {
    /// Brings the world to what the store says, before the first request is served. What can wait goes on behind.
    pub async fn recover(self: &Arc<Self>) -> Result<(), Error> {
        let living = self.store.living().await?;
        for sandbox in &living {
            self.registry.entry(&sandbox.id);
        }
        let recovered = living.len();
        futures_util::stream::iter(living)
            .for_each_concurrent(AT_ONCE, |sandbox| Arc::clone(self).recover_one(sandbox))
            .await;
        if recovered > 0 {
            tracing::info!(remembered = recovered, running = self.running(), "took up sandboxes of an earlier server");
        }
        Ok(())
    }

    async fn recover_one(self: Arc<Self>, sandbox: Sandbox) {
        let id = sandbox.id.clone();
        match sandbox.state {
            State::Creating | State::Ending { .. } | State::Ended { .. } => self.settle(&sandbox, false).await,
            State::Running => match tokio::time::timeout(ADOPT_LIMIT, self.adopt(&sandbox)).await {
                Ok(Ok(alive)) => self.settle(&sandbox, alive).await,
                Ok(Err(_)) | Err(_) => {
                    tracing::warn!(sandbox = %id, "could not take over a sandbox; trying again");
                    self.expiry.set(&id, sandbox.end_at, Timestamp::now());
                    let this = Arc::clone(&self);
                    self.tasks.spawn(async move { this.adopt_later(sandbox).await });
                }
            },
        }
    }

    /// Takes the step that the state machine wants after a restart, and sweeps what is ending.
    async fn settle(self: &Arc<Self>, sandbox: &Sandbox, alive: bool) {
        let step = sandbox.state.on_restart(alive);
        let mut pause = Backoff::new();
        if let Some(Step::End(cause)) = step {
            while let Err(error) = self.store.end(sandbox.id.clone(), cause.clone(), Timestamp::now()).await {
                if matches!(error, cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) {
                    break;
                }
                let text = cabana_runtime::error::chain(&error);
                tracing::error!(sandbox = %sandbox.id, error = text, "could not write what became of a sandbox; trying again");
                if !pause.wait(&self.stopping).await {
                    return;
                }
            }
            tracing::warn!(sandbox = %sandbox.id, why = cause.describe(), "a sandbox did not outlive the restart");
        } else if sandbox.state == State::Running {
            return;
        }
        self.sweep(&sandbox.id);
    }

    /// Takes over a running sandbox; `false` if it is not alive.
    async fn adopt(self: &Arc<Self>, sandbox: &Sandbox) -> Result<bool, cabana_runtime::Error> {
        let entry = self.registry.entry(&sandbox.id);
        let _held = entry.lock.lock().await;
        let adopted: Option<Live> = self.backend.adopt(&sandbox.id).await.inspect_err(|error| {
            let error = cabana_runtime::error::chain(error);
            tracing::warn!(sandbox = %sandbox.id, error, "taking over a sandbox failed");
        })?;
        let Some(live) = adopted else { return Ok(false) };
        let told = live.vitals.borrow().oom_kills;
        self.publish(sandbox, live, told);
        Ok(true)
    }

    /// A sandbox is not given up for one error: the start goes on without it, and it is tried again a few times.
    async fn adopt_later(self: Arc<Self>, mut sandbox: Sandbox) {
        let mut pause = Backoff::new();
        for _ in 0..ADOPT_TRIES {
            if !pause.wait(&self.stopping).await {
                return;
            }
            // It may have been killed meanwhile; then the kill sweeps it.
            // Its timeout may have been changed too.
            match self.store.sandbox(&sandbox.id).await {
                Ok(Some(current)) if current.state == State::Running => sandbox = current,
                Ok(_) => return,
                Err(_) => continue,
            }
            if let Ok(alive) = self.adopt(&sandbox).await {
                return self.settle(&sandbox, alive).await;
            }
        }
        tracing::error!(sandbox = %sandbox.id, "a sandbox could not be taken over and is given up");
        self.settle(&sandbox, false).await;
    }
}
