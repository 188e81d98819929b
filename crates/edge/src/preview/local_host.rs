//! Lets the program of a service believe that it is looked at on this machine: development servers refuse other hosts.

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, LOCATION, ORIGIN, REFERER, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::own_paths::is_own;
use super::site::{Site, rest_after};

/// What the program sees as its own host.
pub(super) fn host(port: u16) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("localhost:{port}")).ok()
}

/// Rewrites the headers of a request that name the page's own origin.
pub(super) fn rewrite_request(headers: &mut HeaderMap, site: &Site, port: u16, encrypted: bool) {
    let local = format!("{}://localhost:{port}", if encrypted { "https" } else { "http" });
    replace(headers, &ORIGIN, |origin| site.rest_of(origin).filter(|rest| rest.is_empty()).map(|_| local.clone()));
    replace(headers, &REFERER, |url| site.rest_of(url).map(|rest| format!("{local}{rest}")));
}

/// Removes a referer that is a path of ours: it may carry a ticket.
pub(super) fn hide_own_referer(headers: &mut HeaderMap, site: &Site) {
    let referer = headers.get(REFERER).and_then(|value| value.to_str().ok());
    if referer.and_then(|url| site.rest_of(url)).is_some_and(|rest| is_own(rest.split('?').next().unwrap_or_default()))
    {
        headers.remove(REFERER);
    }
}

/// Rewrites the headers of a response that name the program's own host.
pub(super) fn rewrite_response(headers: &mut HeaderMap, site: &Site, port: u16) {
    let own = site.origin();
    replace(headers, &LOCATION, |url| local_rest(url, port).map(|rest| format!("{own}{rest}")));
    replace(headers, &ACCESS_CONTROL_ALLOW_ORIGIN, |origin| {
        local_rest(origin, port).filter(|rest| rest.is_empty()).map(|_| own.clone())
    });
    if headers.get_all(SET_COOKIE).iter().any(|cookie| without_domain(cookie).is_some()) {
        let cookies: Vec<HeaderValue> =
            headers.get_all(SET_COOKIE).iter().map(|old| without_domain(old).unwrap_or_else(|| old.clone())).collect();
        headers.remove(SET_COOKIE);
        for cookie in cookies {
            headers.append(SET_COOKIE, cookie);
        }
    }
}

/// Replaces the values of a header that `change` has another text for.
fn replace(headers: &mut HeaderMap, name: &HeaderName, change: impl Fn(&str) -> Option<String>) {
    if let http::header::Entry::Occupied(mut entry) = headers.entry(name) {
        for value in entry.iter_mut() {
            let other = value.to_str().ok().and_then(&change).and_then(|text| HeaderValue::try_from(text).ok());
            if let Some(other) = other {
                *value = other;
            }
        }
    }
}

/// What follows the origin in a URL of the program's own host.
fn local_rest(url: &str, port: u16) -> Option<&str> {
    let default = if url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")) { 443 } else { 80 };
    rest_after(url, |authority| {
        ["localhost", "127.0.0.1"].iter().any(|name| {
            let after = authority.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name));
            match after.map(|_| &authority[name.len()..]) {
                Some("") => port == default,
                Some(rest) => rest.strip_prefix(':').is_some_and(|own| own == port.to_string()),
                None => false,
            }
        })
    })
}

/// A cookie without the domain of this machine, if it has that.
fn without_domain(cookie: &HeaderValue) -> Option<HeaderValue> {
    let is_local = |part: &&[u8]| {
        let text = part.to_ascii_lowercase();
        let mut halves = text.splitn(2, |b| *b == b'=').map(<[u8]>::trim_ascii);
        halves.next() == Some(b"domain")
            && halves.next().is_some_and(|domain| matches!(domain, b"localhost" | b".localhost" | b"127.0.0.1"))
    };
    let mut parts: Vec<&[u8]> = cookie.as_bytes().split(|b| *b == b';').collect();
    let before = parts.len();
    let mut first = true;
    parts.retain(|part| std::mem::take(&mut first) || !is_local(part));
    (parts.len() < before).then(|| HeaderValue::from_bytes(&parts.join(&b';')).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site::new(true, "8080-iabc.e2b.test").expect("site")
    }

    fn changed(name: HeaderName, value: &str, change: impl Fn(&mut HeaderMap)) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(name.clone(), HeaderValue::from_str(value).expect("value"));
        change(&mut headers);
        headers.get(name).map(|value| value.to_str().expect("text").to_owned()).unwrap_or_default()
    }

    #[test]
    fn requests_of_the_own_origin_are_local() {
        let request = |headers: &mut HeaderMap| rewrite_request(headers, &site(), 8080, false);
        for (name, before, after) in [
            (ORIGIN, "https://8080-iabc.e2b.test", "http://localhost:8080"),
            (ORIGIN, "https://8080-iabc.e2b.test/", "https://8080-iabc.e2b.test/"),
            (ORIGIN, "https://evil.test", "https://evil.test"),
            (ORIGIN, "null", "null"),
            (REFERER, "https://8080-iabc.e2b.test/a?b", "http://localhost:8080/a?b"),
            (REFERER, "https://8080-iabc.e2b.test.evil/a", "https://8080-iabc.e2b.test.evil/a"),
        ] {
            assert_eq!(changed(name, before, request), after, "{before}");
        }
        let hide = |headers: &mut HeaderMap| hide_own_referer(headers, &site());
        assert_eq!(changed(REFERER, "https://8080-iabc.e2b.test/.cabana/enter?ticket=t", hide), "");
        assert_eq!(changed(REFERER, "https://8080-iabc.e2b.test/x", hide), "https://8080-iabc.e2b.test/x");
    }

    #[test]
    fn responses_lead_to_the_own_origin() {
        let response = |headers: &mut HeaderMap| rewrite_response(headers, &site(), 8080);
        let own = "https://8080-iabc.e2b.test";
        for (name, before, after) in [
            (LOCATION, "http://localhost:8080/x?y#z", &*format!("{own}/x?y#z")),
            (LOCATION, "HTTPS://LOCALHOST:8080", own),
            (LOCATION, "http://127.0.0.1:8080?a", &*format!("{own}?a")),
            (LOCATION, "/x", "/x"),
            (LOCATION, "http://localhost:80801/", "http://localhost:80801/"),
            (LOCATION, "http://localhost:8080@evil/", "http://localhost:8080@evil/"),
            (LOCATION, "http://localhost:8080.evil/", "http://localhost:8080.evil/"),
            (LOCATION, "http://localhost/", "http://localhost/"),
            (ACCESS_CONTROL_ALLOW_ORIGIN, "http://localhost:8080", own),
            (ACCESS_CONTROL_ALLOW_ORIGIN, "http://localhost:5173", "http://localhost:5173"),
            (ACCESS_CONTROL_ALLOW_ORIGIN, "*", "*"),
            (SET_COOKIE, "a=b; Domain=localhost; Path=/", "a=b; Path=/"),
            (SET_COOKIE, "domain=localhost; DOMAIN = .LocalHost", "domain=localhost"),
            (SET_COOKIE, "a=b; Domain=e2b.test", "a=b; Domain=e2b.test"),
        ] {
            assert_eq!(changed(name, before, response), after, "{before}");
        }
        let at_80 = |headers: &mut HeaderMap| rewrite_response(headers, &site(), 80);
        assert_eq!(changed(LOCATION, "http://localhost/x", at_80), format!("{own}/x"));
    }
}
