//! Resource usage of sandboxes.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_types::ErrorCode;
use cabana_types::limits::PAGE;
use cabana_types::routing::parse_sandbox_ref;
use cabana_types::wire::{SandboxMetric, SandboxesMetrics};
use futures_util::StreamExt;

use super::App;
use super::query::Query;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::lifecycle::UsageError;

/// Sandboxes that one request queries in parallel.
const CONCURRENCY: usize = 8;

/// Resource usage of a sandbox: all samples of the last hour, before that the peaks of minutes and of hours, since this server started.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/metrics", tag = "sandboxes",
    params(
        ("sandboxID" = String, Path, description = "Its id"),
        ("start" = Option<i64>, Query, description = "Not before this time, seconds since 1970"),
        ("end" = Option<i64>, Query, description = "Not after this time, seconds since 1970"),
    ),
    responses((status = 200, description = "Samples, oldest first", body = Vec<SandboxMetric>)))]
pub(super) async fn sandbox_metrics(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
) -> Result<Json<Vec<SandboxMetric>>, ApiError> {
    let range = query.range()?;
    app.find_usable(&caller.reach, &id).await?;
    match app.lifecycle.usage(&id, range).await {
        Ok(metrics) => Ok(Json(metrics)),
        Err(UsageError::NotRunning(_)) => {
            app.find_usable(&caller.reach, &id).await?;
            Ok(Json(vec![]))
        }
        Err(UsageError::NoAnswer(_)) => {
            let text = format!("Sandbox {id} could not be asked in time; try again");
            Err(ApiError::new(ErrorCode::SandboxUnresponsive, text))
        }
        Err(error) => Err(ApiError::internal(&error)),
    }
}

/// Current resource usage of several sandboxes.
#[utoipa::path(get, path = "/sandboxes/metrics", tag = "sandboxes",
    params(("sandbox_ids" = String, Query, description = "Ids, separated by commas, at most 100")),
    responses((status = 200, description = "The last sample of each that is running", body = SandboxesMetrics)))]
pub(super) async fn sandboxes_metrics(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Json<SandboxesMetrics>, ApiError> {
    let ids = query.list("sandbox_ids");
    if ids.is_empty() || ids.len() > *PAGE.end() as usize {
        return Err(ApiError::invalid(format!("sandbox_ids takes 1 to {} ids, not {}", PAGE.end(), ids.len())));
    }
    let ids: Vec<_> = ids.into_iter().filter_map(parse_sandbox_ref).collect();
    let metrics = futures_util::stream::iter(ids)
        .map(|id| {
            let (app, reach) = (Arc::clone(&app), caller.reach.clone());
            async move {
                app.find_running(&reach, &id).await.ok()?;
                let metric = app.lifecycle.last_usage(&id).await?;
                Some((id.to_string(), metric))
            }
        })
        .buffer_unordered(CONCURRENCY)
        .filter_map(std::future::ready)
        .collect::<Vec<_>>()
        .await;
    Ok(Json(SandboxesMetrics { sandboxes: metrics.into_iter().collect() }))
}
