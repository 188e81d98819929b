//! How many connections are open, for each sandbox and in total.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts connections by slot.
#[derive(Debug)]
pub(crate) struct Quota {
    per_sandbox: usize,
    total: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_index: HashMap<u32, usize>,
}

/// One connection that is counted until this is dropped.
pub(crate) struct Permit {
    quota: Arc<Quota>,
    index: u32,
}

impl Quota {
    pub(crate) fn new(per_sandbox: usize, total: usize) -> Arc<Self> {
        Arc::new(Self { per_sandbox, total, counts: Mutex::default() })
    }

    /// `None` if there are too many.
    pub(crate) fn take(self: &Arc<Self>, index: u32) -> Option<Permit> {
        let mut counts = self.lock();
        if counts.total >= self.total || counts.by_index.get(&index).is_some_and(|count| *count >= self.per_sandbox) {
            return None;
        }
        counts.total += 1;
        *counts.by_index.entry(index).or_default() += 1;
        Some(Permit { quota: Arc::clone(self), index })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut counts = self.quota.lock();
        counts.total -= 1;
        if let Some(count) = counts.by_index.get_mut(&self.index) {
            *count -= 1;
            if *count == 0 {
                counts.by_index.remove(&self.index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_given_back() {
        let quota = Quota::new(2, 3);
        let (a, _b) = (quota.take(1).expect("first"), quota.take(1).expect("second"));
        assert!(quota.take(1).is_none());
        let _c = quota.take(2).expect("another sandbox");
        assert!(quota.take(3).is_none(), "in total");
        drop(a);
        assert!(quota.take(1).is_some());
        assert_eq!(quota.lock().by_index.len(), 2);
    }
}
