//! The team's API keys. The key itself appears only once, in the response to its creation.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_store::{ApiKey as Row, KeyRemoval};
use cabana_types::address::Prefix;
use cabana_types::limits::MAX_NAME_BYTES;
use cabana_types::wire::{ApiKey, KeyMask, KeyName, KeyRequest, NewApiKey};
use cabana_types::{ErrorCode, KeyId, Permissions, ProjectId};
use http::StatusCode;
use jiff::Timestamp;

use super::App;
use super::body::Body;
use crate::auth::{Caller, KEY_LENGTH, KEY_PREFIX, MAX_KEYS, NewKey};
use crate::error::{ApiError, short};

/// List the team's API keys.
#[utoipa::path(get, path = "/api-keys", tag = "teams",
    responses((status = 200, description = "Keys, oldest first", body = Vec<ApiKey>)))]
pub(super) async fn list_keys(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<ApiKey>>, ApiError> {
    let keys = app.store.team_keys(&caller.team).await?.into_iter().map(|mut key| {
        key.last_used_at = app.keys.used(&key.hash).or(key.last_used_at);
        shown(key)
    });
    Ok(Json(keys.collect()))
}

/// Create an API key for the team. It may do at most what its maker may.
#[utoipa::path(post, path = "/api-keys", tag = "teams", request_body = KeyRequest,
    responses((status = 201, description = "The key, which is shown only once", body = NewApiKey)))]
pub(super) async fn create_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<KeyRequest>,
) -> Result<(StatusCode, Json<NewApiKey>), ApiError> {
    // A key reaches no further than its maker.
    let project = match (&request.project_id, &caller.project) {
        (None, own) => own.clone(),
        (Some(text), _) => Some(app.project_for(&caller, Some(text)).await?),
    };
    let new = new_key(&caller, request, project)?;
    let task = {
        let app = Arc::clone(&app);
        async move { app.keys.create(&app.store, &caller.team, &new).await }
    };
    // To its end, or the store could have a key that is not valid until the next start.
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        Some((key, secret)) => Ok((StatusCode::CREATED, Json(NewApiKey { shown: shown(key), key: secret }))),
        None => Err(ApiError::invalid(format!("The team has {MAX_KEYS} keys, as many as there may be; delete one"))),
    }
}

/// Rename an API key.
#[utoipa::path(patch, path = "/api-keys/{apiKeyID}", tag = "teams", request_body = KeyName,
    params(("apiKeyID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The key is renamed")))]
pub(super) async fn rename_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    Body(request): Body<KeyName>,
) -> Result<StatusCode, ApiError> {
    let (id, name) = (named(id)?, check_name(&request.name)?.to_owned());
    match app.store.rename_key(caller.team, id.clone(), name).await? {
        true => Ok(StatusCode::OK),
        false => Err(no_key(id.as_str())),
    }
}

/// Delete an API key. It is invalid from then on.
#[utoipa::path(delete, path = "/api-keys/{apiKeyID}", tag = "teams",
    params(("apiKeyID" = String, Path, description = "Its id")),
    responses((status = 204, description = "The key is deleted")))]
pub(super) async fn delete_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let id = named(id)?;
    let wanted = id.clone();
    let task = {
        let app = Arc::clone(&app);
        async move {
            let removal = app.keys.remove(&app.store, caller.team, wanted.clone()).await?;
            if removal == KeyRemoval::Removed {
                app.accounts.key_removed(&wanted).await?;
            }
            Ok::<_, cabana_store::Error>(removal)
        }
    };
    // To its end, or a key that the store has deleted could stay valid.
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        KeyRemoval::Removed => Ok(StatusCode::NO_CONTENT),
        KeyRemoval::Unknown => Err(no_key(id.as_str())),
        KeyRemoval::Last => {
            let text = "This is the team's last key; without it the team has no access. Create another key first";
            Err(ApiError::new(ErrorCode::LastKey, text))
        }
    }
}

/// Networks that one key can be for.
const MAX_CIDRS: usize = 100;

/// Checks what a key is to be.
fn new_key(caller: &Caller, request: KeyRequest, project: Option<ProjectId>) -> Result<NewKey, ApiError> {
    let name = check_name(&request.name)?.to_owned();
    let scopes = match request.scopes {
        None => caller.permissions.and(Permissions::PLAIN_KEY),
        Some(scopes) => scopes.into_iter().collect(),
    };
    if scopes.is_empty() {
        return Err(ApiError::invalid("scopes names none; leave it out for everything that a key can usually do"));
    }
    let beyond = scopes.beyond(caller.permissions);
    if !beyond.is_empty() {
        let text = format!("A key cannot do more than its maker, who has no permission for: {beyond}");
        return Err(ApiError::new(ErrorCode::Forbidden, text));
    }
    if request.expires_at.is_some_and(|at| at <= Timestamp::now()) {
        return Err(ApiError::invalid("expiresAt is in the past"));
    }
    let cidrs = request.cidrs.unwrap_or_default();
    if cidrs.len() > MAX_CIDRS {
        return Err(ApiError::invalid(format!("cidrs names more than {MAX_CIDRS} networks")));
    }
    let network = |text: &String| -> Result<Prefix, ApiError> {
        let text = text.trim();
        let network: Prefix = text.parse().map_err(|_| {
            ApiError::invalid(format!("cidrs: {:?} is no network; write 10.0.0.0/8, or one address", short(text)))
        })?;
        // An IPv6 client is known by its network of 64 bits.
        if network.address().is_ipv6() && network.length() > 64 {
            let text = format!("cidrs: {:?} is too narrow; networks of IPv6 have at most 64 bits", short(text));
            return Err(ApiError::invalid(text));
        }
        Ok(network)
    };
    let cidrs = cidrs.iter().map(network).collect::<Result<_, _>>()?;
    Ok(NewKey { name, scopes, expires_at: request.expires_at, cidrs, created_by: Some(caller.actor.clone()), project })
}

fn named(id: Result<Path<String>, PathRejection>) -> Result<KeyId, ApiError> {
    let Path(text) = id.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    // A malformed id is treated like one that does not exist.
    text.to_ascii_lowercase().parse().map_err(|_| no_key(&text))
}

fn no_key(id: &str) -> ApiError {
    let text = format!("API key {} was not found; list yours with GET /api-keys", short(id));
    ApiError::new(ErrorCode::KeyNotFound, text)
}

/// Checks a name chosen by a user.
pub(super) fn check_name(name: &str) -> Result<&str, ApiError> {
    let name = name.trim();
    if (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(ApiError::invalid(format!("name takes 1 to {MAX_NAME_BYTES} bytes without control characters")))
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
        scopes: key.scopes.into(),
        expires_at: key.expires_at,
        cidrs: key.cidrs,
        creator_id: key.created_by.map(|by| by.as_str().to_owned()),
        project_id: key.project,
    }
}
