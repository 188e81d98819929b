//! Settings of the network of sandboxes.

use std::net::IpAddr;
use std::path::PathBuf;

use cabana_types::address::Prefix;
use cabana_types::egress::{Bounds, Preset, Target};
use serde::Deserialize;

/// Network of sandboxes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Number of slots that are prepared in advance.
    pub spare_slots: u32,
    /// Name servers; empty for the machine's.
    pub resolvers: Vec<IpAddr>,
}

/// Where sandboxes may connect.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// The preset for sandboxes that ask for none.
    pub default: Preset,
    /// What no sandbox may connect to.
    pub deny: Vec<Target>,
    /// If not empty: all that sandboxes may connect to.
    pub only: Vec<Target>,
    /// Private ranges that are open.
    pub internal: Vec<Prefix>,
    /// What the preset `registries` allows.
    pub registries: Vec<Target>,
    /// Whether it also allows the registries of this machine's own package managers.
    pub own_registries: bool,
    /// PEM files with further authorities of servers.
    pub authorities: Vec<PathBuf>,
    /// Seconds between two events about denied connections of a sandbox.
    pub event_seconds: u32,
}

impl Egress {
    /// The operator's bounds.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            deny: self.deny.clone(),
            only: self.only.clone(),
            internal: self.internal.clone(),
            ..Bounds::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Loaded;

    #[test]
    fn bounds_of_outgoing_connections_are_typed() {
        let read = |flags: &[(&str, &str)]| {
            let flags: Vec<_> = flags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let file = tempfile::NamedTempFile::new().expect("file");
            Loaded::read(Some(file.path()), |_| None, &flags).map(|loaded| loaded.config.egress)
        };
        let settings = [
            ("egress.default", "none"),
            ("egress.deny", "*.example.com, 9.9.9.9"),
            ("egress.only", "example.org, 8.0.0.0/8"),
            ("egress.internal", "10.1.0.0/16"),
        ];
        let bounds = read(&settings).expect("valid").bounds();
        assert_eq!((bounds.deny.len(), bounds.only.len(), bounds.internal.len()), (2, 2, 1));
        assert!(read(&[("egress.deny", "a b")]).is_err());
        assert!(read(&[("egress.default", "all")]).is_err());
        let nothing = read(&[("egress.default", "registries"), ("egress.own_registries", "false")]);
        assert!(nothing.expect_err("refused").to_string().contains("egress.registries"));
    }
}
