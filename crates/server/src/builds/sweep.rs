//! Removing what builds no longer need: layers that were not used for long, blobs of images, uploads, and builds that nothing leads to.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cabana_image::Digest;
use cabana_storage::Pool;
use cabana_types::BuildId;
use cabana_types::error::chain;
use jiff::{SignedDuration, Timestamp};

use super::Builds;

/// How often.
const EVERY: Duration = Duration::from_secs(600);
/// Layers that are kept at most, however young.
const MOST_LAYERS: usize = 2000;
/// How the images whose blobs are kept are remembered among the layers.
const MANIFEST: &str = "manifest-";

/// What an image is called where the use of layers is noted.
pub(super) fn manifest_key(digest: Digest) -> String {
    format!("{MANIFEST}{}", digest.hex())
}

impl Builds {
    pub(super) async fn keep_sweeping(self: Arc<Self>) {
        let mut strangers = HashSet::new();
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let Some(pool) = self.lifecycle.pool().cloned() else { return };
            self.sweep(&pool, &mut strangers).await;
        }
    }

    async fn sweep(&self, pool: &Pool, strangers: &mut HashSet<BuildId>) {
        let day = SignedDuration::from_hours(24);
        let now = Timestamp::now();
        let before = |days: u32| now - day * i32::try_from(days).unwrap_or(i32::MAX);
        if let Err(error) = self.sweep_builds(pool, before(self.settings.keep_untagged_days), strangers).await {
            tracing::warn!(error, "old builds could not be removed");
        }
        // While a build is under way, what it will need next is not known.
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

    /// Layers, and blobs of images that none of those that stay came from.
    async fn sweep_layers(&self, pool: &Pool, before: Timestamp) -> Result<(), String> {
        let known = self.store.layers_by_use().await.map_err(|e| chain(&e))?;
        let most = match pool.is_short().await.map_err(|e| chain(&e))? {
            true => {
                tracing::warn!("the disk is getting full: half of what builds have kept for the next goes");
                known.len() / 2
            }
            false => MOST_LAYERS,
        };
        let (old, kept) = divide(known, before, most);
        for key in pool.layers().await.map_err(|e| chain(&e))? {
            if !kept.contains(&key) {
                pool.delete_layer(&key).await.map_err(|e| chain(&e))?;
            }
        }
        let images = kept.iter().filter_map(|key| Digest::from_hex(key.strip_prefix(MANIFEST)?)).collect();
        let blobs = self.blobs.clone();
        let collected = tokio::task::spawn_blocking(move || blobs.collect(&images)).await;
        if let Ok(Err(error)) = collected {
            return Err(cabana_types::error::chain(&error));
        }
        self.store.forget_layers(old).await.map_err(|e| chain(&e))
    }

    /// Builds that have lost their last tag long ago and that nobody uses, and trees that no build in the store tells of.
    async fn sweep_builds(
        &self,
        pool: &Pool,
        before: Timestamp,
        strangers: &mut HashSet<BuildId>,
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
        // One that was unknown the last time, too, is nobody's: it is not just being written down.
        for build in unknown.intersection(strangers) {
            tracing::info!(%build, "removing a root filesystem that no template has");
            pool.delete_build(build).await.map_err(|e| chain(&e))?;
        }
        *strangers = unknown;
        Ok(())
    }
}

/// What goes and what stays, of what was used at these times: nothing that was not used since `before`, and no more than `most`.
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
    fn what_was_used_longest_ago_goes() {
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
