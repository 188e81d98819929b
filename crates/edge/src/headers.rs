//! Headers on their way through the edge: hop-by-hop headers, headers that only the edge may set, and API keys are removed.

use cabana_types::routing::{ACCESS_TOKEN_HEADER, API_KEY_HEADER, TRAFFIC_TOKEN_HEADER};
use http::header::{
    AUTHORIZATION, CONNECTION, COOKIE, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SET_COOKIE,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Version};

use crate::connection::Peer;
use crate::guard::{asks_upgrade, names_upgrade};

/// Hop-by-hop headers.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
];
/// Every API key begins with this, also those of other servers.
const KEY_PREFIX: &str = "e2b_";
/// Names of our own cookies begin with one of these.
const OWN_COOKIES: [&str; 3] = ["__Host-cabana_", "cabana_session", "cabana_view"];
/// Prefix of headers between the host and the guest.
const INTERNAL_PREFIX: &str = "cabana-";
/// Prefix of headers by which a proxy describes the client.
const FORWARDED_PREFIX: &str = "x-forwarded-";

/// The protocol that a request wants to upgrade to.
pub(crate) fn requested_upgrade(version: Version, method: &Method, headers: &HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers.get(UPGRADE);
    let named = headers.get_all(CONNECTION).iter().any(|connection| names_upgrade(connection.as_bytes()));
    let asked = version == Version::HTTP_11
        && method != Method::CONNECT
        && asks_upgrade(named, upgrade.map(HeaderValue::as_bytes));
    upgrade.filter(|_| asked).cloned()
}

/// Bytes of headers, as HTTP/2 counts them.
pub(crate) fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum()
}

/// Prepares a client's headers for a sandbox. `peer` is set for ports other than the guest's, which get `x-forwarded-*`.
/// `masked` replaces the
/// host.
pub(crate) fn clean_request(
    headers: &mut HeaderMap,
    host: HeaderValue,
    peer: Option<&Peer>,
    masked: Option<HeaderValue>,
) {
    strip_hop_by_hop(headers);
    headers.remove(EXPECT);
    headers.remove(TRAFFIC_TOKEN_HEADER);
    strip_cookies(headers);
    join_cookies(headers);
    let edge_only: Vec<HeaderName> = headers.keys().filter(|name| is_edge_only(name.as_str())).cloned().collect();
    for name in edge_only {
        headers.remove(name);
    }
    if let Some(peer) = peer {
        if let Ok(address) = HeaderValue::try_from(peer.address.ip().to_canonical().to_string()) {
            headers.insert(HeaderName::from_static("x-forwarded-for"), address);
        }
        let scheme = HeaderValue::from_static(if peer.secure { "https" } else { "http" });
        headers.insert(HeaderName::from_static("x-forwarded-proto"), scheme);
        headers.insert(HeaderName::from_static("x-forwarded-host"), host.clone());
    }
    headers.insert(HOST, masked.unwrap_or(host));
}

/// Removes credentials for this server, which `is_ours` knows, and what looks like an API key. Others are for the
/// program in the sandbox.
pub(crate) fn strip_credentials(headers: &mut HeaderMap, is_ours: impl Fn(&str) -> bool) {
    let is_ours = |text: &str| text.starts_with(KEY_PREFIX) || is_ours(text);
    let bearer = |text: &str| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| is_ours(token.trim()))
    };
    for name in [HeaderName::from_static(API_KEY_HEADER), HeaderName::from_static(ACCESS_TOKEN_HEADER), AUTHORIZATION] {
        let ours = |value: &HeaderValue| {
            let Ok(text) = value.to_str() else { return false };
            let text = text.trim();
            if name == AUTHORIZATION { bearer(text).unwrap_or(false) } else { is_ours(text) }
        };
        if headers.get_all(&name).iter().any(ours) {
            let kept: Vec<_> = headers.get_all(&name).iter().filter(|value| !ours(value)).cloned().collect();
            headers.remove(&name);
            for value in kept {
                headers.append(&name, value);
            }
        }
    }
}

/// Removes our own cookies from a request: they are for the console and the edge alone.
pub(crate) fn strip_cookies(headers: &mut HeaderMap) {
    let is_ours = |pair: &[u8]| is_own_cookie(pair);
    if !headers.get_all(COOKIE).iter().any(|line| line.as_bytes().split(|b| *b == b';').any(is_ours)) {
        return;
    }
    let lines: Vec<HeaderValue> = headers.get_all(COOKIE).iter().cloned().collect();
    headers.remove(COOKIE);
    for line in lines {
        let kept: Vec<&[u8]> = line.as_bytes().split(|b| *b == b';').filter(|pair| !is_own_cookie(pair)).collect();
        let kept = kept.join(&b';');
        if let Some(value) = HeaderValue::from_bytes(kept.trim_ascii()).ok().filter(|value| !value.is_empty()) {
            headers.append(COOKIE, value);
        }
    }
}

/// Puts all cookies into one line: HTTP/2 sends each by itself, and HTTP/1.1 knows one header (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut lines = headers.get_all(COOKIE).iter();
    if let (Some(_), Some(_)) = (lines.next(), lines.next()) {
        let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(line) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
            headers.insert(COOKIE, line);
        }
    }
}

