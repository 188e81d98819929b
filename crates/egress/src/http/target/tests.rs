//! Tests of a request's host.

use http::Request;
use proptest::prelude::*;

use super::*;

fn parts(uri: &str, host: &str) -> Parts {
    Request::builder().uri(uri).header("host", host).body(()).expect("request").into_parts().0
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_static(value));
    }
    headers
}

#[test]
fn hosts_are_names_or_addresses() {
    for (text, name, port) in [
        ("a.com", Some("a.com"), None),
        ("A.com.:80", Some("a.com"), Some(80)),
        ("1.2.3.4", None, None),
        ("[::1]:80", None, Some(80)),
    ] {
        let host = host(&parts("/", text)).expect(text);
        assert_eq!((host.name.map(|n| n.to_string()).as_deref(), host.port), (name, port), "{text}");
    }
    for text in ["", "a b", "a.com:", "a.com:99999", "a.com:0x50", "u@a.com", "a.com,b.com", "1.2.3", "[::1", "-a.com"]
    {
        assert!(host(&parts("/", text)).is_err(), "{text}");
    }
    assert!(host(&parts("http://a.com/x", "A.COM")).is_ok());
    assert!(host(&parts("ftp://a.com/x", "a.com")).is_err());
    assert!(host(&parts("http://a.com:80/x", "a.com")).is_err());
}

#[test]
fn only_protocols_without_requests_are_switched_to() {
    for (protocol, passes) in [
        ("websocket", true),
        ("tcp", true),
        ("h2c", false),
        ("H2C", false),
        ("websocket, h2c", false),
        ("HTTP/2.0", false),
        ("TLS/1.0", false),
        ("SPDY/3.1", false),
    ] {
        let mut headers = headers(&[("connection", "keep-alive, Upgrade")]);
        headers.insert(UPGRADE, HeaderValue::from_static(protocol));
        assert_eq!(upgrade(&headers).is_some(), passes, "{protocol}");
    }
    assert!(upgrade(&headers(&[("upgrade", "websocket")])).is_none());
    assert!(upgrade(&headers(&[("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "h2c")])).is_none());
}

#[test]
fn named_headers_end_at_the_proxy() {
    let mut headers = headers(&[
        ("connection", "close, X-A"),
        ("connection", "te, not a name"),
        ("x-a", "1"),
        ("x-b", "2"),
        ("te", "trailers"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("trailer", "x-sum"),
    ]);
    strip_hop_by_hop(&mut headers);
    let mut left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
    left.sort_unstable();
    assert_eq!(left, [("connection", "te"), ("te", "trailers"), ("trailer", "x-sum"), ("x-b", "2")]);
}

proptest! {
    #[test]
    fn any_host_is_a_name_an_address_or_refused(text in "[ -~]{0,40}") {
        let Ok(header) = HeaderValue::from_str(&text) else { return Ok(()) };
        let mut parts = parts("/", "a.com");
        parts.headers.insert(HOST, header);
        if let Ok(host) = host(&parts) {
            // Nothing in it is ignored: name or address, and port.
            let port = host.port.map(|port| format!(":{port}")).unwrap_or_default();
            let shown = text.trim().strip_suffix(&port).expect("port");
            match host.name {
                Some(name) => prop_assert_eq!(shown.trim_end_matches('.').to_ascii_lowercase(), name.as_str()),
                None => prop_assert!(shown.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok()),
            }
        }
    }
}
