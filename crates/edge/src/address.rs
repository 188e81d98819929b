//! Finds the sandbox port that a request is addressed to: by its host, or by its routing headers.

use std::net::IpAddr;

use cabana_types::SandboxId;
use cabana_types::routing::{
    API_KEY_HEADER, GUEST_PORT, HostLabel, SANDBOX_ID_HEADERS, SANDBOX_PORT_HEADERS, Target, parse_host,
    parse_sandbox_ref,
};
use cabana_types::service::{is_grant_label, is_slug};
use http::{HeaderMap, Uri};

/// The sandbox port that a request is addressed to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The request names none.
    None,
    /// A port of a sandbox.
    Port(Target),
    /// A malformed id or port, with E2B's message.
    Invalid(&'static str),
}

/// The host a request was sent to, as the client wrote it.
pub(crate) fn host<'r>(uri: &'r Uri, headers: &'r HeaderMap) -> Option<&'r str> {
    let header = || headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    uri.authority().map(http::uri::Authority::as_str).or_else(header)
}

/// A host without its port and final dot.
pub(crate) fn bare_host(host: &str) -> &str {
    let bare = match host.rsplit_once(':') {
        Some((bare, port)) if port.bytes().all(|b| b.is_ascii_digit()) => bare,
        _ => host,
    };
    bare.strip_suffix('.').unwrap_or(bare)
}

/// Whether this server is responsible for a host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HostScope {
    /// Yes: the name of the API or of a sandbox, the domain itself, an IP address, or no host.
    Ours,
    /// A name directly under the domain that is neither the API's nor a sandbox's.
    Unknown,
    /// No.
    Foreign,
}

/// Classifies the host of a request over TLS.
pub(crate) fn host_scope(host: &str, domain: &str) -> HostScope {
    let host = bare_host(host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if host.is_empty() || address.is_ok() || [domain, "localhost"].iter().any(|own| host.eq_ignore_ascii_case(own)) {
        return HostScope::Ours;
    }
    match host.split_once('.') {
        Some((label, rest)) if rest.eq_ignore_ascii_case(domain) => {
            let known = ["api", "sandbox"].iter().any(|known| label.eq_ignore_ascii_case(known));
            if known || parse_host(host) != HostLabel::Other { HostScope::Ours } else { HostScope::Unknown }
        }
        _ => HostScope::Foreign,
    }
}

/// Whether a host is a name directly below a domain.
pub(crate) fn is_below(host: &str, domain: &str) -> bool {
    bare_host(host).split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain))
}

/// The first label of a host that may be that of a grant or a public service: below the domain, or below `localhost` if there is none.
pub(crate) fn service_label(host: &str, domain: Option<&str>) -> Option<String> {
    let (label, rest) = bare_host(host).split_once('.')?;
    // Ports of sandboxes begin with a digit.
    if !label.starts_with(|c: char| c.is_ascii_alphabetic())
        || !rest.eq_ignore_ascii_case(domain.unwrap_or("localhost"))
    {
        return None;
    }
    let label = label.to_ascii_lowercase();
    (is_grant_label(&label) || is_slug(&label)).then_some(label)
}

/// What a host says about a port of a sandbox. If a domain is set, only names directly below it do.
pub(crate) fn port_by_host(host: &str, domain: Option<&str>) -> HostLabel {
    let ours = domain.is_none_or(|domain| is_below(host, domain));
    if ours { parse_host(bare_host(host)) } else { HostLabel::Other }
}

/// Reads host and headers. If a domain is set, hosts of the form `port-id.domain` count only under that domain.
pub(crate) fn destination(host: Option<&str>, path: &str, headers: &HeaderMap, domain: Option<&str>) -> Destination {
    match port_by_host(host.unwrap_or_default(), domain) {
        HostLabel::Target(target) => Destination::Port(target),
        HostLabel::BadPort => Destination::Invalid("Invalid sandbox port"),
        HostLabel::BadId => Destination::Invalid("Invalid host"),
        HostLabel::Other => match destination_by_headers(headers) {
            Destination::Port(target) if target.port == GUEST_PORT && is_api_call(path, headers) => Destination::None,
            destination => destination,
        },
    }
}

/// Novita's client sends its routing headers with API calls, too. The guest has no such paths and knows no API keys.
fn is_api_call(path: &str, headers: &HeaderMap) -> bool {
    headers.contains_key(API_KEY_HEADER) && (path.starts_with("/sandboxes/") || path.starts_with("/v2/sandboxes/"))
}

fn destination_by_headers(headers: &HeaderMap) -> Destination {
    let id = match single(headers, &SANDBOX_ID_HEADERS) {
        Ok(None) => return Destination::None,
        Ok(Some(id)) => parse_sandbox_ref(id),
        Err(()) => None,
    };
    let Some(id): Option<SandboxId> = id else { return Destination::Invalid("Invalid sandbox id") };
    let port = single(headers, &SANDBOX_PORT_HEADERS).ok().flatten();
    // `u16::from_str` accepts `+80`.
    let port = port.filter(|port| port.bytes().all(|b| b.is_ascii_digit())).and_then(|port| port.parse().ok());
    match port {
        Some(port) if port != 0 => Destination::Port(Target { id, port }),
        _ => Destination::Invalid("Invalid sandbox port"),
    }
}

