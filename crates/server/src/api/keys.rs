//! The team's API keys. A key itself is shown once, in the answer that makes it.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_store::{ApiKey as Row, KeyRemoval};
use cabana_types::limits::MAX_NAME_BYTES;
use cabana_types::wire::{ApiKey, KeyMask, KeyName, NewApiKey};
use cabana_types::{ErrorCode, KeyId};
use http::StatusCode;

use super::App;
use super::body::Body;
use crate::auth::{Caller, KEY_LENGTH, KEY_PREFIX, MAX_KEYS};
use crate::error::{Refusal, short};

/// List the team's keys.
#[utoipa::path(get, path = "/api-keys", tag = "teams",
    responses((status = 200, description = "Keys, oldest first", body = Vec<ApiKey>)))]
pub(super) async fn list_keys(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<ApiKey>>, Refusal> {
    let keys = app.store.team_keys(&caller.team).await?.into_iter().map(|mut key| {
        key.last_used_at = app.keys.used(&key.hash).or(key.last_used_at);
        shown(key)
    });
    Ok(Json(keys.collect()))
}

/// Make a key for the team.
#[utoipa::path(post, path = "/api-keys", tag = "teams", request_body = KeyName,
    responses((status = 201, description = "The key, which is shown this once", body = NewApiKey)))]
pub(super) async fn create_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<KeyName>,
) -> Result<(StatusCode, Json<NewApiKey>), Refusal> {
    let name = checked(&request.name)?.to_owned();
    // In a task of its own: a client that hangs up must not leave a key in the store that is not known here.
    let task = tokio::spawn(async move { app.keys.create(&app.store, &caller.team, &name).await });
    match task.await.unwrap_or(Err(cabana_store::Error::Closed))? {
        Some((key, secret)) => Ok((StatusCode::CREATED, Json(NewApiKey { shown: shown(key), key: secret }))),
        None => Err(Refusal::invalid(format!("The team has {MAX_KEYS} keys, as many as there may be; delete one"))),
    }
}

/// Give a key another name.
#[utoipa::path(patch, path = "/api-keys/{apiKeyID}", tag = "teams", request_body = KeyName,
    params(("apiKeyID" = String, Path, description = "Its id")),
    responses((status = 200, description = "It has the name")))]
pub(super) async fn rename_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    Body(request): Body<KeyName>,
) -> Result<StatusCode, Refusal> {
    let (id, name) = (named(id)?, checked(&request.name)?.to_owned());
    match app.store.rename_key(caller.team, id.clone(), name).await? {
        true => Ok(StatusCode::OK),
        false => Err(no_key(id.as_str())),
    }
}

/// Delete a key. It is refused from then on.
#[utoipa::path(delete, path = "/api-keys/{apiKeyID}", tag = "teams",
    params(("apiKeyID" = String, Path, description = "Its id")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Refusal> {
    let id = named(id)?;
    let wanted = id.clone();
    // In a task of its own: a client that hangs up must not leave a key valid that the store has forgotten.
    let task = tokio::spawn(async move { app.keys.remove(&app.store, caller.team, wanted).await });
    match task.await.unwrap_or(Err(cabana_store::Error::Closed))? {
        KeyRemoval::Removed => Ok(StatusCode::NO_CONTENT),
        KeyRemoval::Unknown => Err(no_key(id.as_str())),
        KeyRemoval::Last => {
            let text = "This is the team's last key, and nobody could get in without it; make another one first";
            Err(Refusal::new(ErrorCode::LastKey, text))
        }
    }
}

fn named(id: Result<Path<String>, PathRejection>) -> Result<KeyId, Refusal> {
    let Path(text) = id.map_err(|_| Refusal::invalid("The path is not well formed"))?;
    // What cannot be an id is the id of nothing.
    text.to_ascii_lowercase().parse().map_err(|_| no_key(&text))
}

fn no_key(id: &str) -> Refusal {
    let text = format!("API key {} was not found; list yours with GET /api-keys", short(id));
    Refusal::new(ErrorCode::KeyNotFound, text)
}

/// A name that somebody chose.
pub(super) fn checked(name: &str) -> Result<&str, Refusal> {
    let name = name.trim();
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(Refusal::invalid(format!("name takes 1 to {MAX_NAME_BYTES} bytes without control characters")))
    }
}

fn shown(key: Row) -> ApiKey {
    ApiKey {
        id: key.id,
        name: key.name,
        mask: KeyMask {
            prefix: KEY_PREFIX.into(),
            value_length: KEY_LENGTH,
            masked_value_prefix: key.prefix.strip_prefix(KEY_PREFIX).unwrap_or(&key.prefix).to_owned(),
            masked_value_suffix: key.suffix,
        },
        created_at: key.created_at,
        created_by: None,
        last_used: key.last_used_at,
    }
}
