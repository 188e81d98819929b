//! Removing what is left of a sandbox that ends. The intent is written before; this goes on until nothing is left, however long it
//! takes and however often the server restarts.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cabana_types::SandboxId;
use futures_util::FutureExt;
use jiff::Timestamp;

use super::backoff::Backoff;
use super::{Entry, Lifecycle};
use crate::failpoint;

/// After this long a removal is complained about, and makes room for others.
const SLOW: Duration = Duration::from_secs(30);

impl Lifecycle {
    /// Withdraws a sandbox whose end is written, and removes it in a task of its own. The entry tells when that was tried once.
    pub(super) fn sweep(self: &Arc<Self>, id: &SandboxId) -> Arc<Entry> {
        self.withdraw(id);
        let entry = self.registry.entry(id);
        entry.doomed.cancel();
        entry.interrupt();
        self.tasks.spawn(Arc::clone(self).sweep_until_gone(Arc::clone(&entry), id.clone()));
        entry
    }

    async fn sweep_until_gone(self: Arc<Self>, entry: Arc<Entry>, id: SandboxId) {
        let _held = entry.lock.lock().await;
        // It may have been published between the intent and the lock.
        self.withdraw(&id);
        let mut pause = Backoff::new();
        while let Err(error) = self.destroy(&id).await {
            let error = cabana_types::error::chain(&error);
            tracing::error!(sandbox = %id, error, "could not remove a sandbox; trying again");
            entry.attempted.cancel();
            if !pause.wait(&self.stopping).await {
                return;
            }
        }
        self.drop_archives(&id).await;
        failpoint::hit("kill.destroyed");
        let mut pause = Backoff::new();
        loop {
            match self.store.removed(id.clone(), Timestamp::now()).await {
                Ok(sandbox) => {
                    let why = sandbox.state.cause().map(|c| c.describe()).unwrap_or_default();
                    tracing::info!(sandbox = %id, why, "ended");
                    break;
                }
                // Swept by another task already.
                Err(cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) => break,
                Err(error) => {
                    let error = cabana_types::error::chain(&error);
                    tracing::error!(sandbox = %id, error, "could not write that a sandbox has ended; trying again");
                    entry.attempted.cancel();
                    if !pause.wait(&self.stopping).await {
                        return;
                    }
                }
            }
        }
        self.memory_budget.leave(&id);
        self.registry.forget(&id);
        entry.attempted.cancel();
    }

    /// Asks the backend, a bounded number at a time; one that hangs does not keep the others from it.
    async fn destroy(&self, id: &SandboxId) -> Result<(), cabana_runtime::Error> {
        let place = self.sweeps.acquire().await;
        // A sweep must outlive every fault of the backend: nobody else would remove the rest before the next start.
        let destroyed = AssertUnwindSafe(self.backend.destroy(id)).catch_unwind();
        let mut destroyed = std::pin::pin!(destroyed.map(|result| result.unwrap_or_else(|_| Err(panicked()))));
        match tokio::time::timeout(SLOW, &mut destroyed).await {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!(sandbox = %id, seconds = SLOW.as_secs(), "removing a sandbox takes long");
                drop(place);
                destroyed.await
            }
        }
    }
}

fn panicked() -> cabana_runtime::Error {
    cabana_runtime::Error::Unsupported("the backend panicked".into())
}
