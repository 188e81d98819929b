//! What the launcher gives up when it starts, so that a mistake in it gives an attacker less.
//!
//! Not used, because sandboxes inherit them: `no_new_privs`, which would end `sudo` inside, and Landlock, which forbids
//! every mount.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet as Set, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

use crate::error::{During, Error};

/// What the launcher needs: namespaces and mounts, ids of sandboxes, their devices, limits and processes.
const OF_LAUNCHER: Set = Set::SYS_ADMIN
    .union(Set::SETUID)
    .union(Set::SETGID)
    .union(Set::SETPCAP)
    .union(Set::CHOWN)
    .union(Set::DAC_OVERRIDE)
    .union(Set::DAC_READ_SEARCH)
    .union(Set::FOWNER)
    .union(Set::MKNOD)
    .union(Set::KILL)
    .union(Set::SYS_PTRACE)
    .union(Set::SYS_CHROOT)
    .union(Set::SYS_RESOURCE);

/// Gives up the rest. Sandboxes are not concerned: a new user namespace begins with all capabilities, within it.
pub(crate) fn reduce_launcher() -> Result<(), Error> {
    keep(OF_LAUNCHER)
}

/// Drops all capabilities but these, also for programs that are executed later.
fn keep(kept: Set) -> Result<(), Error> {
    for number in 0..64 {
        let one = Set::from_bits_retain(1 << number);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Beyond the last capability of this kernel.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error).during("drop a capability from the bounding set"),
        }
    }
    let present = capabilities(None).during("read the capabilities")?;
    let reduced = CapabilitySets {
        effective: present.effective.intersection(kept),
        permitted: present.permitted.intersection(kept),
        inheritable: Set::empty(),
    };
    set_capabilities(None, reduced).during("drop capabilities")
}
