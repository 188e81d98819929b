//! Ports that programs in a sandbox listen on.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use cabana_types::wire::SandboxPort;
use http::Request;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::files::cut;
use super::own_address::own_address;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;

const MAX_PORTS: usize = 1024;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list_ports))
}

/// List the TCP ports that programs in a sandbox listen on, and the address by which each can be reached.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/ports", tag = "sandboxes",
    params(("sandboxID" = String, Path, description = "The sandbox; it is resumed if it is paused")),
    responses((status = 200, description = "By number", body = Vec<SandboxPort>)))]
pub(super) async fn list_ports(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    request: Request<Body>,
) -> Result<Json<Vec<SandboxPort>>, ApiError> {
    let secure = own_address(&request).is_some_and(|address| address.starts_with("https://"));
    let scheme = if secure { "https" } else { "http" };
    let listening = app.files_of(&caller, &id).await?.ports().await?;
    let url = |port: u16| app.domain.as_ref().map(|domain| format!("{scheme}://{port}-{id}.{domain}"));
    let ports = listening.into_iter().take(MAX_PORTS).map(|found| SandboxPort {
        port: found.port,
        address: cut(&found.address),
        pid: found.pid,
        process: found.command.map(|name| cut(&name)),
        url: url(found.port),
    });
    Ok(Json(ports.collect()))
}
