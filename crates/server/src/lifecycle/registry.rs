//! Every sandbox of which something may be in the world, in memory, and which of them take one of the places for those that are up.

use std::collections::{HashMap, HashSet};
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
    /// Cancelled when it is to be removed.
    pub(super) doomed: CancellationToken,
}

impl Entry {
    /// A token for work that takes long.
    pub(super) fn interruptible(&self) -> CancellationToken {
        let mut interrupt = self.interrupt.lock().unwrap_or_else(PoisonError::into_inner);
        if interrupt.is_cancelled() {
            *interrupt = CancellationToken::new();
        }
        interrupt.clone()
    }

    /// Stops such work.
    pub(super) fn interrupt(&self) {
        self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).cancel();
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
