//! When sandboxes expire. The store keeps wall-clock times; deadlines are counted on the monotonic clock from the moment they are
//! set, so that a step of the wall clock ends nobody.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_types::SandboxId;
use cabana_types::sandbox::State;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Lifecycle;
use crate::failpoint;

/// How soon an expiry is tried again that the store could not write.
const AGAIN: Duration = Duration::from_secs(1);

/// Deadlines in their order: one for each sandbox at most, so it is as large as there are sandboxes.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    deadlines: Mutex<Deadlines>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Deadlines {
    order: BTreeSet<(Instant, SandboxId)>,
    of: HashMap<SandboxId, (Instant, Timestamp)>,
}

impl Expiry {
    /// Sets or moves a deadline. `now` is the wall clock by which `end_at` was chosen.
    pub(super) fn set(&self, id: &SandboxId, end_at: Timestamp, now: Timestamp) {
        let left = Duration::try_from(end_at.duration_since(now)).unwrap_or_default();
        self.set_in(id, end_at, left);
    }

    fn set_in(&self, id: &SandboxId, end_at: Timestamp, left: Duration) {
        let at = Instant::now() + left;
        let mut deadlines = self.deadlines();
        if let Some((old, _)) = deadlines.of.insert(id.clone(), (at, end_at)) {
            deadlines.order.remove(&(old, id.clone()));
        }
        deadlines.order.insert((at, id.clone()));
        let is_first = deadlines.order.first().is_some_and(|(first, _)| *first == at);
        drop(deadlines);
        if is_first {
            self.earlier.notify_one();
        }
    }

    pub(super) fn remove(&self, id: &SandboxId) {
        let mut deadlines = self.deadlines();
        if let Some((at, _)) = deadlines.of.remove(id) {
            deadlines.order.remove(&(at, id.clone()));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.deadlines().order.first().map(|(at, _)| *at)
    }

    /// Takes everything that is due.
    fn due(&self, now: Instant) -> Vec<(SandboxId, Timestamp)> {
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

impl Lifecycle {
    /// Ends what is due, for as long as the server runs.
    pub(super) async fn run_timer(self: Arc<Self>) {
        loop {
            let next = self.expiry.next();
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.expiry.earlier.notified() => {}
                () = due => {
                    for (id, end_at) in self.expiry.due(Instant::now()) {
                        let this = Arc::clone(&self);
                        self.tasks.spawn(async move { this.expire(&id, end_at).await });
                    }
                }
            }
        }
    }

    /// Ends a sandbox whose time is over, unless it got another time meanwhile.
    pub(super) async fn expire(self: &Arc<Self>, id: &SandboxId, due: Timestamp) {
        match self.store.expire(id.clone(), due, Timestamp::now()).await {
            Ok(sandbox) if sandbox.state == State::Running => {
                self.expiry.set(id, sandbox.end_at, Timestamp::now());
            }
            Ok(sandbox) if sandbox.state.cause().is_none() => {
                tracing::info!(sandbox = %id, "expired, pausing");
                failpoint::hit("expire.written");
                let paused = Arc::clone(self).persevere(id.clone());
                let _ = self.tasks.spawn(paused).await;
            }
            Ok(_) => {
                tracing::info!(sandbox = %id, "expired");
                let entry = self.sweep(id);
                let _ = tokio::time::timeout(super::SWEEP_WAIT, entry.attempted.cancelled()).await;
            }
            Err(
                cabana_store::Error::Refused(_)
                | cabana_store::Error::NotRunning { .. }
                | cabana_store::Error::NoSandbox(_),
            ) => {}
            Err(error) => {
                let error = cabana_types::error::chain(&error);
                tracing::error!(sandbox = %id, error, "could not write that a sandbox expired; trying again");
                self.expiry.set_in(id, due, AGAIN);
            }
        }
    }
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
        let at = |seconds| super::super::later(now, seconds);
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
    async fn what_is_past_is_due_at_once() {
        let expiry = Expiry::default();
        let now = Timestamp::now();
        expiry.set(&id(1), Timestamp::UNIX_EPOCH, now);
        assert_eq!(expiry.due(Instant::now()).len(), 1);
    }
}
