//! All sandboxes that may have resources on the host, and which of them count towards the limit of running sandboxes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_types::wire::CapacityStatus;
use cabana_types::{Resources, SandboxId};

use super::entry::Entry;
use super::held::Host;
use crate::config;
use crate::resource_limits::machine_memory_mb;

/// Entries of all sandboxes that have not ended, and of build sandboxes.
#[derive(Debug)]
pub(super) struct Registry {
    host: Host,
    limits: CapacityLimits,
    known: Mutex<Known>,
}

/// What running sandboxes may take together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CapacityLimits {
    /// Their number.
    pub(super) sandboxes: u32,
    /// Their memory limits, MiB; 0 for any.
    pub(super) memory_mb: u64,
    /// Their disk limits, MiB; 0 for any.
    pub(super) disk_mb: u64,
}

impl CapacityLimits {
    /// What they may take on this machine, with a pool of this size.
    pub(super) fn new(limits: &config::Limits, pool_bytes: Option<u64>) -> Self {
        let times = |factor: u32, mb: u64| u64::from(factor).saturating_mul(mb);
        Self {
            sandboxes: limits.max_sandboxes,
            memory_mb: times(limits.memory_overcommit, machine_memory_mb().into()),
            disk_mb: times(limits.disk_overcommit, pool_bytes.unwrap_or(0) >> 20),
        }
    }
}

/// Why no further sandbox may run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// As many run as may.
    #[error("all {limit} sandboxes that this server allows are in use; kill one, or raise limits.max_sandboxes")]
    Sandboxes {
        /// Their number.
        limit: u32,
    },
    /// The limits of those that run add up to all that is allowed.
    #[error(
        "the running sandboxes may use {reserved} of {limit} MiB of {what} together, and this one asks for {wanted} MiB; kill \
         one, ask for less, or raise limits.{setting}"
    )]
    Overcommitted {
        /// Memory or disk.
        what: &'static str,
        /// The setting that allows more.
        setting: &'static str,
        /// What the sandbox asks for, MiB.
        wanted: u64,
        /// What the others may use, MiB.
        reserved: u64,
        /// What all may use, MiB.
        limit: u64,
    },
}

#[derive(Debug, Default)]
struct Known {
    entries: HashMap<SandboxId, Arc<Entry>>,
    /// Those that run, start or are being paused, and what they may use.
    running: HashMap<SandboxId, Resources>,
}

impl Registry {
    pub(super) fn new(host: Host, limits: CapacityLimits) -> Self {
        Self { host, limits, known: Mutex::default() }
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Limit of running sandboxes.
    pub(super) fn limit(&self) -> u32 {
        self.limits.sandboxes
    }

    /// Reserves capacity for a sandbox that is to run, and registers it if it is new.
    pub(super) fn reserve(&self, id: &SandboxId, resources: Resources) -> Result<Arc<Entry>, Shortage> {
        let mut known = self.known();
        let limits = &self.limits;
        if !known.running.contains_key(id) && known.running.len() >= limits.sandboxes as usize {
            return Err(Shortage::Sandboxes { limit: limits.sandboxes });
        }
        known.check(id, resources, limits)?;
        known.running.insert(id.clone(), resources);
        Ok(self.entry_in(&mut known, id))
    }

    /// Reserves what a sandbox needs for new limits, if it runs.
    pub(super) fn resize(&self, id: &SandboxId, resources: Resources) -> Result<(), Shortage> {
        let mut known = self.known();
        if known.running.contains_key(id) {
            known.check(id, resources, &self.limits)?;
            known.running.insert(id.clone(), resources);
        }
        Ok(())
    }

    /// Counts a sandbox that runs already, even beyond the limit.
    pub(super) fn count_running(&self, id: &SandboxId, resources: Resources) {
        self.known().running.insert(id.clone(), resources);
    }

    /// The sandboxes that run, start or are being paused, and what they may use.
    pub(super) fn running(&self) -> Vec<(SandboxId, Resources)> {
        self.known().running.iter().map(|(id, resources)| (id.clone(), *resources)).collect()
    }

    /// What running sandboxes may use together.
    pub(super) fn capacity(&self) -> CapacityStatus {
        let known = self.known();
        CapacityStatus {
            memory_mb: known.sum(None, |resources| resources.memory_mb),
            memory_limit_mb: self.limits.memory_mb,
            disk_mb: known.sum(None, |resources| resources.disk_mb),
            disk_limit_mb: self.limits.disk_mb,
        }
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

impl Known {
    /// Whether all limits together stay within what is allowed. A sandbox that asks for no more than it has is never refused.
    fn check(&self, id: &SandboxId, wanted: Resources, limits: &CapacityLimits) -> Result<(), Shortage> {
        type Amount = fn(&Resources) -> u32;
        let amounts: [(_, _, Amount, _); 2] = [
            ("memory", "memory_overcommit", |resources| resources.memory_mb, limits.memory_mb),
            ("disk", "disk_overcommit", |resources| resources.disk_mb, limits.disk_mb),
        ];
        for (what, setting, amount, limit) in amounts {
            let (reserved, wanted) = (self.sum(Some(id), amount), amount(&wanted));
            let has = self.running.get(id).map_or(0, amount);
            if limit > 0 && wanted > has && reserved.saturating_add(wanted.into()) > limit {
                return Err(Shortage::Overcommitted { what, setting, wanted: wanted.into(), reserved, limit });
            }
        }
        Ok(())
    }

    /// What all running sandboxes but one may use.
    fn sum(&self, but: Option<&SandboxId>, amount: impl Fn(&Resources) -> u32) -> u64 {
        let others = self.running.iter().filter(|(id, _)| Some(*id) != but);
        others.map(|(_, resources)| u64::from(amount(resources))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(sizes: &[(u8, u32, u32)]) -> Known {
        let running = sizes.iter().map(|(n, memory, disk)| (id(*n), resources(*memory, *disk))).collect();
        Known { running, ..Known::default() }
    }

    fn id(n: u8) -> SandboxId {
        SandboxId::from_random([n; 20])
    }

    fn resources(memory_mb: u32, disk_mb: u32) -> Resources {
        Resources { cpu_count: 1, memory_mb, disk_mb, pids: 100 }
    }

    #[test]
    fn limits_of_running_sandboxes_add_up() {
        let limits = CapacityLimits { sandboxes: 9, memory_mb: 1000, disk_mb: 5000 };
        let known = known(&[(1, 600, 1000), (2, 300, 3000)]);
        assert_eq!(known.check(&id(3), resources(100, 1000), &limits), Ok(()));
        let refused = known.check(&id(3), resources(101, 10), &limits).expect_err("memory");
        assert!(refused.to_string().contains("900 of 1000 MiB of memory"), "{refused}");
        let refused = known.check(&id(3), resources(10, 1001), &limits).expect_err("disk");
        assert!(refused.to_string().contains("limits.disk_overcommit"), "{refused}");
        // One that runs is counted once, and may always become smaller.
        assert_eq!(known.check(&id(2), resources(400, 4000), &limits), Ok(()));
        assert!(known.check(&id(2), resources(401, 10), &limits).is_err());
        let less = CapacityLimits { sandboxes: 9, memory_mb: 500, disk_mb: 0 };
        assert_eq!(known.check(&id(1), resources(550, 99_999), &less), Ok(()));
        assert_eq!(known.check(&id(9), resources(u32::MAX, u32::MAX), &CapacityLimits::default()), Ok(()));
    }
}
