//! Creating, reading and killing sandboxes.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{FromRequest, Request, State};
use axum::{Extension, Json};
use cabana_store::{Sandbox as Row, Store};
use cabana_types::policy::{OnFailure, OnTimeout};
use cabana_types::routing::ENVD_VERSION;
use cabana_types::sandbox::{self, EndCause, Kept};
use cabana_types::wire::{
    CreatorKind, ListedSandbox, NewSandbox, Sandbox, SandboxCreator, SandboxDetail, SandboxLifecycle, SandboxState,
};
use cabana_types::{ErrorCode, LifecyclePolicy, Permission};
use http::StatusCode;

use super::App;
use super::body::Body;
use super::network::shown;
use super::new_sandbox::Version;
use super::sandbox_ref::SandboxRef;
use super::uploads::{SandboxForm, is_form};
use crate::auth::Caller;
use crate::error::ApiError;

/// Older clients require the field.
const CLIENT_ID: &str = "cabana";

/// Create a sandbox. As a form, the body may be followed by files for `user-uploads/`: then all of them are there, or nothing is created.
#[utoipa::path(post, path = "/v2/sandboxes", tag = "sandboxes",
    request_body(content((NewSandbox = "application/json"), (inline(SandboxForm) = "multipart/form-data"))),
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body gives the same sandbox")),
    responses((status = 201, description = "The sandbox is running", body = Sandbox)))]
pub(super) async fn create_sandbox(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    create(&app, caller, request, Version::V2).await
}

/// Create a sandbox, as older clients do: with an access token only if `secure`.
#[utoipa::path(post, path = "/sandboxes", tag = "sandboxes",
    request_body(content((NewSandbox = "application/json"), (inline(SandboxForm) = "multipart/form-data"))),
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body gives the same sandbox")),
    responses((status = 201, description = "The sandbox is running", body = Sandbox)))]
pub(super) async fn create_sandbox_v1(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    create(&app, caller, request, Version::V1).await
}

async fn create(
    app: &Arc<App>,
    caller: Caller,
    request: Request,
    version: Version,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    if is_form(request.headers()) {
        let sandbox = app.create_with_files(caller, request, version).await?;
        return Ok((StatusCode::CREATED, Json(sandbox)));
    }
    let headers = request.headers().clone();
    let Body(new): Body<NewSandbox> = Body::from_request(request, &()).await?;
    let request = app.create_request(&caller, &headers, new, version).await?;
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
    let row = app.find_usable(&caller.reach, &id).await?;
    let mut detail = app.detail(row).await?;
    if !caller.permissions.has(Permission::Tools) {
        // With it a client could work inside of the sandbox.
        detail.envd_access_token = None;
    }
    Ok(Json(detail))
}

/// Everything that is still known about a sandbox that has failed or ended.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/tombstone", tag = "sandboxes",
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "`reason` says why it ended, `lastLines` what happened before", body = SandboxDetail)))]
pub(super) async fn get_tombstone(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
) -> Result<Json<SandboxDetail>, ApiError> {
    let row = app.find_sandbox(&caller.reach, &id).await?;
    match &row.state {
        sandbox::State::Failed { .. } | sandbox::State::Ending { .. } | sandbox::State::Ended { .. } => {
            Ok(Json(app.detail(row).await?))
        }
        _ => {
            let text = format!("Sandbox {id} has not ended; see GET /sandboxes/{id}");
            Err(ApiError::new(ErrorCode::SandboxStateConflict, text))
        }
    }
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
    app.find_not_ended(&caller.reach, &id).await?;
    let cause = EndCause::Killed { by: caller.actor.to_string() };
    match app.lifecycle.kill(&id, cause).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(app.explain_conflict(&caller.reach, &id, error).await),
    }
}

impl App {
    async fn detail(&self, row: Row) -> Result<SandboxDetail, ApiError> {
        let (envd_access_token, internet) = (row.access_token.clone(), !row.egress.denies_all());
        let network = Some(shown(&row));
        let (lifecycle, pause_mode) = (lifecycle(&row.policy), pause_mode(&row.state).map(str::to_owned));
        let mut listed = listed(row);
        name_creators(&self.store, [&mut listed]).await?;
        Ok(SandboxDetail {
            listed,
            envd_access_token,
            domain: self.domain.clone(),
            allow_internet_access: Some(internet),
            network,
            lifecycle,
            pause_mode,
        })
    }

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
            uploads: None,
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
        sandbox::State::Failed { cause } | sandbox::State::Ending { cause } | sandbox::State::Ended { cause } => {
            Some(cause.describe())
        }
        sandbox::State::Creating | sandbox::State::Running => None,
    }
}

/// A sandbox as it appears in listings; `None` if it appears in none: it is still being created, or has ended.
pub(crate) fn listed_if_shown(row: Row) -> Option<ListedSandbox> {
    use sandbox::State as S;
    let shown = row.started_at.is_some() && !matches!(row.state, S::Creating | S::Ending { .. } | S::Ended { .. });
    shown.then(|| listed(row))
}

/// Adds the names of those who asked for sandboxes.
pub(crate) async fn name_creators(
    store: &Store,
    listed: impl IntoIterator<Item = &mut ListedSandbox>,
) -> Result<(), cabana_store::Error> {
    let mut creators: Vec<_> = listed.into_iter().filter_map(|sandbox| sandbox.created_by.as_mut()).collect();
    let ids: BTreeSet<String> = creators.iter().filter_map(|creator| creator.id.clone()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let names = store.actor_names(&ids).await?;
    for creator in &mut creators {
        creator.name = creator.id.as_ref().and_then(|id| names.get(id)).cloned();
    }
    Ok(())
}

/// Who asked for a sandbox, without the name.
fn creator(id: Option<String>) -> SandboxCreator {
    let kind = match id.as_deref() {
        None => CreatorKind::System,
        Some(id) if id.starts_with("usr_") => CreatorKind::User,
        Some(_) => CreatorKind::Key,
    };
    SandboxCreator { kind, id, name: None }
}

/// A sandbox as it appears in listings.
pub(super) fn listed(row: Row) -> ListedSandbox {
    let is_gone = matches!(
        row.state,
        sandbox::State::Failed { .. } | sandbox::State::Ending { .. } | sandbox::State::Ended { .. }
    );
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
        last_lines: if is_gone { row.last_lines } else { vec![] },
        created_by: Some(creator(row.created_by)),
    }
}
