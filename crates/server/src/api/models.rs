//! Models that chats can use, and the team's own providers of them. Keys are never returned.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, Path, Request, State};
use axum::{Extension, Json};
use cabana_agent::provider::Kind;
use cabana_store::ProviderRow;
use cabana_types::ErrorCode;
use cabana_types::wire::{ModelPage, ModelProvider, NewModelProvider};
use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::Body;
use crate::auth::Caller;
use crate::chats::models::{ModelUnknown, described};
use crate::config::{check_key, check_models, check_provider_name, check_url};
use crate::error::{ApiError, Error, short};

/// Providers of a team.
const MAX_PROVIDERS: usize = 50;

/// Providers of models.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct ModelProviderPage {
    providers: Vec<ModelProvider>,
}

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list_models))
        .routes(routes!(list_providers, set_provider))
        .routes(routes!(delete_provider))
}

/// List the models that chats can use by name. A provider without names has others too.
#[utoipa::path(get, path = "/models", tag = "models",
    responses((status = 200, description = "The demo, the server's and the team's models", body = ModelPage)))]
pub(super) async fn list_models(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<ModelPage>, ApiError> {
    Ok(Json(app.models.list(&caller.team).await?))
}

/// List the model providers, without their keys.
#[utoipa::path(get, path = "/model-providers", tag = "models",
    responses((status = 200, description = "The server's, then the team's, by name", body = ModelProviderPage)))]
pub(super) async fn list_providers(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<ModelProviderPage>, ApiError> {
    Ok(Json(ModelProviderPage { providers: app.models.providers(&caller.team).await? }))
}

/// Add a model provider, or replace the team's provider of this name, also its key. The next call of its models uses it.
#[utoipa::path(post, path = "/model-providers", tag = "models", request_body = NewModelProvider,
    responses((status = 201, description = "The provider, without its key", body = ModelProvider)))]
pub(super) async fn set_provider(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ProviderBody(new): ProviderBody,
) -> Result<(StatusCode, Json<ModelProvider>), ApiError> {
    let NewModelProvider { name, kind, base_url, key, models } = new;
    check_provider_name(&name).map_err(ApiError::invalid)?;
    if app.models.is_servers(&name) {
        return Err(ApiError::invalid(format!("{name} is a provider of this server; choose another name")));
    }
    let kind = Kind::parse(&kind).ok_or_else(|| ApiError::invalid("kind must be openai or anthropic"))?;
    if let Some(url) = &base_url {
        let url = check_url(url).map_err(ApiError::invalid)?;
        if url.scheme() != "https" {
            return Err(ApiError::invalid("base_url must begin with https://; http is for the server's own providers"));
        }
    }
    let key = key.filter(|key| !key.expose().is_empty());
    if let Some(key) = &key {
        check_key(key).map_err(ApiError::invalid)?;
    }
    check_models(&models).map_err(ApiError::invalid)?;
    let rows = app.store.providers(&caller.team).await?;
    if rows.len() >= MAX_PROVIDERS && !rows.iter().any(|row| row.name == name) {
        let text = format!("The team has {MAX_PROVIDERS} model providers, as many as there may be; delete one");
        return Err(ApiError::new(ErrorCode::LimitReached, text));
    }
    let seal = |key| app.vault.provider_keys.seal(&caller.team, &name, base_url.as_deref(), &key);
    let key = key.map(seal).transpose().map_err(|error: Error| ApiError::internal(&error))?;
    let now = Timestamp::now();
    let created_at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
    let row =
        ProviderRow { team: caller.team.clone(), kind: kind.as_str().into(), name, base_url, key, models, created_at };
    let shown = described(&row);
    app.store.set_provider(row).await?;
    Ok((StatusCode::CREATED, Json(shown)))
}

/// Delete a model provider of the team. Its models cannot be called any more.
#[utoipa::path(delete, path = "/model-providers/{providerName}", tag = "models",
    params(("providerName" = String, Path, description = "Its name")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete_provider(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    name: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path(name) = name.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    match app.store.delete_provider(caller.team, name.clone()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => {
            let text =
                format!("The team has no model provider {:?}; list them with GET /model-providers", short(&name));
            Err(ApiError::new(ErrorCode::ProviderNotFound, text))
        }
    }
}

/// A body whose errors repeat nothing of it: it has a key.
#[derive(Debug)]
pub(super) struct ProviderBody(NewModelProvider);

impl<S: Send + Sync> FromRequest<S> for ProviderBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Body::from_request(request, state).await {
            Ok(Body(body)) => Ok(Self(body)),
            Err(error) if error.code() == ErrorCode::BodyTooLarge => Err(error),
            Err(_) => Err(ApiError::invalid(
                "The body is not what this route takes: send a JSON object with name and kind, and with baseUrl, key and models as needed",
            )),
        }
    }
}

impl From<ModelUnknown> for ApiError {
    fn from(ModelUnknown { message, hint }: ModelUnknown) -> Self {
        Self::new(ErrorCode::ModelNotFound, format!("{message}. {hint}"))
    }
}
