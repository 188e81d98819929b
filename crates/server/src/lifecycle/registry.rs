//! Every sandbox of which something may be in the world, in memory.

use std::collections::HashMap;
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
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: Mutex<HashMap<SandboxId, Arc<Entry>>>,
}

impl Registry {
    /// Makes an entry for a new sandbox, if there is room.
    pub(super) fn reserve(&self, id: &SandboxId, limit: u32) -> Option<Arc<Entry>> {
        let mut entries = self.entries();
        if entries.len() >= limit as usize {
            return None;
        }
        Some(Arc::clone(entries.entry(id.clone()).or_default()))
    }

    /// The entry of a sandbox that is known to exist.
    pub(super) fn entry(&self, id: &SandboxId) -> Arc<Entry> {
        Arc::clone(self.entries().entry(id.clone()).or_default())
    }

    /// The entry, if there is one.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Arc<Entry>> {
        self.entries().get(id).cloned()
    }

    /// Every entry.
    pub(super) fn all(&self) -> Vec<(SandboxId, Arc<Entry>)> {
        self.entries().iter().map(|(id, entry)| (id.clone(), Arc::clone(entry))).collect()
    }

    /// Nothing of it is left.
    pub(super) fn forget(&self, id: &SandboxId) {
        if let Some(entry) = self.entries().remove(id) {
            entry.settled.cancel();
            entry.attempted.cancel();
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
