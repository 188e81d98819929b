//! The responses that the edge makes itself, with their status codes: JSON in E2B's form for programs, a page for browsers.

use std::borrow::Cow;

use axum::body::Body;
use cabana_http1::HeadError;
use cabana_types::{ErrorCode, SandboxId};
use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ORIGIN, RETRY_AFTER,
    USER_AGENT, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;

use crate::edge::ResumeError;
use crate::guard::Rejection;
use crate::rates::TooMany;

/// Makes a browser forget what it keeps for a site.
pub(crate) const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

/// Why a request did not reach a port of its sandbox, or got no response from it.
#[derive(Debug)]
pub(crate) enum ProxyError {
    /// The sandbox is not running, and was not resumed.
    NotRunning(ResumeError),
    /// Nothing listens on the port.
    PortClosed,
    /// The server on the port closed the connection, or its response was malformed.
    NoResponse,
    /// The head of its response exceeded a bound.
    BadHead(HeadError),
    /// The server on the port did not respond in time.
    Timeout,
    /// The edge has too many connections to this sandbox.
    TooManyConnections,
    /// The port is not public, and the request has no token.
    NoTrafficToken,
    /// The port is not public, and the token is wrong.
    WrongTrafficToken,
    /// The client's request body broke off.
    BrokenBody,
}

impl ProxyError {
    /// The status, the machine-readable code, the message, and what a person can do about it.
    fn parts(&self) -> (StatusCode, &'static str, &'static str, &'static str) {
        match self {
            Self::NotRunning(ResumeError::NotFound(_)) => (
                StatusCode::BAD_GATEWAY,
                ErrorCode::SandboxNotFound.as_str(),
                "The sandbox was not found",
                "It may have ended, expired or been paused. Start it again, or create a new one.",
            ),
            Self::NotRunning(ResumeError::AtCapacity(_)) => (
                StatusCode::TOO_MANY_REQUESTS,
                ErrorCode::SandboxCapacityUnavailable.as_str(),
                "The sandbox is paused and cannot be resumed now: the server runs as many as it allows",
                "Pause or kill another one, then try again.",
            ),
            Self::NotRunning(ResumeError::Failed(_)) => (
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::SandboxChangeFailed.as_str(),
                "The sandbox is paused and could not be resumed",
                "Try again; if it stays so, recover it.",
            ),
            Self::PortClosed => (
                StatusCode::BAD_GATEWAY,
                "port_closed",
                "The sandbox is running but port is not open",
                "Start a server on this port inside the sandbox, then reload this page.",
            ),
            Self::NoResponse => (
                StatusCode::BAD_GATEWAY,
                "port_no_response",
                "The sandbox is running but the server on this port closed the connection without an answer",
                "Look at what that server printed, then reload this page.",
            ),
            Self::BadHead(_) => (
                StatusCode::BAD_GATEWAY,
                "port_bad_response",
                "The sandbox is running but the server on this port sent an answer that cannot be passed on",
                "Look at what that server sends, then reload this page.",
            ),
            Self::Timeout => (
                StatusCode::GATEWAY_TIMEOUT,
                "port_timeout",
                "The sandbox is running but the server on this port did not answer in time",
                "Look at what that server is doing, then reload this page.",
            ),
            Self::TooManyConnections => (
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_connections",
                "The sandbox has too many open connections",
                "Close some of them, then try again.",
            ),
            Self::NoTrafficToken => (
                StatusCode::FORBIDDEN,
                "traffic_token_missing",
                "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing",
                "Its ports are not public: a program that knows the token can reach them.",
            ),
            Self::WrongTrafficToken => (
                StatusCode::FORBIDDEN,
                "traffic_token_invalid",
                "Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid",
                "Its ports are not public: a program that knows the token can reach them.",
            ),
            Self::BrokenBody => (
                StatusCode::BAD_REQUEST,
                ErrorCode::InvalidRequest.as_str(),
                "The request body is incomplete or malformed",
                "Send it again.",
            ),
        }
    }

    /// Why it is so, if more is known.
    pub(crate) fn reason(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::NotRunning(ResumeError::NotFound(reason)) => reason.as_deref().map(Cow::from),
            Self::NotRunning(ResumeError::AtCapacity(reason) | ResumeError::Failed(reason)) => Some(reason.into()),
            Self::BadHead(error) => Some(error.to_string().into()),
            _ => None,
        }
    }
}

/// Whether a browser loads a page.
pub(crate) fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    let has = |name, part: &str| {
        headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).is_some_and(|value| value.contains(part))
    };
    (method == Method::GET || method == Method::HEAD) && has(ACCEPT, "text/html") && has(USER_AGENT, "Mozilla/")
}

