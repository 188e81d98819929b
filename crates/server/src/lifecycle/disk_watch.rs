//! Watches the space of the pool. Quotas promise more than there is, so one sandbox could take the space of all: when little
//! is left, every running sandbox may only write a little more than what it has, until there is space again. A pool that
//! the kernel made read-only is reported, and is mounted again when that can help.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_storage::{Pool, PoolState};
use cabana_types::SandboxId;
use cabana_types::error::chain;
use cabana_types::wire::StorageStatus;
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::driver::Driver;

/// The longest and the shortest time between two looks, and the time while space is short.
const EVERY: Duration = Duration::from_secs(1);
const QUICKEST: Duration = Duration::from_millis(10);
const LOW: Duration = Duration::from_millis(100);
/// Bytes that sandboxes write in a second at most: into the page cache, until it has to be flushed. The next look has to be
/// before they can take the reserve.
const FASTEST: u64 = 4 << 30;
/// A pool that is read-only so soon after a start has another problem than a full disk: not mounted again at once.
const REMOUNT_AFTER: Duration = Duration::from_secs(10);
/// What a sandbox may still write: a share of half of the reserve, within these bounds.
const LEAST_MORE: u64 = 1 << 20;
const MOST_MORE: u64 = 64 << 20;
/// Limits are lifted when there was enough space for so long: what is free changes while the kernel writes.
const LIFT_AFTER: Duration = Duration::from_secs(5);
const MIB: u64 = 1 << 20;

/// Watches one pool.
#[derive(Debug)]
pub(super) struct DiskWatch {
    driver: Arc<Driver>,
    pool: Option<Arc<Pool>>,
    seen: Mutex<Seen>,
    started: Instant,
    /// Cancelled when the pool has to be mounted again, which a new start does.
    remount: CancellationToken,
}

#[derive(Debug, Default)]
struct Seen {
    state: Option<PoolState>,
    clamped: HashSet<SandboxId>,
    /// Since when there is enough space.
    well_since: Option<Instant>,
}

impl DiskWatch {
    pub(super) fn new(driver: Arc<Driver>) -> Self {
        let pool = driver.registry.host().pool().cloned();
        Self { driver, pool, seen: Mutex::default(), started: Instant::now(), remount: CancellationToken::new() }
    }

    /// Cancelled when the pool has to be mounted again.
    pub(super) fn remount(&self) -> CancellationToken {
        self.remount.clone()
    }

