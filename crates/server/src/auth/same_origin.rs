//! Requests with a session cookie come from pages of this server only. A browser adds the cookie to requests of any page, and a page in a
//! sandbox's preview is even of the same site, so the cookie alone proves nothing.

use axum::body::Body;
use cabana_types::{ErrorCode, Secret, TeamId};
use http::header::{CONTENT_TYPE, COOKIE, ORIGIN, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request};
use jiff::SignedDuration;

use super::no_team;
use crate::api::own_address;
use crate::error::ApiError;

/// Names the team that a change is for. A form or an image of another page cannot send it.
const TEAM_HEADER: &str = "x-cabana-team";
const FETCH_SITE: &str = "sec-fetch-site";
/// What bodies may be: a page can send other kinds to any server without asking it first.
const BODIES: [&str; 3] = ["application/json", "multipart/form-data", "application/octet-stream"];
/// How long a browser keeps the cookie: as long as a session can last.
const COOKIE_LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The origin of the console, as the client reached it.
#[derive(Debug)]
pub(crate) struct OwnOrigin {
    /// `https://cabana.example.com`.
    text: String,
    /// Name of the session cookie. Cookies ignore ports, so it names the port where nothing else tells servers apart.
    cookie: String,
    secure: bool,
}

impl OwnOrigin {
    /// The origin of a request; `configured` if the operator has set one.
    pub(crate) fn of(request: &Request<Body>, configured: Option<&str>) -> Option<Self> {
        let text = match configured {
            Some(origin) => origin.to_owned(),
            None => own_address(request)?,
        };
        let secure = text.starts_with("https://");
        let cookie = match (secure, text.rsplit_once(':')) {
            (true, _) => "__Host-cabana_session".to_owned(),
            (false, Some((_, port))) if port.bytes().all(|b| b.is_ascii_digit()) => format!("cabana_session_{port}"),
            (false, _) => "cabana_session_80".to_owned(),
        };
        Some(Self { text, cookie, secure })
    }

    /// The origin as text, without a slash at its end.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The token in the session cookie. Of several, the last: one for all paths is sent after those for longer paths, which
    /// we never set.
    pub(crate) fn session_token<'r>(&self, headers: &'r HeaderMap) -> Option<&'r str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, token)| *name == self.cookie && !token.is_empty()).map(|(_, token)| token).next_back()
    }

    /// A cookie that holds a session's token.
    pub(crate) fn cookie(&self, token: &Secret) -> Option<HeaderValue> {
        self.set_cookie(token.expose(), COOKIE_LIFETIME.as_secs())
    }

    /// Removes the cookie.
    pub(crate) fn no_cookie(&self) -> Option<HeaderValue> {
        self.set_cookie("", 0)
    }

    fn set_cookie(&self, value: &str, seconds: i64) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!("{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}", self.cookie);
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Whether a request with the cookie is one of our pages'. Returns the team that it is for, if it names one, as changes must. Reads
    /// of which a page cannot choose the headers, such as of images, name it in the address. `usual` is the team of the session.
    pub(super) fn check(&self, request: &Request<Body>, usual: &TeamId) -> Result<Option<TeamId>, ApiError> {
        let (method, headers) = (request.method(), request.headers());
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let upgrades = headers.contains_key(UPGRADE);
        self.check_site(headers, reads && !upgrades)?;
        let named = match headers.get(TEAM_HEADER) {
            Some(value) => Some(value.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(no_team)?),
            None if reads => team_in_query(request)?,
            None => return Err(refused(&format!("send the header X-Cabana-Team: {usual}"))),
        };
        if reads {
            return Ok(named);
        }
        if let Some(kind) = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default())
            && !BODIES.contains(&kind.split(';').next().unwrap_or_default().trim())
        {
            return Err(refused("a body must be JSON, a form with files, or bytes"));
        }
        Ok(named)
    }

    /// Whether our own page made a request. `may_lack_origin`: browsers send no `Origin` with reads.
    fn check_site(&self, headers: &HeaderMap, may_lack_origin: bool) -> Result<(), ApiError> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let site = text(FETCH_SITE);
        // `none` is a person who typed the address, or opened a bookmark.
        let trusted = |site: &str| site == "same-origin" || (may_lack_origin && site == "none");
        if site.is_some_and(|site| !trusted(site)) {
            return Err(refused("another page sent the request"));
        }
        match text(ORIGIN.as_str()) {
            Some(origin) if origin.eq_ignore_ascii_case(&self.text) => Ok(()),
            None if may_lack_origin => Ok(()),
            _ => Err(refused("the Origin is not the console's")),
        }
    }
}