/// The value of the first of `names` that is present; an error if it is present more than once.
fn single<'h>(headers: &'h HeaderMap, names: &[&'static str]) -> Result<Option<&'h str>, ()> {
    let Some(name) = names.iter().find(|name| headers.contains_key(**name)) else { return Ok(None) };
    let mut values = headers.get_all(*name).iter();
    match (values.next().map(http::HeaderValue::to_str), values.next()) {
        (Some(Ok(value)), None) => Ok(Some(value)),
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(n, v)| (n.parse().expect("name"), v.parse().expect("value")))
            .collect::<Vec<_>>()
            .into_iter()
            .fold(HeaderMap::new(), |mut map, (name, value): (http::HeaderName, http::HeaderValue)| {
                map.append(name, value);
                map
            })
    }

    fn port(id: &str, port: u16) -> Destination {
        Destination::Port(Target { id: id.parse().expect("id"), port })
    }

    #[test]
    fn the_host_wins_over_headers() {
        let other = headers(&[("e2b-sandbox-id", "iother"), ("e2b-sandbox-port", "1")]);
        assert_eq!(destination(Some("8080-iabc.e2b.test:3000"), "/", &other, None), port("iabc", 8080));
        assert_eq!(destination(Some("127.0.0.1:3000"), "/", &other, None), port("iother", 1));
        assert_eq!(destination(Some("localhost"), "/", &HeaderMap::new(), None), Destination::None);
        assert_eq!(destination(None, "/", &HeaderMap::new(), None), Destination::None);
    }

    #[test]
    fn a_foreign_domain_is_not_ours() {
        let none = HeaderMap::new();
        assert_eq!(destination(Some("80-iabc.e2b.test:8443"), "/", &none, Some("e2b.test")), port("iabc", 80));
        assert_eq!(destination(Some("80-iabc.E2B.test."), "/", &none, Some("e2b.test")), port("iabc", 80));
        for foreign in ["80-iabc.evil.test", "80-iabc.e2b.test.evil", "80-iabc.x.e2b.test", "0-iabc.evil.test"] {
            assert_eq!(destination(Some(foreign), "/", &none, Some("e2b.test")), Destination::None, "{foreign}");
        }
    }

    #[test]
    fn hosts_of_a_tls_listener() {
        let scope = |host| host_scope(host, "e2b.test");
        for ours in [
            "api.e2b.test:8443",
            "API.E2B.TEST.",
            "sandbox.e2b.test",
            "e2b.test",
            "80-iabc.e2b.test",
            "0-x_.e2b.test",
            "localhost:1",
            "127.0.0.1:3000",
            "[::1]:3000",
            "",
        ] {
            assert_eq!(scope(ours), HostScope::Ours, "{ours}");
        }
        for unknown in ["www.e2b.test", "iabc.e2b.test:8443"] {
            assert_eq!(scope(unknown), HostScope::Unknown, "{unknown}");
        }
        for foreign in ["evil.test", "api.e2b.test.evil", "x.api.e2b.test", "80-iabc.evil.test", "localhost.evil"] {
            assert_eq!(scope(foreign), HostScope::Foreign, "{foreign}");
        }
    }

    #[test]
    fn labels_of_grants_and_public_services() {
        let grant = format!("p{}", "a2".repeat(13));
        let label = |host: &str, domain| service_label(host, domain);
        assert_eq!(label(&format!("{}.LOCALHOST:3000", grant.to_uppercase()), None), Some(grant.clone()));
        assert_eq!(label(&format!("{grant}.e2b.test."), Some("e2b.test")), Some(grant.clone()));
        assert_eq!(label("shop.e2b.test:8443", Some("e2b.test")).as_deref(), Some("shop"));
        for (host, domain) in [
            (format!("{grant}.localhost"), Some("e2b.test")),
            (format!("{grant}.evil.test"), None),
            (format!("{grant}.x.e2b.test"), Some("e2b.test")),
            ("api.e2b.test".to_owned(), Some("e2b.test")),
            ("8080-iabc.e2b.test".to_owned(), Some("e2b.test")),
            ("localhost".to_owned(), None),
            (grant, None),
        ] {
            assert_eq!(label(&host, domain), None, "{host}");
        }
    }

    #[test]
    fn headers_of_both_kinds() {
        let novita = headers(&[("novita-sandbox-id", "iabc-legacy"), ("novita-sandbox-port", "49983")]);
        assert_eq!(destination(None, "/", &novita, None), port("iabc", 49983));
        for bad in ["0", "65536", "-1", "+80", "", "8o"] {
            let bad = headers(&[("e2b-sandbox-id", "iabc"), ("e2b-sandbox-port", bad)]);
            assert_eq!(destination(None, "/", &bad, None), Destination::Invalid("Invalid sandbox port"));
        }
        let no_port = headers(&[("e2b-sandbox-id", "iabc")]);
        assert_eq!(destination(None, "/", &no_port, None), Destination::Invalid("Invalid sandbox port"));
        let twice = headers(&[("e2b-sandbox-id", "iabc"), ("e2b-sandbox-id", "idef"), ("e2b-sandbox-port", "80")]);
        assert_eq!(destination(None, "/", &twice, None), Destination::Invalid("Invalid sandbox id"));
        assert_eq!(
            destination(Some("99999-iabc.x.y"), "/", &novita, None),
            Destination::Invalid("Invalid sandbox port")
        );
    }

    #[test]
    fn calls_of_the_api_with_routing_headers_are_the_api_s() {
        let call = [("novita-sandbox-id", "iabc"), ("novita-sandbox-port", "49983")];
        let with_key = headers(&[&call[..], &[("x-api-key", "k")]].concat());
        assert_eq!(destination(None, "/sandboxes/iabc/connect", &with_key, None), Destination::None);
        assert_eq!(destination(None, "/files", &with_key, None), port("iabc", 49983));
        assert_eq!(destination(None, "/sandboxes/iabc/connect", &headers(&call), None), port("iabc", 49983));
        let user_port = headers(&[("e2b-sandbox-id", "iabc"), ("e2b-sandbox-port", "8080"), ("x-api-key", "k")]);
        assert_eq!(destination(None, "/sandboxes/iabc", &user_port, None), port("iabc", 8080));
    }
}
