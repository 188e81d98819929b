//! About the server itself.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use cabana_types::wire::{Capabilities, Check, ServerStatus};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::App;
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
    responses((status = 200, description = "Version, backend and what it can do, and sandboxes", body = ServerStatus)))]
pub(super) async fn status(State(app): State<Arc<App>>) -> Json<ServerStatus> {
    let can = app.lifecycle.capabilities();
    Json(ServerStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        backend: app.lifecycle.backend_name().into(),
        running: app.lifecycle.running() as u64,
        capabilities: Some(Capabilities {
            disk_quota: can.disk_quota,
            pause_memory: can.pause_memory,
            memory_outlives_reboot: can.memory_outlives_reboot,
            copies: can.copies,
        }),
    })
}

/// Whether everything in the world is as the server remembers it.
#[utoipa::path(get, path = "/status/check", tag = "server",
    responses((status = 200, description = "What differs", body = Check)))]
pub(super) async fn check(State(app): State<Arc<App>>) -> Result<Json<Check>, Refusal> {
    Ok(Json(Check { differences: app.lifecycle.differences().await? }))
}
