//! The answers that the edge gives itself: JSON in E2B's form for programs, a plain page for people.

use axum::body::Body;
use cabana_types::SandboxId;
use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ORIGIN, USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;

use super::guard::Rejection;

/// Why a request that names a sandbox did not get through to it.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is not up. The words say why, if it ever was.
    NotFound(Option<String>),
    /// It sleeps, should wake, and there is no room for it.
    NoRoom(String),
    /// It sleeps, should wake, and could not.
    NotWoken(String),
    /// It is up, but nothing listens on the port.
    PortClosed,
    /// What listens there closed the connection, or spoke nonsense.
    NoAnswer,
    /// What listens there took too long.
    TooSlow,
    /// More connections are open to it than one sandbox may have.
    Crowded,
    /// Its ports are not public, and there was no token.
    NoTrafficToken,
    /// Its ports are not public, and the token was another.
    WrongTrafficToken,
    /// The request's own body broke off.
    BrokenBody,
}

/// Whether a person's browser asks for a page.
pub(super) fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    let has = |name, part: &str| {
        headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).is_some_and(|value| value.contains(part))
    };
    (method == Method::GET || method == Method::HEAD) && has(ACCEPT, "text/html") && has(USER_AGENT, "Mozilla/")
}

/// E2B's clients look for `was not found` and `port is not open` in these bodies.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefusalBody<'a> {
    sandbox_id: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Says why a sandbox's port cannot answer.
pub(super) fn refusal(id: &SandboxId, port: u16, refusal: &Refusal, navigation: bool) -> Response<Body> {
    let (status, message, advice) = match refusal {
        Refusal::NotFound(_) => (
            StatusCode::BAD_GATEWAY,
            "The sandbox was not found",
            "It may have ended, expired or been paused. Start it again, or create a new one.",
        ),
        Refusal::NoRoom(_) => (
            StatusCode::TOO_MANY_REQUESTS,
            "The sandbox is asleep and cannot be woken now: as many are up as the server allows",
            "Pause or kill another one, then try again.",
        ),
        Refusal::NotWoken(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The sandbox is asleep and could not be woken",
            "Try again; if it stays so, recover it.",
        ),
        Refusal::PortClosed => (
            StatusCode::BAD_GATEWAY,
            "The sandbox is running but port is not open",
            "Start a server on this port inside the sandbox, then reload this page.",
        ),
        Refusal::NoAnswer => (
            StatusCode::BAD_GATEWAY,
            "The sandbox is running but the server on this port closed the connection without an answer",
            "Look at what that server printed, then reload this page.",
        ),
        Refusal::TooSlow => (
            StatusCode::GATEWAY_TIMEOUT,
            "The sandbox is running but the server on this port did not answer in time",
            "Look at what that server is doing, then reload this page.",
        ),
        Refusal::Crowded => (
            StatusCode::TOO_MANY_REQUESTS,
            "The sandbox has too many open connections",
            "Close some of them, then try again.",
        ),
        Refusal::NoTrafficToken => (
            StatusCode::FORBIDDEN,
            "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing",
            "Its ports are not public: a program that knows the token can reach them.",
        ),
        Refusal::WrongTrafficToken => (
            StatusCode::FORBIDDEN,
            "Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid",
            "Its ports are not public: a program that knows the token can reach them.",
        ),
        Refusal::BrokenBody => {
            (StatusCode::BAD_REQUEST, "The request body is incomplete or malformed", "Send it again.")
        }
    };
    let reason = match refusal {
        Refusal::NotFound(reason) => reason.as_deref(),
        Refusal::NoRoom(reason) | Refusal::NotWoken(reason) => Some(reason.as_str()),
        _ => None,
    };
    if navigation {
        return page(status, message, reason, advice, id, port);
    }
    let port = (!matches!(refusal, Refusal::NotFound(_))).then_some(port);
    json(status, &RefusalBody { sandbox_id: id.as_str(), message, port, code: status.as_u16(), reason })
}

/// Body of answers that do not concern a sandbox that could be named.
#[derive(Serialize)]
struct ErrorBody<'a> {
    code: u16,
    message: &'a str,
}

/// A plain error.
pub(super) fn error(status: StatusCode, message: &str) -> Response<Body> {
    json(status, &ErrorBody { code: status.as_u16(), message })
}

/// The answer to a request that the guard did not let in.
pub(super) fn rejected(rejection: Rejection) -> Response<Body> {
    error(rejection.status, rejection.message)
}

/// An error in E2B's text form, for hosts and headers that name no sandbox port.
pub(super) fn text(message: &'static str) -> Response<Body> {
    own(StatusCode::BAD_REQUEST, "text/plain; charset=utf-8", message.into())
}

/// Whether this is a browser asking if it may ask.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ORIGIN) && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Yes, it may: tokens protect the guest, not origins.
pub(super) fn preflight(headers: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let out = response.headers_mut();
    out.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    out.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    // `*` would not cover Authorization, so the names that were asked for are repeated.
    let asked = headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    out.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.unwrap_or(HeaderValue::from_static("*")));
    out.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    response
}

/// Lets browsers read an answer of the guest, where the guest did not say so itself.
pub(super) fn allow_origin(headers: &mut HeaderMap) {
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

fn escape(text: &str) -> String {
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
