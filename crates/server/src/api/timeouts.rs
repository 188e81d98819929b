//! Timeouts of sandboxes: setting and refreshing them, and connecting, which extends them and resumes paused sandboxes.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_types::limits::{DEFAULT_TIMEOUT_SECONDS, DEFAULT_TIMEOUT_V1_SECONDS, MAX_REFRESH_SECONDS, within};
use cabana_types::sandbox;
use cabana_types::wire::{ConnectRequest, RefreshRequest, Sandbox, TimeoutRequest};
use cabana_types::{ErrorCode, SandboxId};
use http::StatusCode;

use super::App;
use super::body::{Body, OptionalBody};
use super::network_options::NetworkOptions;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;

/// How often connect resumes a sandbox that is paused again and again by others.
const CONNECT_ATTEMPTS: usize = 50;

/// Set when a sandbox expires, in seconds from now. 0 expires it at once.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/timeout", tag = "sandboxes", request_body = TimeoutRequest,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "The timeout is set")))]
pub(super) async fn set_timeout(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    Body(request): Body<TimeoutRequest>,
) -> Result<StatusCode, ApiError> {
    let seconds = required_timeout(&app, request.timeout)?;
    change_timeout(&app, &caller, &id, seconds, false).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Extend the timeout of a sandbox to at least a number of seconds from now.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/refreshes", operation_id = "refresh_sandbox",
    tag = "sandboxes", request_body = Option<RefreshRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "The timeout is extended")))]
pub(super) async fn refresh(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<RefreshRequest>,
) -> Result<StatusCode, ApiError> {
    let most = i64::try_from(MAX_REFRESH_SECONDS).unwrap_or(i64::MAX);
    let seconds = match request.duration {
        Some(seconds) => u64::try_from(within("duration", seconds, 0..=most)?).unwrap_or_default(),
        None => DEFAULT_TIMEOUT_V1_SECONDS,
    };
    change_timeout(&app, &caller, &id, seconds, true).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Connect to a sandbox: get its access token, extend its timeout, and resume it if it is paused.
#[utoipa::path(post, path = "/v2/sandboxes/{sandboxID}/connect", operation_id = "connect_sandbox",
    tag = "sandboxes", request_body = Option<ConnectRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses(
        (status = 200, description = "It was running", body = Sandbox),
        (status = 201, description = "It was paused and is resumed", body = Sandbox)))]
pub(super) async fn connect(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<ConnectRequest>,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    let seconds = match request.timeout {
        Some(_) => required_timeout(&app, request.timeout)?,
        None => DEFAULT_TIMEOUT_SECONDS,
    };
    check_options(&app, &caller, &id, &request).await?;
    ensure_running(&app, &caller, &id, seconds, request.memory == Some(false)).await
}

/// Connect to a sandbox, as older clients do: the timeout is required.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/connect", operation_id = "connect_sandbox_v1",
    tag = "sandboxes", request_body = ConnectRequest,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses(
        (status = 200, description = "It was running", body = Sandbox),
        (status = 201, description = "It was paused and is resumed", body = Sandbox)))]
pub(super) async fn connect_v1(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    Body(request): Body<ConnectRequest>,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    let seconds = required_timeout(&app, request.timeout)?;
    check_options(&app, &caller, &id, &request).await?;
    ensure_running(&app, &caller, &id, seconds, request.memory == Some(false)).await
}

/// Resume a sandbox, as the oldest clients do.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/resume", operation_id = "resume_sandbox",
    tag = "sandboxes", request_body = Option<ConnectRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses(
        (status = 201, description = "It is resumed", body = Sandbox),
        (status = 409, description = "It is running", body = cabana_types::wire::ErrorBody)))]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<ConnectRequest>,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    let seconds = match request.timeout {
        Some(_) => required_timeout(&app, request.timeout)?,
        None => DEFAULT_TIMEOUT_V1_SECONDS,
    };
    let row = app.find_usable(&caller.reach, &id).await?;
    if row.state == sandbox::State::Running {
        let text = format!("Sandbox {id} is already running; connect to it with POST /v2/sandboxes/{id}/connect");
        return Err(ApiError::new(ErrorCode::SandboxStateConflict, text));
    }
    check_options(&app, &caller, &id, &request).await?;
    ensure_running(&app, &caller, &id, seconds, request.memory == Some(false)).await
}

