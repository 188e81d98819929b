//! Ends sandboxes and removes their resources. The end is written first; removal then continues until nothing is left, across retries and
//! restarts of the server.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cabana_edge::Route;
use cabana_store::Store;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::sandbox::EndCause;
use futures_util::FutureExt;
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::archiver::Archiver;
use super::entry::Entry;
use super::error::Failure;
use super::held::Held;
use super::journal;
use super::paused_memory::MemoryBudget;
use super::registry::Registry;
use super::routes::Routes;
use super::tasks::{Backoff, Tasks};
use crate::failpoint;

/// How long a client waits for the removal of what it killed. The end is durable by then; removal continues in the background.
const REMOVAL_WAIT: Duration = Duration::from_secs(10);
/// Removals at the same time.
const AT_ONCE: usize = 16;
/// After this time a removal is logged as slow and no longer counts towards [`AT_ONCE`].
const SLOW: Duration = Duration::from_secs(30);

/// Ends and removes sandboxes.
#[derive(Debug)]
pub(super) struct Remover {
    store: Store,
    registry: Arc<Registry>,
    routes: Arc<Routes>,
    memory: Arc<MemoryBudget>,
    archiver: Arc<Archiver>,
    removals: Semaphore,
    tasks: Tasks,
}

impl Remover {
    pub(super) fn new(
        store: Store,
        registry: Arc<Registry>,
        routes: Arc<Routes>,
        memory: Arc<MemoryBudget>,
        archiver: Arc<Archiver>,
        tasks: Tasks,
    ) -> Self {
        Self { store, registry, routes, memory, archiver, removals: Semaphore::new(AT_ONCE), tasks }
    }

    /// Ends a sandbox. Returns when clients do not find it any more, and usually when nothing of it is left.
    pub(super) async fn kill(self: &Arc<Self>, id: &SandboxId, cause: EndCause) -> Result<(), cabana_store::Error> {
        let (this, own) = (Arc::clone(self), id.clone());
        // In a task of its own: a client that disconnects must not stop it between the intent and the removal.
        let task = self.tasks.run("kill a sandbox", async move {
            this.store.end(own.clone(), cause, Timestamp::now()).await?;
            failpoint::hit("kill.written");
            Ok(this.remove(&own))
        });
        let entry = task.await.unwrap_or(Err(cabana_store::Error::Closed))?;
        wait_for_attempt(&entry).await;
        Ok(())
    }

    /// Ends a sandbox that could not be created. Returns when its removal was attempted.
    pub(super) async fn create_failed(self: Arc<Self>, id: SandboxId, message: String) {
        let mut backoff = Backoff::default();
        loop {
            let cause = EndCause::CreateFailed { message: message.clone() };
            match self.store.end(id.clone(), cause, Timestamp::now()).await {
                Ok(_) | Err(cabana_store::Error::Refused(_)) => break,
                Err(cabana_store::Error::NoSandbox(_)) => return self.registry.remove(&id),
                Err(error) => {
                    tracing::error!(sandbox = %id, error = chain(&error), "could not write that the creation failed; retrying");
                    if !self.tasks.wait(&mut backoff).await {
                        return;
                    }
                }
            }
        }
        self.remove_and_wait(&id).await;
    }

    /// Removes a sandbox whose end is written. Returns when removal was attempted once.
    pub(super) async fn remove_and_wait(self: &Arc<Self>, id: &SandboxId) {
        wait_for_attempt(&self.remove(id)).await;
    }

    /// Removes a sandbox whose end is written, in the background.
    pub(super) fn remove(self: &Arc<Self>, id: &SandboxId) -> Arc<Entry> {
        let route = self.routes.get(id);
        self.routes.withdraw(id);
        let entry = self.registry.entry(id);
        entry.lock.end();
        self.tasks.spawn("remove a sandbox", Arc::clone(self).remove_until_gone(Arc::clone(&entry), route));
        entry
    }

    async fn remove_until_gone(self: Arc<Self>, entry: Arc<Entry>, route: Option<Arc<Route>>) {
        let held = entry.hold().await;
        let id = held.id();
        // It may have been published between the intent and the lock.
        let route = route.or_else(|| self.routes.get(id));
        self.routes.withdraw(id);
        let lines = last_lines(&entry, route).await;
        let mut backoff = Backoff::default();
        while let Err(failure) = self.destroy(&held).await {
            tracing::error!(sandbox = %id, error = %failure, "could not remove the sandbox; retrying");
            entry.removal_attempted.set();
            if !self.tasks.wait(&mut backoff).await {
                return;
            }
        }
        self.archiver.delete_last_archive(id).await;
        failpoint::hit("kill.destroyed");
        let mut backoff = Backoff::default();
        loop {
            match self.store.removed_with_lines(id.clone(), lines.clone(), Timestamp::now()).await {
                Ok(sandbox) => {
                    let why = sandbox.state.cause().map(EndCause::describe).unwrap_or_default();
                    tracing::info!(sandbox = %id, why, "ended");
                    break;
                }
                // Another task removed it.
                Err(cabana_store::Error::Refused(_) | cabana_store::Error::NoSandbox(_)) => break,
                Err(error) => {
                    tracing::error!(sandbox = %id, error = chain(&error), "could not write that the sandbox ended; retrying");
                    entry.removal_attempted.set();
                    if !self.tasks.wait(&mut backoff).await {
                        return;
                    }
                }
            }
        }
        self.memory.release(id);
        self.registry.remove(id);
        entry.removal_attempted.set();
    }

    /// Destroys a sandbox, with a bounded number at a time; a slow one does not block the others.
    async fn destroy(&self, held: &Held) -> Result<(), Failure> {
        let permit = self.removals.acquire().await;
        // A panic of the backend must not end the removal: the next one would come with the next start of the server.
        let destroyed = AssertUnwindSafe(held.destroy()).catch_unwind();
        let mut destroyed = pin!(destroyed.map(|result| match result {
            Ok(result) => result.map_err(Failure::Backend),
            Err(_) => Err(Failure::Panicked),
        }));
        match tokio::time::timeout(SLOW, &mut destroyed).await {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!(sandbox = %held.id(), seconds = SLOW.as_secs(), "removing the sandbox is slow");
                drop(permit);
                destroyed.await
            }
        }
    }
}

/// The end of the journal of a guest that is about to be killed, for those who ask later what it did.
async fn last_lines(entry: &Entry, route: Option<Arc<Route>>) -> Vec<String> {
    let Some(route) = route else { return Vec::new() };
    let (since, known) = entry.with_meter(|meter| (meter.started_at(), meter.last_lines())).unwrap_or_default();
    journal::last_lines(&route.link, since).await.unwrap_or(known)
}

async fn wait_for_attempt(entry: &Entry) {
    let _ = tokio::time::timeout(REMOVAL_WAIT, entry.removal_attempted.wait()).await;
}
