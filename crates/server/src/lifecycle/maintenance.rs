//! What has to be done now and then: forgetting old tombstones, and removing what nobody remembers.

use std::sync::Arc;
use std::time::Duration;

use cabana_types::SandboxId;
use futures_util::StreamExt;
use jiff::{SignedDuration, Timestamp};
use tokio::time::MissedTickBehavior;

use super::Lifecycle;

/// How often.
const EVERY: Duration = Duration::from_secs(600);
/// Strangers that are removed at the same time, and how long one may take.
const REMOVALS: usize = 8;
const REMOVAL_LIMIT: Duration = Duration::from_secs(60);
/// Tombstones that are kept at most, however young.
const MOST_TOMBSTONES: u32 = 100_000;
/// Tombstones forgotten in one transaction.
const AT_ONCE: u32 = 500;

impl Lifecycle {
    pub(super) async fn keep_house(self: Arc<Self>) {
        let tombstones = Duration::from_secs(u64::from(self.retention.tombstone_days) * 24 * 3600);
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                _ = tick.tick() => {}
            }
            self.forget_tombstones(tombstones).await;
            self.find_strangers().await;
            self.sweep_snapshots(false).await;
            self.sweep_archives().await;
            self.retire().await;
        }
    }

    async fn forget_tombstones(&self, age: Duration) {
        let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
        let Ok(before) = Timestamp::now().checked_sub(age) else { return };
        loop {
            match self.store.purge(before, MOST_TOMBSTONES, AT_ONCE).await {
                Ok(purged) if purged >= u64::from(AT_ONCE) => {}
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(error = cabana_types::error::chain(&error), "could not forget old tombstones");
                    return;
                }
            }
        }
    }

    /// A sandbox is in the registry before anything of it is in the world, and until nothing is: whatever else the backend finds
    /// is nobody's.
    async fn find_strangers(&self) {
        let found = match self.backend.inventory().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(error = cabana_types::error::chain(&error), "could not look for forgotten sandboxes");
                return;
            }
        };
        let strangers = found.into_iter().filter(|id| self.registry.get(id).is_none());
        futures_util::stream::iter(strangers)
            .for_each_concurrent(REMOVALS, |id| async move { self.remove_stranger(&id).await })
            .await;
    }

    async fn remove_stranger(&self, id: &SandboxId) {
        tracing::warn!(sandbox = %id, "removing a sandbox that nobody remembers");
        match tokio::time::timeout(REMOVAL_LIMIT, self.backend.destroy(id)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = cabana_types::error::chain(&error);
                tracing::error!(sandbox = %id, error, "could not remove it; the next round tries again");
            }
            Err(_) => tracing::error!(sandbox = %id, "removing it takes too long; the next round tries again"),
        }
    }
}