/// Removes cookies that a sandbox sets under the names of ours.
pub(crate) fn strip_set_cookies(headers: &mut HeaderMap) {
    let refused = |value: &HeaderValue| {
        let mut parts = value.as_bytes().split(|b| *b == b';');
        parts.next().is_some_and(is_own_cookie)
    };
    if !headers.get_all(SET_COOKIE).iter().any(refused) {
        return;
    }
    let kept: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().filter(|value| !refused(value)).cloned().collect();
    headers.remove(SET_COOKIE);
    for value in kept {
        headers.append(SET_COOKIE, value);
    }
}

/// Whether `name=value` is a cookie of ours. Browsers compare names with their case; whoever writes another case means ours.
fn is_own_cookie(pair: &[u8]) -> bool {
    let pair = pair.trim_ascii();
    OWN_COOKIES.iter().any(|own| pair.get(..own.len()).is_some_and(|start| start.eq_ignore_ascii_case(own.as_bytes())))
}

/// Whether `Connection` contains `close`.
pub(crate) fn names_close(headers: &HeaderMap) -> bool {
    let mut tokens = headers.get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
    tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Sets the upgrade headers again, for this hop.
pub(crate) fn set_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Removes hop-by-hop headers and those that `Connection` names.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(CONNECTION)
            .iter()
            .flat_map(|value| value.as_bytes().split(|b| *b == b','))
            .filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

fn is_edge_only(name: &str) -> bool {
    name.starts_with(FORWARDED_PREFIX) || name.starts_with(INTERNAL_PREFIX) || matches!(name, "forwarded" | "x-real-ip")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_and_what_goes() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, x-internal"),
            ("connection", "upgrade"),
            ("x-internal", "1"),
            ("upgrade", "websocket"),
            ("te", "trailers"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-for", "5.6.7.8"),
            ("x-forwarded-prefix", "/x"),
            ("forwarded", "for=1.2.3.4"),
            ("x-real-ip", "1.2.3.4"),
            ("cabana-disk-used", "1"),
            ("x-api-key", "e2b_secret"),
            ("e2b-traffic-access-token", "secret"),
            ("expect", "100-continue"),
            ("x-access-token", "kept"),
            ("authorization", "Basic kept"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let asked = requested_upgrade(Version::HTTP_11, &Method::GET, &headers);
        assert_eq!(asked, Some(HeaderValue::from_static("websocket")));
        let peer = Peer { address: "[::ffff:192.0.2.1]:9".parse().expect("address"), secure: true };
        strip_credentials(&mut headers, |_| false);
        clean_request(&mut headers, HeaderValue::from_static("80-iabc.e2b.test"), Some(&peer), None);
        let mut left: Vec<String> =
            headers.iter().map(|(n, v)| format!("{n}: {}", v.to_str().unwrap_or_default())).collect();
        left.sort();
        assert_eq!(
            left,
            [
                "authorization: Basic kept",
                "host: 80-iabc.e2b.test",
                "x-access-token: kept",
                "x-forwarded-for: 192.0.2.1",
                "x-forwarded-host: 80-iabc.e2b.test",
                "x-forwarded-proto: https",
            ]
        );
    }

    #[test]
    fn credentials_for_this_server_go_and_others_stay() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer e2b_0123"),
            ("authorization", "bearer  t0ken"),
            ("authorization", "Bearer the-apps-own"),
            ("authorization", "Basic e2b_0123"),
            ("x-api-key", "e2b_0123"),
            ("x-api-key", "the-apps-own"),
            ("x-access-token", "t0ken"),
            ("x-access-token", "another"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        strip_credentials(&mut headers, |text| text == "t0ken");
        let left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
        for kept in [
            ("authorization", "Bearer the-apps-own"),
            ("authorization", "Basic e2b_0123"),
            ("x-api-key", "the-apps-own"),
            ("x-access-token", "another"),
        ] {
            assert!(left.contains(&kept), "{kept:?} in {left:?}");
        }
        assert_eq!(left.len(), 4, "{left:?}");
    }

    #[test]
    fn our_cookies_stay_between_browser_and_console() {
        let mut headers = HeaderMap::new();
        for line in [
            "a=b; __Host-cabana_session=t; c=d; __Host-cabana_view=v",
            "cabana_session_3000=t",
            "CABANA_session=t;e=f",
            "cabana_view_80=v",
            "g=cabana_session",
        ] {
            headers.append(COOKIE, HeaderValue::from_static(line));
        }
        strip_cookies(&mut headers);
        let mut joined = headers.clone();
        join_cookies(&mut joined);
        assert_eq!(joined.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=b; c=d; e=f; g=cabana_session"]);
        let left: Vec<_> = headers.get_all(COOKIE).iter().map(|value| value.to_str().expect("text")).collect();
        assert_eq!(left, ["a=b; c=d", "e=f", "g=cabana_session"]);
        for cookie in [
            "cabana_view_80=x",
            "__Host-cabana_view=x",
            "__Host-cabana_session=x; Secure; Path=/",
            " cabana_session_3000=x",
            "a=b; Path=/",
        ] {
            headers.append(SET_COOKIE, HeaderValue::from_static(cookie));
        }
        strip_set_cookies(&mut headers);
        let left: Vec<_> = headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().expect("text")).collect();
        assert_eq!(left, ["a=b; Path=/"]);
    }

    #[test]
    fn h2c_is_not_an_upgrade() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade, HTTP2-Settings"));
        headers.insert(UPGRADE, HeaderValue::from_static("h2c"));
        assert_eq!(requested_upgrade(Version::HTTP_11, &Method::GET, &headers), None);
    }
}
