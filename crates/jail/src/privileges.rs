//! What the launcher and the server give up when they start, so that a mistake in them gives an attacker less.
//!
//! Not used, because sandboxes inherit them: `no_new_privs`, which would end `sudo` inside; Landlock, which forbids every
//! mount; and a further system call filter, which every call inside would pay for.

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

/// What the server and the programs that it runs never need: the machine's modules, clocks, power, logs and security
/// policies. It mounts, makes devices and configures networks, so most of the others stay.
const NOT_OF_SERVER: Set = Set::SYS_MODULE
    .union(Set::SYS_RAWIO)
    .union(Set::SYS_BOOT)
    .union(Set::SYS_TIME)
    .union(Set::SYS_PACCT)
    .union(Set::SYS_TTY_CONFIG)
    .union(Set::MAC_ADMIN)
    .union(Set::MAC_OVERRIDE)
    .union(Set::SYSLOG)
    .union(Set::WAKE_ALARM)
    .union(Set::BLOCK_SUSPEND)
    .union(Set::AUDIT_CONTROL)
    .union(Set::AUDIT_READ)
    .union(Set::NET_BROADCAST)
    .union(Set::IPC_OWNER)
    .union(Set::LEASE)
    .union(Set::PERFMON)
    .union(Set::BPF)
    .union(Set::CHECKPOINT_RESTORE);

/// Gives up what the server does not need. Capabilities belong to threads: call it before the first one is started. A
/// server without the right to drop them has no privileges worth dropping.
pub fn reduce_server() -> Result<(), Error> {
    let present = capabilities(None).during("read the capabilities")?;
    if !present.effective.contains(Set::SETPCAP) {
        return Ok(());
    }
    keep(Set::all().difference(NOT_OF_SERVER))
}

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
