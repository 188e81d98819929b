//! About the server itself.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use cabana_types::wire::{ServerStatus, Team};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::App;
use crate::auth::Caller;
use crate::error::Refusal;

/// Whether the server serves.
#[utoipa::path(get, path = "/health", tag = "server", security(()),
    responses((status = 204, description = "It does")))]
pub(super) async fn health() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// This description.
#[utoipa::path(get, path = "/openapi.json", tag = "server", security(()),
    responses((status = 200, description = "OpenAPI", body = Object, content_type = "application/json")))]
pub(super) async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], super::document())
}

/// What this server is.
#[utoipa::path(get, path = "/status", tag = "server",
    responses((status = 200, description = "Version, backend and sandboxes", body = ServerStatus)))]
pub(super) async fn status(State(app): State<Arc<App>>) -> Json<ServerStatus> {
    Json(ServerStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        backend: app.lifecycle.backend_name().into(),
        running: app.lifecycle.running() as u64,
    })
}

/// The team that the key belongs to.
#[utoipa::path(get, path = "/teams", tag = "server",
    responses((status = 200, description = "One team", body = Vec<Team>)))]
pub(super) async fn list_teams(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Team>>, Refusal> {
    let teams = app.store.teams().await?.into_iter().filter(|team| team.id == caller.team).map(|team| Team {
        team_id: team.id.to_string(),
        name: team.name,
        api_key: caller.secret.clone(),
        is_default: true,
    });
    Ok(Json(teams.collect()))
}
