//! What people see while there is nothing of a service to pass on. All of it is escaped; no page does anything but look
//! again: a hostile page of the service has the same origin.

use axum::body::Body;
use cabana_types::service::{Access, LAST_LINES, MAX_LINE, ServiceState};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};

use super::bridge::nonce;
use super::frames;
use super::{Preview, ServiceStatus, Visitor};
use crate::response::escape;

const STYLE: &str = ":root{color-scheme:light dark;--line:#ddd8cf;--dim:#6b665d;--ground:#f6f3ee}\
    @media(prefers-color-scheme:dark){:root{--line:#3b3832;--dim:#a49e92;--ground:#22201d}}\
    body{font:14px/22px system-ui,sans-serif;max-width:44rem;margin:12vh auto 0;padding:0 24px}\
    h1{font-size:16px;line-height:24px;margin:0}p{margin:8px 0}.dim{color:var(--dim)}\
    pre{font:12px/18px ui-monospace,monospace;background:var(--ground);border:1px solid var(--line);border-radius:6px;\
    padding:12px;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate}a{color:inherit}";
const LOOK_AGAIN: &str = "const look=async()=>{try{const a=await fetch('/.cabana/status',{cache:'no-store'});\
    if(a.status===403||a.ok&&(await a.json()).state!=='starting'){location.reload();return}}catch{}setTimeout(look,1000)};\
    setTimeout(look,1000)";

/// A page about a service in a state, for a visitor.
pub(super) fn of_service(visitor: &Visitor, status: &ServiceStatus, console_origin: &str) -> Response<Body> {
    let preview = &visitor.preview;
    let name = escape(&preview.name);
    let (code, word, what) = match status.state {
        ServiceState::Starting => {
            (StatusCode::SERVICE_UNAVAILABLE, "Starting", "It opens here as soon as its port is open.")
        }
        ServiceState::Running => {
            (StatusCode::BAD_GATEWAY, "Not answering", "It runs, but nothing listens on its port. Reload to try again.")
        }
        ServiceState::Suspended => {
            (StatusCode::SERVICE_UNAVAILABLE, "Suspended", "Its sandbox is paused and could not be resumed.")
        }
        ServiceState::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "Stopped", "Nothing is served here now."),
        ServiceState::Error => (StatusCode::BAD_GATEWAY, "Failed", "Nothing is served here now."),
    };
    let mut html = format!("<h1>{name}: {word}</h1><p>{what}</p>");
    // Output and reasons are for the team: others may have come by a link, or by chance.
    if visitor.member {
        if let Some(reason) = &status.reason {
            html.push_str(&format!("<p>{}</p>", line(reason)));
        }
        let first = status.last_lines.len().saturating_sub(LAST_LINES);
        if !status.last_lines.is_empty() {
            let lines: Vec<String> = status.last_lines[first..].iter().map(|text| line(text)).collect();
            html.push_str(&format!("<p class=\"dim\">Its last lines:</p><pre>{}</pre>", lines.join("\n")));
        }
        let console = visitor.console.as_deref().unwrap_or(console_origin);
        html.push_str(&format!(
            "<p><a href=\"{}/console/sandboxes/{}/ports?service={}\" target=\"_top\" rel=\"noreferrer\">Restart service</a></p>",
            escape(console),
            preview.sandbox,
            preview.service,
        ));
    }
    let script = (status.state == ServiceState::Starting).then_some(LOOK_AGAIN);
    page(code, &format!("{name}: {word}"), &html, script, &frame_policy(visitor, console_origin))
}

fn frame_policy(visitor: &Visitor, console_origin: &str) -> String {
    match visitor.preview.access {
        Access::Public => "frame-ancestors *".to_owned(),
        _ => frames::ancestors(visitor.console.as_deref().unwrap_or(console_origin)),
    }
}

/// For a frame whose visitor is not known. `sign_in` is the console's page that leads back here.
pub(super) fn sign_in(preview: &Preview, sign_in: &str, console_origin: &str) -> Response<Body> {
    let html = format!(
        "<h1>Sign in to see this</h1><p>This service is private.</p>\
         <p><a href=\"{}\" target=\"_blank\" rel=\"noreferrer\">Sign in</a></p>",
        escape(sign_in)
    );
    let policy = match preview.access {
        Access::Public => "frame-ancestors *".to_owned(),
        _ => frames::ancestors(console_origin),
    };
    page(StatusCode::FORBIDDEN, "Sign in to see this", &html, None, &policy)
}

/// For the host of a grant that is not valid, or no longer.
pub(super) fn ended_link() -> Response<Body> {
    let html = "<h1>This link is not valid</h1><p>It has expired, was revoked, or is mistyped. Ask for a new one.</p>";
    page(StatusCode::NOT_FOUND, "This link is not valid", html, None, "frame-ancestors *")
}

/// Escaped text of a sandbox, bounded, without control characters.
fn line(text: &str) -> String {
    let visible = text.chars().take(MAX_LINE).map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c });
    escape(&visible.collect::<String>())
}

fn page(status: StatusCode, title: &str, html: &str, script: Option<&str>, frame_policy: &str) -> Response<Body> {
    let nonce = nonce();
    let tag = script.map(|script| format!("<script nonce=\"{nonce}\">{script}</script>")).unwrap_or_default();
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><main>{html}</main>{tag}</body></html>"
    );
    let scripts =
        if script.is_some() { format!("script-src 'nonce-{nonce}'; connect-src 'self'; ") } else { String::new() };
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; {scripts}base-uri 'none'; form-action 'none'; {frame_policy}"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let strictest = HeaderValue::from_static("default-src 'none'");
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::try_from(policy).unwrap_or(strictest));
    response
}