/// E2B's clients look for `was not found` and `port is not open` in these bodies.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProxyErrorBody<'a> {
    sandbox_id: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(rename = "error_code")]
    error_code: &'static str,
}

/// The response to a request for a sandbox's port that failed: a page for browsers, JSON for everything else.
pub(crate) fn proxy_error(id: &SandboxId, port: u16, error: &ProxyError, navigation: bool) -> Response<Body> {
    let (status, error_code, message, advice) = error.parts();
    let reason = error.reason();
    let reason = reason.as_deref();
    if navigation {
        return page(status, message, reason, advice, id, port);
    }
    let port = (!matches!(error, ProxyError::NotRunning(ResumeError::NotFound(_)))).then_some(port);
    json(status, &ProxyErrorBody { sandbox_id: id.as_str(), message, port, code: status.as_u16(), reason, error_code })
}

/// An error that concerns a service.
pub(crate) fn service_error(
    status: StatusCode,
    id: &SandboxId,
    port: u16,
    message: &str,
    error_code: &'static str,
) -> Response<Body> {
    let (sandbox_id, port, code) = (id.as_str(), Some(port), status.as_u16());
    json(status, &ProxyErrorBody { sandbox_id, message, port, code, reason: None, error_code })
}

/// Body of errors that do not concern a sandbox.
#[derive(Serialize)]
struct ErrorBody<'a> {
    code: u16,
    message: &'a str,
    error_code: &'static str,
}

/// An error that does not concern a sandbox.
pub(crate) fn error(status: StatusCode, code: ErrorCode, message: &str) -> Response<Body> {
    json(status, &ErrorBody { code: status.as_u16(), message, error_code: code.as_str() })
}

/// The response to a request that the guard rejected.
pub(crate) fn rejected(rejection: Rejection) -> Response<Body> {
    let mut response = error(rejection.status, ErrorCode::InvalidRequest, rejection.message);
    if rejection.status == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE {
        // Pages below the domain can set cookies for all of it, until the console's requests are too large.
        response.headers_mut().insert(CLEAR_SITE_DATA, HeaderValue::from_static("\"cookies\""));
    }
    response
}

/// The response to a client that sends too many requests.
pub(crate) fn too_many(too_many: TooMany) -> Response<Body> {
    let message = format!("Too many requests from this address; try again in {} s", too_many.retry_after);
    let mut response = error(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimited, &message);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(too_many.retry_after));
    response
}

/// Keeps a page that a link leads to from acting as the API's own: its scripts do not run, and it has no origin.
pub(crate) fn distrust(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// An error in E2B's text form, for hosts and headers with a malformed id or port.
pub(crate) fn text(message: &'static str) -> Response<Body> {
    own(StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", message.into())
}

/// Whether this is a CORS preflight.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ORIGIN) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Every origin is allowed: tokens protect the guest, not origins.
pub(crate) fn preflight(headers: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let out = response.headers_mut();
    out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    out.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    // `*` does not cover Authorization, so the requested names are repeated.
    let requested = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    out.insert(ACCESS_CONTROL_ALLOW_HEADERS, requested.unwrap_or(HeaderValue::from_static("*")));
    out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    response
}

/// Lets browsers read a response of the guest, unless it has its own CORS headers.
pub(crate) fn allow_origin(headers: &mut HeaderMap) {
    if !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    }
}

fn json(status: StatusCode, body: &impl Serialize) -> Response<Body> {
    // These bodies hold only text and numbers.
    own(status, "application/json; charset=utf-8", serde_json::to_vec(body).unwrap_or_default())
}

fn own(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

fn page(
    status: StatusCode,
    message: &str,
    reason: Option<&str>,
    advice: &str,
    id: &SandboxId,
    port: u16,
) -> Response<Body> {
    let reason = reason.map(|reason| format!("<p>{}</p>", escape(reason))).unwrap_or_default();
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{message}</title>\
         <style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto 0;\
         padding:0 1.5rem}}h1{{font-size:1.35rem;line-height:1.3}}small{{opacity:.65}}</style></head>\
         <body><main><h1>{message}</h1>{reason}<p>{advice}</p><p><small>Sandbox {id}, port {port} · {code}</small></p>\
         </main></body></html>",
        code = status.as_u16(),
    );
    let mut response = own(status, "text/html; charset=utf-8", html.into_bytes());
    response.headers_mut().insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors *"),
    );
    response
}

/// Text for HTML, also in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
