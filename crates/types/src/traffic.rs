//! Access to the ports of a sandbox.

use crate::Secret;

/// Access settings of a sandbox's ports, other than the guest's.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Set if `allowPublicTraffic` is false: requests to other ports must carry it in the header
    /// `e2b-traffic-access-token`. Deleted when the sandbox has ended.
    pub token: Option<Secret>,
    /// `maskRequestHost`: the `Host` that the sandbox sees, with `${PORT}` for the port.
    pub mask_host: Option<String>,
    /// Ports that speak TLS.
    pub https_ports: Vec<u16>,
}
