//! Protects the machine from all sandboxes together. Nothing here stops a server: a machine that does not permit a
//! protection is reported, and runs without it.

use std::path::Path;

use cabana_jail::cgroup::Cgroups;
use cabana_jail::cgroup::io::IoLimits;
use cabana_jail::machine::{Totals, raise_tables};
use cabana_jail::process::survive_memory_shortage;
use cabana_types::error::chain;

/// Raises small tables of the kernel, limits all sandboxes together, and protects this process.
pub(super) fn prepare(cgroups: &Cgroups, reserved_memory: u64) {
    for table in raise_tables() {
        let (path, wanted) = (table.path.display(), table.wanted);
        tracing::warn!(%path, wanted, error = %table.source, "a table of the kernel is small, and cannot be raised");
    }
    let totals = Totals::of_this_machine(reserved_memory);
    tracing::info!(pids = totals.pids, memory_mb = totals.memory >> 20, "limits of all sandboxes together");
    for error in cgroups.set_totals(totals) {
        tracing::warn!(error = chain(&error), "cannot limit all sandboxes together");
    }
    if let Err(error) = survive_memory_shortage() {
        tracing::warn!(%error, "the server is not protected when the machine runs out of memory");
    }
}

/// Limits reads and writes of sandboxes as far as the machine can.
pub(super) fn limit_io(cgroups: &mut Cgroups, limits: IoLimits, pool: &Path) {
    for error in cgroups.limit_io(limits, pool) {
        tracing::warn!(error = chain(&error), "a limit of [io] has no effect on this machine");
    }
}
