//! The host by which a service is seen, its origin, and the view cookie of that host.

use cabana_types::Secret;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// View cookies that are tried: pages of other hosts may have set some of that name.
const MAX_COOKIES: usize = 8;

/// Where a service is seen.
#[derive(Debug)]
pub(super) struct Site {
    secure: bool,
    /// As in the address, with its port.
    host: String,
}

impl Site {
    /// `None` if the host has characters that no browser sends.
    pub(super) fn new(secure: bool, host: &str) -> Option<Self> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
        let host = host.to_ascii_lowercase();
        (!host.is_empty() && host.bytes().all(fits)).then_some(Self { secure, host })
    }

    /// Whether it is below `localhost`, without TLS.
    pub(super) fn is_local(&self) -> bool {
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name);
        !self.secure && name.ends_with(".localhost")
    }

    pub(super) fn origin(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.host)
    }

    /// What follows the origin in a URL of this host, whichever scheme it has: a proxy may have changed that.
    pub(super) fn rest_of<'u>(&self, url: &'u str) -> Option<&'u str> {
        rest_after(url, |authority| authority.eq_ignore_ascii_case(&self.host))
    }

    /// Without TLS the name contains the port, since cookies ignore ports.
    fn cookie_name(&self) -> String {
        if self.secure {
            return "__Host-cabana_view".to_owned();
        }
        let port = self.host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.parse::<u16>().is_ok());
        format!("cabana_view_{}", port.unwrap_or("80"))
    }

    /// The values of the view cookie.
    pub(super) fn cookies<'h>(&self, headers: &'h HeaderMap) -> Vec<&'h str> {
        let name = self.cookie_name();
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(own, _)| *own == name).map(|(_, value)| value).take(MAX_COOKIES).collect()
    }

    /// Sets the view cookie; `None` if its value cannot be one.
    pub(super) fn set_cookie(&self, value: &Secret, max_age: u64) -> Option<HeaderValue> {
        let value = value.expose();
        let fits = |b: u8| b.is_ascii_graphic() && !matches!(b, b';' | b',' | b'"' | b'\\');
        if !value.bytes().all(fits) {
            return None;
        }
        let scope = if self.secure { "Secure; SameSite=None; Partitioned" } else { "SameSite=Lax" };
        let cookie = format!("{}={value}; Path=/; Max-Age={max_age}; HttpOnly; {scope}", self.cookie_name());
        HeaderValue::try_from(cookie).ok()
    }
}

/// What follows the authority in an absolute URL, if the authority is meant. It begins with `/`, `?` or `#`, or is empty.
pub(super) fn rest_after(url: &str, is_meant: impl Fn(&str) -> bool) -> Option<&str> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        url.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme)).map(|_| &url[scheme.len()..])
    })?;
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    (!rest.starts_with('\\') && is_meant(authority)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_a_host() {
        let plain = Site::new(false, "8080-iabc.localhost:3000").expect("site");
        assert_eq!(plain.origin(), "http://8080-iabc.localhost:3000");
        let set = plain.set_cookie(&Secret::new("v.1"), 60).expect("cookie");
        assert_eq!(set, "cabana_view_3000=v.1; Path=/; Max-Age=60; HttpOnly; SameSite=Lax");
        let secure = Site::new(true, "8080-iabc.E2B.test").expect("site");
        let set = secure.set_cookie(&Secret::new("v"), 60).expect("cookie");
        assert_eq!(set, "__Host-cabana_view=v; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=None; Partitioned");
        assert!(Site::new(false, "a.test").expect("site").cookie_name().ends_with("_80"));
        for bad in ["a;b", "a b", "a\r\nb", "ü"] {
            assert!(plain.set_cookie(&Secret::new(bad), 1).is_none(), "{bad:?}");
        }
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=b; cabana_view_3000=one;cabana_view_80=x"));
        headers.append(COOKIE, HeaderValue::from_static("cabana_view_3000=two; __Host-cabana_view=three"));
        assert_eq!(plain.cookies(&headers), ["one", "two"]);
        assert_eq!(secure.cookies(&headers), ["three"]);
    }

    #[test]
    fn urls_of_a_host() {
        let site = Site::new(false, "a.test:3000").expect("site");
        for (url, rest) in [
            ("http://a.test:3000", Some("")),
            ("HTTPS://A.test:3000/x?y", Some("/x?y")),
            ("http://a.test:3000?q", Some("?q")),
            ("http://a.test:30001/", None),
            ("http://a.test:3000.evil/", None),
            ("http://a.test:3000@evil/", None),
            ("http://a.test:3000\\@evil/", None),
            ("http://evil/http://a.test:3000", None),
            ("//a.test:3000/", None),
            ("ä", None),
        ] {
            assert_eq!(site.rest_of(url), rest, "{url}");
        }
        for host in ["", "a b", "a\"b", "a@b", "a/b", "<x>"] {
            assert!(Site::new(false, host).is_none(), "{host}");
        }
    }
}
