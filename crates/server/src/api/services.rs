//! Services of sandboxes: starting, stopping, settings, output. `links` are the ways by which people see them.

mod acts;
mod links;
mod new_service;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cabana_types::service::Access;
use cabana_types::wire::{NewService, Service, ServiceLogLines, ServiceUpdate};
use cabana_types::{ErrorCode, ServiceId};
use futures_util::StreamExt;
use http::request::Parts;
use http::{Request, StatusCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::acts::put;
use super::App;
use super::body;
use super::own_address::own_address;
use super::query::Query;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::{ApiError, short};
use crate::services::{LogPart, follow};
use cabana_types::limits::MAX_API_BODY_BYTES;

/// Lines of a log.
pub(super) const MAX_TAIL: i64 = 10_000;
const TAIL: i64 = 200;
/// Seconds that a request may wait for a service.
pub(super) const MAX_WAIT: i64 = 60;
const PING: Duration = Duration::from_secs(15);

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(start_new, list))
        .routes(routes!(get, update, delete))
        .routes(routes!(start))
        .routes(routes!(stop))
        .routes(routes!(restart))
        .routes(routes!(logs))
        .routes(routes!(screenshot))
        .merge(links::routes())
}

/// Start a service: a command that serves a port. A service of the same name is replaced. A paused sandbox is resumed.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/services", operation_id = "create_service", tag = "services", request_body = NewService,
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("waitSeconds" = Option<u32>, Query, description = "Waits so long until it is not starting any more, at most 60"),
    ),
    responses((status = 201, description = "The service", body = Service)))]
pub(super) async fn start_new(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Service>), ApiError> {
    app.find_usable(&caller.reach, &id).await?;
    let (wait, base) = (wait(&query)?, app.service_base(own_address(&request).as_deref()));
    let new: NewService = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
    let service = app.start_service(&caller, &id, new, wait, base.as_ref()).await?;
    Ok((StatusCode::CREATED, Json(service)))
}

/// List the services of a sandbox. A paused one stays paused.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/services", operation_id = "list_services", tag = "services",
    params(("sandboxID" = String, Path, description = "The sandbox, also one that has ended")),
    responses((status = 200, description = "Oldest first", body = Vec<Service>)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    request: Request<Body>,
) -> Result<Json<Vec<Service>>, ApiError> {
    let sandbox = app.find_sandbox(&caller.reach, &id).await?;
    let base = app.service_base(own_address(&request).as_deref());
    let rows = app.store.services_of(&id).await?;
    let described = rows.iter().map(|row| app.services.describe(row, &sandbox, base.as_ref()));
    Ok(Json(futures_util::future::join_all(described).await))
}

/// Get a service.
#[utoipa::path(get, path = "/services/{serviceID}", operation_id = "get_service", tag = "services",
    params(("serviceID" = String, Path, description = "The service")),
    responses((status = 200, description = "The service", body = Service)))]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
    request: Request<Body>,
) -> Result<Json<Service>, ApiError> {
    let (row, _) = app.find_service(&caller, &id).await?;
    app.service(&caller, &row.id, Duration::ZERO, app.service_base(own_address(&request).as_deref()).as_ref())
        .await
        .map(Json)
}

/// Change who may see a service, its name below the domain, and what happens when its sandbox sleeps.
#[utoipa::path(patch, path = "/services/{serviceID}", operation_id = "update_service", tag = "services", request_body = ServiceUpdate,
    params(("serviceID" = String, Path, description = "The service")),
    responses((status = 200, description = "The service", body = Service)))]
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
    request: Request<Body>,
) -> Result<Json<Service>, ApiError> {
    let (row, _) = app.find_live_service(&caller, &id).await?;
    let base = app.service_base(own_address(&request).as_deref());
    let change: ServiceUpdate = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
    let settings = new_service::changed(&row, change)?;
    let task = {
        let (app, id) = (Arc::clone(&app), id.clone());
        async move {
            let closes = row.settings.access != Access::Private && settings.access == Access::Private;
            put(app.services.set(&id, settings).await?)?;
            if closes {
                app.grants.cut_links(&id);
            }
            Ok::<_, ApiError>(())
        }
    };
    // To its end, or what is open by links would stay open.
    app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    app.service(&caller, &id, Duration::ZERO, base.as_ref()).await.map(Json)
}

/// Stop a service and forget it, with its links.
#[utoipa::path(delete, path = "/services/{serviceID}", operation_id = "delete_service", tag = "services",
    params(("serviceID" = String, Path, description = "The service")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
) -> Result<StatusCode, ApiError> {
    app.find_service(&caller, &id).await?;
    let task = {
        let app = Arc::clone(&app);
        async move {
            app.grants.service_removed(&id);
            app.services.remove(&id).await
        }
    };
    app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Start a service that was stopped or has ended. One that runs stays as it is. A paused sandbox is resumed.
#[utoipa::path(post, path = "/services/{serviceID}/start", operation_id = "start_service", tag = "services",
    params(
        ("serviceID" = String, Path, description = "The service"),
        ("waitSeconds" = Option<u32>, Query, description = "Waits so long until it is not starting any more, at most 60"),
    ),
    responses((status = 200, description = "The service", body = Service)))]
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
    query: Query,
    request: Request<Body>,
) -> Result<Json<Service>, ApiError> {
    let base = app.service_base(own_address(&request).as_deref());
    app.run_service(&caller, &id, false, wait(&query)?, base.as_ref()).await.map(Json)
}

