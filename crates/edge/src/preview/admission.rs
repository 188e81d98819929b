//! Who may see a service at the host of its port, and what others get.

use std::sync::Arc;

use axum::body::Body;
use cabana_types::routing::{API_KEY_HEADER, TRAFFIC_TOKEN_HEADER};
use cabana_types::service::Access;
use http::header::{CACHE_CONTROL, LOCATION, REFERRER_POLICY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::site::Site;
use super::waking::Asked;
use super::{Preview, Previews, Visitor, page};
use crate::directory::Route;
use crate::{response, traffic};

/// Bytes of a URL that somebody is led back to.
const MAX_RETURN: usize = 2048;

/// Who makes a request. A view cookie counts only at the host that it is for, `site`.
pub(super) fn admit(
    previews: &dyn Previews,
    preview: &Arc<Preview>,
    site: Option<&Site>,
    headers: &HeaderMap,
    route: Option<&Route>,
) -> Option<Visitor> {
    let by_view = || {
        let cookies = site.map(|site| site.cookies(headers)).unwrap_or_default();
        cookies.into_iter().find_map(|cookie| previews.by_view(preview, cookie))
    };
    let by_key = || {
        let mut keys = headers.get_all(API_KEY_HEADER).iter();
        match (keys.next().and_then(|key| key.to_str().ok()), keys.next()) {
            (Some(key), None) => previews.by_key(preview, key),
            _ => None,
        }
    };
    let by_token = || {
        let traffic = &route?.traffic;
        let knows = traffic.token.is_some() && traffic::check_token(traffic, headers).is_ok();
        knows.then(|| Visitor { member: true, ..anyone(preview) })
    };
    let by_nothing = || (preview.access == Access::Public).then(|| anyone(preview));
    by_view().or_else(by_key).or_else(by_token).or_else(by_nothing)
}

fn anyone(preview: &Arc<Preview>) -> Visitor {
    Visitor { preview: Arc::clone(preview), member: false, console: None, until: vec![], grant: None }
}

/// Whether a request says that it knows the sandbox's token, which can be checked only while the sandbox runs.
pub(super) fn has_token(headers: &HeaderMap) -> bool {
    headers.contains_key(TRAFFIC_TOKEN_HEADER)
}

/// The answer to somebody who may not see a service, or not yet. `to` is where they wanted to go at `site`.
pub(super) fn refuse(
    previews: &dyn Previews,
    preview: &Preview,
    site: Option<&Site>,
    asked: Asked,
    to: &str,
) -> Response<Body> {
    let Some(site) = site.filter(|_| asked.page) else {
        let message = "This service is private: sign in, or send an API key of its team";
        let (id, port) = (&preview.sandbox, preview.port);
        return response::service_error(StatusCode::FORBIDDEN, id, port, message, "preview_forbidden");
    };
    let to = if to.len() <= MAX_RETURN { to } else { "/" };
    let mut back = url::form_urlencoded::Serializer::new(String::new());
    back.append_pair("to", &format!("{}{to}", site.origin()));
    let console = previews.console_origin();
    let sign_in = format!("{console}/console/preview?{}", back.finish());
    if asked.framed { page::sign_in(preview, &sign_in, console) } else { redirect(&sign_in) }
}

/// Leads a browser elsewhere, without telling where from.
pub(super) fn redirect(to: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/")));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
