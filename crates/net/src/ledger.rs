//! The state of every slot. Bookkeeping only: the builder and the reaper do the work.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::slot::Slot;
use crate::tenant::Tenant;
use crate::{Counts, Error};

/// The state of a slot; unlisted slots do not exist.
#[derive(Debug)]
enum Entry {
    /// The builder is creating it.
    Building,
    /// In the pool.
    Ready(Slot),
    /// Used by a sandbox. The slot is `None` if an earlier server left a sandbox but not its pin.
    Used { slot: Option<Slot>, tenant: Arc<Tenant> },
    /// The reaper is deleting it.
    Dying,
}

#[derive(Debug)]
struct State {
    entries: BTreeMap<u32, Entry>,
    ready: VecDeque<u32>,
    /// The last allocated index. Indexes are used round-robin, so that an address is reused as late as possible.
    cursor: u32,
    /// Number of callers waiting for a slot.
    waiting: usize,
    closed: bool,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    limit: u32,
    spare: usize,
    state: Mutex<State>,
    changed: Notify,
}

/// Next step for a caller that needs a slot.
#[derive(Debug)]
pub(crate) enum Offer {
    /// Use this one; it is marked as used.
    Slot(Slot),
    /// Build this one; it is marked as building.
    Build(u32),
    /// Wait: one is being built or deleted.
    Wait,
}

impl Ledger {
    pub(crate) fn new(limit: u32, spare: usize) -> Ledger {
        let state = State { entries: BTreeMap::new(), ready: VecDeque::new(), cursor: 0, waiting: 0, closed: false };
        Ledger { limit, spare, state: Mutex::new(state), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code below panics in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a slot that an earlier server left in use.
    pub(crate) fn adopt(&self, index: u32, slot: Option<Slot>, tenant: Arc<Tenant>) {
        let mut state = self.lock();
        state.cursor = state.cursor.max(index);
        state.entries.insert(index, Entry::Used { slot, tenant });
    }

    /// Adds a slot that an earlier server left unused.
    pub(crate) fn stray(&self, index: u32) {
        let mut state = self.lock();
        state.cursor = state.cursor.max(index);
        state.entries.insert(index, Entry::Dying);
    }

    /// Counts a waiting caller until the guard is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.lock().waiting += 1;
        Waiting(self)
    }

    /// Allocates a slot, or says what to do to get one.
    pub(crate) fn request(&self, tenant: &Arc<Tenant>) -> Result<Offer, Error> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        while let Some(index) = state.ready.pop_front() {
            if let Some(entry @ Entry::Ready(_)) = state.entries.get_mut(&index) {
                let used = Entry::Used { slot: None, tenant: Arc::clone(tenant) };
                let Entry::Ready(slot) = std::mem::replace(entry, used) else { unreachable!("matched above") };
                *entry = Entry::Used { slot: Some(slot.clone()), tenant: Arc::clone(tenant) };
                self.changed.notify_waiters();
                return Ok(Offer::Slot(slot));
            }
        }
        if let Some(index) = state.free_index(self.limit) {
            return Ok(Offer::Build(index));
        }
        let moving = state.entries.values().any(|e| matches!(e, Entry::Building | Entry::Dying));
        if moving { Ok(Offer::Wait) } else { Err(Error::Full { limit: self.limit }) }
    }

    /// An index to build for the pool, marked as building; `None` if the pool is full or no index is free.
    pub(crate) fn refill(&self) -> Option<u32> {
        let mut state = self.lock();
        let building = state.entries.values().filter(|e| matches!(e, Entry::Building)).count();
        if state.closed || state.ready.len() + building >= self.spare {
            return None;
        }
        state.free_index(self.limit)
    }

    /// Adds a built slot. `false` if the ledger is closed and the slot must be deleted.
    #[must_use]
    pub(crate) fn built(&self, slot: Slot) -> bool {
        let mut state = self.lock();
        let index = slot.index;
        let wanted = !state.closed;
        if wanted {
            state.entries.insert(index, Entry::Ready(slot));
            state.ready.push_back(index);
        } else {
            state.entries.insert(index, Entry::Dying);
        }
        self.changed.notify_waiters();
        wanted
    }