/// Stop a service, and start it with the same command. A paused sandbox is resumed.
#[utoipa::path(post, path = "/services/{serviceID}/restart", operation_id = "restart_service", tag = "services",
    params(
        ("serviceID" = String, Path, description = "The service"),
        ("waitSeconds" = Option<u32>, Query, description = "Waits so long until it is not starting any more, at most 60"),
    ),
    responses((status = 200, description = "The service", body = Service)))]
pub(super) async fn restart(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
    query: Query,
    request: Request<Body>,
) -> Result<Json<Service>, ApiError> {
    let base = app.service_base(own_address(&request).as_deref());
    app.run_service(&caller, &id, true, wait(&query)?, base.as_ref()).await.map(Json)
}

/// Stop a service: its processes get TERM, and KILL after 10 s. It stays stopped until it is started. A paused sandbox stays paused.
#[utoipa::path(post, path = "/services/{serviceID}/stop", operation_id = "stop_service", tag = "services",
    params(("serviceID" = String, Path, description = "The service")),
    responses((status = 200, description = "The service", body = Service)))]
pub(super) async fn stop(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
    request: Request<Body>,
) -> Result<Json<Service>, ApiError> {
    let base = app.service_base(own_address(&request).as_deref());
    app.stop_service(&caller, &id, base.as_ref()).await.map(Json)
}

/// Read what a service printed; with `follow`, as server-sent events (`lines`, then `end`). At most the newest MiB is kept.
#[utoipa::path(get, path = "/services/{serviceID}/logs", operation_id = "service_logs", tag = "services",
    params(
        ("serviceID" = String, Path, description = "The service"),
        ("tail" = Option<u32>, Query, description = "How many of the newest lines, at most 10000; 200 by default"),
        ("follow" = Option<bool>, Query, description = "Whether to go on"),
    ),
    responses((status = 200, description = "The lines", body = ServiceLogLines)))]
pub(super) async fn logs(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
    query: Query,
) -> Result<Response, ApiError> {
    let (row, _) = app.find_service(&caller, &id).await?;
    let tail = query.number("tail", 0..=MAX_TAIL)?.unwrap_or(TAIL);
    let tail = usize::try_from(tail).unwrap_or_default();
    if query.text("follow") != Some("true") {
        return Ok(Json(app.services.log(&row.id, tail).await).into_response());
    }
    let parts = follow(Arc::clone(&app.services), &row.id, tail).await;
    let ended = caller.session.as_ref().map(|session| session.ended.clone()).unwrap_or_default();
    let events = parts.take_until(async move { ended.cancelled().await }).map(|part| {
        let event = match &part {
            LogPart::Lines(lines) => Event::default().event("lines").json_data(lines),
            LogPart::End(end) => Event::default().event("end").json_data(end),
            LogPart::Silence => Ok(Event::default().comment("")),
        };
        Ok::<_, Infallible>(event.unwrap_or_default())
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(PING).text("ping")).into_response())
}

/// Take a picture of a service's page in a browser of its own. This server has no browsers yet.
#[utoipa::path(post, path = "/services/{serviceID}/screenshot", operation_id = "screenshot_service", tag = "services",
    params(("serviceID" = String, Path, description = "The service")),
    responses((status = 400, description = "This server has no browser sandboxes", body = cabana_types::wire::ErrorBody)))]
pub(super) async fn screenshot(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
) -> Result<StatusCode, ApiError> {
    app.find_service(&caller, &id).await?;
    let text = "Screenshots by the server need browser sandboxes, which this version does not have; the console takes pictures of a page \
                that it shows";
    Err(ApiError::new(ErrorCode::NotSupported, text))
}

/// The id in the path.
#[derive(Debug)]
pub(super) struct ServiceRef(pub(super) ServiceId);

impl<S: Send + Sync> FromRequestParts<S> for ServiceRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("The path is not well formed"))?;
        text.parse().map(Self).map_err(|_| no_service(&text))
    }
}

pub(super) fn no_service(id: &str) -> ApiError {
    let text = format!("Service {} was not found; list those of a sandbox with GET /sandboxes/ID/services", short(id));
    ApiError::new(ErrorCode::ServiceNotFound, text)
}

fn wait(query: &Query) -> Result<Duration, ApiError> {
    let seconds = query.number("waitSeconds", 0..=MAX_WAIT)?.unwrap_or_default();
    Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}
