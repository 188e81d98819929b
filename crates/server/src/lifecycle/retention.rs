//! Retention: archives and later recycles sandboxes that are paused for long, and removes failed ones that are not recovered.

use std::sync::Arc;

use cabana_store::Store;
use cabana_types::error::chain;
use cabana_types::sandbox::{EndCause, Kept, PauseCause, State};
use jiff::{SignedDuration, Timestamp};

use super::driver::Driver;
use super::removal::Remover;
use crate::config;

/// Applies the retention settings.
#[derive(Debug)]
pub(super) struct Retention {
    pub(super) store: Store,
    pub(super) driver: Arc<Driver>,
    pub(super) remover: Arc<Remover>,
    pub(super) config: config::Retention,
}

/// What is due for a sandbox.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Archive,
    Recycle,
    Remove {
        /// Description of its failure.
        after: String,
    },
}

impl Retention {
    /// Does what is due, one sandbox at a time: no client waits for it, and packing uses the disk.
    pub(super) async fn run(&self) {
        let sandboxes = match self.store.live_sandboxes().await {
            Ok(sandboxes) => sandboxes,
            Err(error) => return tracing::warn!(error = chain(&error), "could not look for sandboxes to archive"),
        };
        for sandbox in sandboxes {
            let age = Timestamp::now().duration_since(sandbox.since);
            let Some(due) = due(&sandbox.state, age, &self.config) else { continue };
            if self.driver.tasks.is_stopping() {
                return;
            }
            let id = &sandbox.id;
            tracing::info!(sandbox = %id, ?due, "applying retention");
            let why = match &sandbox.state {
                State::Paused { why, .. } => why.clone(),
                _ => PauseCause::Timeout,
            };
            let done = match due {
                Due::Archive => self.driver.archive(id, true, why).await.map(drop).map_err(|e| chain(&e)),
                Due::Recycle => self.driver.archive(id, false, why).await.map(drop).map_err(|e| chain(&e)),
                Due::Remove { after } => {
                    self.remover.kill(id, EndCause::Abandoned { after }).await.map_err(|e| chain(&e))
                }
            };
            if let Err(error) = done {
                tracing::warn!(sandbox = %id, error, "could not apply retention; retrying later");
            }
        }
    }
}

/// What is due for a sandbox that is in its state for this long.
fn due(state: &State, age: SignedDuration, retention: &config::Retention) -> Option<Due> {
    let days = |days: u32| days > 0 && age >= SignedDuration::from_hours(i64::from(days) * 24);
    match state {
        State::Paused { kept: Kept::Archive { whole: false, .. }, .. } => None,
        State::Paused { .. } if days(retention.recycle_after_days) => Some(Due::Recycle),
        State::Paused { kept: Kept::Ram | Kept::Checkpoint { .. } | Kept::Disk, .. }
            if days(retention.archive_after_days) =>
        {
            Some(Due::Archive)
        }
        State::Failed { cause } if age >= SignedDuration::from_hours(i64::from(retention.failed_hours)) => {
            Some(Due::Remove { after: cause.describe() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    fn retention(archive: u32, recycle: u32, failed_hours: u32) -> config::Retention {
        config::Retention {
            tombstone_days: 7,
            archive_after_days: archive,
            recycle_after_days: recycle,
            failed_hours,
            audit_days: 0,
        }
    }

    fn paused(kept: Kept) -> State {
        State::Paused { kept, why: PauseCause::Idle }
    }

    fn archived(whole: bool) -> State {
        paused(Kept::Archive { generation: 1, whole })
    }

    fn failed() -> State {
        State::Failed { cause: EndCause::GuestDied }
    }

    fn after(seconds: i64, state: State, retention: &config::Retention) -> Option<Due> {
        due(&state, SignedDuration::from_secs(seconds), retention)
    }

    #[test]
    fn each_is_due_at_its_time_and_not_a_second_before() {
        let both = retention(3, 10, 24);
        for kept in [Kept::Ram, Kept::Checkpoint { generation: 1 }, Kept::Disk] {
            assert_eq!(after(3 * DAY - 1, paused(kept), &both), None);
            assert_eq!(after(3 * DAY, paused(kept), &both), Some(Due::Archive));
            assert_eq!(after(10 * DAY - 1, paused(kept), &both), Some(Due::Archive));
            assert_eq!(
                after(10 * DAY, paused(kept), &both),
                Some(Due::Recycle),
                "one that could not be archived before"
            );
        }
        assert_eq!(after(24 * 3600 - 1, failed(), &both), None);
        let gone = Due::Remove { after: EndCause::GuestDied.describe() };
        assert_eq!(after(24 * 3600, failed(), &both), Some(gone));
    }

    #[test]
    fn what_is_archived_is_recycled_next_and_nothing_after() {
        let both = retention(3, 10, 24);
        assert_eq!(after(10 * DAY - 1, archived(true), &both), None, "it is not archived twice");
        assert_eq!(after(10 * DAY, archived(true), &both), Some(Due::Recycle));
        assert_eq!(after(10_000 * DAY, archived(false), &both), None);
        // If recycling comes first, there is no archiving.
        assert_eq!(after(5 * DAY, paused(Kept::Disk), &retention(20, 5, 24)), Some(Due::Recycle));
    }

    #[test]
    fn zero_means_never_for_paused_sandboxes() {
        for kept in [Kept::Ram, Kept::Disk, Kept::Archive { generation: 1, whole: true }] {
            assert_eq!(after(10_000 * DAY, paused(kept), &retention(0, 0, 24)), None);
        }
        assert_eq!(after(10_000 * DAY, paused(Kept::Disk), &retention(1, 0, 24)), Some(Due::Archive));
        assert_eq!(after(10_000 * DAY, archived(true), &retention(1, 0, 24)), None);
        assert!(after(0, failed(), &retention(0, 0, 0)).is_some(), "a failed one is removed at once");
    }

    #[test]
    fn running_and_unsettled_sandboxes_are_left_alone() {
        let at_once = retention(1, 1, 0);
        let why = || PauseCause::Timeout;
        for state in [
            State::Creating,
            State::Running,
            State::Pausing { to: Kept::Disk, why: why() },
            State::Resuming { from: Kept::Disk, why: why() },
            State::Archiving { generation: 1, whole: true, why: why() },
            State::Ending { cause: EndCause::Expired },
            State::Ended { cause: EndCause::Expired },
        ] {
            assert_eq!(after(10_000 * DAY, state.clone(), &at_once), None, "{}", state.name());
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_due() {
        assert_eq!(after(-DAY, paused(Kept::Disk), &retention(1, 1, 0)), None);
        assert_eq!(after(-DAY, failed(), &retention(1, 1, 0)), None);
    }
}
