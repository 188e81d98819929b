//! Redirects of `GET` requests.

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, LOCATION};
use http::{HeaderMap, Request, Response, Uri};
use http_body_util::Full;
use url::Url;

use crate::{Client, Error, Kind, ResponseBody};

const MAX_REDIRECTS: usize = 5;
const MAX_LOCATION: usize = 8192;

/// Host and port of a URI, without the scheme's default port.
pub fn authority(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match (uri.port_u16(), uri.scheme_str()) {
        (None, _) | (Some(443), Some("https")) | (Some(80), Some("http")) => host.to_owned(),
        (Some(port), _) => format!("{host}:{port}"),
    }
}

impl Client<Full<Bytes>> {
    /// Gets a URL and follows redirects, never from https to http. Credentials are sent to the first host only; the
    /// address of each host is checked.
    pub async fn get(&self, mut url: Url, mut headers: HeaderMap) -> Result<Response<ResponseBody>, Error> {
        headers.remove(HOST);
        let failed = |url: &Url, reason| {
            let host = url[url::Position::BeforeHost..url::Position::AfterPort].to_owned();
            Error { host, kind: Kind::Redirect(reason) }
        };
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::new(Full::default());
            *request.uri_mut() = uri(&url)?;
            *request.headers_mut() = headers.clone();
            let response = self.send(request).await?;
            let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirect) else {
                return Ok(response);
            };
            let location = location.to_str().ok().filter(|text| text.len() <= MAX_LOCATION);
            let next = location.and_then(|text| url.join(text).ok());
            let next = next.ok_or_else(|| failed(&url, "it redirects to something that is not a URL"))?;
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err(failed(&url, "it redirects from https to plain http"));
            }
            if next.origin() != url.origin() {
                headers.remove(AUTHORIZATION);
            }
            url = next;
        }
        Err(failed(&url, "it redirects without end"))
    }
}

/// The URI of a URL.
pub(crate) fn uri(url: &Url) -> Result<Uri, Error> {
    let malformed = |error: http::uri::InvalidUri| Error {
        host: url.host_str().unwrap_or_default().to_owned(),
        kind: Kind::Url(error.to_string()),
    };
    url.as_str().parse().map_err(malformed)
}
