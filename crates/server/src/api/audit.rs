//! The audit log: reading, verifying, exporting and pruning it. `record` writes it, for all routes.

mod actions;
mod describe;
mod export;
mod record;
mod trail;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
use cabana_store::{AuditQuery, Order};
use cabana_types::audit::{AuditResult, Report};
use cabana_types::wire::{AuditPage, AuditPrune, AuditPruned};
use cabana_types::{ErrorCode, TeamId};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Semaphore;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::record::recorded;
pub(crate) use self::trail::Trail;
use super::App;
use super::body::Body;
use super::query::Query;
use crate::audit::MIN_DAYS;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Entries of a page.
const PAGE: u32 = 50;
const MAX_PAGE: u32 = 200;
/// Bytes of a filter.
const MAX_FILTER: usize = 128;
/// Verifying reads the whole log: one at a time is enough.
static VERIFYING: Semaphore = Semaphore::const_new(1);

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list_audit))
        .routes(routes!(export_audit))
        .routes(routes!(verify_audit))
        .routes(routes!(list_all_audit))
        .routes(routes!(export_all_audit))
        .routes(routes!(verify_all_audit))
        .routes(routes!(prune_audit))
}

/// List what was done in the team, newest first.
#[utoipa::path(get, path = "/audit", tag = "audit",
    params(
        ("from" = Option<String>, Query, description = "Not before this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time"),
        ("actor" = Option<String>, Query, description = "Id of a person or API key"),
        ("action" = Option<String>, Query, description = "Id of an operation of this API, such as `create_sandbox`"),
        ("target" = Option<String>, Query, description = "Id of what it was done to"),
        ("result" = Option<String>, Query, description = "`ok`, `refused`, `failed` or `interrupted`"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("limit" = Option<u32>, Query, description = "Entries of a page, 1 to 200 (default 50)"),
    ),
    responses((status = 200, description = "A page", body = AuditPage)))]
pub(super) async fn list_audit(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Json<AuditPage>, ApiError> {
    page(&app, Some(caller.team), &query).await
}

/// List what was done in all teams, and to the server. For operators.
#[utoipa::path(get, path = "/admin/audit", tag = "audit",
    params(
        ("team" = Option<String>, Query, description = "Only this team"),
        ("from" = Option<String>, Query, description = "Not before this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time"),
        ("actor" = Option<String>, Query, description = "Id of a person or API key"),
        ("action" = Option<String>, Query, description = "Id of an operation of this API, such as `create_sandbox`"),
        ("target" = Option<String>, Query, description = "Id of what it was done to"),
        ("result" = Option<String>, Query, description = "`ok`, `refused`, `failed` or `interrupted`"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("limit" = Option<u32>, Query, description = "Entries of a page, 1 to 200 (default 50)"),
    ),
    responses((status = 200, description = "A page", body = AuditPage)))]
pub(super) async fn list_all_audit(State(app): State<Arc<App>>, query: Query) -> Result<Json<AuditPage>, ApiError> {
    page(&app, team(&query)?, &query).await
}

/// Export what was done in the team, oldest first: as JSON lines, which `cabana audit verify` checks, or as CSV.
#[utoipa::path(get, path = "/audit/export", tag = "audit",
    params(
        ("format" = Option<String>, Query, description = "`jsonl` (default) or `csv`"),
        ("from" = Option<String>, Query, description = "Not before this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time"),
        ("actor" = Option<String>, Query, description = "Id of a person or API key"),
        ("action" = Option<String>, Query, description = "Id of an operation of this API"),
        ("target" = Option<String>, Query, description = "Id of what it was done to"),
        ("result" = Option<String>, Query, description = "`ok`, `refused`, `failed` or `interrupted`"),
    ),
    responses((status = 200, description = "The entries; without filters, lines about the chains come first", body = String,
        content_type = "application/x-ndjson")))]
pub(super) async fn export_audit(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Response, ApiError> {
    export::answer(app, Some(caller.team), &query).await
}

/// Export what was done in all teams, and to the server. For operators.
#[utoipa::path(get, path = "/admin/audit/export", tag = "audit",
    params(
        ("team" = Option<String>, Query, description = "Only this team"),
        ("format" = Option<String>, Query, description = "`jsonl` (default) or `csv`"),
        ("from" = Option<String>, Query, description = "Not before this time (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Before this time"),
        ("actor" = Option<String>, Query, description = "Id of a person or API key"),
        ("action" = Option<String>, Query, description = "Id of an operation of this API"),
        ("target" = Option<String>, Query, description = "Id of what it was done to"),
        ("result" = Option<String>, Query, description = "`ok`, `refused`, `failed` or `interrupted`"),
    ),
    responses((status = 200, description = "The entries; without filters, lines about the chains come first", body = String,
        content_type = "application/x-ndjson")))]
