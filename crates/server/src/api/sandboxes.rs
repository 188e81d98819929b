//! Creating, reading and killing sandboxes.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::Sandbox as Row;
use cabana_types::LifecyclePolicy;
use cabana_types::policy::{OnFailure, OnTimeout};
use cabana_types::routing::ENVD_VERSION;
use cabana_types::sandbox::{self, EndCause, Kept};
use cabana_types::wire::{ListedSandbox, NewSandbox, Sandbox, SandboxDetail, SandboxLifecycle, SandboxState};
use http::{HeaderMap, StatusCode};

use super::App;
use super::body::Body;
use super::network::shown;
use super::new_sandbox::Version;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;

/// Older clients require the field.
const CLIENT_ID: &str = "cabana";

/// Create a sandbox.
#[utoipa::path(post, path = "/v2/sandboxes", tag = "sandboxes", request_body = NewSandbox,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body gives the same sandbox")),
    responses((status = 201, description = "The sandbox is running", body = Sandbox)))]
pub(super) async fn create_sandbox(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(request): Body<NewSandbox>,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    create(&app, &caller, &headers, request, Version::V2).await
}

/// Create a sandbox, as older clients do: with an access token only if `secure`.
#[utoipa::path(post, path = "/sandboxes", tag = "sandboxes", request_body = NewSandbox,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body gives the same sandbox")),
    responses((status = 201, description = "The sandbox is running", body = Sandbox)))]
pub(super) async fn create_sandbox_v1(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(request): Body<NewSandbox>,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    create(&app, &caller, &headers, request, Version::V1).await
}

async fn create(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    request: NewSandbox,
    version: Version,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    let request = app.create_request(caller, headers, request, version).await?;
    let sandbox = app.lifecycle.create(request).await?;
    Ok((StatusCode::CREATED, Json(app.sandbox_response(sandbox))))
}

/// Everything about one sandbox.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}", tag = "sandboxes",
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The sandbox, running or paused", body = SandboxDetail)))]
pub(super) async fn get_sandbox(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
) -> Result<Json<SandboxDetail>, ApiError> {
    let row = app.find_usable(&caller.team, &id).await?;
    let (envd_access_token, internet) = (row.access_token.clone(), !row.egress.denies_all());
    let network = Some(shown(&row));
    let (lifecycle, pause_mode) = (lifecycle(&row.policy), pause_mode(&row.state).map(str::to_owned));
    Ok(Json(SandboxDetail {
        listed: listed(row),
        envd_access_token,
        domain: app.domain.clone(),
        allow_internet_access: Some(internet),
        network,
        lifecycle,
        pause_mode,
    }))
}

/// Kill a sandbox.
#[utoipa::path(delete, path = "/sandboxes/{sandboxID}", tag = "sandboxes",
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "The sandbox is killed")))]
pub(super) async fn kill_sandbox(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
) -> Result<StatusCode, ApiError> {
    app.find_not_ended(&caller.team, &id).await?;
    let cause = EndCause::Killed { by: caller.key.to_string() };
    match app.lifecycle.kill(&id, cause).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(app.explain_conflict(&caller.team, &id, error).await),
    }
}

impl App {
    /// The response to create and connect.
    pub(super) fn sandbox_response(&self, row: Row) -> Sandbox {
        Sandbox {
            template_id: row.template.to_string(),
            sandbox_id: row.id,
            client_id: CLIENT_ID.into(),
            envd_version: ENVD_VERSION.into(),
            alias: row.alias,
            envd_access_token: row.access_token,
            traffic_access_token: row.traffic.token,
            domain: self.domain.clone(),
        }
    }
}

fn lifecycle(policy: &LifecyclePolicy) -> SandboxLifecycle {
    SandboxLifecycle {
        on_timeout: if policy.on_timeout == OnTimeout::Kill { "kill" } else { "pause" }.into(),
        auto_resume: policy.auto_resume,
        idle_timeout: policy.idle,
        on_failure: match policy.on_failure {
            OnFailure::Keep => "keep",
            OnFailure::Replace => "replace",
        }
        .into(),
        keep: policy.keep.clone(),
    }
}

/// What is kept of a paused sandbox.
fn pause_mode(state: &sandbox::State) -> Option<&'static str> {
    match state {
        sandbox::State::Pausing { to: kept, .. }
        | sandbox::State::Paused { kept, .. }
        | sandbox::State::Resuming { from: kept, .. }
            if kept.has_memory() =>
        {
            Some("full")
        }
        sandbox::State::Pausing { .. }
        | sandbox::State::Paused { .. }
        | sandbox::State::Resuming { .. }
        | sandbox::State::Archiving { .. } => Some("filesystem"),
        _ => None,
    }
}

/// The exact state, as `phase` on the wire.
fn phase(state: &sandbox::State) -> &'static str {
    match state {
        sandbox::State::Paused { kept: Kept::Archive { whole: true, .. }, .. } => "archived",
        sandbox::State::Paused { kept: Kept::Archive { whole: false, .. }, .. } => "recycled",
        other => other.name(),
    }
}

/// Why a sandbox is not running, completing "the sandbox …".
fn reason(state: &sandbox::State) -> Option<String> {
    match state {
        sandbox::State::Pausing { why, .. }
        | sandbox::State::Paused { why, .. }
        | sandbox::State::Resuming { why, .. }
        | sandbox::State::Archiving { why, .. } => Some(why.describe()),
        sandbox::State::Failed { cause } => Some(cause.describe()),
        _ => None,
    }
}

/// A sandbox as it appears in listings.
pub(super) fn listed(row: Row) -> ListedSandbox {
    ListedSandbox {
        template_id: row.template.to_string(),
        alias: row.alias,
        sandbox_id: row.id,
        client_id: CLIENT_ID.into(),
        started_at: row.started_at.unwrap_or(row.created_at),
        end_at: row.end_at,
        cpu_count: row.resources.cpu_count,
        memory_mb: row.resources.memory_mb,
        disk_size_mb: row.resources.disk_mb,
        metadata: row.metadata,
        state: if row.state == sandbox::State::Running { SandboxState::Running } else { SandboxState::Paused },
        envd_version: ENVD_VERSION.into(),
        phase: phase(&row.state).into(),
        since: Some(row.since),
        reason: reason(&row.state),
    }
}
