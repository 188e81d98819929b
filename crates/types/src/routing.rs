//! How a request addresses a port of a sandbox: by host (`port-id.domain`) or by headers.

use crate::id::SandboxId;

/// Port of the guest daemon, as E2B's clients expect it.
pub const GUEST_PORT: u16 = 49983;
/// Version of the guest contract that the API reports as `envdVersion`.
pub const ENVD_VERSION: &str = "0.6.13";
/// Headers that carry the sandbox id, in order of preference.
pub const SANDBOX_ID_HEADERS: [&str; 2] = ["e2b-sandbox-id", "novita-sandbox-id"];
/// Headers that carry the port, in order of preference.
pub const SANDBOX_PORT_HEADERS: [&str; 2] = ["e2b-sandbox-port", "novita-sandbox-port"];
/// Header of the guest's access token.
pub const ACCESS_TOKEN_HEADER: &str = "x-access-token";
/// Header of the token for ports of a sandbox without public traffic.
pub const TRAFFIC_TOKEN_HEADER: &str = "e2b-traffic-access-token";
/// Header of the API key.
pub const API_KEY_HEADER: &str = "x-api-key";

/// A port of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub id: SandboxId,
    pub port: u16,
}

/// Result of parsing the first label of a host name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostLabel {
    /// Not of the form `port-id`; the request does not address a sandbox by host.
    Other,
    /// Of the form, but with an invalid port.
    BadPort,
    /// Of the form, but with an invalid id.
    BadId,
    /// A port of a sandbox.
    Target(Target),
}

/// Parses `port-id[-anything].domain[:port]`. A host is of that form only if its first label starts with a digit,
/// contains a `-` and is followed by a domain; so IP addresses and `localhost` are [`HostLabel::Other`].
pub fn parse_host(host: &str) -> HostLabel {
    let Some((label, _domain)) = host.split_once('.') else { return HostLabel::Other };
    let Some((port, rest)) = label.split_once('-') else { return HostLabel::Other };
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return HostLabel::Other;
    }
    let Some(port) = port.parse::<u16>().ok().filter(|p| *p != 0) else { return HostLabel::BadPort };
    let id = rest.split('-').next().unwrap_or_default().to_ascii_lowercase();
    match id.parse() {
        Ok(id) => HostLabel::Target(Target { id, port }),
        Err(_) => HostLabel::BadId,
    }
}

/// Drops the legacy suffix of `id-clientID` and parses the id.
pub fn parse_sandbox_ref(text: &str) -> Option<SandboxId> {
    text.split('-').next().and_then(|id| id.parse().ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn target(id: &str, port: u16) -> HostLabel {
        HostLabel::Target(Target { id: id.parse().expect("id"), port })
    }

    #[test]
    fn hosts() {
        assert_eq!(parse_host("8080-iabc.e2b.test:3000"), target("iabc", 8080));
        assert_eq!(parse_host("8080-iabc-legacy.e2b.test"), target("iabc", 8080));
        assert_eq!(parse_host("8080-IABC.e2b.test"), target("iabc", 8080));
        assert_eq!(parse_host("0-iabc.e2b.test"), HostLabel::BadPort);
        assert_eq!(parse_host("99999-iabc.e2b.test"), HostLabel::BadPort);
        assert_eq!(parse_host("8080-i_bc.e2b.test"), HostLabel::BadId);
        for other in [
            "localhost:3000",
            "127.0.0.1:3000",
            "[::1]:3000",
            "api.e2b.test",
            "sandbox.e2b.test",
            "my-host.example",
            "",
        ] {
            assert_eq!(parse_host(other), HostLabel::Other, "{other}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(host in "\\PC{0,80}") {
            let _ = parse_host(&host);
        }
    }
}
