//! The team's secrets, in E2B's form and in Novita's on the same paths. Values are never returned, and errors have fixed
//! texts that repeat nothing of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, Path, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cabana_store::{SealedSecret, SecretRef};
use cabana_types::egress::HostPattern;
use cabana_types::egress::template::is_secret_name;
use cabana_types::limits::{
    MAX_SECRET_BYTES, MAX_SECRET_DESCRIPTION, MAX_SECRET_HOSTS, MAX_SECRET_METADATA, MAX_SECRETS, PAGE,
};
use cabana_types::wire::{
    DeletedSecret, NewSecret, SecretBinding, SecretBindings, SecretInfo, SecretList, SecretReplacement, SecretUpdate,
    SecretView,
};
use cabana_types::{ErrorCode, Secret, SecretId};
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::Body;
use super::novita::is_novita;
use super::query::Query;
use crate::auth::Caller;
use crate::error::{ApiError, Error};
use crate::vault;

const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");
/// Longest name.
const MAX_NAME: usize = 128;

/// The routes. No answer is to be kept by anything in between.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list_secrets, create_secret))
        .routes(routes!(get_secret, update_secret, replace_secret, delete_secret))
        .layer(axum::middleware::map_response(async |mut response: Response| {
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }))
}

/// Create a secret. Header transforms of a sandbox's network rules use it as `${e2b.secrets.NAME}`; its value never
/// enters the sandbox.
#[utoipa::path(post, path = "/secrets", tag = "secrets", request_body = NewSecret,
    responses((status = 201, description = "The secret, without its value", body = SecretView)))]
pub(super) async fn create_secret(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    QuietBody(request): QuietBody<NewSecret>,
) -> Result<(StatusCode, Json<SecretView>), ApiError> {
    let novita = request.hosts.is_some();
    let name = match novita {
        true => Some(request.name).filter(|name| is_novita_name(name)),
        false => Some(request.name.trim().to_ascii_lowercase()).filter(|name| is_secret_name(name)),
    };
    let name = name.filter(|name| !is_id(name)).ok_or_else(invalid)?;
    let new = vault::NewSecret {
        name,
        value: check_value(request.value)?,
        metadata: check_metadata(request.metadata.unwrap_or_default())?,
        hosts: request.hosts.map(check_hosts).transpose()?.unwrap_or_default(),
        description: check_description(request.description)?,
    };
    match app.vault.secrets.create(caller.team, new).await.map_err(failed)? {
        Some(secret) => Ok((StatusCode::CREATED, Json(view(secret, novita)))),
        None => Err(ApiError::new(ErrorCode::SecretConflict, "Secret cannot be modified in its current state")),
    }
}

/// List the team's secrets.
#[utoipa::path(get, path = "/secrets", tag = "secrets",
    params(
        ("limit" = Option<u32>, Query, description = "Rows of a page, 1 to 100 (default)"),
        ("nextToken" = Option<String>, Query, description = "`x-next-token` of the page before"),
    ),
    responses((status = 200, description = "Secrets without their values, oldest first; all of them for Novita's clients",
        body = SecretList,
        headers(("x-next-token" = String, description = "Where the next page goes on; absent on the last")))))]
pub(super) async fn list_secrets(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    sent: HeaderMap,
    query: Query,
) -> Result<(HeaderMap, Json<SecretList>), ApiError> {
    let mut headers = HeaderMap::new();
    if is_novita(&sent) {
        let rows = app.store.secrets(&caller.team, None, MAX_SECRETS).await?;
        let secrets = rows.into_iter().map(binding).collect();
        return Ok((headers, Json(SecretList::All(SecretBindings { secrets }))));
    }
    let limit = query.limit(*PAGE.end(), *PAGE.end()).map_err(|_| invalid())?;
    let after: Option<SecretId> = query.text("nextToken").map(str::parse).transpose().map_err(|_| invalid())?;
    // One more than requested shows whether there is another page.
    let mut rows = app.store.secrets(&caller.team, after.as_ref(), limit + 1).await?;
    if rows.len() > limit as usize {
        rows.truncate(limit as usize);
        if let Some(token) = rows.last().and_then(|row| HeaderValue::from_str(row.id.as_str()).ok()) {
            headers.insert(NEXT_TOKEN, token);
        }
    }
    Ok((headers, Json(SecretList::Page(rows.into_iter().map(info).collect()))))
}

/// Get a secret, without its value.
#[utoipa::path(get, path = "/secrets/{secretID}", tag = "secrets",
    params(("secretID" = String, Path, description = "Its id or name")),
    responses((status = 200, description = "The secret", body = SecretView)))]
pub(super) async fn get_secret(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    sent: HeaderMap,
    secret: Result<Path<String>, PathRejection>,
) -> Result<Json<SecretView>, ApiError> {
    let novita = is_novita(&sent);
    let found = app.store.secret(&caller.team, &named(secret, novita)?).await?;
    Ok(Json(view(found.ok_or_else(missing)?, novita)))
}

/// Set a new value. Requests that follow use it; the old one is deleted.
#[utoipa::path(post, path = "/secrets/{secretID}", tag = "secrets", request_body = SecretUpdate,
    params(("secretID" = String, Path, description = "Its id or name")),
    responses((status = 200, description = "The secret with its new version", body = SecretInfo)))]
pub(super) async fn update_secret(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    secret: Result<Path<String>, PathRejection>,
    QuietBody(request): QuietBody<SecretUpdate>,
) -> Result<Json<SecretInfo>, ApiError> {
    let new = vault::NewValue {
        value: check_value(request.value)?,
        metadata: request.metadata.map(check_metadata).transpose()?,
        binding: None,
    };
    let changed = app.vault.secrets.update(&caller.team, &named(secret, false)?, new).await.map_err(failed)?;
    changed.map(|secret| Json(info(secret))).ok_or_else(missing)
}

