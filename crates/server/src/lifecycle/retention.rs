//! What becomes of sandboxes that nobody has touched for long: they are archived, later recycled, and failed ones are given up.

use std::sync::Arc;

use cabana_runtime::error::chain;
use cabana_store::Sandbox;
use cabana_types::sandbox::{EndCause, PauseCause, Rest, State};
use jiff::{SignedDuration, Timestamp};

use super::Lifecycle;
use crate::config::Retention;

/// What is due for a sandbox.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// Its disk goes to cold storage.
    Archive,
    /// Only what its owner marked is kept.
    Recycle,
    /// It is removed.
    Remove {
        /// How it failed.
        after: String,
    },
}

impl Lifecycle {
    /// Does what is due. One at a time: nobody waits for it, and packing keeps a disk busy.
    pub(super) async fn retire(self: &Arc<Self>) {
        let living = match self.store.living().await {
            Ok(living) => living,
            Err(error) => return tracing::warn!(error = chain(&error), "could not look for sandboxes to archive"),
        };
        for sandbox in living {
            let Some(due) = due(&sandbox, &self.retention, Timestamp::now()) else { continue };
            if self.stopping.is_cancelled() {
                return;
            }
            let id = &sandbox.id;
            tracing::info!(sandbox = %id, ?due, "nobody has touched a sandbox for long");
            let why = match &sandbox.state {
                State::Paused { why, .. } => why.clone(),
                _ => PauseCause::Timeout,
            };
            let done = match due {
                Due::Archive => self.archive(id, true, why).await.map(drop).map_err(|e| chain(&e)),
                Due::Recycle => self.archive(id, false, why).await.map(drop).map_err(|e| chain(&e)),
                Due::Remove { after } => self.kill(id, EndCause::Abandoned { after }).await.map_err(|e| chain(&e)),
            };
            if let Err(error) = done {
                tracing::warn!(sandbox = %id, error, "could not retire a sandbox; the next round tries again");
            }
        }
    }
}

fn due(sandbox: &Sandbox, retention: &Retention, now: Timestamp) -> Option<Due> {
    let age = now.duration_since(sandbox.since);
    let days = |days: u32| days > 0 && age >= SignedDuration::from_hours(i64::from(days) * 24);
    match &sandbox.state {
        State::Paused { rest: Rest::Archive { whole: false, .. }, .. } => None,
        State::Paused { .. } if days(retention.recycle_after_days) => Some(Due::Recycle),
        State::Paused { rest: Rest::Memory | Rest::Disk, .. } if days(retention.archive_after_days) => {
            Some(Due::Archive)
        }
        State::Failed { cause } if age >= SignedDuration::from_hours(i64::from(retention.failed_hours)) => {
            Some(Due::Remove { after: cause.describe() })
        }
        _ => None,
    }
}
