//! The fake backend under test.

use std::sync::Arc;

use cabana_runtime::fake::{Fake, World as Memory};
use cabana_runtime::{Isolations, Stats};
use cabana_types::{BuildId, SandboxId};

use crate::fixture::{Fixture, World};

pub(crate) struct FakeWorld {
    world: Arc<Memory>,
    _dir: tempfile::TempDir,
}

pub(crate) fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let world = Arc::new(Memory::default());
    world.serve_guests(dir.path().to_owned());
    world.set_stats(Stats { cpu_usec: 1, memory_used: 1, ..Stats::default() });
    world.lose_build(&missing_build());
    let world = FakeWorld { world, _dir: dir };
    Fixture { isolations: world.open(), world: World::Fake(world), build: BuildId::from_random([1; 16]) }
}

/// A build that does not exist, on any backend.
pub(crate) fn missing_build() -> BuildId {
    BuildId::from_random([9; 16])
}

impl FakeWorld {
    pub(crate) fn empty() -> Isolations {
        Fake::isolations(&Arc::default())
    }

    pub(crate) fn open(&self) -> Isolations {
        Fake::isolations(&self.world)
    }

    pub(crate) fn kill(&self, id: &SandboxId) {
        self.world.kill(id.as_str());
    }

    pub(crate) fn starve(&self, id: &SandboxId) {
        self.world.vitals(id.as_str(), |vitals| vitals.oom_kills += 1);
    }

    pub(crate) fn collisions(&self) -> Vec<SandboxId> {
        self.world.collisions()
    }

    pub(crate) fn leftovers(&self) -> Vec<String> {
        let snapshots = (0..self.world.snapshot_count()).map(|n| format!("snapshot {n}"));
        self.world.ids().into_iter().chain(self.world.disks()).chain(snapshots).collect()
    }
}
