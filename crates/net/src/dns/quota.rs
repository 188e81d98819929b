//! Concurrency limits per sandbox and in total.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone)]
pub(super) struct Quota {
    each: usize,
    all: usize,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    each: BTreeMap<u32, usize>,
}

/// A unit of the quota, returned when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    held: Arc<Mutex<Held>>,
    index: u32,
}

impl Quota {
    pub(super) fn new(each: usize, all: usize) -> Quota {
        Quota { each, all, held: Arc::default() }
    }

    /// Takes a unit for a sandbox; `None` if its limit or the total limit is reached.
    pub(super) fn enter(&self, index: u32) -> Option<Permit> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = held.each.get(&index).copied().unwrap_or(0);
        if held.all >= self.all || mine >= self.each {
            return None;
        }
        held.all += 1;
        held.each.insert(index, mine + 1);
        Some(Permit { held: Arc::clone(&self.held), index })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.all -= 1;
        match held.each.get_mut(&self.index) {
            Some(mine) if *mine > 1 => *mine -= 1,
            _ => {
                held.each.remove(&self.index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sandbox_cannot_exhaust_the_quota() {
        let quota = Quota::new(2, 3);
        let first = quota.enter(1).unwrap();
        let _second = quota.enter(1).unwrap();
        assert!(quota.enter(1).is_none());
        let _third = quota.enter(2).unwrap();
        assert!(quota.enter(3).is_none());
        drop(first);
        assert!(quota.enter(3).is_some());
        drop((_second, _third));
        assert_eq!(quota.held.lock().unwrap().all, 0);
        assert!(quota.held.lock().unwrap().each.is_empty());
    }
}
