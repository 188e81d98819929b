//! Taking up what an earlier server left: sandboxes that are up, and those that were on their way. What nobody remembers is found by
//! the housekeeping, whose first round follows at once.

use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::Live;
use cabana_store::Sandbox;
use cabana_types::sandbox::{Kept, Seen, State};
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
            self.backend.assign(&sandbox.id, &sandbox.isolation);
        }
        self.sweep_snapshots(true).await;
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
        match &sandbox.state {
            State::Creating => self.settle(&sandbox, Seen::NoProcesses).await,
            State::Ending { .. } | State::Ended { .. } => {
                self.sweep(&id);
            }
            State::Running => match tokio::time::timeout(ADOPT_LIMIT, self.adopt(&sandbox)).await {
                Ok(Ok(seen)) => self.settle(&sandbox, seen).await,
                Ok(Err(_)) | Err(_) => {
                    tracing::warn!(sandbox = %id, "could not take over a sandbox; trying again");
                    self.expiry.set(&id, sandbox.end_at, Timestamp::now());
                    let this = Arc::clone(&self);
                    self.tasks.spawn(async move { this.adopt_later(sandbox).await });
                }
            },
            // Only those that sleep with their memory have anything to lose.
            State::Paused { kept: Kept::Ram, .. } => {
                let seen = match self.backend.adopt(&id).await {
                    Ok(Some(_)) | Err(_) => {
                        self.count_memory(&sandbox).await;
                        Seen::Processes
                    }
                    Ok(None) => Seen::NoProcesses,
                };
                self.settle(&sandbox, seen).await;
            }
            // What was under way goes on.
            _ => self.go_on(&sandbox),
        }
    }

    /// Takes the step that the state machine wants after a restart, and goes on from there.
    async fn settle(self: &Arc<Self>, sandbox: &Sandbox, seen: Seen) {
        let Some(step) = sandbox.state.on_restart(seen) else { return };
        let mut pause = Backoff::new();
        loop {
            match self.store.apply(sandbox.id.clone(), step.clone(), Timestamp::now()).await {
                Ok(sandbox) => {
                    tracing::warn!(sandbox = %sandbox.id, state = sandbox.state.name(), "a sandbox did not outlive the restart");
                    return self.go_on(&sandbox);
                }
                Err(cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) => {
                    return self.go_on(sandbox);
                }
                Err(error) => {
                    let error = cabana_types::error::chain(&error);
                    tracing::error!(sandbox = %sandbox.id, error, "could not write what became of a sandbox; trying again");
                    if !pause.wait(&self.stopping).await {
                        return;
                    }
                }
            }
        }
    }

    /// Does what a sandbox's state wants, behind the start.
    fn go_on(self: &Arc<Self>, sandbox: &Sandbox) {
        if matches!(sandbox.state, State::Ending { .. }) {
            self.sweep(&sandbox.id);
            return;
        }
        if sandbox.state.uses_capacity() {
            self.registry.place(&sandbox.id);
        }
        self.tasks.spawn(Arc::clone(self).persevere(sandbox.id.clone()));
    }

    /// Takes over a running sandbox, if it is alive.
    async fn adopt(self: &Arc<Self>, sandbox: &Sandbox) -> Result<Seen, cabana_runtime::Error> {
        let entry = self.registry.entry(&sandbox.id);
        let _held = entry.lock.lock().await;
        let adopted: Option<Live> = self.backend.adopt(&sandbox.id).await.inspect_err(|error| {
            let error = cabana_types::error::chain(error);
            tracing::warn!(sandbox = %sandbox.id, error, "taking over a sandbox failed");
        })?;
        let Some(live) = adopted else { return Ok(Seen::NoProcesses) };
        // The earlier server may have died while it copied the disk, or between a change of limits and its note.
        self.backend.thaw(&sandbox.id).await?;
        if let Err(error) = self.backend.resize(&sandbox.id, sandbox.resources).await {
            let error = cabana_types::error::chain(&error);
            tracing::warn!(sandbox = %sandbox.id, error, "could not set the limits of a sandbox again");
        }
        let told = live.vitals.borrow().oom_kills;
        self.registry.place(&sandbox.id);
        self.publish(sandbox, live, told);
        Ok(Seen::Processes)
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
            if let Ok(seen) = self.adopt(&sandbox).await {
                return self.settle(&sandbox, seen).await;
            }
        }
        tracing::error!(sandbox = %sandbox.id, "a sandbox could not be taken over and is given up");
        self.settle(&sandbox, Seen::NoProcesses).await;
    }
}
