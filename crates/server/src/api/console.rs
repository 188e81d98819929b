//! Serves the web console below `/console/`: files with a hash in their name for ever, `index.html` for every page.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use cabana_types::ErrorCode;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use sha2::{Digest, Sha256};

use super::App;
use crate::assets::Assets;
use crate::auth::OwnOrigin;
use crate::error::ApiError;

/// Where the console is.
const ROOT: &str = "/console/";
const INDEX: &str = "index.html";
/// Files whose names contain a hash of their content.
const HASHED: &str = "assets/";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// Compressed forms, best first: name in headers, and ending of the file.
const ENCODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

struct Console {
    assets: Arc<dyn Assets>,
    /// The configured origin of the console.
    origin: Option<String>,
    /// Domain of the sandboxes' hosts, with a port where it has one.
    domain: Option<String>,
}

/// The routes. They need no key: the files are the same for everybody.
pub(super) fn routes(assets: Arc<dyn Assets>, app: &App) -> Router {
    let console = Console { assets, origin: app.console_origin.clone(), domain: app.domain.clone() };
    Router::new()
        .route("/", get(enter))
        .route("/console", get(|| async { Redirect::permanent(ROOT) }))
        .route("/console/", get(index))
        .route("/console/{*path}", get(file))
        .with_state(Arc::new(console))
}

/// Browsers are sent to the console; programs get the same answer as from any other path that is not there.
async fn enter(headers: HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.contains("text/html") {
        return Redirect::temporary(ROOT).into_response();
    }
    ApiError::new(ErrorCode::RouteNotFound, "The API has no route /; GET /openapi.json lists them").into_response()
}

async fn index(State(console): State<Arc<Console>>, request: Request<Body>) -> Response {
    console.respond(INDEX, &request)
}

async fn file(State(console): State<Arc<Console>>, Path(path): Path<String>, request: Request<Body>) -> Response {
    console.respond(&path, &request)
}

impl Console {
    fn respond(&self, path: &str, request: &Request<Body>) -> Response {
        let missing = path.starts_with(HASHED) || path.ends_with(".br") || path.ends_with(".gz");
        // Paths of pages are the page's own business.
        let path = if self.assets.get(path).is_none() && !missing { INDEX } else { path };
        let mut response = match self.content(path, request.headers()) {
            Some(response) => response,
            None => {
                ApiError::new(ErrorCode::RouteNotFound, "The console has no such file; reload the page").into_response()
            }
        };
        self.protect(request, response.headers_mut());
        response
    }

    /// A file in the best form that the client takes.
    fn content(&self, path: &str, headers: &HeaderMap) -> Option<Response> {
        let plain = self.assets.get(path)?;
        let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let compressed = ENCODINGS.iter().filter(|(name, _)| accepts(accepted, name)).find_map(|(name, ending)| {
            let content = self.assets.get(&format!("{path}{ending}"))?;
            Some((*name, content))
        });
        let mut response;
        if path.starts_with(HASHED) {
            response = body(compressed, plain);
            let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
            response.headers_mut().insert(CACHE_CONTROL, forever);
        } else {
            let digest = Sha256::digest(&plain);
            let tag = format!("\"{}\"", digest.iter().take(12).map(|b| format!("{b:02x}")).collect::<String>());
            let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
            response = match known == Some(tag.as_str()) {
                true => StatusCode::NOT_MODIFIED.into_response(),
                false => body(compressed, plain),
            };
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            response.headers_mut().extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
        }
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type(path)));
        Some(response)
    }

    /// What the page may do: load from here, connect to here, and show previews in frames.
    fn protect(&self, request: &Request<Body>, headers: &mut HeaderMap) {
        let own = OwnOrigin::of(request, self.origin.as_deref());
        let policy = policy(own.as_ref().map_or("", OwnOrigin::as_str), self.domain.as_deref());
        headers.extend(HeaderValue::from_str(&policy).ok().map(|policy| (CONTENT_SECURITY_POLICY, policy)));
        for (name, value) in [
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "same-origin"),
            (OPENER_POLICY, "same-origin"),
            (RESOURCE_POLICY, "same-origin"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

fn body(compressed: Option<(&'static str, Cow<'static, [u8]>)>, plain: Cow<'static, [u8]>) -> Response {
    let (encoding, content) = match compressed {
        Some((encoding, content)) => (Some(encoding), content),
        None => (None, plain),
    };
    let content = match content {
        Cow::Borrowed(content) => Body::from(content),
        Cow::Owned(content) => Body::from(content),
    };
    let mut response = content.into_response();
    response.headers_mut().extend(encoding.map(|name| (CONTENT_ENCODING, HeaderValue::from_static(name))));
    response
}

/// Whether `Accept-Encoding` allows an encoding.
fn accepts(header: &str, name: &str) -> bool {
    header.split(',').any(|part| {
        let mut words = part.split(';').map(str::trim);
        words.next().is_some_and(|word| word.eq_ignore_ascii_case(name)) && !words.any(|word| word == "q=0")
    })
}

/// The content security policy for a page of an origin. Styles of terminal and editor are made by script, so they are inline.
fn policy(origin: &str, domain: Option<&str>) -> String {
    // A host is a name or an address: nothing in it can end a directive.
    let safe = |text: &&str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:/[]".contains(&b));
    let origin = Some(origin).filter(safe).unwrap_or_default();
    let sockets = origin.strip_prefix("http").map(|rest| format!(" ws{rest}")).unwrap_or_default();
    let scheme = if origin.starts_with("https://") { "https" } else { "http" };
    let port = origin.rsplit_once(':').map(|(_, port)| port).filter(|port| port.bytes().all(|b| b.is_ascii_digit()));
    let frames = match (domain.filter(safe), port) {
        (Some(domain), Some(port)) if !domain.contains(':') => format!("{scheme}://*.{domain}:{port}"),
        (Some(domain), _) => format!("{scheme}://*.{domain}"),
        (None, Some(port)) => format!("{scheme}://*.localhost:{port}"),
        (None, None) => format!("{scheme}://*.localhost"),
    };
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; font-src 'self'; \
         connect-src 'self'{sockets}; frame-src {frames}; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; \
         form-action 'self'; frame-ancestors 'none'"
    )
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_negotiated() {
        assert!(accepts("gzip, deflate, br", "br") && accepts("br;q=0.5", "br"));
        assert!(!accepts("gzip", "br") && !accepts("br;q=0, gzip", "br") && !accepts("", "gzip"));
    }

    #[test]
    fn a_page_reaches_its_own_server_and_previews_only() {
        let directive = |policy: &str, name: &str| {
            let found = policy.split("; ").find_map(|part| part.strip_prefix(name).map(str::to_owned));
            found.unwrap_or_default()
        };
        let local = policy("http://localhost:3000", None);
        assert_eq!(directive(&local, "connect-src "), "'self' ws://localhost:3000");
        assert_eq!(directive(&local, "frame-src "), "http://*.localhost:3000");
        let domain = policy("https://e.test", Some("e.test"));
        assert_eq!(directive(&domain, "connect-src "), "'self' wss://e.test");
        assert_eq!(directive(&domain, "frame-src "), "https://*.e.test");
        let with_port = policy("https://e.test:8443", Some("e.test:8443"));
        assert_eq!(directive(&with_port, "frame-src "), "https://*.e.test:8443");
        for hostile in ["http://a;script-src *", "http://a' *", ""] {
            assert_eq!(policy(hostile, None), policy("", None));
        }
    }
}
