//! All sandboxes that may have resources on the host, and which of them count towards the limit of running sandboxes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_types::SandboxId;

use super::entry::Entry;
use super::held::Host;

/// Entries of all sandboxes that have not ended, and of build sandboxes.
#[derive(Debug)]
pub(super) struct Registry {
    host: Host,
    /// Limit of running sandboxes.
    limit: u32,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    entries: HashMap<SandboxId, Arc<Entry>>,
    /// Those that run, start or are being paused.
    running: HashSet<SandboxId>,
}

impl Registry {
    pub(super) fn new(host: Host, limit: u32) -> Self {
        Self { host, limit, known: Mutex::default() }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Limit of running sandboxes.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Reserves capacity for a sandbox that is to run, and registers it if it is new. `None` if the limit is reached.
    pub(super) fn reserve(&self, id: &SandboxId) -> Option<Arc<Entry>> {
        let mut known = self.known();
        if !known.running.contains(id) && known.running.len() >= self.limit as usize {
            return None;
        }
        known.running.insert(id.clone());
        Some(self.entry_in(&mut known, id))
    }

    /// Counts a sandbox that runs already, even beyond the limit.
    pub(super) fn count_running(&self, id: &SandboxId) {
        self.known().running.insert(id.clone());
    }

    /// Releases the capacity of a sandbox that is paused or failed.
    pub(super) fn release(&self, id: &SandboxId) {
        self.known().running.remove(id);
    }

    /// The entry of a sandbox that has not ended; registers it if needed.
    pub(super) fn entry(&self, id: &SandboxId) -> Arc<Entry> {
        self.entry_in(&mut self.known(), id)
    }

    /// The entry, if the sandbox is registered.
    pub(super) fn get(&self, id: &SandboxId) -> Option<Arc<Entry>> {
        self.known().entries.get(id).cloned()
    }

    /// An entry for something on the host that belongs to no sandbox. It is not registered, so no one else acts on it.
    pub(super) fn orphan(&self, id: &SandboxId) -> Arc<Entry> {
        Arc::new(Entry::new(id.clone(), self.host.clone()))
    }

    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.known().entries.values().cloned().collect()
    }

    /// Removes a sandbox that has nothing left on the host.
    pub(super) fn remove(&self, id: &SandboxId) {
        let mut known = self.known();
        known.running.remove(id);
        if let Some(entry) = known.entries.remove(id) {
            entry.created.set();
            entry.removal_attempted.set();
        }
    }

    fn entry_in(&self, known: &mut Known, id: &SandboxId) -> Arc<Entry> {
        let entry = || Arc::new(Entry::new(id.clone(), self.host.clone()));
        Arc::clone(known.entries.entry(id.clone()).or_insert_with(entry))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