/// Set a new value and the hosts that it is for (Novita).
#[utoipa::path(put, path = "/secrets/{secretID}", tag = "secrets", request_body = SecretReplacement,
    params(("secretID" = String, Path, description = "Its name")),
    responses((status = 200, description = "The secret", body = SecretBinding)))]
pub(super) async fn replace_secret(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    secret: Result<Path<String>, PathRejection>,
    QuietBody(request): QuietBody<SecretReplacement>,
) -> Result<Json<SecretBinding>, ApiError> {
    let new = vault::NewValue {
        value: check_value(request.value)?,
        metadata: None,
        binding: Some((check_hosts(request.hosts)?, check_description(request.description)?)),
    };
    let changed = app.vault.secrets.update(&caller.team, &named(secret, true)?, new).await.map_err(failed)?;
    changed.map(|secret| Json(binding(secret))).ok_or_else(missing)
}

/// Delete a secret. Requests that need it are refused from then on.
#[utoipa::path(delete, path = "/secrets/{secretID}", tag = "secrets",
    params(("secretID" = String, Path, description = "Its id or name")),
    responses(
        (status = 204, description = "The secret is deleted"),
        (status = 200, description = "The same, for Novita's clients", body = DeletedSecret),
    ))]
pub(super) async fn delete_secret(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    sent: HeaderMap,
    secret: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let novita = is_novita(&sent);
    let found = app.store.secret(&caller.team, &named(secret, novita)?).await?.ok_or_else(missing)?;
    if !app.store.remove_secret(caller.team, found.id).await? {
        return Err(missing());
    }
    Ok(match novita {
        true => Json(DeletedSecret { deleted: found.name }).into_response(),
        false => StatusCode::NO_CONTENT.into_response(),
    })
}

/// A body whose errors repeat nothing of it.
#[derive(Debug)]
pub(super) struct QuietBody<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for QuietBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Body::from_request(request, state).await {
            Ok(Body(body)) => Ok(Self(body)),
            Err(error) if error.code() == ErrorCode::BodyTooLarge => Err(error),
            Err(_) => Err(invalid()),
        }
    }
}

fn invalid() -> ApiError {
    ApiError::invalid("Invalid secrets request")
}

fn missing() -> ApiError {
    ApiError::new(ErrorCode::SecretNotFound, "Secret not found")
}

fn failed(error: Error) -> ApiError {
    match error {
        Error::Store(error) => error.into(),
        error => ApiError::internal(&error),
    }
}

/// A text that begins like an id is an id and never a name.
fn is_id(text: &str) -> bool {
    text.get(..SecretId::PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(SecretId::PREFIX))
}

fn is_novita_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// The secret that a path names. What cannot be a name is one that does not exist.
fn named(secret: Result<Path<String>, PathRejection>, novita: bool) -> Result<SecretRef, ApiError> {
    let Path(text) = secret.map_err(|_| missing())?;
    let text = text.trim();
    match is_id(text) && !novita {
        true => text.to_ascii_lowercase().parse().map(SecretRef::Id).map_err(|_| missing()),
        false if text.len() <= MAX_NAME => Ok(SecretRef::Name(text.to_owned())),
        false => Err(missing()),
    }
}

fn check_value(value: Secret) -> Result<Secret, ApiError> {
    (value.expose().len() <= MAX_SECRET_BYTES).then_some(value).ok_or_else(invalid)
}

fn check_metadata(metadata: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, ApiError> {
    let (entries, key, value, total) = MAX_SECRET_METADATA;
    let fits = metadata.len() <= entries
        && metadata.iter().all(|(k, v)| (1..=key).contains(&k.len()) && v.len() <= value)
        && metadata.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() <= total;
    fits.then_some(metadata).ok_or_else(invalid)
}

/// Hosts in lower case, without repetitions.
fn check_hosts(hosts: Vec<String>) -> Result<Vec<String>, ApiError> {
    if !(1..=MAX_SECRET_HOSTS).contains(&hosts.len()) {
        return Err(invalid());
    }
    let mut checked: Vec<String> = vec![];
    for host in hosts {
        match host.trim().parse() {
            Ok(HostPattern::Any) | Err(_) => return Err(invalid()),
            Ok(pattern) => checked.push(pattern.to_string()),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    checked.retain(|host| seen.insert(host.clone()));
    Ok(checked)
}

fn check_description(description: Option<String>) -> Result<Option<String>, ApiError> {
    let fits = description.as_ref().is_none_or(|text| text.len() <= MAX_SECRET_DESCRIPTION);
    if fits { Ok(description) } else { Err(invalid()) }
}

fn view(secret: SealedSecret, novita: bool) -> SecretView {
    if novita { SecretView::Binding(binding(secret)) } else { SecretView::Info(info(secret)) }
}

fn info(secret: SealedSecret) -> SecretInfo {
    SecretInfo {
        secret_id: secret.id,
        name: secret.name.to_ascii_lowercase(),
        current_version: secret.version,
        metadata: secret.metadata,
        created_at: secret.created_at,
        updated_at: secret.updated_at,
    }
}

fn binding(secret: SealedSecret) -> SecretBinding {
    SecretBinding {
        name: secret.name,
        hosts: secret.hosts,
        placeholder: secret.placeholder,
        has_secret: true,
        status: "ready".into(),
        description: secret.description,
        updated_at: Some(secret.updated_at),
    }
}
