//! `GET /metrics`: what Prometheus scrapes.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::error::ApiError;
use crate::telemetry::{Telemetry, signed};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(scrape))
}

/// Measurements for Prometheus: durations of creations by phase and of requests by route, sandboxes by state, capacity, queues.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "In the text format of OpenMetrics", body = String,
        content_type = "application/openmetrics-text")))]
pub(super) async fn scrape(State(app): State<Arc<App>>) -> Result<impl IntoResponse, ApiError> {
    let gauges = &app.telemetry.gauges;
    gauges.set_sandboxes(&app.store.sandboxes_by_state().await?);
    gauges.deliveries.set(signed(app.store.pending_deliveries().await?));
    gauges.max_sandboxes.set(app.lifecycle.max_sandboxes().into());
    let capacity = app.lifecycle.capacity();
    gauges.set_reserved("memory", capacity.memory_mb, capacity.memory_limit_mb);
    gauges.set_reserved("disk", capacity.disk_mb, capacity.disk_limit_mb);
    if let Some(storage) = app.lifecycle.storage() {
        gauges.disk_free.set(signed(storage.free_mb));
        gauges.disk_reserve.set(signed(storage.reserve_mb));
    }
    gauges.builds.set(signed(app.builds.in_progress() as u64));
    gauges.read_process();
    let text = app.telemetry.text().map_err(|error| ApiError::internal(&error))?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text))
}

/// Measures each request to the API.
pub(super) async fn measure(State(telemetry): State<Arc<Telemetry>>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    telemetry.request(&method, route.as_ref().map(MatchedPath::as_str), response.status().as_u16(), begin);
    response
}