    /// Marks a slot that could not be finished as dying.
    pub(crate) fn abandon(&self, index: u32) {
        self.lock().entries.insert(index, Entry::Dying);
        self.changed.notify_waiters();
    }

    /// Marks a used slot as dying; `false` if it is not used.
    #[must_use]
    pub(crate) fn release(&self, index: u32) -> bool {
        let mut state = self.lock();
        let Some(entry @ Entry::Used { .. }) = state.entries.get_mut(&index) else { return false };
        *entry = Entry::Dying;
        self.changed.notify_waiters();
        true
    }

    /// Marks surplus slots of the pool as dying: more than the spare ones plus one for each waiting caller.
    #[must_use]
    pub(crate) fn trim(&self) -> Vec<u32> {
        let mut state = self.lock();
        let keep = if state.closed { 0 } else { self.spare + state.waiting };
        let surplus = state.ready.len().saturating_sub(keep);
        let surplus_slots: Vec<u32> = state.ready.drain(..surplus).collect();
        for index in &surplus_slots {
            state.entries.insert(*index, Entry::Dying);
        }
        if surplus > 0 {
            self.changed.notify_waiters();
        }
        surplus_slots
    }

    /// Removes a slot that was deleted or could not be built.
    pub(crate) fn gone(&self, index: u32) {
        self.lock().entries.remove(&index);
        self.changed.notify_waiters();
    }

    /// Stops allocating and building slots.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_waiters();
    }

    /// A used slot.
    pub(crate) fn used(&self, index: u32) -> Option<Slot> {
        match self.lock().entries.get(&index) {
            Some(Entry::Used { slot, .. }) => slot.clone(),
            _ => None,
        }
    }

    /// The sandbox that uses a slot.
    pub(crate) fn tenant(&self, index: u32) -> Option<Arc<Tenant>> {
        match self.lock().entries.get(&index) {
            Some(Entry::Used { tenant, .. }) => Some(Arc::clone(tenant)),
            _ => None,
        }
    }

    /// The used slots.
    pub(crate) fn in_use(&self) -> Vec<(u32, Arc<Tenant>)> {
        let used = |(index, entry): (&u32, &Entry)| match entry {
            Entry::Used { tenant, .. } => Some((*index, Arc::clone(tenant))),
            _ => None,
        };
        self.lock().entries.iter().filter_map(used).collect()
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.lock().entries.values() {
            match entry {
                Entry::Building => counts.building += 1,
                Entry::Ready(_) => counts.ready += 1,
                Entry::Used { .. } => counts.used += 1,
                Entry::Dying => counts.dying += 1,
            }
        }
        counts
    }

    /// Whether nothing is being built or deleted and the pool is full.
    pub(crate) fn at_rest(&self) -> bool {
        let counts = self.counts();
        let room = (self.limit as usize).saturating_sub(counts.used);
        counts.building == 0 && counts.dying == 0 && counts.ready == self.spare.min(room)
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, condition: impl Fn(&Ledger) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition(self) {
                return;
            }
            changed.await;
        }
    }

    /// A future that resolves at the next change after its creation.
    pub(crate) fn change(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }
}

/// A caller that waits for a slot.
#[derive(Debug)]
pub(crate) struct Waiting<'a>(&'a Ledger);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
        self.0.changed.notify_waiters();
    }
}

