//! The host names that a server on loopback answers to.

use std::net::IpAddr;

use cabana_types::routing::{HostLabel, parse_host};

use crate::address::bare_host;

/// The names of a server.
#[derive(Debug)]
pub(crate) struct Names {
    domain: Option<String>,
    others: Vec<String>,
}

impl Names {
    pub(crate) fn new(domain: Option<&str>, others: &[String]) -> Self {
        let lower = |name: &str| bare_host(name).to_ascii_lowercase();
        Self { domain: domain.map(lower), others: others.iter().map(|name| lower(name)).collect() }
    }

    /// Whether the server answers to a host. No page can have an address for a name, nor send no name at all; a name
    /// of a sandbox leads to that sandbox only.
    pub(crate) fn contain(&self, host: &str) -> bool {
        let host = bare_host(host).to_ascii_lowercase();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let within = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
        host.is_empty()
            || address.is_ok()
            || within("localhost")
            || self.domain.as_deref().is_some_and(within)
            || self.others.iter().any(|name| *name == host || name == "*")
            || parse_host(&host) != HostLabel::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_server_on_loopback() {
        let names = Names::new(Some("e2b.test:8443"), &["Cabana.lan".to_owned()]);
        for own in [
            "",
            "localhost:3000",
            "LOCALHOST.",
            "api.localhost",
            "127.0.0.1:3000",
            "[::1]:3000",
            "10.0.0.5",
            "e2b.test",
            "api.e2b.test:8443",
            "cabana.lan:3000",
            "8080-iabc.anything.test",
            "0-iabc.anything.test",
        ] {
            assert!(names.contain(own), "{own}");
        }
        for other in [
            "evil.test",
            "evil.test:3000",
            "notlocalhost",
            "localhost.evil.test",
            "e2b.test.evil",
            "127.0.0.1.nip.test",
        ] {
            assert!(!names.contain(other), "{other}");
        }
        assert!(Names::new(None, &["*".to_owned()]).contain("evil.test"));
    }
}
