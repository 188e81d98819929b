//! Rate limits in constant memory: each client has a budget that refills steadily.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Parts of the table, each with its own lock.
const SHARDS: usize = 16;
/// Clients that are remembered per part.
const MAX_CLIENTS: usize = 1024;

/// Allows each client a number of requests at once, and as many again in every window.
#[derive(Debug)]
pub struct RateLimit<K> {
    /// Nanoseconds in which one request is earned back.
    each: u64,
    /// Nanoseconds in which all of them are.
    window: u64,
    started: Instant,
    hasher: RandomState,
    /// Nanoseconds since `started` at which a client has its whole budget again. A client that is not listed has it.
    shards: [Mutex<HashMap<K, u64>>; SHARDS],
}

/// Too many requests; how many seconds to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany {
    pub retry_after: u64,
}

impl<K: Hash + Eq + Clone> RateLimit<K> {
    /// A limit of `requests` in `window`; `None` for 0 requests.
    pub fn new(requests: u32, window: Duration) -> Option<Self> {
        let window = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let each = window.checked_div(requests.into())?.max(1);
        let shards = std::array::from_fn(|_| Mutex::default());
        Some(Self { each, window, started: Instant::now(), hasher: RandomState::new(), shards })
    }

    /// Counts one request of a client.
    pub fn check(&self, client: &K) -> Result<(), TooMany> {
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.check_at(client, now)
    }

    #[allow(clippy::cast_possible_truncation, reason = "less than 16")]
    fn check_at(&self, client: &K, now: u64) -> Result<(), TooMany> {
        let shard = (self.hasher.hash_one(client) % SHARDS as u64) as usize;
        let mut full_at = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        let next = full_at.get(client).copied().unwrap_or(0).max(now).saturating_add(self.each);
        if let Some(over) = next.checked_sub(now.saturating_add(self.window)).filter(|over| *over > 0) {
            return Err(TooMany { retry_after: over.div_ceil(1_000_000_000) });
        }
        if full_at.len() >= MAX_CLIENTS && !full_at.contains_key(client) {
            make_room(&mut full_at, now);
        }
        full_at.insert(client.clone(), next);
        Ok(())
    }
}

/// Forgets clients with their whole budget, and of the others the quarter that used least.
fn make_room<K: Hash + Eq + Clone>(full_at: &mut HashMap<K, u64>, now: u64) {
    full_at.retain(|_, at| *at > now);
    if full_at.len() >= MAX_CLIENTS {
        let mut times: Vec<u64> = full_at.values().copied().collect();
        let (_, quarter, _) = times.select_nth_unstable(MAX_CLIENTS / 4);
        let quarter = *quarter;
        full_at.retain(|_, at| *at > quarter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_budget_is_spent_at_once_and_earned_back_steadily() {
        let limit = RateLimit::new(10, Duration::from_secs(20)).expect("a limit");
        for _ in 0..10 {
            assert_eq!(limit.check_at(&1, 0), Ok(()));
        }
        assert_eq!(limit.check_at(&1, 0), Err(TooMany { retry_after: 2 }));
        assert_eq!(limit.check_at(&2, 0), Ok(()), "another client");
        assert_eq!(limit.check_at(&1, SECOND), Err(TooMany { retry_after: 1 }));
        assert_eq!(limit.check_at(&1, 2 * SECOND), Ok(()), "as announced");
        assert!(limit.check_at(&1, 2 * SECOND).is_err());
        let allowed = (0..20).filter(|_| limit.check_at(&1, 60 * SECOND).is_ok()).count();
        assert_eq!(allowed, 10, "no more than the budget is saved up");
        assert!(RateLimit::<u8>::new(0, Duration::from_secs(1)).is_none());
    }

    #[test]
    fn many_clients_need_little_memory_and_free_nobody() {
        let limit = RateLimit::new(3, Duration::from_secs(60)).expect("a limit");
        let hostile = u64::MAX;
        while limit.check_at(&hostile, 0).is_ok() {}
        for client in 0..100_000 {
            assert!(limit.check_at(&client, 0).is_ok());
        }
        let known: usize = limit.shards.iter().map(|shard| shard.lock().expect("lock").len()).sum();
        assert!(known <= SHARDS * MAX_CLIENTS, "{known}");
        assert!(limit.check_at(&hostile, 0).is_err(), "those who used most are remembered");
    }
}
