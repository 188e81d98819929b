//! What kind of request one is, which decides whether it wakes its sandbox and keeps it awake.
//!
//! A page that somebody opens does, and so does a program. What a page does by itself (polls, sockets of development servers, prefetches)
//! counts only while somebody looks: otherwise a forgotten tab keeps a sandbox awake for ever.

use http::header::{HeaderName, ORIGIN, UPGRADE};
use http::{HeaderMap, Method};

use crate::response::is_navigation;

/// Who makes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Somebody opens a page.
    Navigation,
    /// A program.
    Program,
    /// A page.
    Background,
}

/// What the edge has to know of a request before it answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) kind: Kind,
    /// Whether a page is a sensible answer.
    pub(super) page: bool,
    /// Whether it is for a frame.
    pub(super) framed: bool,
    /// Whether it is for a whole tab, as far as that is known.
    pub(super) top: bool,
}

impl Asked {
    pub(super) fn new(method: &Method, headers: &HeaderMap) -> Self {
        let get = |name| headers.get(HeaderName::from_static(name)).map(http::HeaderValue::as_bytes);
        let is = |name, value: &str| get(name).is_some_and(|own| own.eq_ignore_ascii_case(value.as_bytes()));
        let is_browser = headers.keys().any(|name| name.as_str().starts_with("sec-fetch-"));
        let is_page = is("sec-fetch-mode", "navigate");
        let early =
            |name| get(name).is_some_and(|purpose| purpose.to_ascii_lowercase().windows(8).any(|w| w == b"prefetch"));
        let kind = match is_browser {
            true if is_page && !early("sec-purpose") && !early("purpose") => Kind::Navigation,
            true => Kind::Background,
            // Some browsers describe every request but those for sockets, which always have an origin.
            false if headers.contains_key(UPGRADE) && headers.contains_key(ORIGIN) => Kind::Background,
            false => Kind::Program,
        };
        let reads = method == Method::GET || method == Method::HEAD;
        Self {
            kind,
            page: if is_browser { is_page && reads } else { is_navigation(method, headers) },
            framed: ["iframe", "frame", "fencedframe", "embed", "object"].iter().any(|dest| is("sec-fetch-dest", dest)),
            top: get("sec-fetch-dest").is_none() || is("sec-fetch-dest", "document"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(headers: &[(&'static str, &'static str)]) -> Asked {
        let map = headers.iter().map(|(n, v)| (HeaderName::from_static(n), http::HeaderValue::from_static(v)));
        Asked::new(&Method::GET, &map.collect())
    }

    #[test]
    fn kinds() {
        for (headers, kind) in [
            (&[][..], Kind::Program),
            (&[("user-agent", "Mozilla/5.0"), ("accept", "text/html")], Kind::Program),
            (&[("upgrade", "websocket")], Kind::Program),
            (&[("upgrade", "websocket"), ("origin", "http://a.test")], Kind::Background),
            (&[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")], Kind::Navigation),
            (&[("sec-fetch-mode", "navigate"), ("sec-purpose", "Prefetch;prerender")], Kind::Background),
            (&[("sec-fetch-mode", "navigate"), ("purpose", "prefetch")], Kind::Background),
            (&[("sec-fetch-mode", "cors")], Kind::Background),
            (&[("sec-fetch-site", "same-origin")], Kind::Background),
            (&[("sec-fetch-mode", "websocket"), ("upgrade", "websocket")], Kind::Background),
        ] {
            assert_eq!(asked(headers).kind, kind, "{headers:?}");
        }
    }

    #[test]
    fn pages_and_frames() {
        let frame = asked(&[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")]);
        assert!(frame.page && frame.framed && !frame.top);
        let old = asked(&[("user-agent", "Mozilla/5.0"), ("accept", "text/html")]);
        assert!(old.page && !old.framed && old.top);
        assert!(!asked(&[("sec-fetch-mode", "cors"), ("user-agent", "Mozilla/5.0"), ("accept", "text/html")]).page);
    }
}
