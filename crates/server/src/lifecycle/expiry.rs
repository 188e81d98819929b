//! Deadlines of running sandboxes. The store keeps wall-clock times; deadlines are converted to the monotonic clock when they are set, so
//! that a change of the wall clock expires nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_types::SandboxId;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Ordered deadlines, at most one for each sandbox.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    deadlines: Mutex<Deadlines>,
    /// Notified when the first deadline changes.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Deadlines {
    order: BTreeSet<(Instant, SandboxId)>,
    of: HashMap<SandboxId, (Instant, Timestamp)>,
}

impl Expiry {
    /// Sets or moves a deadline. `now` is the wall-clock time at which `end_at` was chosen.
    pub(super) fn set(&self, id: &SandboxId, end_at: Timestamp, now: Timestamp) {
        let left = Duration::try_from(end_at.duration_since(now)).unwrap_or_default();
        self.set_in(id, end_at, left);
    }

    /// Sets a deadline that is `left` from now.
    pub(super) fn set_in(&self, id: &SandboxId, end_at: Timestamp, left: Duration) {
        let at = Instant::now() + left;
        let mut deadlines = self.deadlines();
        if let Some((old, _)) = deadlines.of.insert(id.clone(), (at, end_at)) {
            deadlines.order.remove(&(old, id.clone()));
        }
        deadlines.order.insert((at, id.clone()));
        let is_first = deadlines.order.first().is_some_and(|(first, _)| *first == at);
        drop(deadlines);
        if is_first {
            self.changed.notify_one();
        }
    }

    pub(super) fn remove(&self, id: &SandboxId) {
        let mut deadlines = self.deadlines();
        if let Some((at, _)) = deadlines.of.remove(id) {
            deadlines.order.remove(&(at, id.clone()));
        }
    }

    /// Waits for the first deadline, or until the first deadline changes.
    pub(super) async fn wait(&self) {
        let next = self.next();
        let due = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.changed.notified() => {}
            () = due => {}
        }
    }

    fn next(&self) -> Option<Instant> {
        self.deadlines().order.first().map(|(at, _)| *at)
    }

    /// Removes and returns all deadlines that are reached.
    pub(super) fn due(&self, now: Instant) -> Vec<(SandboxId, Timestamp)> {
        let mut deadlines = self.deadlines();
        let mut due = vec![];
        while let Some((at, id)) = deadlines.order.first().cloned() {
            if at > now {
                break;
            }
            deadlines.order.pop_first();
            if let Some((_, end_at)) = deadlines.of.remove(&id) {
                due.push((id, end_at));
            }
        }
        due
    }

    fn deadlines(&self) -> MutexGuard<'_, Deadlines> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A time that is `seconds` later. The limits of timeouts keep it far from the greatest time.
pub(super) fn later(at: Timestamp, seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    at.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> SandboxId {
        SandboxId::from_random([n; 20])
    }

    #[tokio::test(start_paused = true)]
    async fn each_sandbox_has_its_last_deadline_only() {
        let expiry = Expiry::default();
        let now = Timestamp::now();
        let at = |seconds| later(now, seconds);
        expiry.set(&id(1), at(10), now);
        expiry.set(&id(2), at(20), now);
        expiry.set(&id(1), at(30), now);
        expiry.set(&id(3), at(5), now);
        expiry.remove(&id(3));
        let due = |seconds| expiry.due(Instant::now() + Duration::from_secs(seconds));
        assert_eq!(due(15), []);
        assert_eq!(due(25), [(id(2), at(20))]);
        assert_eq!(due(99), [(id(1), at(30))]);
        assert_eq!(expiry.next(), None);
        assert!(expiry.deadlines().of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_past_deadline_is_due_at_once() {
        let expiry = Expiry::default();
        let now = Timestamp::now();
        expiry.set(&id(1), Timestamp::UNIX_EPOCH, now);
        assert_eq!(expiry.due(Instant::now()).len(), 1);
    }
}
