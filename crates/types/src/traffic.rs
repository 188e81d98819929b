//! Access to the ports of a sandbox.

use crate::Secret;

/// What a sandbox wants of requests to its ports, other than the guest's.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Set where `allowPublicTraffic` is false: every port but the guest's wants it in the header `e2b-traffic-access-token`.
    /// Forgotten when the sandbox has ended.
    pub token: Option<Secret>,
    /// `maskRequestHost`: what the sandbox sees as `Host`, with `${PORT}` for the port.
    pub mask_host: Option<String>,
    /// Ports that speak TLS inside.
    pub https_ports: Vec<u16>,
}
