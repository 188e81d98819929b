//! The URL of a webhook, checked as far as possible before its name is resolved.

use std::net::IpAddr;

use cabana_types::address::{Class, Scope};
use url::{Host, Url};

/// Maximum length of a URL, bytes.
const MAX_BYTES: usize = 2048;

/// A URL that events may be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
}

/// Why a URL is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// It cannot be parsed.
    #[error("it is not a URL: {0}")]
    Malformed(#[from] url::ParseError),
    /// It is too long.
    #[error("it is longer than {MAX_BYTES} bytes")]
    Long,
    /// It is for another protocol.
    #[error("it must begin with http:// or https://")]
    Scheme,
    /// It has parts that would not be sent.
    #[error("it must not contain a user, a password or a fragment")]
    Parts,
    /// Its port is 0.
    #[error("it has no port that can be connected to")]
    Port,
    /// Its host is this machine or in a private network.
    #[error(
        "{0} is an address of this machine or of a private network; set webhooks.allow_private = true to allow those"
    )]
    Private(String),
    /// Its host is an address that no receiver has.
    #[error("{0} is never the address of a receiver")]
    Forbidden(IpAddr),
}

impl Target {
    /// Checks a URL, except for what its name resolves to.
    pub fn parse(text: &str, allow_private: bool) -> Result<Self, InvalidTarget> {
        if text.len() > MAX_BYTES {
            return Err(InvalidTarget::Long);
        }
        let url = Url::parse(text)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidTarget::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(InvalidTarget::Parts);
        }
        // Percent-encoding and punycode make it longer.
        if url.as_str().len() > MAX_BYTES {
            return Err(InvalidTarget::Long);
        }
        let target = Self { url };
        if target.port() == 0 {
            return Err(InvalidTarget::Port);
        }
        match target.url.host() {
            None => return Err(InvalidTarget::Malformed(url::ParseError::EmptyHost)),
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                if !allow_private && (name == "localhost" || name.ends_with(".localhost")) {
                    return Err(InvalidTarget::Private(name.to_owned()));
                }
            }
            Some(Host::Ipv4(address)) => check(address.into(), allow_private)?,
            Some(Host::Ipv6(address)) => check(address.into(), allow_private)?,
        }
        Ok(target)
    }

    /// The URL as it is stored.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }
}

/// Checks an address in a URL. What names resolve to is checked when they are connected to.
fn check(address: IpAddr, allow_private: bool) -> Result<(), InvalidTarget> {
    match Class::of(address).scope() {
        Scope::Public => Ok(()),
        Scope::Internal if allow_private => Ok(()),
        Scope::Internal => Err(InvalidTarget::Private(address.to_string())),
        Scope::Forbidden => Err(InvalidTarget::Forbidden(address)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn public_urls_are_accepted() {
        for text in
            ["https://example.com/hook?x=1", "http://example.com:8080", "https://1.1.1.1/", "HTTPS://EXAMPLE.com"]
        {
            assert!(Target::parse(text, false).is_ok(), "{text}");
        }
        let target = Target::parse("https://example.com/a b", false).expect("valid");
        assert_eq!((target.as_str(), target.port()), ("https://example.com/a%20b", 443));
    }

    #[test]
    fn others_are_refused() {
        let long = format!("https://example.com/{}", "x".repeat(2048));
        for text in [
            "",
            "example.com",
            "/hook",
            "ftp://example.com/",
            "file:///etc/passwd",
            "unix:/run/x",
            "http://",
            "http://:80/",
            "https://user@example.com/",
            "https://user:pass@example.com/",
            "https://example.com/#a",
            "http://example.com:0/",
            "https://exa mple.com/",
            &long,
        ] {
            for allow in [false, true] {
                assert!(Target::parse(text, allow).is_err(), "{text}");
            }
        }
        for text in [
            "http://localhost/",
            "http://LOCALHOST.:3000/",
            "http://a.localhost/",
            "http://127.0.0.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://127.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://100.96.0.6/",
            "http://0300.0250.1.1/",
        ] {
            assert!(matches!(Target::parse(text, false), Err(InvalidTarget::Private(_))), "{text}");
            assert!(Target::parse(text, true).is_ok(), "{text}");
        }
        for text in
            ["http://169.254.169.254/", "http://0xA9FEA9FE/", "http://0.0.0.0/", "http://[::]/", "http://[fe80::1]/"]
        {
            for allow in [false, true] {
                assert!(matches!(Target::parse(text, allow), Err(InvalidTarget::Forbidden(_))), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_taken_again(text in "(https?://)?[a-zA-Z0-9.:@/?#%\\[\\] -]{0,60}", allow in any::<bool>()) {
            if let Ok(target) = Target::parse(&text, allow) {
                prop_assert_eq!(Target::parse(target.as_str(), allow), Ok(target.clone()));
            }
        }
    }
}
