//! Who may show a service in a frame: the console and the service itself, whatever the service's program says. A service that is open to
//! everyone decides that itself, except in the console's own frame.

use cabana_types::service::Access;
use http::header::{CONTENT_SECURITY_POLICY, Entry, SET_COOKIE, X_FRAME_OPTIONS};
use http::{HeaderMap, HeaderValue};

use super::Visitor;
use super::csp;

/// Rewrites the headers of a response that decide about frames. `framed`: whether it is for a frame.
pub(super) fn rewrite(headers: &mut HeaderMap, visitor: &Visitor, console_origin: &str, framed: bool) {
    let is_console_s = framed && visitor.console.is_some();
    if visitor.preview.access == Access::Public && !is_console_s {
        return;
    }
    headers.remove(X_FRAME_OPTIONS);
    csp::remove_frame_ancestors(headers);
    let console = visitor.console.as_deref().unwrap_or(console_origin);
    if let Ok(policy) = HeaderValue::try_from(ancestors(console)) {
        headers.append(CONTENT_SECURITY_POLICY, policy);
    }
}

/// Lets cookies of a page be kept in the console's frame. Names below `localhost` are sites of their own, and browsers keep cookies of
/// another site only if they ask for it; they trust these names without TLS.
pub(super) fn keep_cookies(headers: &mut HeaderMap) {
    let Entry::Occupied(mut entry) = headers.entry(SET_COOKIE) else { return };
    for cookie in entry.iter_mut() {
        let Ok(text) = cookie.to_str() else { continue };
        let is_ours = |part: &&str| {
            let name = part.split('=').next().unwrap_or_default().trim();
            !["samesite", "secure", "partitioned"].iter().any(|own| name.eq_ignore_ascii_case(own))
        };
        let mut parts = text.split(';');
        let first = parts.next().unwrap_or_default();
        let kept: Vec<&str> = std::iter::once(first).chain(parts.filter(is_ours)).collect();
        if let Ok(changed) = HeaderValue::try_from(format!("{}; SameSite=None; Secure; Partitioned", kept.join(";"))) {
            *cookie = changed;
        }
    }
}

/// The directive for frames of a console.
pub(super) fn ancestors(console: &str) -> String {
    format!("frame-ancestors 'self' {console}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_ask_to_be_kept_in_frames() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=b; Path=/; SameSite=Lax; HttpOnly", "secure=1; Secure", "c=d; samesite = none; PARTITIONED"] {
            headers.append(SET_COOKIE, HeaderValue::from_static(cookie));
        }
        keep_cookies(&mut headers);
        let kept: Vec<_> = headers.get_all(SET_COOKIE).iter().map(|cookie| cookie.to_str().expect("text")).collect();
        assert_eq!(
            kept,
            [
                "a=b; Path=/; HttpOnly; SameSite=None; Secure; Partitioned",
                "secure=1; SameSite=None; Secure; Partitioned",
                "c=d; SameSite=None; Secure; Partitioned",
            ]
        );
    }
}
