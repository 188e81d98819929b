//! The URL of a webhook, checked as far as that is possible before its name is resolved.

use std::net::IpAddr;

use url::{Host, Url};

use super::address::{Class, class};

/// Length of a URL, bytes.
const MAX_BYTES: usize = 2048;

/// Where a webhook leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
}

/// What is wrong with a webhook's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// It cannot be read.
    #[error("it is not a URL: {0}")]
    Malformed(#[from] url::ParseError),
    /// It is too long.
    #[error("it is longer than {MAX_BYTES} bytes")]
    Long,
    /// It is for another protocol.
    #[error("it must begin with http:// or https://")]
    Scheme,
    /// It has parts that are not sent.
    #[error("it must not contain a user, a password or a fragment")]
    Parts,
    /// It leads nowhere.
    #[error("it has no port that can be connected to")]
    Port,
    /// It leads to where events are not sent.
    #[error(
        "{0} is an address of this machine or of a private network; set webhooks.allow_private = true to allow those"
    )]
    Private(String),
    /// It leads to where events are never sent.
    #[error("{0} is never the address of a receiver")]
    Never(IpAddr),
}

impl Target {
    /// Checks a URL, but for what its name resolves to.
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
        // Spelled out (`%20`, a domain in other letters) it is longer.
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
            Some(Host::Ipv4(address)) => permitted(address.into(), allow_private)?,
            Some(Host::Ipv6(address)) => permitted(address.into(), allow_private)?,
        }
        Ok(target)
    }

    /// The URL as it is written down.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    pub(super) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }
}

/// Checks an address that is about to be connected to.
pub(super) fn permitted(address: IpAddr, allow_private: bool) -> Result<(), InvalidTarget> {
    match class(address) {
        Class::Public => Ok(()),
        Class::Private if allow_private => Ok(()),
        Class::Private => Err(InvalidTarget::Private(address.to_string())),
        Class::Never => Err(InvalidTarget::Never(address)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_that_lead_outside_are_taken() {
        for text in
            ["https://example.com/hook?x=1", "http://example.com:8080", "https://1.1.1.1/", "HTTPS://EXAMPLE.com"]
        {
            assert!(Target::parse(text, false).is_ok(), "{text}");
        }
        let target = Target::parse("https://example.com/a b", false).expect("valid");
        assert_eq!((target.as_str(), target.port(), target.is_encrypted()), ("https://example.com/a%20b", 443, true));
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
                assert!(matches!(Target::parse(text, allow), Err(InvalidTarget::Never(_))), "{text}");
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
