//! Capabilities of root inside a sandbox. They have no effect outside its user namespace.

use rustix::thread::{CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities};

use crate::error::{During, Error};

/// Enough for package managers, `sudo`, servers on low ports and `chroot`; none for mounting, tracing other users, making
/// devices, loading modules or system configuration. `NET_RAW` gives nothing, since the network namespace is the host's and
/// raw sockets are refused; but without it the kernel would not execute files that have it as an attribute, such as `ping`.
pub const GRANTED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL);

/// Drops all other capabilities, for this process and its children.
pub(crate) fn restrict() -> Result<(), Error> {
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if GRANTED.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Beyond the last capability of this kernel.
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
