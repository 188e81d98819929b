//! The network options of a sandbox: reading and replacing them.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::Sandbox as Row;
use cabana_types::egress::{EgressProxy, Target};
use cabana_types::wire::{
    NetworkProxy, NetworkProxyTls, NetworkRequest, NetworkRule, NetworkStatus, NetworkTransform, SandboxNetwork,
};
use http::StatusCode;

use super::App;
use super::body::OptionalBody;
use super::network_options::NetworkOptions;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;

/// Where a sandbox may connect, and what was denied.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/network", tag = "sandboxes",
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 200, description = "Its network options and denials", body = NetworkStatus)))]
pub(super) async fn get_network(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
) -> Result<Json<NetworkStatus>, ApiError> {
    let row = app.find_created(&caller.reach, &id).await?;
    let denials = app.lifecycle.denials(&id).await;
    Ok(Json(NetworkStatus { preset: app.egress.name(&row.egress).into(), network: shown(&row), denials }))
}

/// Replace where a sandbox may connect. What the request leaves out is cleared; with nothing said, the default of its
/// template or of the server applies. Connections that are no longer allowed end.
#[utoipa::path(put, path = "/sandboxes/{sandboxID}/network", tag = "sandboxes", request_body = Option<NetworkRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 204, description = "It is in force, or will be when the sandbox is resumed")))]
pub(super) async fn set_network(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<NetworkRequest>,
) -> Result<StatusCode, ApiError> {
    let row = app.find_created(&caller.reach, &id).await?;
    let options = NetworkOptions::read(Some(&request), None, &app.egress)?;
    let of_ports = [
        ("allowPublicTraffic", request.allow_public_traffic.is_some()),
        ("maskRequestHost", options.mask_host.is_some()),
        ("httpsPorts", !options.https_ports.is_empty()),
    ];
    if let Some((name, _)) = of_ports.into_iter().find(|(_, given)| *given) {
        return Err(ApiError::invalid(format!("{name} can only be set when a sandbox is created; leave it out")));
    }
    let policy = match options.egress {
        Some(policy) => Arc::new(policy),
        None => app.egress.default_policy(app.template_network(&row.template).await?),
    };
    app.lifecycle.set_egress(&id, policy).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The network options of a sandbox, without secrets. Only the responses to create and connect contain the traffic token.
pub(super) fn shown(row: &Row) -> SandboxNetwork {
    let egress = &row.egress;
    SandboxNetwork {
        allow_public_traffic: row.traffic.token.is_none(),
        mask_request_host: row.traffic.mask_host.clone(),
        https_ports: row.traffic.https_ports.clone(),
        allow_out: egress.allow_out.iter().map(Target::to_string).collect(),
        deny_out: egress.deny_out.iter().map(|prefix| Target::Address(*prefix).to_string()).collect(),
        dns_servers: egress.dns_servers.iter().map(ToString::to_string).collect(),
        egress_proxy: egress.egress_proxy.as_ref().map(proxy),
        rules: egress
            .rules
            .iter()
            .map(|(host, headers)| {
                let headers = headers.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
                let transform = Some(NetworkTransform { headers: Some(headers) });
                (host.to_string(), vec![NetworkRule { transform }])
            })
            .collect(),
    }
}

/// A proxy without password and certificates.
fn proxy(proxy: &EgressProxy) -> NetworkProxy {
    NetworkProxy {
        address: proxy.address.clone(),
        username: proxy.username.clone(),
        password: None,
        tls: proxy.tls.as_ref().map(|tls| NetworkProxyTls {
            enabled: tls.enabled,
            server_name: tls.server_name.clone(),
            ca_cert: None,
        }),
    }
}
