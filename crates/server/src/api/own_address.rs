//! The address by which a client reached this server, for links that it gets.

use axum::body::Body;
use cabana_edge::Peer;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Request, Uri};

/// Scheme and host by which the client reached this server.
pub(crate) fn own_address(request: &Request<Body>) -> Option<String> {
    let host = authority(request.uri(), request.headers())?;
    let forwarded = request.headers().get("x-forwarded-proto").and_then(|v| v.to_str().ok());
    let secure = request.extensions().get::<Peer>().is_some_and(|peer| peer.secure) || forwarded == Some("https");
    Some(format!("{}://{host}", if secure { "https" } else { "http" }))
}

fn authority(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    let sent = match uri.authority() {
        Some(authority) => authority.clone(),
        None => headers.get(HOST)?.to_str().ok()?.parse().ok()?,
    };
    Some(sent).filter(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'))
}
