//! What is ours on the host of a service: everything below `/.cabana/`. None of it reaches the sandbox, and none of it wakes one.

use std::sync::Arc;

use axum::body::Body;
use cabana_types::ErrorCode;
use http::header::{
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};

use super::admission::{admit, redirect, refuse};
use super::site::Site;
use super::waking::Asked;
use super::{Preview, PreviewAsset, Previews, Visitor};
use crate::directory::Route;
use crate::response;

const OWN: &str = "/.cabana";
/// Bytes of a path that somebody is led to.
const MAX_TO: usize = 2048;
/// Bytes of a ticket.
const MAX_TICKET: usize = 1024;

/// Whether a path is ours.
pub(super) fn is_own(path: &str) -> bool {
    path.strip_prefix(OWN).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A request for a path of ours.
pub(super) struct OwnRequest<'r> {
    pub(super) previews: &'r dyn Previews,
    pub(super) preview: &'r Arc<Preview>,
    /// Who comes by the name of the host.
    pub(super) named: Option<&'r Visitor>,
    pub(super) site: &'r Site,
    pub(super) route: Option<Arc<Route>>,
    pub(super) asked: Asked,
    pub(super) method: &'r Method,
    pub(super) uri: &'r Uri,
    pub(super) headers: &'r HeaderMap,
}

impl OwnRequest<'_> {
    pub(super) async fn answer(self) -> Response<Body> {
        let name = self.uri.path().strip_prefix(OWN).unwrap_or_default();
        if self.headers.contains_key("service-worker") {
            // Nothing of ours is for a page to install.
            return not_found();
        }
        match (self.method, name) {
            (&Method::GET, "/enter") if self.named.is_none() => self.enter(),
            (&Method::GET, "/check") if self.named.is_none() => self.check().await,
            (&Method::GET | &Method::HEAD, "/status") => self.status().await,
            (&Method::GET | &Method::HEAD, "/bridge.js" | "/capture.js") => {
                match self.previews.asset(name.trim_start_matches('/')) {
                    Some(asset) => script(asset, self.headers),
                    None => not_found(),
                }
            }
            _ => not_found(),
        }
    }

    fn visitor(&self) -> Option<Visitor> {
        let admitted = || admit(self.previews, self.preview, Some(self.site), self.headers, self.route.as_deref());
        self.named.cloned().or_else(admitted)
    }

    /// Whether the view cookie is there, and valid.
    fn has_view(&self) -> bool {
        let cookies = self.site.cookies(self.headers);
        cookies.into_iter().any(|cookie| self.previews.by_view(self.preview, cookie).is_some())
    }

    /// Exchanges a ticket for the view cookie.
    fn enter(&self) -> Response<Body> {
        let (ticket, to) = parameters(self.uri);
        let entered = ticket.and_then(|ticket| self.previews.enter(self.preview, &ticket));
        let Some(entered) = entered else {
            // Going back leads here again, with a ticket that was used up.
            return if self.has_view() { redirect(&to) } else { self.refuse(&to) };
        };
        let Some(cookie) = self.site.set_cookie(&entered.cookie, entered.max_age) else { return self.refuse(&to) };
        let mut response = match &entered.fallback {
            Some(ticket) => {
                let mut query = url::form_urlencoded::Serializer::new(String::new());
                query.append_pair("ticket", ticket.expose()).append_pair("to", &to);
                redirect(&format!("{OWN}/check?{}", query.finish()))
            }
            None => redirect(&to),
        };
        response.headers_mut().insert(SET_COOKIE, cookie);
        response
    }

    /// Finds out whether the browser keeps the cookie in a frame, and leads it to a host that needs none if not.
    async fn check(&self) -> Response<Body> {
        let (ticket, to) = parameters(self.uri);
        if self.has_view() {
            return redirect(&to);
        }
        let origin = match &ticket {
            Some(ticket) => self.previews.fall_back(self.preview, ticket).await,
            None => None,
        };
        match origin {
            Some(origin) => redirect(&format!("{origin}{to}")),
            None => self.refuse(&to),
        }
    }

    fn refuse(&self, to: &str) -> Response<Body> {
        refuse(self.previews, self.preview, Some(self.site), self.asked, to)
    }

    async fn status(&self) -> Response<Body> {
        if self.visitor().is_none() {
            let asked = Asked { page: false, ..self.asked };
            return refuse(self.previews, self.preview, Some(self.site), asked, "/");
        }
        let state = self.previews.status(self.preview).await.state;
        let mut response = Response::new(Body::from(format!("{{\"state\":\"{state}\"}}")));
        set(&mut response, "application/json; charset=utf-8", "no-store");
        response
    }
}

