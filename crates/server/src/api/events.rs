//! Events of sandboxes.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::{EventQuery, Order};
use cabana_types::SandboxId;
use cabana_types::limits::PAGE;
use cabana_types::wire::Event;

use super::App;
use super::query::{MAX_OFFSET, Query};
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::ApiError;

const DEFAULT_LIMIT: u32 = 10;
const MAX_KINDS: usize = 32;

/// Events of all sandboxes of the team, including ended ones until they are forgotten.
#[utoipa::path(get, path = "/events/sandboxes", tag = "events",
    params(
        ("offset" = Option<u32>, Query, description = "Number of events to skip"),
        ("limit" = Option<u32>, Query, description = "Maximum number, 1 to 100, 10 by default"),
        ("orderAsc" = Option<bool>, Query, description = "Oldest first"),
        ("types" = Option<String>, Query, description = "Only these types, separated by commas"),
    ),
    responses((status = 200, description = "Events", body = Vec<Event>)))]
pub(super) async fn list_events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Json<Vec<Event>>, ApiError> {
    read(&app, &caller, None, &query).await
}

/// Events of one sandbox, also after its end.
#[utoipa::path(get, path = "/events/sandboxes/{sandboxID}", tag = "events",
    params(
        ("sandboxID" = String, Path, description = "Its id"),
        ("offset" = Option<u32>, Query, description = "Number of events to skip"),
        ("limit" = Option<u32>, Query, description = "Maximum number, 1 to 100, 10 by default"),
        ("orderAsc" = Option<bool>, Query, description = "Oldest first"),
        ("types" = Option<String>, Query, description = "Only these types, separated by commas"),
    ),
    responses((status = 200, description = "Events", body = Vec<Event>)))]
pub(super) async fn sandbox_events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
) -> Result<Json<Vec<Event>>, ApiError> {
    app.find_sandbox(&caller.reach, &id).await?;
    read(&app, &caller, Some(id), &query).await
}

async fn read(
    app: &App,
    caller: &Caller,
    sandbox: Option<SandboxId>,
    query: &Query,
) -> Result<Json<Vec<Event>>, ApiError> {
    let kinds: Vec<String> = query.list("types").into_iter().map(str::to_owned).collect();
    if kinds.len() > MAX_KINDS {
        return Err(ApiError::invalid(format!("types has more than {MAX_KINDS} entries")));
    }
    let offset = query.number("offset", 0..=MAX_OFFSET)?.and_then(|v| u32::try_from(v).ok()).unwrap_or_default();
    let wanted = EventQuery {
        team: caller.team.clone(),
        projects: caller.reach.filter(),
        sandbox,
        kinds,
        from: None,
        until: None,
        order: if query.flag("orderAsc")? { Order::Ascending } else { Order::Descending },
        offset,
        limit: query.limit(DEFAULT_LIMIT, *PAGE.end())?,
    };
    Ok(Json(app.store.events(&wanted).await?.into_iter().map(wire_event).collect()))
}

/// An event in its wire form.
pub(crate) fn wire_event(event: cabana_store::Event) -> Event {
    Event {
        version: "v1".into(),
        id: event.id,
        kind: event.kind,
        event_data: Some(event.data),
        sandbox_execution_id: event.sandbox.to_string(),
        sandbox_id: event.sandbox,
        sandbox_template_id: event.template,
        sandbox_build_id: event.build,
        sandbox_team_id: event.team.to_string(),
        timestamp: event.at,
    }
}
