//! Terminals of sandboxes: shells with a screen for people, by WebSocket. A shell is a command of the guest with a tag of its own, so it
//! outlives the socket, and the server keeps nothing of it: after a disconnect or a restart of either side the guest replays
//! what it keeps of the output.

mod ending;
mod keyboard;
mod session;
mod shell;

use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::response::Response;
use axum::{Extension, Json};
use cabana_types::routing::parse_sandbox_ref;
use cabana_types::wire::Terminal;
use cabana_types::{ErrorCode, SandboxId};
use http::StatusCode;
use http::request::Parts;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::session::Wanted;
use self::shell::Size;
use super::App;
use super::live::not_a_websocket;
use super::query::Query;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::{ApiError, short};
use crate::live::Peer;

/// Bytes of a message of the client: what is typed or pasted.
const MAX_MESSAGE: usize = 256 << 10;
/// Bytes that are read at once, and that are kept before they are written.
const READ_BUFFER: usize = 16 << 10;
const WRITE_BUFFER: usize = 32 << 10;
/// Columns or rows.
pub(super) const MAX_SIDE: i64 = 1000;
pub(super) const MAX_CWD: usize = 4096;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(open_terminal)).routes(routes!(list_terminals)).routes(routes!(end_terminal))
}

/// Open a terminal by WebSocket: a new login shell, or the one of `pid`. Binary frames are bytes of the terminal, text frames are JSON;
/// see docs/live.md. A paused sandbox is resumed. The shell outlives the connection.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/terminal", tag = "terminals",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("pid" = Option<u32>, Query, description = "Connects to this terminal again and replays its newest output"),
        ("cols" = Option<u32>, Query, description = "Columns, 1 to 1000; 80 by default"),
        ("rows" = Option<u32>, Query, description = "Rows, 1 to 1000; 24 by default"),
        ("cwd" = Option<String>, Query, description = "Where a new shell begins; the sandbox's working directory by default"),
    ),
    responses((status = 101, description = "The connection is a WebSocket from now on")))]
pub(super) async fn open_terminal(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    // What depends on the sandbox's state is said on the socket: a browser cannot read why an upgrade was refused.
    app.find_sandbox(&caller.reach, &id).await?;
    let wanted = wanted(&query)?;
    let upgrade = upgrade.map_err(|_| not_a_websocket())?;
    let peer = Peer::new(&app, &caller, request.extensions());
    let upgrade = upgrade
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER);
    Ok(upgrade.on_upgrade(move |socket| session::serve(app, caller, id, wanted, peer, socket)))
}

/// List the terminals of a sandbox. One that is paused lists none; those that are kept with its memory are there again when it is resumed.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/terminals", tag = "terminals",
    params(("sandboxID" = String, Path, description = "The sandbox")),
    responses((status = 200, description = "The terminals whose shell runs, oldest first", body = Vec<Terminal>)))]
pub(super) async fn list_terminals(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
) -> Result<Json<Vec<Terminal>>, ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let Some(route) = app.directory.get(&id) else { return Ok(Json(vec![])) };
    Ok(Json(shell::list(&route).await?))
}

/// End a terminal: its shell is killed, and what runs in its foreground gets a hangup.
#[utoipa::path(delete, path = "/sandboxes/{sandboxID}/terminals/{pid}", tag = "terminals",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("pid" = u32, Path, description = "The terminal"),
    ),
    responses((status = 204, description = "It is ended")))]
pub(super) async fn end_terminal(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    TerminalRef { sandbox, pid }: TerminalRef,
) -> Result<StatusCode, ApiError> {
    app.find_sandbox(&caller.reach, &sandbox).await?;
    let pid = pid.parse().map_err(|_| no_terminal(&pid))?;
    app.find_running(&caller.reach, &sandbox).await?;
    let Some(route) = app.directory.get(&sandbox) else {
        let text = format!("Sandbox {sandbox} is changing; try again");
        return Err(ApiError::new(ErrorCode::SandboxStateConflict, text));
    };
    match shell::end(&route, pid).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_terminal(&pid.to_string())),
    }
}

fn wanted(query: &Query) -> Result<Wanted, ApiError> {
    let number = |name, most| -> Result<Option<u32>, ApiError> {
        Ok(query.number(name, 1..=most)?.and_then(|number| u32::try_from(number).ok()))
    };
    let cwd = query.text("cwd").map(str::to_owned);
    if cwd.as_ref().is_some_and(|cwd| cwd.len() > MAX_CWD) {
        return Err(ApiError::invalid(format!("cwd has more than {MAX_CWD} bytes")));
    }
    let size = match (number("cols", MAX_SIDE)?, number("rows", MAX_SIDE)?) {
        (None, None) => None,
        (cols, rows) => Some(Size { cols: cols.unwrap_or(80), rows: rows.unwrap_or(24) }),
    };
    Ok(Wanted { pid: number("pid", i64::from(u32::MAX))?, size, cwd })
}

/// The sandbox and the terminal in a path.
pub(super) struct TerminalRef {
    sandbox: SandboxId,
    pid: String,
}

impl<S: Send + Sync> FromRequestParts<S> for TerminalRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path((sandbox, pid)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("The path is not well formed"))?;
        let sandbox = parse_sandbox_ref(&sandbox).ok_or_else(|| ApiError::no_sandbox(&sandbox))?;
        Ok(Self { sandbox, pid })
    }
}

fn no_terminal(pid: &str) -> ApiError {
    let text = format!("There is no terminal {}; GET /sandboxes/{{id}}/terminals lists them", short(pid));
    ApiError::new(ErrorCode::TerminalNotFound, text)
}
