//! Routes that only Novita's fork of E2B's SDK uses.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::Order;
use cabana_store::activity::{Activity, ActivityQuery};
use cabana_types::limits::PAGE;
use cabana_types::routing::parse_sandbox_ref;
use cabana_types::wire::{ActivityItem, ActivityPage, Quota, QuotaLimit, QuotaUsage};
use http::HeaderMap;
use http::header::USER_AGENT;
use jiff::Timestamp;

use super::App;
use super::query::{MAX_OFFSET, MAX_SECONDS, Query};
use crate::auth::Caller;
use crate::error::{ApiError, short};

const DEFAULT_LIMIT: u32 = 20;
const MAX_NAMES: usize = 32;

/// Whether the client is Novita's: its `GET /v2/templates` has another form.
pub(super) fn is_novita(headers: &HeaderMap) -> bool {
    headers.contains_key("x-novita-sdk-name")
        || headers
            .get(USER_AGENT)
            .and_then(|v| v.to_str().ok())
            .is_some_and(|agent| agent.starts_with("novita-sandbox"))
}

/// Limits of this server and usage of the team.
#[utoipa::path(get, path = "/sandboxes/quota", tag = "novita",
    responses((status = 200, description = "Limits and usage", body = Quota)))]
pub(super) async fn quota(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Quota>, ApiError> {
    let most = app.lifecycle.max_sandboxes();
    let (cpu, memory, disk) = app.limits.largest();
    let (instances, cpus, memory_mb) = app.store.running_sums(&caller.team).await?;
    Ok(Json(Quota {
        limit: QuotaLimit {
            concurrent_instances: u64::from(most),
            // There is no limit on the sum, only on each sandbox.
            concurrent_vcpu: u64::from(most) * u64::from(cpu),
            concurrent_ram_mb: u64::from(most) * u64::from(memory),
            max_length_hours: app.limits.max_timeout_hours,
            disk_mb: disk,
            max_vcpu: cpu,
            max_ram_mb: memory,
        },
        usage: QuotaUsage { concurrent_instances: instances, concurrent_vcpu: cpus, concurrent_ram_mb: memory_mb },
    }))
}

/// Operations on the team's sandboxes.
#[utoipa::path(get, path = "/sandboxes/events", tag = "novita",
    params(
        ("startTime" = Option<i64>, Query, description = "Not before this time, seconds since 1970"),
        ("endTime" = Option<i64>, Query, description = "Not after this time, seconds since 1970"),
        ("sandboxID" = Option<String>, Query, description = "Of this sandbox only"),
        ("templateID" = Option<String>, Query, description = "Of sandboxes from this template only"),
        ("events" = Option<String>, Query, description = "Only these, separated by commas: create, update, timeout, delete"),
        ("state" = Option<String>, Query, description = "`success` or `failed`"),
        ("orderAsc" = Option<bool>, Query, description = "Oldest first"),
        ("offset" = Option<u32>, Query, description = "Number of operations to skip"),
        ("limit" = Option<u32>, Query, description = "Maximum number, 1 to 100, 20 by default"),
    ),
    responses((status = 200, description = "A page", body = ActivityPage)))]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Json<ActivityPage>, ApiError> {
    let names: Vec<String> = query.list("events").into_iter().map(str::to_owned).collect();
    if names.len() > MAX_NAMES {
        return Err(ApiError::invalid(format!("events has more than {MAX_NAMES} entries")));
    }
    let failed = match query.text("state") {
        None => None,
        Some("success") => Some(false),
        Some("failed") => Some(true),
        Some(other) => {
            return Err(ApiError::invalid(format!("state must be success or failed, not {:?}", short(other))));
        }
    };
    let offset = query.number("offset", 0..=MAX_OFFSET)?.and_then(|v| u32::try_from(v).ok()).unwrap_or_default();
    let limit = query.limit(DEFAULT_LIMIT, *PAGE.end())?;
    let (from, until) = (query.seconds("startTime")?, query.seconds("endTime")?);
    let order = if query.flag("orderAsc")? { Order::Ascending } else { Order::Descending };
    let nothing = ActivityPage { items: vec![], total: 0, has_more: false };
    let sandbox = match query.text("sandboxID").map(parse_sandbox_ref) {
        None => None,
        Some(Some(id)) => Some(id),
        // A malformed id matches nothing.
        Some(None) => return Ok(Json(nothing)),
    };
    let projects = caller.reach.filter();
    let template = query.text("templateID").map(str::to_owned);
    let wanted = ActivityQuery {
        team: caller.team,
        projects,
        sandbox,
        template,
        names,
        failed,
        from,
        until,
        order,
        offset,
        limit,
    };
    let (rows, total) = app.store.activity(&wanted).await?;
    let has_more = u64::from(offset) + (rows.len() as u64) < total;
    Ok(Json(ActivityPage { items: rows.into_iter().map(item).collect(), total, has_more }))
}

fn item(row: Activity) -> ActivityItem {
    let status_code = match (row.name.as_str(), row.failed) {
        (_, true) => 500,
        ("create", false) => 201,
        _ => 204,
    };
    ActivityItem {
        event_id: row.id,
        record_at: row.at.as_second(),
        template_id: row.template,
        template_name: row.alias.unwrap_or_default(),
        sandbox_id: row.sandbox,
        event_name: row.name,
        state: if row.failed { "failed" } else { "success" }.into(),
        error_msg: if row.failed { row.reason } else { String::new() },
        status_code,
    }
}

impl Query {
    /// A moment in seconds since 1970.
    fn seconds(&self, name: &'static str) -> Result<Option<Timestamp>, ApiError> {
        let Some(value) = self.number(name, 0..=MAX_SECONDS)? else { return Ok(None) };
        Timestamp::from_second(value).map(Some).map_err(|_| ApiError::invalid(format!("{name} is out of range")))
    }
}
