//! Removes what builds no longer need: old layers, images and uploads, and builds that nothing refers to.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cabana_image::Digest;
use cabana_storage::Pool;
use cabana_store::{CacheKey, CacheKind};
use cabana_types::BuildId;
use cabana_types::error::chain;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use super::Builds;

/// The time between sweeps.
const EVERY: Duration = Duration::from_secs(600);
/// Maximum number of entries of each kind in the build cache.
const MOST_ENTRIES: usize = 2000;

impl Builds {
    pub(super) async fn keep_sweeping(self: Arc<Self>, stop: CancellationToken) {
        let mut unknown_before = HashSet::new();
        while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
            if let Some(pool) = self.lifecycle.pool().cloned() {
                self.sweep(&pool, &mut unknown_before).await;
            }
        }
    }

    async fn sweep(&self, pool: &Pool, unknown_before: &mut HashSet<BuildId>) {
        let day = SignedDuration::from_hours(24);
        let now = Timestamp::now();
        let before = |days: u32| now - day * i32::try_from(days).unwrap_or(i32::MAX);
        if let Err(error) = self.sweep_builds(pool, before(self.settings.keep_untagged_days), unknown_before).await {
            tracing::warn!(error, "old builds could not be removed");
        }
        // A build in progress may need any layer.
        if let Ok(_alone) = self.layers.try_write()
            && let Err(error) = self.sweep_layers(pool, before(self.settings.cache_days)).await
        {
            tracing::warn!(error, "old layers could not be removed");
        }
        let files = self.files.clone();
        let unused_since = before(self.settings.cache_days);
        let swept = tokio::task::spawn_blocking(move || files.sweep(unused_since.into())).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "old uploads could not be removed");
        }
    }

    /// Removes unused layers, blobs of unused images, and records of start commands that were tried.
    async fn sweep_layers(&self, pool: &Pool, before: Timestamp) -> Result<(), String> {
        let short = pool.is_short().await.map_err(|e| chain(&e))?;
        if short {
            tracing::warn!("the disk is getting full; removing half of the build cache");
        }
        let (mut gone, mut kept) = (Vec::new(), HashMap::new());
        for kind in CacheKind::ALL {
            let known = self.store.cache_by_use(kind).await.map_err(|e| chain(&e))?;
            let most = if short { known.len() / 2 } else { MOST_ENTRIES };
            let (old, young) = divide(known, before, most);
            gone.extend(old.into_iter().map(|key| CacheKey { kind, key }));
            kept.insert(kind, young);
        }
        let kept = |kind| kept.get(&kind).into_iter().flatten();
        let layers: HashSet<&String> = kept(CacheKind::Layer).collect();
        for key in pool.layers().await.map_err(|e| chain(&e))? {
            if !layers.contains(&key) {
                pool.delete_layer(&key).await.map_err(|e| chain(&e))?;
            }
        }
        let images = kept(CacheKind::Image).filter_map(|key| Digest::from_hex(key)).collect();
        let blobs = self.blobs.clone();
        let collected = tokio::task::spawn_blocking(move || blobs.collect(&images)).await;
        if let Ok(Err(error)) = collected {
            return Err(cabana_types::error::chain(&error));
        }
        self.store.delete_cache_entries(gone).await.map_err(|e| chain(&e))
    }

    /// Removes builds without a tag that nothing uses, and root filesystems without a build in the store.
    async fn sweep_builds(
        &self,
        pool: &Pool,
        before: Timestamp,
        unknown_before: &mut HashSet<BuildId>,
    ) -> Result<(), String> {
        for build in self.store.untagged_builds(before).await.map_err(|e| chain(&e))? {
            if self.store.delete_build(build.clone()).await.map_err(|e| chain(&e))? {
                pool.delete_build(&build).await.map_err(|e| chain(&e))?;
            }
        }
        let known: HashSet<BuildId> =
            self.store.all_builds().await.map_err(|e| chain(&e))?.into_iter().map(|(id, _)| id).collect();
        let found: HashSet<BuildId> = pool.builds().await.map_err(|e| chain(&e))?.into_iter().collect();
        let unknown: HashSet<BuildId> = found.difference(&known).cloned().collect();
        // Unknown in two sweeps: its row is not about to be written.
        for build in unknown.intersection(unknown_before) {
            tracing::info!(%build, "removing a root filesystem without a build");
            pool.delete_build(build).await.map_err(|e| chain(&e))?;
        }
        *unknown_before = unknown;
        Ok(())
    }
}

/// Divides entries into those to remove and those to keep: used since `before`, and the last used `most` of them.
fn divide(mut known: Vec<(String, Timestamp)>, before: Timestamp, most: usize) -> (Vec<String>, HashSet<String>) {
    known.sort_by_key(|(_, used)| *used);
    let surplus = known.len().saturating_sub(most);
    let young = known.partition_point(|(_, used)| *used < before).max(surplus);
    let kept = known.split_off(young);
    let key = |(key, _)| key;
    (known.into_iter().map(key).collect(), kept.into_iter().map(key).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entries_are_removed() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let known = || [5, 1, 4, 2, 3].map(|n| (n.to_string(), at(n))).to_vec();
        let gone = |before: i64, most: usize| {
            let (old, kept) = divide(known(), at(before), most);
            assert_eq!(old.len() + kept.len(), 5);
            assert!(old.iter().all(|key| !kept.contains(key)));
            old.join(" ")
        };
        assert_eq!(gone(0, 9), "");
        assert_eq!(gone(3, 9), "1 2");
        assert_eq!(gone(0, 2), "1 2 3");
        assert_eq!(gone(3, 4), "1 2");
        assert_eq!(gone(9, 0), "1 2 3 4 5");
    }
}