impl State {
    /// The next free index, marked as building.
    fn free_index(&mut self, limit: u32) -> Option<u32> {
        let from = if self.cursor >= limit { 0 } else { self.cursor };
        let index = (from + 1..=limit).chain(1..=from).find(|index| !self.entries.contains_key(index))?;
        self.entries.insert(index, Entry::Building);
        self.cursor = index;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use cabana_types::SandboxId;
    use proptest::prelude::*;

    use super::*;

    fn slot(index: u32) -> Slot {
        let file = File::open("/dev/null").unwrap();
        let none = Ipv4Addr::UNSPECIFIED;
        Slot { index, netns: Arc::new(file.into()), address: none, gateway: none, dns: none }
    }

    fn tenant() -> Arc<Tenant> {
        Tenant::new(SandboxId::from_random([7; 20]), Arc::default())
    }

    #[test]
    fn indexes_are_reused_as_late_as_possible() {
        let ledger = Ledger::new(3, 0);
        let build = || match ledger.request(&tenant()).unwrap() {
            Offer::Build(index) => index,
            other => panic!("{other:?}"),
        };
        let first = build();
        ledger.gone(first);
        assert_eq!((first, build(), build()), (1, 2, 3));
        assert_eq!(build(), 1);
        assert!(matches!(ledger.request(&tenant()), Ok(Offer::Wait)));
    }

    #[test]
    fn slots_for_waiting_callers_are_not_trimmed() {
        let ledger = Ledger::new(3, 0);
        let waiting = ledger.wait();
        let Offer::Build(index) = ledger.request(&tenant()).unwrap() else { panic!() };
        assert!(ledger.built(slot(index)));
        assert!(ledger.trim().is_empty());
        drop(waiting);
        assert_eq!(ledger.trim(), [index]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Request,
        Refill,
        Built,
        BuildFailed,
        Release(u32),
        Reaped,
        Trim,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Request),
            3 => Just(Step::Refill),
            4 => Just(Step::Built),
            1 => Just(Step::BuildFailed),
            2 => (0..8_u32).prop_map(Step::Release),
            2 => Just(Step::Reaped),
            1 => Just(Step::Trim),
        ]
    }

    proptest! {
        /// For any sequence of operations: a slot has one owner, the limit holds, and the pool reaches its size
        /// once everything in flight is done.
        #[test]
        fn pool_settles(steps in proptest::collection::vec(step(), 0..80), limit in 1..7_u32, spare in 0..5_usize) {
            let spare = spare.min(limit as usize);
            let ledger = Ledger::new(limit, spare);
            let (mut building, mut used, mut dying) = (Vec::new(), Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Request => match ledger.request(&tenant()) {
                        Ok(Offer::Slot(slot)) => {
                            prop_assert!(!used.contains(&slot.index));
                            used.push(slot.index);
                        }
                        Ok(Offer::Build(index)) => building.push(index),
                        Ok(Offer::Wait) => prop_assert!(!building.is_empty() || !dying.is_empty()),
                        Err(Error::Full { .. }) => prop_assert_eq!(used.len(), limit as usize),
                        Err(e) => return Err(TestCaseError::fail(e.to_string())),
                    },
                    Step::Refill => building.extend(ledger.refill()),
                    Step::Built => if let Some(index) = building.pop() {
                        prop_assert!(ledger.built(slot(index)));
                    },
                    Step::BuildFailed => if let Some(index) = building.pop() {
                        ledger.gone(index);
                    },
                    Step::Release(index) => {
                        let was_used = used.contains(&index);
                        prop_assert_eq!(ledger.release(index), was_used);
                        if was_used {
                            used.retain(|i| *i != index);
                            dying.push(index);
                        }
                    }
                    Step::Reaped => if let Some(index) = dying.pop() {
                        ledger.gone(index);
                    },
                    Step::Trim => dying.extend(ledger.trim()),
                }
                let counts = ledger.counts();
                prop_assert!(counts.used + counts.ready + counts.building + counts.dying <= limit as usize);
                prop_assert_eq!((counts.used, counts.building, counts.dying), (used.len(), building.len(), dying.len()));
            }
            for index in building.drain(..) {
                prop_assert!(ledger.built(slot(index)));
            }
            dying.extend(ledger.trim());
            dying.drain(..).for_each(|index| ledger.gone(index));
            while let Some(index) = ledger.refill() {
                prop_assert!(ledger.built(slot(index)));
            }
            prop_assert!(ledger.at_rest());
        }
    }
}
