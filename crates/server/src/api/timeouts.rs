//! How long a sandbox lives: timeouts, refreshes, and connecting, which extends it.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_types::limits::{DEFAULT_TIMEOUT_SECONDS, DEFAULT_TIMEOUT_V1_SECONDS, MAX_REFRESH_SECONDS, within};
use cabana_types::wire::{ConnectRequest, RefreshRequest, Sandbox, TimeoutRequest};
use cabana_types::{ErrorCode, SandboxId};
use http::StatusCode;

use super::App;
use super::body::{Body, OptionalBody};
use super::policy::Policy;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::Refusal;

/// How often connecting tries to wake a sandbox that others pause.
const TRIES: usize = 50;

/// Set when a sandbox expires: so many seconds from now. 0 ends it at once.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/timeout", tag = "sandboxes", request_body = TimeoutRequest,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "It is set")))]
pub(super) async fn set_timeout(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    Body(request): Body<TimeoutRequest>,
) -> Result<StatusCode, Refusal> {
    let seconds = required(&app, request.timeout)?;
    change(&app, &caller, &id, seconds, false).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Keep a sandbox alive for at least so many seconds.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/refreshes", tag = "sandboxes", request_body = Option<RefreshRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "It lives at least so long")))]
pub(super) async fn refresh(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<RefreshRequest>,
) -> Result<StatusCode, Refusal> {
    let most = i64::try_from(MAX_REFRESH_SECONDS).unwrap_or(i64::MAX);
    let seconds = match request.duration {
        Some(seconds) => u64::try_from(within("duration", seconds, 0..=most)?).unwrap_or_default(),
        None => DEFAULT_TIMEOUT_V1_SECONDS,
    };
    change(&app, &caller, &id, seconds, true).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Connect to a sandbox: its access, and a life of at least so many seconds.
#[utoipa::path(post, path = "/v2/sandboxes/{sandboxID}/connect", tag = "sandboxes", request_body = Option<ConnectRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses(
        (status = 200, description = "It was up", body = Sandbox),
        (status = 201, description = "It was asleep and is up again", body = Sandbox)))]
pub(super) async fn connect(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<ConnectRequest>,
) -> Result<(StatusCode, Json<Sandbox>), Refusal> {
    let seconds = match request.timeout {
        Some(_) => required(&app, request.timeout)?,
        None => DEFAULT_TIMEOUT_SECONDS,
    };
    agree(&app, &caller, &id, &request).await?;
    reach(&app, &caller, &id, seconds, request.memory == Some(false)).await
}

/// Connect to a sandbox, as older clients do: the timeout must be there.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/connect", tag = "sandboxes", request_body = ConnectRequest,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses(
        (status = 200, description = "It was up", body = Sandbox),
        (status = 201, description = "It was asleep and is up again", body = Sandbox)))]
pub(super) async fn connect_v1(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    Body(request): Body<ConnectRequest>,
) -> Result<(StatusCode, Json<Sandbox>), Refusal> {
    let seconds = required(&app, request.timeout)?;
    agree(&app, &caller, &id, &request).await?;
    reach(&app, &caller, &id, seconds, request.memory == Some(false)).await
}

/// Resume a sandbox, as the oldest clients do.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/resume", tag = "sandboxes", request_body = Option<ConnectRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses(
        (status = 201, description = "It is up again", body = Sandbox),
        (status = 409, description = "It is running", body = cabana_types::wire::ErrorBody)))]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<ConnectRequest>,
) -> Result<(StatusCode, Json<Sandbox>), Refusal> {
    let seconds = match request.timeout {
        Some(_) => required(&app, request.timeout)?,
        None => DEFAULT_TIMEOUT_V1_SECONDS,
    };
    let row = app.there(&caller.team, &id).await?;
    if row.state == cabana_types::sandbox::State::Running {
        let text = format!("Sandbox {id} is already running; connect to it with POST /v2/sandboxes/{id}/connect");
        return Err(Refusal::new(ErrorCode::SandboxStateConflict, text));
    }
    agree(&app, &caller, &id, &request).await?;
    reach(&app, &caller, &id, seconds, request.memory == Some(false)).await
}

/// Makes sure that a sandbox is up for so many seconds at least, waking it if it sleeps.
async fn reach(
    app: &App,
    caller: &Caller,
    id: &SandboxId,
    seconds: u64,
    fresh: bool,
) -> Result<(StatusCode, Json<Sandbox>), Refusal> {
    for _ in 0..TRIES {
        let row = app.there(&caller.team, id).await?;
        if row.state != cabana_types::sandbox::State::Running {
            let (sandbox, woke) = app.lifecycle.resume(id, seconds, fresh).await?;
            if woke {
                return Ok((StatusCode::CREATED, Json(app.answer(sandbox))));
            }
        }
        match app.lifecycle.set_timeout(id, seconds, true).await {
            Ok(sandbox) => return Ok((StatusCode::OK, Json(app.answer(sandbox)))),
            // Somebody paused it this instant.
            Err(cabana_store::Error::NotRunning { .. }) => {}
            Err(error) => return Err(app.too_late(&caller.team, id, error).await),
        }
    }
    Err(Refusal::new(ErrorCode::SandboxStateConflict, format!("Sandbox {id} is paused again and again; try again")))
}

/// What connect asks of a running sandbox must be so already: dropped in silence, a port that the client believes private would be open.
async fn agree(app: &App, caller: &Caller, id: &SandboxId, request: &ConnectRequest) -> Result<(), Refusal> {
    let ConnectRequest { secure, allow_public_traffic, network, .. } = request;
    if secure.is_none() && allow_public_traffic.is_none() && network.is_none() {
        return Ok(());
    }
    let row = app.there(&caller.team, id).await?;
    let policy = Policy::read(network.as_ref())?;
    let private = policy.private || *allow_public_traffic == Some(false);
    let differs = [
        ("secure", *secure == Some(true) && !row.secure),
        ("allowPublicTraffic", private && row.traffic.token.is_none()),
        ("denyOut", policy.denied && row.internet),
        ("maskRequestHost", policy.mask_host.is_some() && policy.mask_host != row.traffic.mask_host),
        ("httpsPorts", !policy.https_ports.is_empty() && policy.https_ports != row.traffic.https_ports),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        None => Ok(()),
        Some((what, _)) => {
            let text = format!("Changing {what} of a running sandbox is not available on this server yet");
            Err(Refusal::new(ErrorCode::NotSupported, text))
        }
    }
}

fn required(app: &App, timeout: Option<i64>) -> Result<u64, Refusal> {
    let seconds = timeout.ok_or_else(|| Refusal::invalid("timeout is missing: send the seconds from now"))?;
    app.bounds.timeout("timeout", seconds).map_err(Refusal::invalid)
}

async fn change(
    app: &App,
    caller: &Caller,
    id: &SandboxId,
    seconds: u64,
    extend: bool,
) -> Result<cabana_store::Sandbox, Refusal> {
    app.running(&caller.team, id).await?;
    match app.lifecycle.set_timeout(id, seconds, extend).await {
        Ok(sandbox) => Ok(sandbox),
        Err(error) => Err(app.too_late(&caller.team, id, error).await),
    }
}
