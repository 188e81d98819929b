//! Passwords for Amazon's registry (ECR): one call signed with an AWS key (Signature Version 4) returns a password that is valid for some
//! hours.

use base64::Engine;
use bytes::Bytes;
use cabana_http::Client;
use cabana_types::Secret;
use hmac::{Hmac, Mac};
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::Full;
use serde::Deserialize;
use sha2::Sha256;
use url::Url;

use super::credentials::{Login, authorization};
use super::response::{message, read, status_error};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::sources::authority;

const TARGET: &str = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken";
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";
const MAX_ANSWER: u64 = 64 << 10;

/// An AWS key and its region.
pub(super) struct Key<'a> {
    pub(super) id: &'a str,
    pub(super) secret: &'a Secret,
    pub(super) region: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    authorization_data: Vec<Authorization>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authorization {
    authorization_token: Secret,
}

/// Requests a password. `endpoint` replaces Amazon's.
pub(super) async fn login(http: &Client<Full<Bytes>>, key: &Key<'_>, endpoint: Option<&Url>) -> Result<Login> {
    let invalid = |reason: &str| Error::InvalidCredentials(reason.to_owned());
    // The region becomes a part of a host name.
    let plain = |text: &str| {
        !text.is_empty() && text.len() <= 128 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if !plain(key.region) || !plain(key.id) {
        return Err(invalid("awsRegion and awsAccessKeyId may have letters, digits and - only"));
    }
    let url = match endpoint {
        Some(url) => url.clone(),
        None => {
            let suffix = if key.region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
            format!("https://api.ecr.{}.{suffix}/", key.region)
                .parse()
                .map_err(|_| invalid("awsRegion is malformed"))?
        }
    };
    let host = authority(&url);
    let date = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let body = b"{}";
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert("x-amz-target", HeaderValue::from_static(TARGET));
    headers.insert("x-amz-date", HeaderValue::from_str(&date).map_err(|_| invalid("the date is malformed"))?);
    let signed = [("content-type", CONTENT_TYPE), ("host", &host), ("x-amz-date", &date), ("x-amz-target", TARGET)];
    let (scheme, rest) = signature(key, "ecr", "POST", "/", &signed, body, &date);
    headers.insert(header::AUTHORIZATION, authorization(scheme, &rest)?);
    let mut request = Request::post(url.as_str())
        .body(Full::from(&body[..]))
        .map_err(|error| Error::Distrusted { host: host.clone(), reason: error.to_string() })?;
    *request.headers_mut() = headers;
    let response = http.send(request).await?;
    if response.status().is_client_error() {
        let said = message(response).await;
        return Err(Error::InvalidCredentials(format!("AWS refuses them: {said}")));
    }
    if !response.status().is_success() {
        return Err(status_error(response).await);
    }
    let malformed =
        || Error::Distrusted { host: host.clone(), reason: "its answer about credentials is malformed".to_owned() };
    let answer: Answer =
        serde_json::from_slice(&read(response, "the answer of AWS", MAX_ANSWER).await?).map_err(|_| malformed())?;
    let token = answer.authorization_data.first().ok_or_else(malformed)?;
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(token.authorization_token.expose())
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(malformed)?;
    let (username, password) = decoded.split_once(':').ok_or_else(malformed)?;
    Ok(Login { username: username.to_owned(), password: Secret::new(password) })
}

/// Scheme and credentials of the `Authorization` header. `headers` are sorted by name; there is no query.
fn signature(
    key: &Key<'_>,
    service: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    date: &str,
) -> (&'static str, String) {
    let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let request = format!("{method}\n{path}\n\n{lines}\n{names}\n{}", Digest::of(body).hex());
    let day = &date[..8];
    let scope = format!("{day}/{}/{service}/aws4_request", key.region);
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", Digest::of(request.as_bytes()).hex());
    let mut secret = format!("AWS4{}", key.secret.expose()).into_bytes();
    for part in [day, key.region, service, "aws4_request"] {
        secret = hmac(&secret, part.as_bytes());
    }
    let signed: String = hmac(&secret, text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    ("AWS4-HMAC-SHA256", format!("Credential={}/{scope}, SignedHeaders={names}, Signature={signed}", key.id))
}

fn hmac(key: &[u8], data: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The case `get-vanilla` of Amazon's published test suite.
    #[test]
    fn signatures_are_amazons() {
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let key = Key { id: "AKIDEXAMPLE", secret: &secret, region: "us-east-1" };
        let headers = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        let (_, rest) = signature(&key, "service", "GET", "/", &headers, b"", "20150830T123600Z");
        assert_eq!(
            rest,
            "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, \
             Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
    }

    #[test]
    fn hmac_is_the_standards() {
        let hex: String = hmac(b"Jefe", b"what do ya want for nothing?").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
