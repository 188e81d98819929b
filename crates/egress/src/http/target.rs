//! Which host a request is for, and which of its headers end at the proxy. No IO.

use cabana_types::egress::HostName;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};

/// Headers that end at the proxy, beside those that `Connection` names. `Trailer` stays: it announces what is passed on.
const HOP_BY_HOP: [HeaderName; 4] =
    [TRANSFER_ENCODING, UPGRADE, HeaderName::from_static("keep-alive"), HeaderName::from_static("proxy-connection")];

/// The host of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its name, unless it is an address.
    pub(crate) name: Option<HostName>,
    /// What the `Host` header says.
    pub(crate) header: HeaderValue,
    pub(crate) port: Option<u16>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) &'static str);

/// The host that a request is for. Ambiguous requests are refused.
pub(crate) fn host(request: &Parts) -> Result<Host, Refused> {
    if request.method == Method::CONNECT {
        return Err(Refused("CONNECT is not served here: connect directly"));
    }
    if request.version > Version::HTTP_11 {
        return Err(Refused("this version of HTTP is not served here"));
    }
    let mut headers = request.headers.get_all(HOST).iter();
    let (Some(header), None) = (headers.next(), headers.next()) else {
        return Err(Refused("a request has exactly one Host header"));
    };
    let authority: Authority =
        header.to_str().ok().and_then(|text| text.parse().ok()).ok_or(Refused("the Host header is malformed"))?;
    let uri = &request.uri;
    if let Some(target) = uri.authority()
        && (uri.scheme_str() != Some("http") && uri.scheme_str() != Some("https")
            || !target.as_str().eq_ignore_ascii_case(authority.as_str()))
    {
        return Err(Refused("the request target and the Host header name different hosts"));
    }
    let text = authority.host();
    let port = authority.port_u16();
    // Also refuses user names and malformed ports, which `Authority` accepts.
    let whole = port.map_or_else(|| text.to_owned(), |port| format!("{text}:{port}"));
    let is_address = text.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    let name = if is_address { None } else { Some(text.parse().map_err(|_| Refused("the Host header is malformed"))?) };
    if whole != authority.as_str() {
        return Err(Refused("the Host header is malformed"));
    }
    Ok(Host { name, header: header.clone(), port })
}

/// The target in the form that servers expect: without scheme and host.
pub(crate) fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from(PathAndQuery::from_static("/")),
    }
}

/// The protocol that a request asks to switch to. Protocols that carry requests are not passed on: nobody could check
/// their hosts.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut upgrades = headers.get_all(UPGRADE).iter();
    let (Some(protocol), None) = (upgrades.next(), upgrades.next()) else { return None };
    let text = protocol.to_str().ok()?.trim().to_ascii_lowercase();
    let carries_requests = ["h2", "http", "tls", "spdy"].iter().any(|prefix| text.starts_with(prefix));
    (names(headers, "upgrade") && !text.contains(',') && !carries_requests).then(|| protocol.clone())
}

/// Whether `Connection` names something.
pub(crate) fn names(headers: &HeaderMap, token: &str) -> bool {
    connection_tokens(headers).any(|named| named.eq_ignore_ascii_case(token))
}

fn connection_tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Removes the headers that end here. `TE: trailers` is said anew, because trailers are passed on.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let trailers = headers.get(TE).is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    let named: Vec<HeaderName> = connection_tokens(headers).filter_map(|name| name.parse().ok()).collect();
    for name in named.iter().chain(&HOP_BY_HOP).chain([&CONNECTION, &TE]) {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
}

/// Headers that a rule cannot set: they frame the message or choose the server.
pub(crate) fn is_controlled(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name)
        || [&CONNECTION, &TE, &HOST, &CONTENT_LENGTH].contains(&name)
        || name.as_str() == "trailer"
}

#[cfg(test)]
mod tests;