pub(super) async fn export_all_audit(State(app): State<Arc<App>>, query: Query) -> Result<Response, ApiError> {
    export::answer(app, team(&query)?, &query).await
}

/// Verify the team's chain: whether an entry was changed, removed or replaced.
#[utoipa::path(get, path = "/audit/verify", tag = "audit",
    responses((status = 200, description = "What was found", body = Report)))]
pub(super) async fn verify_audit(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Report>, ApiError> {
    verify(&app, Some(&caller.team)).await
}

/// Verify all chains. For operators.
#[utoipa::path(get, path = "/admin/audit/verify", tag = "audit",
    responses((status = 200, description = "What was found", body = Report)))]
pub(super) async fn verify_all_audit(State(app): State<Arc<App>>) -> Result<Json<Report>, ApiError> {
    verify(&app, None).await
}

/// Remove old entries of all chains. Each chain gets an entry that says so, and can be verified as before. For operators.
#[utoipa::path(post, path = "/admin/audit/prune", tag = "audit", request_body = AuditPrune,
    responses((status = 200, description = "How many were removed", body = AuditPruned)))]
pub(super) async fn prune_audit(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(prune): Body<AuditPrune>,
) -> Result<Json<AuditPruned>, ApiError> {
    let now = Timestamp::now();
    if prune.before > now - SignedDuration::from_hours(24 * i64::from(MIN_DAYS)) {
        let text = format!("before must be at least {MIN_DAYS} days ago: newer entries are always kept");
        return Err(ApiError::invalid(text));
    }
    let task = {
        let (app, actor) = (Arc::clone(&app), caller.actor.to_string());
        async move { app.store.prune_audit(prune.before, actor, now).await }
    };
    let pruned = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))?;
    Ok(Json(AuditPruned { entries: pruned.entries }))
}

async fn page(app: &App, team: Option<TeamId>, query: &Query) -> Result<Json<AuditPage>, ApiError> {
    let limit = query.limit(PAGE, MAX_PAGE)?;
    let after = query.number("cursor", 1..=i64::MAX)?.map(i64::unsigned_abs);
    let wanted = AuditQuery { after, limit: limit + 1, ..filtered(team, query)? };
    let mut rows = app.store.audit(&wanted).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next_cursor = rows.last().filter(|_| more).map(|(place, _)| place.to_string());
    let actors: BTreeSet<String> = rows.iter().filter_map(|(_, entry)| entry.actor.clone()).collect();
    let names = app.store.actor_names(&actors).await?.into_iter().collect();
    Ok(Json(AuditPage { entries: rows.into_iter().map(|(_, entry)| entry).collect(), names, next_cursor }))
}

/// The filters of a request.
fn filtered(team: Option<TeamId>, query: &Query) -> Result<AuditQuery, ApiError> {
    let text = |name: &'static str| match query.text(name) {
        Some(text) if text.len() > MAX_FILTER => {
            Err(ApiError::invalid(format!("{name} has more than {MAX_FILTER} bytes")))
        }
        text => Ok(text.map(str::to_owned)),
    };
    let result = query.text("result").map(str::parse::<AuditResult>).transpose();
    Ok(AuditQuery {
        team,
        from: query.time("from")?,
        until: query.time("until")?,
        actor: text("actor")?,
        action: text("action")?,
        target: text("target")?,
        result: result.map_err(|error| ApiError::invalid(error.to_string()))?,
        order: Order::Descending,
        after: None,
        limit: PAGE,
    })
}

/// The team that an operator asks for.
fn team(query: &Query) -> Result<Option<TeamId>, ApiError> {
    let unknown = |text: &str| ApiError::new(ErrorCode::TeamNotFound, format!("There is no team {:?}", short(text)));
    query.text("team").map(|text| text.parse().map_err(|_| unknown(text))).transpose()
}

async fn verify(app: &App, team: Option<&TeamId>) -> Result<Json<Report>, ApiError> {
    let Ok(_running) = VERIFYING.try_acquire() else {
        let text = "The audit log is being verified for somebody else; try again in a moment";
        return Err(ApiError::new(ErrorCode::ServiceUnavailable, text));
    };
    Ok(Json(app.store.verify_audit(team).await?))
}
