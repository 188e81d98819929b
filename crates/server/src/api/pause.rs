//! Pausing, recovering, archiving and resizing sandboxes. They are resumed by connecting to them (`timeouts.rs`).

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
use crate::error::ApiError;
use crate::lifecycle::Pause;

/// Pause a sandbox with its processes and memory, or with `memory: false` only its disk.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/pause", operation_id = "pause_sandbox",
    tag = "sandboxes", request_body = Option<PauseRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "It is paused"),
        (status = 409, description = "It is already paused", body = cabana_types::wire::ErrorBody)))]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<PauseRequest>,
) -> Result<StatusCode, ApiError> {
    app.find_created(&caller.reach, &id).await?;
    let pause = Pause {
        memory: request.memory.unwrap_or(true),
        require_healthy: request.require_healthy_guest.unwrap_or(false),
        why: PauseCause::Asked { by: caller.actor.to_string() },
    };
    app.lifecycle.pause(&id, pause).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a sandbox usable again: failed and unresponsive ones boot from their disk, paused ones are resumed.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/recover", operation_id = "recover_sandbox", tag = "sandboxes",
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "It is running", body = Sandbox)))]
pub(super) async fn recover(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
) -> Result<Json<Sandbox>, ApiError> {
    app.find_created(&caller.reach, &id).await?;
    let why = PauseCause::Asked { by: caller.actor.to_string() };
    Ok(Json(app.sandbox_response(app.lifecycle.recover_sandbox(&id, why).await?)))
}

/// Move a sandbox's disk to cold storage; resuming the sandbox restores it. With `recycle`, only the marked paths are kept.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/archive", operation_id = "archive_sandbox",
    tag = "sandboxes", request_body = Option<ArchiveRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "It is archived")))]
pub(super) async fn archive(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<ArchiveRequest>,
) -> Result<StatusCode, ApiError> {
    app.find_created(&caller.reach, &id).await?;
    let why = PauseCause::Asked { by: caller.actor.to_string() };
    app.lifecycle.archive(&id, request.recycle != Some(true), why).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Change the resources of a sandbox: at once if it is running, otherwise when it is resumed. Its disk can only grow.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/resize", operation_id = "resize_sandbox",
    tag = "sandboxes", request_body = ResizeRequest,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The new resources", body = ListedSandbox)))]
pub(super) async fn resize(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    Body(request): Body<ResizeRequest>,
) -> Result<Json<ListedSandbox>, ApiError> {
    let row = app.find_usable(&caller.reach, &id).await?;
    let wanted = app.limits.resources(row.resources, request.cpu_count, request.memory_mb, request.disk_size_mb)?;
    if wanted.disk_mb < row.resources.disk_mb {
        let text = format!("diskSizeMB must be at least {}: a disk only grows", row.resources.disk_mb);
        return Err(ApiError::invalid(text));
    }
    let (cpus, memory, disk) = (request.cpu_count, request.memory_mb, request.disk_size_mb);
    // Resources that the request does not name keep the value that they have when the change is made.
    let choose = move |now: Resources| Resources {
        cpu_count: if cpus.is_some() { wanted.cpu_count } else { now.cpu_count },
        memory_mb: if memory.is_some() { wanted.memory_mb } else { now.memory_mb },
        disk_mb: if disk.is_some() { wanted.disk_mb.max(now.disk_mb) } else { now.disk_mb },
        pids: now.pids,
    };
    Ok(Json(listed(app.lifecycle.resize(&id, choose).await?)))
}

/// Add memory to a sandbox, as Novita's clients do.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/hotplug-memory", operation_id = "hotplug_memory",
    tag = "sandboxes", request_body = HotplugRequest,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The new resources", body = ListedSandbox)))]
pub(super) async fn hotplug_memory(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    Body(request): Body<HotplugRequest>,
) -> Result<Json<ListedSandbox>, ApiError> {
    let row = app.find_usable(&caller.reach, &id).await?;
    let more = request.requested_size_mib.filter(|more| *more > 0);
    let more =
        more.ok_or_else(|| ApiError::invalid("requested_size_mib is missing: send the MiB to add, at least 1"))?;
    let memory = i64::from(row.resources.memory_mb).saturating_add(more);
    let wanted = app.limits.resources(row.resources, None, Some(memory), None)?.memory_mb;
    let choose = move |now: Resources| Resources { memory_mb: wanted, ..now };
    Ok(Json(listed(app.lifecycle.resize(&id, choose).await?)))
}
