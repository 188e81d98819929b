//! One repository at one registry or mirror, with authentication.

use std::sync::Mutex;
use std::sync::PoisonError;

use bytes::Bytes;
use cabana_http::{Client, ResponseBody};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::Deserialize;
use url::Url;

use super::challenge::{self, Challenge};
use super::credentials::{Login, authorization};
use super::response::{read, status_error};
use crate::blobs::Origin;
use crate::error::{Error, Result};
use crate::sources::authority;

const MAX_TOKEN: u64 = 64 << 10;

pub(super) struct Session<'a> {
    http: &'a Client<Full<Bytes>>,
    /// Up to and including `/v2/<repository>/`.
    base: Url,
    /// The registry as it is written in image names.
    pub(super) host: String,
    repository: String,
    login: Option<Login>,
    /// The `Authorization` header that worked last.
    access: Mutex<Option<HeaderValue>>,
}

#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: cabana_types::Secret,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        http: &'a Client<Full<Bytes>>,
        endpoint: &Url,
        host: &str,
        repository: &str,
        login: Option<Login>,
    ) -> Self {
        let mut base = endpoint.clone();
        base.set_path(&format!("/v2/{repository}/"));
        base.set_query(None);
        Self { http, base, host: host.to_owned(), repository: repository.to_owned(), login, access: Mutex::new(None) }
    }

    /// Who may use blobs that were fetched here.
    pub(super) fn origin(&self) -> Origin {
        match self.login {
            None => Origin::Open,
            Some(_) => Origin::Closed(format!("{}{}", self.host, self.base.path())),
        }
    }

    /// Gets `what` (`manifests/<tag>`, `blobs/<digest>`) and authenticates once if the registry asks for it. Statuses other than success
    /// are errors. `shown` names it in errors.
    pub(super) async fn get(&self, what: &str, mut headers: HeaderMap, shown: &str) -> Result<Response<ResponseBody>> {
        let url = self.base.join(what).map_err(|error| self.distrusted(error.to_string()))?;
        for round in 0..2 {
            headers.remove(header::AUTHORIZATION);
            let access = self.access.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(access) = access {
                headers.insert(header::AUTHORIZATION, access);
            }
            let response = self.http.get(url.clone(), headers.clone()).await?;
            match response.status() {
                StatusCode::UNAUTHORIZED if round == 0 => {
                    let said = response.headers().get_all(header::WWW_AUTHENTICATE).iter();
                    let challenge = challenge::parse(said.filter_map(|value| value.to_str().ok()));
                    let access = self.authorise(challenge).await?;
                    *self.access.lock().unwrap_or_else(PoisonError::into_inner) = Some(access);
                }
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.unauthorized()),
                StatusCode::NOT_FOUND => {
                    return Err(Error::NotFound { what: shown.to_owned(), host: self.host.clone() });
                }
                status if status.is_success() => return Ok(response),
                _ => return Err(status_error(response).await),
            }
        }
        Err(self.unauthorized())
    }

    async fn authorise(&self, challenge: Option<Challenge>) -> Result<HeaderValue> {
        let (realm, service, scope) = match (challenge, &self.login) {
            (Some(Challenge::Bearer { realm, service, scope }), _) => (realm, service, scope),
            (Some(Challenge::Basic), Some(login)) => return login.basic(),
            _ => return Err(self.unauthorized()),
        };
        let mut url: Url =
            realm.parse().map_err(|_| self.distrusted("the address of its token server is malformed"))?;
        if self.base.scheme() == "https" && url.scheme() != "https" {
            return Err(self.distrusted("its token server is not reached by https"));
        }
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", &service);
        }
        let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.repository));
        url.query_pairs_mut().append_pair("scope", &scope);
        let mut headers = HeaderMap::new();
        if let Some(login) = &self.login {
            headers.insert(header::AUTHORIZATION, login.basic()?);
        }
        let server = authority(&url);
        let response = self.http.get(url, headers).await?;
        if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST) {
            return Err(self.unauthorized());
        }
        if !response.status().is_success() {
            return Err(status_error(response).await);
        }
        let token: Token = serde_json::from_slice(&read(response, "the token", MAX_TOKEN).await?)
            .map_err(|_| self.distrusted(format!("the response of its token server {server} is malformed")))?;
        authorization("Bearer", token.token.expose())
    }

    pub(super) fn distrusted(&self, reason: impl Into<String>) -> Error {
        Error::Distrusted { host: self.host.clone(), reason: reason.into() }
    }

    fn unauthorized(&self) -> Error {
        let hint = if self.login.is_some() {
            format!("it refuses the given credentials; check that they may pull from {}", self.host)
        } else {
            format!(
                "the image does not exist or is private; for a private one give credentials for {} (a user name and \
                 password, an AWS key, or a GCP service account)",
                self.host
            )
        };
        Error::Unauthorized { host: self.host.clone(), repository: self.repository.clone(), hint }
    }
}
