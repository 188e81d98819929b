//! Validates where a sandbox may connect: the `network` object of a request becomes an [`EgressPolicy`]. Where clients of
//! E2B know the text of an error, it is theirs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cabana_types::address::Prefix;
use cabana_types::egress::{
    EgressPolicy, EgressProxy, HostName, MAX_CA_BYTES, MAX_CREDENTIAL_BYTES, MAX_DNS_SERVERS, MAX_ENTRIES,
    MAX_HEADER_BYTES, MAX_HEADERS, MAX_RULES, Preset, ProxyTls, Target, Template, template,
};
use cabana_types::wire::{NetworkProxy, NetworkRequest, NetworkRule};
use http::{HeaderName, HeaderValue, header};

use crate::egress::Egress;
use crate::error::{ApiError, short};

/// Characters of a host name with rules.
const MAX_RULE_HOST: usize = 128;
/// Secrets that the rules of one host may name.
const MAX_SECRETS: usize = 32;
/// Bytes of the name that a proxy's certificate is verified for.
const MAX_SERVER_NAME: usize = 253;

/// Headers that frame a request or belong to one connection: setting one would break the request.
const FRAMING: [HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The policy that a request asks for; `None` if it says nothing about outgoing connections. `internet` is the request's
/// `allow_internet_access`. `true` says nothing, because older clients always send it, and so do empty lists.
pub(super) fn requested(
    request: &NetworkRequest,
    internet: Option<bool>,
    settings: &Egress,
) -> Result<Option<EgressPolicy>, ApiError> {
    let denied = internet == Some(false) || request.allow_internet_access == Some(false);
    let silent = request.preset.is_none()
        && [&request.allow_out, &request.deny_out, &request.dns_servers].iter().all(|list| is_empty(list.as_deref()))
        && request.egress_proxy.is_none()
        && request.rules.as_ref().is_none_or(BTreeMap::is_empty);
    if silent && !denied {
        return Ok(None);
    }
    let mut policy = match &request.preset {
        Some(name) => settings.preset(preset(name)?).map_err(ApiError::invalid)?,
        None => EgressPolicy::default(),
    };
    if denied {
        policy.deny_out.push(Prefix::ALL_V4);
    }
    policy.deny_out.extend(denied_ranges(request.deny_out.as_deref().unwrap_or_default())?);
    policy.allow_out.extend(allowed_targets(request.allow_out.as_deref().unwrap_or_default())?);
    keep_first(&mut policy.deny_out);
    keep_first(&mut policy.allow_out);
    if policy.names_hosts() && !policy.denies_all() {
        return Err(ApiError::invalid(
            "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic.",
        ));
    }
    policy.dns_servers = dns_servers(request.dns_servers.as_deref().unwrap_or_default(), settings)?;
    policy.egress_proxy = request.egress_proxy.as_ref().map(|proxy| egress_proxy(proxy, settings)).transpose()?;
    policy.rules = rules(request.rules.iter().flatten())?;
    Ok(Some(policy))
}

fn is_empty(list: Option<&[String]>) -> bool {
    list.is_none_or(<[String]>::is_empty)
}

/// The preset of a name.
pub(super) fn preset(name: &str) -> Result<Preset, ApiError> {
    name.parse().map_err(|_| {
        ApiError::invalid(format!("network preset must be none, registries or internet, not {:?}", short(name)))
    })
}

fn keep_first<T: Eq + Hash>(list: &mut Vec<T>) {
    let mut seen = HashSet::with_capacity(list.len());
    let repeated: Vec<bool> = list.iter().map(|entry| !seen.insert(entry)).collect();
    if seen.len() < repeated.len() {
        let mut repeated = repeated.into_iter();
        list.retain(|_| repeated.next() != Some(true));
    }
}

fn check_length(field: &str, length: usize, most: usize) -> Result<(), ApiError> {
    if length > most {
        return Err(ApiError::invalid(format!("network.{field} has {length} entries; at most {most} are taken")));
    }
    Ok(())
}

fn denied_ranges(list: &[String]) -> Result<Vec<Prefix>, ApiError> {
    check_length("denyOut", list.len(), MAX_ENTRIES)?;
    let range = |text: &String| {
        let usable = |prefix: &Prefix| !prefix.address().is_unspecified() || prefix.is_all();
        let prefix = text.parse().ok().filter(usable);
        prefix.ok_or_else(|| ApiError::invalid(format!("invalid denied CIDR {}", short(text))))
    };
    list.iter().map(range).collect()
}

fn allowed_targets(list: &[String]) -> Result<Vec<Target>, ApiError> {
    check_length("allowOut", list.len(), MAX_ENTRIES)?;
    let target = |text: &String| {
        let wrong = |error| ApiError::invalid(format!("invalid allowed address or domain {}: {error}", short(text)));
        text.parse().map_err(wrong)
    };
    list.iter().map(target).collect()
}

fn dns_servers(list: &[String], settings: &Egress) -> Result<Vec<Ipv4Addr>, ApiError> {
    check_length("dnsServers", list.len(), MAX_DNS_SERVERS)?;
    let server = |text: &String| {
        let address: Ipv4Addr = text.parse().map_err(|_| {
            ApiError::invalid(format!("network.dnsServers takes IPv4 addresses, not {:?}", short(text)))
        })?;
        refuse_address("network.dnsServers", address.into(), settings)?;
        Ok(address)
    };
    let mut servers = list.iter().map(server).collect::<Result<Vec<_>, ApiError>>()?;
    keep_first(&mut servers);
    Ok(servers)
}

fn refuse_address(field: &str, address: IpAddr, settings: &Egress) -> Result<(), ApiError> {
    match settings.bounds.refuse_address(address) {
        Some(rule) => Err(ApiError::invalid(format!(
            "{field}: {address} is closed to sandboxes ({rule}); only this server's operator can open it (egress.internal)"
        ))),
        None => Ok(()),
    }
}

fn egress_proxy(proxy: &NetworkProxy, settings: &Egress) -> Result<EgressProxy, ApiError> {
    let wrong = |text: String| Err(ApiError::invalid(format!("network.egressProxy.{text}")));
    let parts = proxy.address.rsplit_once(':').and_then(|(host, port)| {
        let port = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse::<u16>().ok()).flatten()?;
        (port > 0).then_some(host)
    });
    let Some(host) = parts else {
        return wrong(format!("address must be host:port, not {:?}", short(&proxy.address)));
    };
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = literal.parse() {
        refuse_address("network.egressProxy.address", address, settings)?;
    } else {
        let name = host.parse::<HostName>();
        let Ok(name) = name else {
            return wrong(format!("address must be host:port, not {:?}", short(&proxy.address)));
        };
        // Where other names lead to is checked at each connection.
        if name.as_str() == "localhost" || name.as_str().ends_with(".localhost") {
            refuse_address("network.egressProxy.address", Ipv4Addr::LOCALHOST.into(), settings)?;
        }
    }
    let credentials = [
        ("username", proxy.username.as_deref()),
        ("password", proxy.password.as_ref().map(|password| password.expose())),
    ];
    for (field, text) in credentials {
        if text.is_some_and(|text| text.is_empty() || text.len() > MAX_CREDENTIAL_BYTES) {
            return wrong(format!("{field} must have 1 to {MAX_CREDENTIAL_BYTES} bytes"));
        }
    }
    if proxy.password.is_some() && proxy.username.is_none() {
        return wrong("password needs a username".into());
    }
    let tls = proxy.tls.as_ref();
    if let Some(name) = tls.and_then(|tls| tls.server_name.as_deref()) {
        let valid =
            name.len() <= MAX_SERVER_NAME && (name.parse::<HostName>().is_ok() || name.parse::<IpAddr>().is_ok());
        if !valid {
            return wrong(format!("tls.serverName must be a host name of at most {MAX_SERVER_NAME} characters"));
        }
    }
    if let Some(pem) = tls.and_then(|tls| tls.ca_cert.as_deref()) {
        if pem.len() > MAX_CA_BYTES {
            return wrong(format!("tls.caCert has {} bytes; at most {MAX_CA_BYTES} are taken", pem.len()));
        }
        if !is_pem(pem) {
            return wrong("tls.caCert must be one or more certificates in PEM form".into());
        }
    }
    Ok(EgressProxy {
        address: proxy.address.clone(),
        username: proxy.username.clone(),
        password: proxy.password.clone(),
        tls: tls.map(|tls| ProxyTls {
            enabled: tls.enabled,
            server_name: tls.server_name.clone(),
            ca_cert: tls.ca_cert.clone(),
        }),
    })
}

