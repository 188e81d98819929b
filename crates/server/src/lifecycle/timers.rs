//! Timeouts: changes them, and ends or pauses sandboxes that reach theirs.

use std::sync::Arc;
use std::time::Duration;

use cabana_store::{Sandbox, Store};
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::sandbox::State;
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::expiry::{Expiry, later};
use super::removal::Remover;
use crate::failpoint;

/// Delay before an expiry that the store could not write is retried.
const RETRY: Duration = Duration::from_secs(1);

/// Timeouts of running sandboxes.
#[derive(Debug)]
pub(super) struct Timers {
    store: Store,
    driver: Arc<Driver>,
    remover: Arc<Remover>,
}

impl Timers {
    pub(super) fn new(store: Store, driver: Arc<Driver>, remover: Arc<Remover>) -> Self {
        Self { store, driver, remover }
    }

    fn expiry(&self) -> &Expiry {
        &self.driver.routes.expiry
    }

    /// Expires sandboxes until the server stops.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.expiry().wait() => {}
            }
            for (id, end_at) in self.expiry().due(Instant::now()) {
                let this = Arc::clone(&self);
                self.driver.tasks.spawn("expire a sandbox", async move { this.expire(&id, end_at).await });
            }
        }
    }

    /// Sets when a sandbox expires; with `extend`, never to an earlier time.
    pub(super) async fn set_timeout(
        self: &Arc<Self>,
        id: &SandboxId,
        seconds: u64,
        extend: bool,
    ) -> Result<Sandbox, cabana_store::Error> {
        let entry = self.driver.registry.get(id).ok_or_else(|| cabana_store::Error::NoSandbox(id.clone()))?;
        let (this, id) = (Arc::clone(self), id.clone());
        let task = self.driver.tasks.run("set a timeout", async move {
            // Held, so that the last of two changes also sets the deadline last.
            let held = entry.hold().await;
            let now = Timestamp::now();
            let sandbox = this.store.set_end_at(id.clone(), later(now, seconds), extend, now).await?;
            if seconds == 0 && !extend {
                // The client expects the sandbox to be expired when it is answered.
                this.expiry().remove(&id);
                drop(held);
                this.expire(&id, sandbox.end_at).await;
            } else {
                this.expiry().set(&id, sandbox.end_at, now);
            }
            Ok(sandbox)
        });
        task.await.unwrap_or(Err(cabana_store::Error::Closed))
    }

    /// Ends or pauses a sandbox that reached its timeout `due`, unless that was changed.
    async fn expire(self: &Arc<Self>, id: &SandboxId, due: Timestamp) {
        match self.store.expire(id.clone(), due, Timestamp::now()).await {
            Ok(sandbox) if sandbox.state == State::Running => {
                self.expiry().set(id, sandbox.end_at, Timestamp::now());
            }
            Ok(sandbox) if sandbox.state.cause().is_none() => {
                tracing::info!(sandbox = %id, "expired, pausing");
                failpoint::hit("expire.written");
                let paused = Arc::clone(&self.driver).drive_until_settled(id.clone());
                let _ = self.driver.tasks.run("drive a sandbox", paused).await;
            }
            Ok(_) => {
                tracing::info!(sandbox = %id, "expired");
                self.remover.remove_and_wait(id).await;
            }
            Err(
                cabana_store::Error::Refused(_)
                | cabana_store::Error::NotRunning { .. }
                | cabana_store::Error::NoSandbox(_),
            ) => {}
            Err(error) => {
                tracing::error!(sandbox = %id, error = chain(&error), "could not write that the sandbox expired; retrying");
                self.expiry().set_in(id, due, RETRY);
            }
        }
    }
}
