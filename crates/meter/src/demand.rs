//! What a sandbox in a state uses. The only place that decides it.

use cabana_types::sandbox::{Kept, State};
use cabana_types::{Resources, UsageKind};

/// Kinds and quantities that are used at a time; none is 0.
pub type Demand = Vec<(UsageKind, u64)>;

/// What was last measured of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Used space of its disk, MiB; 0 before the first measurement: a new disk is an empty layer over its template.
    pub disk_mib: u64,
    /// Its archive, MiB.
    pub archive_mib: u64,
}

/// What a sandbox uses in a state. CPU and memory count while its programs can run: not while it is created, paused, resumed
/// or removed. A failed one uses its disk only.
pub fn demand(state: &State, resources: Resources, sizes: Sizes) -> Demand {
    let vcpu = (UsageKind::Vcpu, u64::from(resources.cpu_count));
    let memory = (UsageKind::MemoryMib, u64::from(resources.memory_mb));
    let frozen = (UsageKind::PausedMemoryMib, u64::from(resources.memory_mb));
    let disk = (UsageKind::DiskMib, sizes.disk_mib);
    let cold = (UsageKind::ColdMib, sizes.archive_mib);
    let mut demand = match state {
        State::Running => vec![vcpu, memory, disk],
        State::Pausing { to: Kept::Ram, .. }
        | State::Paused { kept: Kept::Ram, .. }
        | State::Resuming { from: Kept::Ram, .. } => vec![frozen, disk],
        State::Paused { kept: Kept::Archive { .. }, .. } | State::Resuming { from: Kept::Archive { .. }, .. } => {
            vec![cold]
        }
        State::Pausing { .. }
        | State::Paused { .. }
        | State::Resuming { .. }
        | State::Archiving { .. }
        | State::Failed { .. } => vec![disk],
        State::Creating | State::Ending { .. } | State::Ended { .. } => vec![],
    };
    demand.retain(|(_, quantity)| *quantity > 0);
    demand
}

#[cfg(test)]
mod tests {
    use cabana_types::sandbox::{EndCause, PauseCause};

    use super::*;

    #[test]
    fn only_what_can_run_uses_cpu() {
        let why = || PauseCause::Idle;
        let cause = || EndCause::GuestDied;
        let archive = Kept::Archive { generation: 1, whole: true };
        let resources = Resources { cpu_count: 2, memory_mb: 512, ..Resources::default() };
        let sizes = Sizes { disk_mib: 30, archive_mib: 20 };
        let of = |state: State| {
            let kinds = demand(&state, resources, sizes).into_iter();
            kinds.map(|(kind, quantity)| format!("{kind}={quantity}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(State::Running), "vcpu=2 memory_mib=512 disk_mib=30");
        for kept in [State::Paused { kept: Kept::Ram, why: why() }, State::Resuming { from: Kept::Ram, why: why() }] {
            assert_eq!(of(kept), "paused_memory_mib=512 disk_mib=30");
        }
        for on_disk in [
            State::Paused { kept: Kept::Disk, why: why() },
            State::Paused { kept: Kept::Checkpoint { generation: 1 }, why: why() },
            State::Pausing { to: Kept::Disk, why: why() },
            State::Archiving { generation: 1, whole: true, why: why() },
            State::Failed { cause: cause() },
        ] {
            assert_eq!(of(on_disk), "disk_mib=30");
        }
        assert_eq!(of(State::Paused { kept: archive, why: why() }), "cold_mib=20");
        for nothing in [State::Creating, State::Ending { cause: cause() }, State::Ended { cause: cause() }] {
            assert_eq!(of(nothing), "");
        }
        assert_eq!(demand(&State::Failed { cause: cause() }, resources, Sizes::default()), vec![], "not measured yet");
    }
}
