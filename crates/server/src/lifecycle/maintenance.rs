//! Periodic maintenance: deletes old tombstones and removes resources that no row refers to.

use std::sync::Arc;
use std::time::Duration;

use cabana_store::Store;
use cabana_types::SandboxId;
use cabana_types::error::chain;
use futures_util::StreamExt;
use jiff::{SignedDuration, Timestamp};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::archiver::Archiver;
use super::registry::Registry;
use super::retention::Retention;
use super::snapshots::Snapshots;

const EVERY: Duration = Duration::from_secs(600);
/// Orphans that are removed at the same time, and the limit for one of them.
const REMOVALS: usize = 8;
const REMOVAL_LIMIT: Duration = Duration::from_secs(60);
/// Tombstones that are kept at most, regardless of their age.
const MAX_TOMBSTONES: u32 = 100_000;
/// Tombstones deleted in one transaction.
const BATCH: u32 = 500;

/// Runs all maintenance, one round after the other.
#[derive(Debug)]
pub(super) struct Maintenance {
    pub(super) store: Store,
    pub(super) registry: Arc<Registry>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) archiver: Arc<Archiver>,
    pub(super) retention: Retention,
}

impl Maintenance {
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            self.delete_tombstones().await;
            if let Err(error) = self.store.remove_expired_tool_calls(Timestamp::now()).await {
                tracing::warn!(error = chain(&error), "could not delete old results of tool calls");
            }
            if let Err(error) = self.store.remove_expired_chat_requests(Timestamp::now()).await {
                tracing::warn!(error = chain(&error), "could not delete old requests of chats");
            }
            self.remove_orphans().await;
            self.snapshots.remove_unfinished(false).await;
            self.archiver.delete_unneeded(&self.registry).await;
            self.retention.run().await;
        }
    }

    async fn delete_tombstones(&self) {
        let age = SignedDuration::from_hours(i64::from(self.retention.config.tombstone_days) * 24);
        let Ok(before) = Timestamp::now().checked_sub(age) else { return };
        loop {
            match self.store.purge(before, MAX_TOMBSTONES, BATCH).await {
                Ok(purged) if purged >= u64::from(BATCH) => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(error = chain(&error), "could not delete old tombstones");
                    return;
                }
            }
        }
    }

    /// A sandbox is registered before it has resources on the host and until it has none, so everything else that the backend finds is an
    /// orphan.
    async fn remove_orphans(&self) {
        let found = match self.registry.host().inventory().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = chain(&error), "could not look for orphaned sandboxes");
                return;
            }
        };
        let orphans = found.into_iter().filter(|id| self.registry.get(id).is_none());
        futures_util::stream::iter(orphans)
            .for_each_concurrent(REMOVALS, |id| async move { self.remove_orphan(&id).await })
            .await;
    }

    async fn remove_orphan(&self, id: &SandboxId) {
        tracing::warn!(sandbox = %id, "removing an orphaned sandbox");
        let held = self.registry.orphan(id).hold().await;
        match tokio::time::timeout(REMOVAL_LIMIT, held.destroy()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(sandbox = %id, error = chain(&error), "could not remove the orphaned sandbox; retrying later");
            }
            Err(_) => tracing::error!(sandbox = %id, "removing the orphaned sandbox takes too long; retrying later"),
        }
    }
}