fn not_found() -> Response<Body> {
    response::error(StatusCode::NOT_FOUND, ErrorCode::RouteNotFound, "not found")
}

fn set(response: &mut Response<Body>, content_type: &'static str, cache: &'static str) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
}

/// The ticket, and the path to go to.
fn parameters(uri: &Uri) -> (Option<String>, String) {
    let (mut ticket, mut to) = (None, None);
    for (name, value) in url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        match name.as_ref() {
            "ticket" => _ = ticket.get_or_insert_with(|| value.into_owned()),
            "to" => _ = to.get_or_insert_with(|| value.into_owned()),
            _ => {}
        }
    }
    (ticket.filter(|ticket| ticket.len() <= MAX_TICKET), safe_path(to.as_deref().unwrap_or_default()))
}

/// A path of the same host, spelled so that no browser reads another host in it; `/` for anything else.
fn safe_path(to: &str) -> String {
    let leads_away = !to.starts_with('/') || to.starts_with("//") || to.starts_with("/\\");
    if leads_away
        || to.len() > MAX_TO
        || to.chars().any(char::is_control)
        || is_own(to.split(['?', '#']).next().unwrap_or_default())
    {
        return "/".to_owned();
    }
    let mut path = String::with_capacity(to.len());
    for byte in to.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}') {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}

fn script(asset: PreviewAsset, headers: &HeaderMap) -> Response<Body> {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|tags| {
        tags.split(',').map(|tag| tag.trim().trim_start_matches("W/")).any(|tag| tag == asset.etag || tag == "*")
    });
    let mut response = Response::new(if known { Body::empty() } else { Body::from(asset.body) });
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    set(&mut response, asset.content_type, "no-cache");
    if let Ok(etag) = HeaderValue::try_from(asset.etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_stay_on_the_host() {
        for (to, path) in [
            ("/", "/"),
            ("/a?b=c#d", "/a?b=c#d"),
            ("/a b\u{e4}", "/a%20b%C3%A4"),
            ("/a%20b", "/a%20b"),
            ("/a\\b", "/a%5Cb"),
            ("", "/"),
            ("//evil.test", "/"),
            ("/\\evil.test", "/"),
            ("/\t/evil.test", "/"),
            ("/a\r\nSet-Cookie: x", "/"),
            ("https://evil.test", "/"),
            ("evil", "/"),
            ("/.cabana/enter?ticket=x", "/"),
            ("/.cabana", "/"),
            ("/.cabanas", "/.cabanas"),
            (&*format!("/{}", "a".repeat(2048)), "/"),
        ] {
            assert_eq!(safe_path(to), path, "{to:?}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leads_elsewhere(to in "[/\\\\.%a-z0-9:@?#\t\r\n\u{0}\u{a0}-]{0,30}") {
            let path = safe_path(&to);
            let base = url::Url::parse("https://own.test/.cabana/enter").expect("url");
            let url = base.join(&path).expect("a URL");
            prop_assert_eq!(url.origin(), base.origin(), "{:?}", to);
            prop_assert!(HeaderValue::try_from(path).is_ok());
        }
    }

    #[test]
    fn what_is_ours() {
        for own in ["/.cabana", "/.cabana/", "/.cabana/x", "/.cabana/../x"] {
            assert!(is_own(own), "{own}");
        }
        for other in ["/", "/.cabanax", "/x/.cabana/", "//.cabana/"] {
            assert!(!is_own(other), "{other}");
        }
        let (ticket, to) = parameters(&"/.cabana/enter?ticket=a%0d%0ab&ticket=c&to=%2f%2Fevil".parse().expect("uri"));
        assert_eq!((ticket.as_deref(), to.as_str()), (Some("a\r\nb"), "/"));
    }
}