/// Whether a text holds certificates in PEM form, and each is base64.
fn is_pem(text: &str) -> bool {
    let mut blocks = text.split("-----BEGIN CERTIFICATE-----").skip(1).peekable();
    blocks.peek().is_some()
        && blocks.all(|block| {
            let body = block.split_once("-----END CERTIFICATE-----").map(|(body, _)| body);
            let body: Option<String> = body.map(|body| body.chars().filter(|c| !c.is_ascii_whitespace()).collect());
            body.and_then(|body| STANDARD.decode(body).ok()).is_some_and(|der| !der.is_empty())
        })
}

fn rules<'a>(
    rules: impl Iterator<Item = (&'a String, &'a Vec<NetworkRule>)>,
) -> Result<BTreeMap<HostName, BTreeMap<String, Template>>, ApiError> {
    let mut by_host = BTreeMap::new();
    for (number, (host, list)) in rules.enumerate() {
        if number >= MAX_RULES {
            return Err(ApiError::invalid(format!("Network rules can have at most {MAX_RULES} domains.")));
        }
        let valid = |name: &HostName| name.as_str().len() <= MAX_RULE_HOST;
        let name =
            host.parse().ok().filter(valid).ok_or_else(|| {
                ApiError::invalid(format!("Rule domain \"{}\" is not a valid domain name.", short(host)))
            })?;
        let transforms: Vec<_> = list.iter().filter_map(|rule| rule.transform.as_ref()).collect();
        if transforms.len() > 1 {
            return Err(ApiError::invalid(format!("Rule domain \"{name}\" can have at most one transform.")));
        }
        let headers = transforms.first().and_then(|transform| transform.headers.as_ref());
        let headers = self::headers(&name, headers.into_iter().flatten())?;
        if by_host.contains_key(&name) {
            return Err(ApiError::invalid(format!("Rule domain \"{name}\" is listed twice.")));
        }
        // Connections to a host without headers need not be looked into.
        if !headers.is_empty() {
            by_host.insert(name, headers);
        }
    }
    Ok(by_host)
}

