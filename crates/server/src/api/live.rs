//! `GET /live`: a WebSocket on which the server says what has changed.

mod client_frame;
mod socket;

use std::sync::Arc;

use axum::Extension;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Request, State};
use axum::response::Response;
use cabana_types::ErrorCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::live::Peer;

/// Bytes of a frame of the client.
const MAX_FRAME: usize = 4096;
/// Bytes that are read at once, and that are kept before they are written.
const READ_BUFFER: usize = 4096;
const WRITE_BUFFER: usize = 16 << 10;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(live))
}

/// Get live updates by WebSocket: subscribe to topics with JSON frames such as `{"subscribe": "sandboxes"}`. The topics are
/// `sandboxes`, `sandbox:ID`, `service:ID`, `templates`, `build:TEMPLATE/BUILD` and `server`; see docs/live.md.
#[utoipa::path(get, path = "/live", tag = "live",
    responses((status = 101, description = "The connection is a WebSocket from now on")))]
pub(super) async fn live(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|_| not_a_websocket())?;
    let member = app.live.join(&caller.reach).ok_or_else(|| {
        ApiError::new(ErrorCode::LimitReached, "The team has too many sockets for live updates open; close some first")
    })?;
    let peer = Peer::new(&app, &caller, request.extensions());
    let upgrade = upgrade
        .max_message_size(MAX_FRAME)
        .max_frame_size(MAX_FRAME)
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER);
    Ok(upgrade.on_upgrade(move |socket| socket::serve(app, caller, member, peer, socket)))
}

/// The request does not ask for a WebSocket, or not over HTTP/1.1. Browsers use HTTP/1.1 for WebSockets, as HTTP/2 does not
/// announce them here.
pub(super) fn not_a_websocket() -> ApiError {
    ApiError::invalid("This route speaks WebSocket: connect to it with a ws:// or wss:// URL, over HTTP/1.1")
}
