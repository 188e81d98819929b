//! The network of a sandbox: a namespace that is ready to use.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A prepared network namespace with its addresses.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Its index, from 1, for [`crate::Network::release`].
    pub index: u32,
    /// The namespace, to be entered with `setns`.
    pub netns: Arc<OwnedFd>,
    /// The sandbox's address.
    pub address: Ipv4Addr,
    /// The sandbox's default route leads there: to the host's end, which has no address.
    pub gateway: Ipv4Addr,
    /// The name server to write into the sandbox's `resolv.conf`.
    pub dns: Ipv4Addr,
}