fn headers<'a>(
    host: &HostName,
    headers: impl Iterator<Item = (&'a String, &'a String)>,
) -> Result<BTreeMap<String, Template>, ApiError> {
    let (longest_name, longest_value) = MAX_HEADER_BYTES;
    let wrong = |text: String| Err(ApiError::invalid(format!("Network transform of \"{host}\": {text}")));
    let (mut set, mut names, mut secrets) = (BTreeMap::new(), HashSet::new(), BTreeSet::new());
    for (name, value) in headers {
        if set.len() >= MAX_HEADERS {
            return wrong(format!("at most {MAX_HEADERS} headers can be set"));
        }
        let Some(parsed) = HeaderName::from_bytes(name.as_bytes()).ok().filter(|_| name.len() <= longest_name) else {
            return wrong(format!(
                "a header name has 1 to {longest_name} characters of a token, not {:?}",
                short(name)
            ));
        };
        if FRAMING.contains(&parsed) {
            return wrong(format!("the header {parsed} cannot be set"));
        }
        if !names.insert(parsed) {
            return wrong(format!("the header {:?} is set twice", short(name)));
        }
        if value.len() > longest_value {
            return wrong(format!("the value of {:?} has more than {longest_value} characters", short(name)));
        }
        let value: Template =
            value.parse().map_err(|error: template::MalformedPlaceholder| ApiError::invalid(error.to_string()))?;
        let is_text = |part: &template::Part| match part {
            template::Part::Text(text) => HeaderValue::from_str(text).is_ok(),
            template::Part::Secret(_) | template::Part::Token(_) => true,
        };
        if !value.parts().iter().all(is_text) {
            return wrong(format!("the value of {:?} is not a valid header value", short(name)));
        }
        secrets.extend(value.secrets().map(str::to_owned));
        set.insert(name.clone(), value);
    }
    if secrets.len() > MAX_SECRETS {
        return wrong(format!("at most {MAX_SECRETS} secrets can be named"));
    }
    Ok(set)
}

#[cfg(test)]
mod tests;
