//! What root inside a sandbox may do within it. Outside its user namespace none of this means anything.

use rustix::thread::{CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities};

use crate::error::{During, Error};

/// The set that Docker grants by default: enough for package managers, `sudo`, servers on low ports and `chroot`; nothing that mounts,
/// traces other users, loads or configures.
pub const GRANTED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::AUDIT_WRITE);

/// Gives up everything else, for this process and whatever it starts.
pub(crate) fn restrict() -> Result<(), Error> {
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if GRANTED.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Past the last capability of this kernel.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error).during("drop a capability from the bounding set"),
        }
    }
    set_capabilities(
        None,
        CapabilitySets { effective: GRANTED, permitted: GRANTED, inheritable: CapabilitySet::empty() },
    )
    .during("drop capabilities")
}
