//! Every sandbox of which something may be in the world, in memory, and which of them take one of the places for those that are up.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_types::SandboxId;
use tokio_util::sync::CancellationToken;

use super::usage::Meter;

/// One such sandbox.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Held by whoever asks the backend about it: one at a time.
    pub(super) lock: tokio::sync::Mutex<()>,
    /// Cancelled when its creation is over, one way or the other.
    pub(super) settled: CancellationToken,
    /// Cancelled when its removal was tried once, or nothing of it is left.
    pub(super) attempted: CancellationToken,
    /// What it used since it came up, or since this server took it over.
    pub(super) meter: Mutex<Option<Meter>>,
    /// Stops work under way that takes long, when somebody wants something else of the sandbox.
    interrupt: Mutex<CancellationToken>,
    /// How many do, and have not got the lock yet.
    wanted: AtomicUsize,
    /// Cancelled when it is to be removed.
    pub(super) doomed: CancellationToken,
}

impl Entry {
    /// A token for work that takes long. It is cancelled already if somebody waits for the work's end.
    pub(super) fn interruptible(&self) -> CancellationToken {
        let mut interrupt = self.interrupt.lock().unwrap_or_else(PoisonError::into_inner);
        if self.wanted.load(Ordering::SeqCst) == 0 && !self.doomed.is_cancelled() {
            if interrupt.is_cancelled() {
                *interrupt = CancellationToken::new();
            }
        } else {
            interrupt.cancel();
        }
        interrupt.clone()
    }

    /// Takes the lock for something else than what is under way, which is stopped if it takes long.
    pub(super) async fn take(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        let wanting = Wanting(&self.wanted);
        self.interrupt();
        let held = self.lock.lock().await;
        drop(wanting);
        held
    }

    /// Stops such work.
    pub(super) fn interrupt(&self) {
        self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }
}

/// Somebody who wants the lock, also if given up.
struct Wanting<'a>(&'a AtomicUsize);

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Registry {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    entries: HashMap<SandboxId, Arc<Entry>>,
    /// Those that are up, coming up or lying down.
    placed: HashSet<SandboxId>,
}

impl Registry {
    /// Makes an entry for a new sandbox, or gives a place to one that wakes, if there is room.
    pub(super) fn reserve(&self, id: &SandboxId, limit: u32) -> Option<Arc<Entry>> {
        let mut known = self.known();
        if !known.placed.contains(id) && known.placed.len() >= limit as usize {
            return None;
        }
        known.placed.insert(id.clone());
        Some(Arc::clone(known.entries.entry(id.clone()).or_default()))
    }

    /// Gives a place to a sandbox that is up already, whether there is room or not.
    pub(super) fn place(&self, id: &SandboxId) {
        self.known().placed.insert(id.clone());
    }

    /// Takes the place of a sandbox that sleeps or failed.
    pub(super) fn vacate(&self, id: &SandboxId) {
        self.known().placed.remove(id);
    }

    /// The entry of a sandbox that is known to exist.
    pub(super) fn entry(&self, id: &SandboxId) -> Arc<Entry> {
        Arc::clone(self.known().entries.entry(id.clone()).or_default())
    }

    /// The entry, if there is one.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Arc<Entry>> {
        self.known().entries.get(id).cloned()
    }

    /// Every entry.
    pub(super) fn all(&self) -> Vec<(SandboxId, Arc<Entry>)> {
        self.known().entries.iter().map(|(id, entry)| (id.clone(), Arc::clone(entry))).collect()
    }

    /// Nothing of it is left.
    pub(super) fn forget(&self, id: &SandboxId) {
        let mut known = self.known();
        known.placed.remove(id);
        if let Some(entry) = known.entries.remove(id) {
            entry.settled.cancel();
            entry.attempted.cancel();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_comes_before_the_long_work_begins_interrupts_it_too() {
        let entry = Arc::new(Entry::default());
        let held = entry.lock.lock().await;
        assert!(!entry.interruptible().is_cancelled(), "nobody wants anything");
        let other = Arc::clone(&entry);
        let waiting = tokio::spawn(async move { drop(other.take().await) });
        while entry.wanted.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(entry.interruptible().is_cancelled());
        drop(held);
        waiting.await.expect("taken");
        assert!(!entry.interruptible().is_cancelled(), "it was served");
        entry.doomed.cancel();
        assert!(entry.interruptible().is_cancelled(), "one that is to be removed");
    }

    #[tokio::test]
    async fn who_gives_up_waiting_wants_nothing_any_more() {
        let entry = Entry::default();
        let held = entry.lock.lock().await;
        let early = entry.interruptible();
        let gave_up = tokio::time::timeout(std::time::Duration::from_millis(1), entry.take()).await;
        assert!(gave_up.is_err() && early.is_cancelled());
        drop(held);
        assert!(!entry.interruptible().is_cancelled());
    }
}