fn team_in_query(request: &Request<Body>) -> Result<Option<TeamId>, ApiError> {
    let query = request.uri().query().unwrap_or_default();
    let named = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == TEAM_HEADER);
    named.map(|(_, team)| team.parse().map_err(|_| no_team())).transpose()
}

/// Signing in is for our own page too: another page must not sign a person in as somebody else.
pub(crate) fn check_sign_in(request: &Request<Body>, configured: Option<&str>) -> Result<OwnOrigin, ApiError> {
    let own = OwnOrigin::of(request, configured).ok_or_else(|| refused("the request names no host"))?;
    own.check_site(request.headers(), false)?;
    Ok(own)
}

fn refused(why: &str) -> ApiError {
    let text = format!("A session cookie counts only for the console's own page: {why}. Programs use an API key");
    ApiError::new(ErrorCode::Forbidden, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request<Body> {
        let mut request = Request::builder().method(method).uri("/sandboxes").header("host", "localhost:3000");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).expect("request")
    }

    fn allowed(method: &str, headers: &[(&str, &str)]) -> bool {
        let request = request(method, headers);
        let own = OwnOrigin::of(&request, None).expect("origin");
        own.check(&request, &"default".parse().expect("id")).is_ok()
    }

    const OURS: (&str, &str) = ("origin", "http://localhost:3000");
    const SAME: (&str, &str) = ("sec-fetch-site", "same-origin");
    const TEAM: (&str, &str) = ("x-cabana-team", "default");

    #[test]
    fn reads_of_other_pages_are_refused() {
        assert!(allowed("GET", &[]));
        assert!(allowed("GET", &[SAME]));
        assert!(allowed("GET", &[("sec-fetch-site", "none")]));
        for other in ["same-site", "cross-site", "nonsense"] {
            assert!(!allowed("GET", &[("sec-fetch-site", other)]), "{other}");
        }
        assert!(!allowed("GET", &[("origin", "http://8080-iabc.localhost:3000")]));
        assert!(!allowed("GET", &[("origin", "null")]));
    }

    #[test]
    fn changes_need_origin_team_and_a_body_that_no_form_sends() {
        let json = ("content-type", "application/json; charset=utf-8");
        assert!(allowed("POST", &[OURS, SAME, TEAM, json]));
        assert!(allowed("DELETE", &[OURS, TEAM]));
        assert!(!allowed("POST", &[SAME, TEAM, json]), "no Origin");
        assert!(!allowed("POST", &[OURS, SAME, json]), "no team");
        assert!(!allowed("POST", &[OURS, SAME, ("x-cabana-team", "no team!"), json]));
        // Whether the person is in it is not decided here.
        let other = request("POST", &[OURS, SAME, ("x-cabana-team", "other"), json]);
        let named = OwnOrigin::of(&other, None).expect("origin").check(&other, &"default".parse().expect("id"));
        assert_eq!(named.expect("allowed").expect("named").as_str(), "other");
        assert!(!allowed("POST", &[OURS, ("sec-fetch-site", "none"), TEAM, json]));
        for form in ["text/plain", "application/x-www-form-urlencoded", ""] {
            assert!(!allowed("POST", &[OURS, SAME, TEAM, ("content-type", form)]), "{form}");
        }
        for origin in ["https://localhost:3000", "http://localhost", "http://localhost:3000.evil.test", "null", ""] {
            assert!(!allowed("POST", &[("origin", origin), TEAM, json]), "{origin}");
        }
    }

    #[test]
    fn a_web_socket_needs_the_origin() {
        let upgrade = ("upgrade", "websocket");
        assert!(allowed("GET", &[upgrade, OURS]));
        assert!(!allowed("GET", &[upgrade]));
        assert!(!allowed("GET", &[upgrade, ("origin", "http://evil.test")]));
    }

    #[test]
    fn cookies_are_named_by_origin() {
        let own = |origin: &str| OwnOrigin::of(&request("GET", &[]), Some(origin)).expect("origin");
        let cookie = |origin: &str| {
            let value = own(origin).cookie(&Secret::new("t")).expect("cookie");
            value.to_str().expect("text").to_owned()
        };
        assert!(cookie("https://a.test").starts_with("__Host-cabana_session=t; Path=/; HttpOnly; SameSite=Lax; "));
        assert!(cookie("https://a.test").ends_with("; Secure"));
        assert!(cookie("http://localhost:3000").starts_with("cabana_session_3000=t; "));
        assert!(cookie("http://localhost").starts_with("cabana_session_80=t; "));
        let sent =
            request("GET", &[("cookie", "a=b; cabana_session_3000=one; cabana_session_30001=two"), ("cookie", "c=d")]);
        assert_eq!(own("http://localhost:3000").session_token(sent.headers()), Some("one"));
        assert_eq!(own("http://localhost:3001").session_token(sent.headers()), None);
    }
}