/// Resumes a sandbox if it is paused, and extends its timeout. `fresh` boots it from its disk.
async fn ensure_running(
    app: &App,
    caller: &Caller,
    id: &SandboxId,
    seconds: u64,
    fresh: bool,
) -> Result<(StatusCode, Json<Sandbox>), ApiError> {
    for _ in 0..CONNECT_ATTEMPTS {
        let row = app.find_usable(&caller.reach, id).await?;
        if row.state != sandbox::State::Running {
            let (sandbox, resumed) = app.lifecycle.resume(id, seconds, fresh).await?;
            if resumed {
                return Ok((StatusCode::CREATED, Json(app.sandbox_response(sandbox))));
            }
        }
        match app.lifecycle.set_timeout(id, seconds, true).await {
            Ok(sandbox) => return Ok((StatusCode::OK, Json(app.sandbox_response(sandbox)))),
            // Another request has paused it.
            Err(cabana_store::Error::NotRunning { .. }) => {}
            Err(error) => return Err(app.explain_conflict(&caller.reach, id, error).await),
        }
    }
    Err(ApiError::new(ErrorCode::SandboxStateConflict, format!("Sandbox {id} is paused again and again; try again")))
}

/// Rejects options of connect that differ from the sandbox's. Ignoring them could leave a port public that the client believes is private.
async fn check_options(app: &App, caller: &Caller, id: &SandboxId, request: &ConnectRequest) -> Result<(), ApiError> {
    let ConnectRequest { secure, allow_public_traffic, network, .. } = request;
    if secure.is_none() && allow_public_traffic.is_none() && network.is_none() {
        return Ok(());
    }
    let row = app.find_usable(&caller.reach, id).await?;
    let options = NetworkOptions::read(network.as_ref(), None, &app.egress)?;
    let private = options.private || *allow_public_traffic == Some(false);
    if options.egress.is_some_and(|egress| *Arc::new(egress).with_placeholders_of(&row.egress) != *row.egress) {
        let text = format!("Connecting does not change where a sandbox may connect; use PUT /sandboxes/{id}/network");
        return Err(ApiError::new(ErrorCode::NotSupported, text));
    }
    let differs = [
        ("secure", *secure == Some(true) && !row.secure),
        ("allowPublicTraffic", private && row.traffic.token.is_none()),
        ("maskRequestHost", options.mask_host.is_some() && options.mask_host != row.traffic.mask_host),
        ("httpsPorts", !options.https_ports.is_empty() && options.https_ports != row.traffic.https_ports),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        None => Ok(()),
        Some((what, _)) => {
            let text = format!("Changing {what} of a running sandbox is not available on this server yet");
            Err(ApiError::new(ErrorCode::NotSupported, text))
        }
    }
}

fn required_timeout(app: &App, timeout: Option<i64>) -> Result<u64, ApiError> {
    let seconds = timeout.ok_or_else(|| ApiError::invalid("timeout is missing: send the seconds from now"))?;
    app.limits.timeout("timeout", seconds).map_err(ApiError::invalid)
}

async fn change_timeout(
    app: &App,
    caller: &Caller,
    id: &SandboxId,
    seconds: u64,
    extend: bool,
) -> Result<cabana_store::Sandbox, ApiError> {
    app.find_running(&caller.reach, id).await?;
    match app.lifecycle.set_timeout(id, seconds, extend).await {
        Ok(sandbox) => Ok(sandbox),
        Err(error) => Err(app.explain_conflict(&caller.reach, id, error).await),
    }
}
