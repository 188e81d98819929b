//! What E2B's clients may ask and this server cannot do yet: a clear answer instead of a missing route.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use cabana_types::ErrorCode;

use super::App;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::Refusal;

fn not_yet(what: &str) -> Refusal {
    Refusal::new(ErrorCode::NotSupported, format!("{what} is not available on this server yet"))
}

/// For a sandbox that is up; others are told what became of them.
async fn refuse(app: &App, caller: &Caller, id: SandboxRef, what: &str) -> Refusal {
    match app.running(&caller.team, &id.0).await {
        Ok(_) => not_yet(what),
        Err(refusal) => refusal,
    }
}

/// Pause a sandbox. Not available yet.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/pause", tag = "later",
    params(("sandboxID" = String, Path, description = "Its id")), responses())]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: SandboxRef,
) -> Refusal {
    refuse(&app, &caller, id, "Pausing a sandbox").await
}

/// Resume a sandbox. Not available yet.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/resume", tag = "later",
    params(("sandboxID" = String, Path, description = "Its id")), responses())]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: SandboxRef,
) -> Refusal {
    refuse(&app, &caller, id, "Resuming a sandbox").await
}

/// Fork a sandbox. Not available yet.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/fork", tag = "later",
    params(("sandboxID" = String, Path, description = "Its id")), responses())]
pub(super) async fn fork(State(app): State<Arc<App>>, Extension(caller): Extension<Caller>, id: SandboxRef) -> Refusal {
    refuse(&app, &caller, id, "Forking a sandbox").await
}

/// Snapshot a sandbox. Not available yet.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/snapshots", tag = "later",
    params(("sandboxID" = String, Path, description = "Its id")), responses())]
pub(super) async fn snapshot(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: SandboxRef,
) -> Refusal {
    refuse(&app, &caller, id, "Taking a snapshot").await
}

/// List snapshots. Not available yet.
#[utoipa::path(get, path = "/snapshots", tag = "later", responses())]
pub(super) async fn list_snapshots() -> Refusal {
    not_yet("Listing snapshots")
}

/// Change a sandbox's network policy. Not available yet.
#[utoipa::path(put, path = "/sandboxes/{sandboxID}/network", tag = "later",
    params(("sandboxID" = String, Path, description = "Its id")), responses())]
pub(super) async fn set_network(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: SandboxRef,
) -> Refusal {
    refuse(&app, &caller, id, "Changing the network policy of a running sandbox").await
}
