//! Pausing, recovering, archiving and resizing sandboxes. Waking them is connecting to them.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_types::Resources;
use cabana_types::sandbox::PauseCause;
use cabana_types::wire::{ArchiveRequest, HotplugRequest, ListedSandbox, PauseRequest, ResizeRequest, Sandbox};
use http::StatusCode;

use super::App;
use super::body::{Body, OptionalBody};
use super::sandbox_ref::SandboxRef;
use super::sandboxes::listed;
use crate::auth::Caller;
use crate::error::Refusal;
use crate::lifecycle::Pause;

/// Pause a sandbox: with its processes and memory, or with `memory: false` its disk alone.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/pause", tag = "sandboxes", request_body = Option<PauseRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "It sleeps"), (status = 409, description = "It sleeps already", body = cabana_types::wire::ErrorBody)))]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<PauseRequest>,
) -> Result<StatusCode, Refusal> {
    app.alive(&caller.team, &id).await?;
    let pause = Pause {
        memory: request.memory.unwrap_or(true),
        require_healthy: request.require_healthy_guest.unwrap_or(false),
        why: PauseCause::Asked { by: caller.key.to_string() },
    };
    app.lifecycle.pause(&id, pause).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a sandbox usable again, whatever became of it: failed and hung ones boot afresh from their disk, sleeping ones wake.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/recover", tag = "sandboxes",
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "It is up", body = Sandbox)))]
pub(super) async fn recover(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
) -> Result<Json<Sandbox>, Refusal> {
    app.alive(&caller.team, &id).await?;
    let why = PauseCause::Asked { by: caller.key.to_string() };
    Ok(Json(app.answer(app.lifecycle.recover_sandbox(&id, why).await?)))
}

/// Move a sandbox's disk to cold storage; it comes back when the sandbox is resumed. With `recycle`, only the marked paths are kept.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/archive", tag = "sandboxes", request_body = Option<ArchiveRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "It is in cold storage")))]
pub(super) async fn archive(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<ArchiveRequest>,
) -> Result<StatusCode, Refusal> {
    app.alive(&caller.team, &id).await?;
    let why = PauseCause::Asked { by: caller.key.to_string() };
    app.lifecycle.archive(&id, request.recycle != Some(true), why).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Change what a sandbox may use: at once if it is up, else when it wakes. Its disk only grows.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/resize", tag = "sandboxes", request_body = ResizeRequest,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "It may use so much", body = ListedSandbox)))]
pub(super) async fn resize(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    Body(request): Body<ResizeRequest>,
) -> Result<Json<ListedSandbox>, Refusal> {
    let row = app.there(&caller.team, &id).await?;
    let wanted = app.bounds.resources(row.resources, request.cpu_count, request.memory_mb, request.disk_size_mb)?;
    if wanted.disk_mb < row.resources.disk_mb {
        let text = format!("diskSizeMB must be at least {}: a disk only grows", row.resources.disk_mb);
        return Err(Refusal::invalid(text));
    }
    let (cpus, memory, disk) = (request.cpu_count, request.memory_mb, request.disk_size_mb);
    // What was not named stays as it is by then.
    let choose = move |now: Resources| Resources {
        cpu_count: if cpus.is_some() { wanted.cpu_count } else { now.cpu_count },
        memory_mb: if memory.is_some() { wanted.memory_mb } else { now.memory_mb },
        disk_mb: if disk.is_some() { wanted.disk_mb.max(now.disk_mb) } else { now.disk_mb },
        pids: now.pids,
    };
    Ok(Json(listed(app.lifecycle.resize(&id, choose).await?)))
}

/// Give a sandbox more memory, as Novita's clients do: so much in addition.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/hotplug-memory", tag = "sandboxes", request_body = HotplugRequest,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "It may use so much", body = ListedSandbox)))]
pub(super) async fn hotplug_memory(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    Body(request): Body<HotplugRequest>,
) -> Result<Json<ListedSandbox>, Refusal> {
    let row = app.there(&caller.team, &id).await?;
    let more = request.requested_size_mib.filter(|more| *more > 0);
    let more =
        more.ok_or_else(|| Refusal::invalid("requested_size_mib is missing: send the MiB to add, at least 1"))?;
    let memory = i64::from(row.resources.memory_mb).saturating_add(more);
    let wanted = app.bounds.resources(row.resources, None, Some(memory), None)?.memory_mb;
    let choose = move |now: Resources| Resources { memory_mb: wanted, ..now };
    Ok(Json(listed(app.lifecycle.resize(&id, choose).await?)))
}
