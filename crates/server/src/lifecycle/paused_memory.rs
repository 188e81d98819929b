//! The budget for sandboxes that are paused with their memory in RAM: how many there are and how much they use. Both are limited, because
//! a frozen sandbox returns nothing to the host.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_store::Sandbox;
use cabana_types::SandboxId;

use super::held::Held;
use crate::config;
use crate::resource_limits::machine_memory_mb;

/// Timeout of one measurement.
const LIMIT: Duration = Duration::from_secs(5);
const MIB: u64 = 1024 * 1024;

/// Memory of sandboxes that are paused, or are being paused, with their memory in RAM.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    max_count: usize,
    max_bytes: u64,
    /// Whether memory of paused sandboxes is reclaimed.
    reclaim: bool,
    reserved: Mutex<HashMap<SandboxId, u64>>,
}

/// Why a sandbox cannot be paused with its memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// Too many sandboxes are.
    #[error("the limit of sandboxes that are paused with their memory is reached: {limit} (pause.max_in_memory)")]
    Count {
        /// `pause.max_in_memory`.
        limit: usize,
    },
    /// They would use too much memory.
    #[error(
        "it uses {wanted} MiB, and sandboxes that are paused with their memory use {reserved} of the {limit} MiB allowed \
         (pause.max_memory_mb)"
    )]
    Memory {
        /// What this sandbox uses, MiB.
        wanted: u64,
        /// What the others use, MiB.
        reserved: u64,
        /// `pause.max_memory_mb`.
        limit: u64,
    },
}

impl MemoryBudget {
    pub(super) fn new(pause: &config::Pause) -> Self {
        let max_mib = match pause.max_memory_mb {
            0 => u64::from(machine_memory_mb()) / 2,
            mib => u64::from(mib),
        };
        let max_count = match pause.max_in_memory {
            0 => usize::MAX,
            count => count as usize,
        };
        Self { max_count, max_bytes: max_mib * MIB, reclaim: pause.reclaim_memory, reserved: Mutex::default() }
    }

    /// Reserves what a sandbox uses, if it fits.
    pub(super) async fn reserve(&self, held: &Held, sandbox: &Sandbox) -> Result<(), OverBudget> {
        self.try_reserve(held.id(), measure(held, sandbox).await)
    }

    /// Charges what a frozen sandbox uses, even beyond the budget.
    pub(super) async fn charge(&self, held: &Held, sandbox: &Sandbox) {
        let bytes = measure(held, sandbox).await;
        self.set(held.id(), bytes);
    }

    /// Reclaims memory of a frozen sandbox, if that is enabled.
    pub(super) async fn reclaim(&self, held: &Held) {
        if self.reclaim {
            held.reclaim().await;
        }
    }

    /// Releases what was reserved for a sandbox.
    pub(super) fn release(&self, id: &SandboxId) {
        self.reserved().remove(id);
    }

    /// An earlier reservation of the same sandbox is replaced.
    fn try_reserve(&self, id: &SandboxId, bytes: u64) -> Result<(), OverBudget> {
        let mut reserved = self.reserved();
        let others = reserved.iter().filter(|(other, _)| *other != id);
        let (count, used) = others.fold((0, 0_u64), |(count, used), (_, own)| (count + 1, used.saturating_add(*own)));
        if count >= self.max_count {
            return Err(OverBudget::Count { limit: self.max_count });
        }
        if used.saturating_add(bytes) > self.max_bytes {
            return Err(OverBudget::Memory {
                wanted: bytes.div_ceil(MIB),
                reserved: used.div_ceil(MIB),
                limit: self.max_bytes / MIB,
            });
        }
        reserved.insert(id.clone(), bytes);
        Ok(())
    }

    fn set(&self, id: &SandboxId, bytes: u64) {
        self.reserved().insert(id.clone(), bytes);
    }

    fn reserved(&self) -> MutexGuard<'_, HashMap<SandboxId, u64>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that only the end or the resume of a sandbox returns to the host. One that cannot be measured is taken to use its limit.
async fn measure(held: &Held, sandbox: &Sandbox) -> u64 {
    match tokio::time::timeout(LIMIT, held.stats()).await {
        Ok(Ok(stats)) => stats.memory_used.saturating_add(stats.memory_shared),
        Ok(Err(_)) | Err(_) => u64::from(sandbox.resources.memory_mb) * MIB,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> SandboxId {
        SandboxId::from_random([n; 20])
    }

    fn budget(max_in_memory: u32, max_memory_mb: u32) -> MemoryBudget {
        MemoryBudget::new(&config::Pause { reclaim_memory: false, max_in_memory, max_memory_mb })
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let budget = budget(1, 100);
        assert_eq!(budget.try_reserve(&id(1), 60 * MIB), Ok(()));
        assert_eq!(budget.try_reserve(&id(1), 100 * MIB), Ok(()), "its own reservation is replaced");
        assert_eq!(budget.try_reserve(&id(2), 0), Err(OverBudget::Count { limit: 1 }));
        budget.release(&id(1));
        let refused = OverBudget::Memory { wanted: 101, reserved: 0, limit: 100 };
        assert_eq!(budget.try_reserve(&id(2), 100 * MIB + 1), Err(refused));
        assert_eq!(budget.try_reserve(&id(2), 100 * MIB), Ok(()));
    }

    #[test]
    fn the_default_is_half_of_the_host_and_any_number() {
        let budget = budget(0, 0);
        assert_eq!(budget.max_bytes, u64::from(machine_memory_mb()) / 2 * MIB);
        assert!((0..=u8::MAX).all(|n| budget.try_reserve(&id(n), 0).is_ok()));
    }

    #[derive(Debug, Clone)]
    enum Action {
        Reserve(u8, u64),
        Charge(u8, u64),
        Release(u8),
    }

    fn actions() -> impl Strategy<Value = Action> {
        let (who, bytes) = (0_u8..8, prop_oneof![0..200 * MIB, Just(u64::MAX)]);
        prop_oneof![
            4 => (who.clone(), bytes.clone()).prop_map(|(who, bytes)| Action::Reserve(who, bytes)),
            1 => (who.clone(), bytes).prop_map(|(who, bytes)| Action::Charge(who, bytes)),
            3 => who.prop_map(Action::Release),
        ]
    }

    proptest! {
        /// A reservation succeeds exactly if it keeps within both limits; one that fails changes nothing.
        #[test]
        fn the_limits_hold(actions in proptest::collection::vec(actions(), 0..60), count in 1_u32..6, mib in 1_u32..300) {
            let budget = budget(count, mib);
            let mut model: HashMap<SandboxId, u64> = HashMap::new();
            for action in actions {
                match action {
                    Action::Reserve(who, bytes) => {
                        let mut then = model.clone();
                        then.insert(id(who), bytes);
                        let sum: u128 = then.values().map(|bytes| u128::from(*bytes)).sum();
                        let fits = then.len() <= count as usize && sum <= u128::from(mib) * u128::from(MIB);
                        prop_assert_eq!(budget.try_reserve(&id(who), bytes).is_ok(), fits);
                        if fits {
                            model = then;
                        }
                    }
                    Action::Charge(who, bytes) => {
                        budget.set(&id(who), bytes);
                        model.insert(id(who), bytes);
                    }
                    Action::Release(who) => {
                        budget.release(&id(who));
                        model.remove(&id(who));
                    }
                }
                prop_assert_eq!(&*budget.reserved(), &model);
            }
        }
    }
}
