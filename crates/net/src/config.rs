//! Settings of the network and their validation.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use cabana_types::egress::Bounds;

use crate::Error;

/// Slots per block: one /30 each in the first eighth of the /16; the rest is reserved.
pub(crate) const MOST_SLOTS: u32 = 2047;

/// The settings of the network of one server.
#[derive(Debug, Clone)]
pub struct NetworkConfig {
    /// 1–4 characters `[a-z0-9]`, part of the name of every interface and table of this server.
    pub instance: String,
    /// Where namespaces are pinned (in `net/<index>`), for example `/run/cabana/<instance>`.
    pub run_dir: PathBuf,
    /// A /16 inside `100.96.0.0/12` that no other server on this machine uses.
    pub block: Ipv4Addr,
    /// Maximum number of used slots, up to 2047.
    pub slots: u32,
    /// Number of slots to keep ready.
    pub spare: usize,
    /// Name servers for sandboxes; empty means those of `/etc/resolv.conf`.
    pub resolvers: Vec<SocketAddr>,
    /// The operator's bounds of all policies. The networks of the host are added.
    pub bounds: Bounds,
}

impl NetworkConfig {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let invalid = |message: String| Err(Error::InvalidConfig(message));
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if !(1..=4).contains(&self.instance.len()) || !self.instance.bytes().all(plain) {
            return invalid(format!("instance {:?} must be 1 to 4 characters of a-z and 0-9", self.instance));
        }
        if !self.run_dir.is_absolute() {
            return invalid(format!("run_dir {} must be an absolute path", self.run_dir.display()));
        }
        let [a, b, c, d] = self.block.octets();
        if a != 100 || !(96..112).contains(&b) || c != 0 || d != 0 {
            return invalid(format!("block {} must be a /16 inside 100.96.0.0/12", self.block));
        }
        if !(1..=MOST_SLOTS).contains(&self.slots) {
            return invalid(format!("slots is {} but must be between 1 and {MOST_SLOTS}", self.slots));
        }
        if self.spare > self.slots as usize {
            return invalid(format!("spare is {} but there are only {} slots", self.spare, self.slots));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> NetworkConfig {
        NetworkConfig {
            instance: "a1".into(),
            run_dir: "/run/x".into(),
            block: Ipv4Addr::new(100, 96, 0, 0),
            slots: 10,
            spare: 2,
            resolvers: Vec::new(),
            bounds: Bounds::default(),
        }
    }

    #[test]
    fn invalid_settings_are_refused() {
        assert!(config().check().is_ok());
        for broken in [
            NetworkConfig { instance: String::new(), ..config() },
            NetworkConfig { instance: "abcde".into(), ..config() },
            NetworkConfig { instance: "A".into(), ..config() },
            NetworkConfig { instance: "a-".into(), ..config() },
            NetworkConfig { run_dir: "run".into(), ..config() },
            NetworkConfig { block: Ipv4Addr::new(100, 112, 0, 0), ..config() },
            NetworkConfig { block: Ipv4Addr::new(100, 96, 1, 0), ..config() },
            NetworkConfig { block: Ipv4Addr::new(10, 96, 0, 0), ..config() },
            NetworkConfig { slots: 0, ..config() },
            NetworkConfig { slots: 2048, ..config() },
            NetworkConfig { spare: 11, ..config() },
        ] {
            assert!(matches!(broken.check(), Err(Error::InvalidConfig(_))), "{broken:?}");
        }
    }
}
