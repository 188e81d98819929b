//! Health, status and description of the server.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use cabana_runtime::IsolationFacts;
use cabana_types::ErrorCode;
use cabana_types::wire::{Capabilities, Check, IsolationStatus, ServerStatus};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::App;
use crate::auth::{Caller, FIRST_TEAM};
use crate::error::ApiError;
use crate::lifecycle::Difference;

/// Health of the server.
#[utoipa::path(get, path = "/health", tag = "server", security(()),
    responses((status = 204, description = "The server is healthy"),
        (status = 503, description = "The disks of sandboxes are read-only; the server mounts them again when it can")))]
pub(super) async fn health(State(app): State<Arc<App>>) -> Result<StatusCode, ApiError> {
    if app.lifecycle.storage().is_some_and(|storage| storage.state == "read_only") {
        let text = "The disks of sandboxes are read-only, because the server's disk was full; they are mounted again once \
                    there is space on it";
        return Err(ApiError::new(ErrorCode::ServiceUnavailable, text));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "server", security(()),
    responses((status = 200, description = "OpenAPI", body = Object, content_type = "application/json")))]
pub(super) async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], super::document())
}

/// Status of the server.
#[utoipa::path(get, path = "/status", tag = "server",
    responses((status = 200, description = "Version, backend and what it can do, and sandboxes", body = ServerStatus)))]
pub(super) async fn status(State(app): State<Arc<App>>) -> Json<ServerStatus> {
    Json(server_status(&app))
}

/// The status at this moment.
pub(super) fn server_status(app: &App) -> ServerStatus {
    let isolations = app.lifecycle.isolations();
    let (facts, disks) = (isolations.default_facts(), isolations.disks().facts());
    let outlives_reboot = |facts: &IsolationFacts| facts.checkpoint.is_some_and(|checkpoint| checkpoint.reboot);
    let listed = |(name, facts): (&'static str, IsolationFacts)| IsolationStatus {
        name: name.into(),
        default: name == isolations.default_name(),
        pause_memory: facts.ram_pause,
        checkpoint: facts.checkpoint.is_some(),
        memory_outlives_reboot: outlives_reboot(&facts),
        mounts: facts.mounts,
        out_of_memory: facts.oom.as_str().into(),
    };
    ServerStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        backend: isolations.default_name().into(),
        running: app.lifecycle.running() as u64,
        capabilities: Some(Capabilities {
            disk_quota: disks.quota,
            pause_memory: facts.ram_pause,
            memory_outlives_reboot: outlives_reboot(&facts),
            copies: disks.snapshots,
        }),
        isolations: isolations.facts().into_iter().map(listed).collect(),
        storage: app.lifecycle.storage(),
        capacity: Some(app.lifecycle.capacity()),
        machine: crate::machine_status::read(),
    }
}

/// Check whether the sandboxes on this machine match the database. The first team, which is the operator's, also sees
/// what belongs to no team; of other teams only the number is told.
#[utoipa::path(get, path = "/status/check", tag = "server",
    responses((status = 200, description = "Differences", body = Check)))]
pub(super) async fn check(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Check>, ApiError> {
    let operator = caller.team.as_str() == FIRST_TEAM;
    let visible = |found: &Difference| {
        caller.reach.is_whole() && found.team.as_ref().map_or(operator, |team| *team == caller.team)
    };
    let (own, others): (Vec<_>, Vec<_>) = app.lifecycle.differences().await?.into_iter().partition(visible);
    let mut differences: Vec<String> = own.into_iter().map(|found| found.text).collect();
    for found in &others {
        tracing::warn!(difference = found.text, "the host does not match the database");
    }
    if !others.is_empty() {
        differences.push(format!("{} more that do not concern this team; the server's log names them", others.len()));
    }
    Ok(Json(Check { differences }))
}
