//! How long the audit log is kept.

use std::path::Path;
use std::time::Duration;

use cabana_store::Store;
use cabana_supervisor::{Restart, Supervisor};
use cabana_types::audit::{Report, SERVER};
use cabana_types::error::chain;
use jiff::{SignedDuration, Timestamp};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// Newer entries are kept whatever somebody asks for.
pub const MIN_DAYS: u32 = 30;
/// Time between two prunings.
const EVERY: Duration = Duration::from_secs(24 * 3600);

/// Keeps pruning the log, supervised.
pub(crate) fn start(supervisor: &Supervisor, store: &Store, days: u32) {
    let store = store.clone();
    supervisor.restart("audit retention", Restart::forever(), move |stop| keep_pruning(store.clone(), days, stop));
}

/// Prunes the log once a day; 0 days: never.
async fn keep_pruning(store: Store, days: u32, stop: CancellationToken) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let now = Timestamp::now();
        let pruned = match days {
            0 => store.delete_pruned_audit().await,
            days => {
                let before = now - SignedDuration::from_hours(24 * i64::from(days));
                store.prune_audit(before, SERVER.into(), now).await.map(drop)
            }
        };
        if let Err(error) = pruned {
            tracing::warn!(error = chain(&error), "could not prune the audit log; retrying later");
        }
    }
}

/// Verifies the audit log in a database file, with or without a server that uses it.
pub async fn verify_file(database: &Path) -> Result<Report, cabana_store::Error> {
    cabana_store::audit::verify_file(database).await
}