    /// The state of the pool, if there is one.
    pub(super) fn status(&self) -> Option<StorageStatus> {
        let seen = self.seen();
        let state = seen.state.as_ref()?;
        Some(StorageStatus {
            state: name(state).to_owned(),
            free_mb: state.tightest.free / MIB,
            reserve_mb: state.tightest.reserve / MIB,
            clamped: seen.clamped.len() as u64,
        })
    }

    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let Some(pool) = self.pool.clone() else { return stop.cancelled().await };
        loop {
            let wait = match pool.state().await {
                Ok(state) => self.act(&pool, state).await,
                Err(error) => {
                    tracing::warn!(error = chain(&error), "could not look at the space of the pool");
                    EVERY
                }
            };
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
        }
    }

    /// Does what the state asks for, and returns when to look again.
    async fn act(&self, pool: &Pool, state: PoolState) -> Duration {
        let before = self.seen().state.replace(state.clone());
        if before.as_ref().map(name) != Some(name(&state)) {
            report(&state, before.is_none());
        }
        if state.read_only {
            if state.can_remount && self.started.elapsed() > REMOUNT_AFTER && !self.remount.is_cancelled() {
                tracing::warn!(
                    "the pool is read-only and there is space again: ending its sandboxes and mounting it again"
                );
                self.remount.cancel();
            }
        } else if self.is_well_for_long(&state) {
            self.lift(pool).await;
        } else if state.is_low() {
            self.clamp(pool, state.tightest.reserve).await;
        }
        next_look(&state)
    }

    fn is_well_for_long(&self, state: &PoolState) -> bool {
        let mut seen = self.seen();
        seen.well_since = if state.is_well() { seen.well_since.or_else(|| Some(Instant::now())) } else { None };
        seen.well_since.is_some_and(|since| since.elapsed() >= LIFT_AFTER)
    }

    /// Limits the disks of running sandboxes to little more than what they use.
    async fn clamp(&self, pool: &Pool, reserve: u64) {
        let running = self.driver.registry.running();
        let more = (reserve / 2 / (running.len() as u64).max(1)).clamp(LEAST_MORE, MOST_MORE);
        for (id, resources) in running {
            if self.seen().clamped.contains(&id) {
                continue;
            }
            // One that is being changed is tried again in a moment.
            let Some(_held) = self.driver.registry.get(&id).and_then(|entry| entry.try_hold()) else { continue };
            match pool.clamp_disk(&id, more, u64::from(resources.disk_mb) * MIB).await {
                Ok(limit) => {
                    self.seen().clamped.insert(id.clone());
                    tracing::warn!(sandbox = %id, limit_mb = limit / MIB, "the pool is nearly full: limited the sandbox's disk");
                    self.note(id, "disk_clamped", limit / MIB).await;
                }
                Err(error) => {
                    tracing::warn!(sandbox = %id, error = chain(&error), "could not limit the disk of the sandbox");
                }
            }
        }
    }

    /// Gives clamped disks their own limits back.
    async fn lift(&self, pool: &Pool) {
        let clamped: Vec<SandboxId> = self.seen().clamped.iter().cloned().collect();
        for id in clamped {
            let lifted = match self.driver.registry.get(&id) {
                None => true,
                Some(entry) => match entry.try_hold() {
                    None => false,
                    Some(_held) => self.lift_one(pool, &id).await,
                },
            };
            if lifted {
                self.seen().clamped.remove(&id);
            }
        }
    }

    async fn lift_one(&self, pool: &Pool, id: &SandboxId) -> bool {
        let sandbox = match self.driver.store.sandbox(id).await {
            Ok(Some(sandbox)) => sandbox,
            // A build sandbox: its step is short.
            Ok(None) => return true,
            Err(_) => return false,
        };
        let limit_mb = u64::from(sandbox.resources.disk_mb);
        if let Err(error) = pool.resize_disk(id, limit_mb * MIB).await {
            tracing::warn!(sandbox = %id, error = chain(&error), "could not give the sandbox's disk its limit back; retrying");
            return false;
        }
        tracing::info!(sandbox = %id, limit_mb, "the sandbox's disk has its own limit again");
        self.note(id.clone(), "disk_unclamped", limit_mb).await;
        true
    }

    async fn note(&self, id: SandboxId, reason: &'static str, limit_mb: u64) {
        let details = serde_json::json!({ "diskSizeMB": limit_mb });
        // Of a build sandbox there is nothing to write, and on a full disk it cannot be written.
        if let Err(error) = self.driver.store.note(id.clone(), reason, details, Timestamp::now()).await {
            tracing::debug!(sandbox = %id, error = chain(&error), "could not record the limit of the disk");
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to look again.
fn next_look(state: &PoolState) -> Duration {
    if state.read_only || state.is_low() {
        return LOW;
    }
    let left = state.tightest.free.saturating_sub(state.tightest.reserve);
    Duration::from_millis(left.saturating_mul(1000) / FASTEST).clamp(QUICKEST, EVERY)
}

fn name(state: &PoolState) -> &'static str {
    match state {
        PoolState { read_only: true, .. } => "read_only",
        state if state.is_low() => "low",
        _ => "ok",
    }
}

fn report(state: &PoolState, first: bool) {
    let (free_mb, reserve_mb) = (state.tightest.free / MIB, state.tightest.reserve / MIB);
    match name(state) {
        "read_only" => tracing::error!(
            free_mb,
            "the pool has become read-only: no sandbox can write or be created; free some space on the disk of the data \
             directory, then the server mounts it again"
        ),
        "low" => tracing::warn!(
            free_mb,
            reserve_mb,
            "little space is left: no sandbox is created, and running ones can write little; free some space"
        ),
        _ if !first => tracing::info!(free_mb, "the pool can be used again without restrictions"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use cabana_fs::space::Level;

    use super::*;

    #[test]
    fn the_next_look_is_before_the_reserve_can_be_taken() {
        let look = |free: u64, read_only| {
            let tightest = Level { free: free * MIB, reserve: 256 * MIB };
            next_look(&PoolState { read_only, can_remount: false, tightest })
        };
        assert_eq!(look(100_000, false), EVERY);
        assert_eq!(look(256 + 1024, false), Duration::from_millis(250));
        assert_eq!(look(256, false), QUICKEST);
        assert_eq!(look(255, false), LOW);
        assert_eq!(look(100_000, true), LOW);
    }
}
