//! Who sleeps with its memory, and how much that holds. Both are bounded: what stands still gives nothing back to the machine.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_store::Sandbox;
use cabana_types::SandboxId;

use super::Lifecycle;
use crate::config;
use crate::resource_limits::machine_memory_mb;

/// How long measuring a sandbox may take.
const LIMIT: Duration = Duration::from_secs(5);
const MIB: u64 = 1024 * 1024;

/// Those that sleep with their memory, or are about to.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    /// At most so many.
    most: usize,
    /// They hold at most so many bytes together.
    room: u64,
    held: Mutex<HashMap<SandboxId, u64>>,
}

/// Why a sandbox cannot sleep with its memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverBudget {
    /// Too many do.
    #[error("the limit of sandboxes that are paused with their memory is reached: {limit} (pause.max_in_memory)")]
    Count {
        /// How many.
        limit: usize,
    },
    /// They would hold too much.
    #[error(
        "it uses {wanted} MiB, and sandboxes that are paused with their memory use {held} of the {room} MiB allowed \
         (pause.max_memory_mb)"
    )]
    Memory {
        /// What this one holds, MiB.
        wanted: u64,
        /// What the others do.
        held: u64,
        /// What all may.
        room: u64,
    },
}

impl MemoryBudget {
    pub(super) fn new(pause: &config::Pause) -> Self {
        let room = match pause.max_memory_mb {
            0 => u64::from(machine_memory_mb()) / 2,
            mib => u64::from(mib),
        };
        let most = match pause.max_in_memory {
            0 => usize::MAX,
            most => most as usize,
        };
        Self { most, room: room * MIB, held: Mutex::default() }
    }

    /// Takes a sandbox in, if there is room for it. One that is in already is counted once.
    fn admit(&self, id: &SandboxId, bytes: u64) -> Result<(), OverBudget> {
        let mut held = self.held();
        let others = held.keys().filter(|other| *other != id).count();
        let taken = held.iter().filter(|(other, _)| *other != id).fold(0_u64, |sum, (_, own)| sum.saturating_add(*own));
        if others >= self.most {
            return Err(OverBudget::Count { limit: self.most });
        }
        if taken.saturating_add(bytes) > self.room {
            return Err(OverBudget::Memory {
                wanted: bytes.div_ceil(MIB),
                held: taken.div_ceil(MIB),
                room: self.room / MIB,
            });
        }
        held.insert(id.clone(), bytes);
        Ok(())
    }

    /// Counts one that sleeps there, whether there is room or not.
    fn place(&self, id: &SandboxId, bytes: u64) {
        self.held().insert(id.clone(), bytes);
    }

    /// It is awake, or its memory is gone.
    pub(super) fn leave(&self, id: &SandboxId) {
        self.held().remove(id);
    }

    fn held(&self) -> MutexGuard<'_, HashMap<SandboxId, u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lifecycle {
    /// Makes room for the memory of a sandbox that is to sleep with it. The caller holds the entry's lock.
    pub(super) async fn make_bed(&self, sandbox: &Sandbox) -> Result<(), OverBudget> {
        let bytes = self.memory_of(sandbox).await;
        self.memory_budget.admit(&sandbox.id, bytes)
    }

    /// Counts what a sandbox that stands still holds. The caller holds the entry's lock.
    pub(super) async fn count_memory(&self, sandbox: &Sandbox) {
        let bytes = self.memory_of(sandbox).await;
        self.memory_budget.place(&sandbox.id, bytes);
    }

    /// What it holds that only its end or its waking gives back. One that cannot be measured is taken to hold all that it may.
    async fn memory_of(&self, sandbox: &Sandbox) -> u64 {
        match tokio::time::timeout(LIMIT, self.backend.stats(&sandbox.id)).await {
            Ok(Ok(stats)) => stats.memory_used.saturating_add(stats.memory_shared),
            Ok(Err(_)) | Err(_) => u64::from(sandbox.resources.memory_mb) * MIB,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> SandboxId {
        SandboxId::from_random([n; 20])
    }

    fn memory_budget(max_in_memory: u32, max_memory_mb: u32) -> MemoryBudget {
        MemoryBudget::new(&config::Pause { reclaim_memory: false, max_in_memory, max_memory_mb })
    }

    #[test]
    fn what_does_not_fit_is_told_why() {
        let few = memory_budget(1, 100);
        assert_eq!(few.admit(&id(1), 60 * MIB), Ok(()));
        assert_eq!(few.admit(&id(1), 100 * MIB), Ok(()), "its own place is its own");
        assert_eq!(few.admit(&id(2), 0), Err(OverBudget::Count { limit: 1 }));
        few.leave(&id(1));
        assert_eq!(few.admit(&id(2), 100 * MIB + 1), Err(OverBudget::Memory { wanted: 101, held: 0, room: 100 }));
        assert_eq!(few.admit(&id(2), 100 * MIB), Ok(()));
    }

    #[test]
    fn nothing_set_is_half_of_the_machine_and_any_number() {
        let all = memory_budget(0, 0);
        assert_eq!(all.room, u64::from(machine_memory_mb()) / 2 * MIB);
        assert!((0..=u8::MAX).all(|n| all.admit(&id(n), 0).is_ok()));
    }

    #[derive(Debug, Clone)]
    enum Move {
        Admit(u8, u64),
        Place(u8, u64),
        Leave(u8),
    }

    fn moves() -> impl Strategy<Value = Move> {
        let (who, bytes) = (0_u8..8, prop_oneof![0..200 * MIB, Just(u64::MAX)]);
        prop_oneof![
            4 => (who.clone(), bytes.clone()).prop_map(|(who, bytes)| Move::Admit(who, bytes)),
            1 => (who.clone(), bytes).prop_map(|(who, bytes)| Move::Place(who, bytes)),
            3 => who.prop_map(Move::Leave),
        ]
    }

    proptest! {
        /// Whatever comes and goes: whoever is admitted keeps within both bounds, whoever is not would break one and changes nothing.
        #[test]
        fn the_bounds_hold(moves in proptest::collection::vec(moves(), 0..60), most in 1_u32..6, room in 1_u32..300) {
            let memory_budget = memory_budget(most, room);
            let mut model: HashMap<SandboxId, u64> = HashMap::new();
            for step in moves {
                match step {
                    Move::Admit(who, bytes) => {
                        let mut then = model.clone();
                        then.insert(id(who), bytes);
                        let sum: u128 = then.values().map(|bytes| u128::from(*bytes)).sum();
                        let fits = then.len() <= most as usize && sum <= u128::from(room) * u128::from(MIB);
                        prop_assert_eq!(memory_budget.admit(&id(who), bytes).is_ok(), fits);
                        if fits {
                            model = then;
                        }
                    }
                    Move::Place(who, bytes) => {
                        memory_budget.place(&id(who), bytes);
                        model.insert(id(who), bytes);
                    }
                    Move::Leave(who) => {
                        memory_budget.leave(&id(who));
                        model.remove(&id(who));
                    }
                }
                prop_assert_eq!(&*memory_budget.held(), &model);
            }
        }
    }
}
