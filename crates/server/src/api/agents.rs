//! Agents: models with instructions and tools, by a name that is one of its kind in the team.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Request, State};
use axum::{Extension, Json};
use cabana_store::{AgentPut, AgentRow};
use cabana_types::chat::{ChatTool, MAX_SYSTEM, TurnLimits};
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::wire::{Agent, AgentUpdate, NewAgent};
use cabana_types::{AgentId, ErrorCode};
use http::StatusCode;
use http::request::Parts;
use jiff::Timestamp;
use serde::Serialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::{self, Body};
use crate::auth::Caller;
use crate::chats::tool_check::check_tools;
use crate::chats::toolset::default_tools;
use crate::error::{ApiError, short};

/// Characters of a name.
pub(super) const MAX_NAME: usize = 64;
/// Characters of a description.
pub(super) const MAX_DESCRIPTION: usize = 2000;
/// Suggestions of an agent, and characters of one.
const MAX_SUGGESTIONS: usize = 12;
const MAX_SUGGESTION: usize = 300;
/// Agents of a team.
const MAX_AGENTS: usize = 500;
/// The one kind: the server calls the model and its tools.
const LOOP: &str = "loop";

/// The agents of a team.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct AgentPage {
    agents: Vec<Agent>,
}

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(get, update, delete))
}

/// List the team's agents.
#[utoipa::path(get, path = "/agents", operation_id = "list_agents", tag = "agents",
    responses((status = 200, description = "Agents, by name", body = AgentPage)))]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<AgentPage>, ApiError> {
    let rows = app.store.agents(&caller.team).await?;
    Ok(Json(AgentPage { agents: rows.into_iter().map(shown).collect() }))
}

/// Create an agent.
#[utoipa::path(post, path = "/agents", operation_id = "create_agent", tag = "agents", request_body = NewAgent,
    responses((status = 201, description = "The agent", body = Agent)))]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<NewAgent>,
) -> Result<(StatusCode, Json<Agent>), ApiError> {
    if new.kind.as_deref().is_some_and(|kind| kind != LOOP) {
        return Err(ApiError::new(ErrorCode::NotSupported, "This server has agents of the kind loop only"));
    }
    let now = now();
    let row = AgentRow {
        id: AgentId::from_random(rand::random()),
        team: caller.team.clone(),
        name: new.name,
        description: new.description.unwrap_or_default(),
        kind: LOOP.into(),
        model: new.model.filter(|model| !model.is_empty()),
        system: new.system.unwrap_or_default(),
        tools: new.tools.unwrap_or_else(default_tools),
        limits: new.limits.unwrap_or_default(),
        suggestions: new.suggestions.unwrap_or_default(),
        created_at: now,
        updated_at: now,
        created_by: Some(caller.actor.clone()),
    };
    app.check_agent(&row).await?;
    if app.store.agents(&caller.team).await?.len() >= MAX_AGENTS {
        let text = format!("The team has {MAX_AGENTS} agents, as many as there may be; delete one");
        return Err(ApiError::new(ErrorCode::LimitReached, text));
    }
    put(app.store.insert_agent(row.clone()).await?, &row)?;
    Ok((StatusCode::CREATED, Json(shown(row))))
}

/// Get an agent.
#[utoipa::path(get, path = "/agents/{agentID}", operation_id = "get_agent", tag = "agents",
    params(("agentID" = String, Path, description = "The agent")),
    responses((status = 200, description = "The agent", body = Agent)))]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    AgentRef(id): AgentRef,
) -> Result<Json<Agent>, ApiError> {
    Ok(Json(shown(app.find_agent(&caller, &id).await?)))
}

/// Change an agent. Its chats use what it has from their next turn on.
#[utoipa::path(patch, path = "/agents/{agentID}", operation_id = "update_agent", tag = "agents", request_body = AgentUpdate,
    params(("agentID" = String, Path, description = "The agent")),
    responses((status = 200, description = "The agent", body = Agent)))]
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    AgentRef(id): AgentRef,
    request: Request,
) -> Result<Json<Agent>, ApiError> {
    let row = app.find_agent(&caller, &id).await?;
    let change: AgentUpdate = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
    let row = AgentRow {
        name: change.name.unwrap_or(row.name),
        description: change.description.unwrap_or(row.description),
        model: change.model.map_or(row.model, |model| Some(model).filter(|model| !model.is_empty())),
        system: change.system.unwrap_or(row.system),
        tools: change.tools.unwrap_or(row.tools),
        limits: change.limits.unwrap_or(row.limits),
        suggestions: change.suggestions.unwrap_or(row.suggestions),
        updated_at: now(),
        ..row
    };
    app.check_agent(&row).await?;
    put(app.store.set_agent(row.clone()).await?, &row)?;
    Ok(Json(shown(row)))
}

/// Delete an agent. Its chats stay, with the tools and limits of chats without one.
#[utoipa::path(delete, path = "/agents/{agentID}", operation_id = "delete_agent", tag = "agents",
    params(("agentID" = String, Path, description = "The agent")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    AgentRef(id): AgentRef,
) -> Result<StatusCode, ApiError> {
    let row = app.find_agent(&caller, &id).await?;
    match app.store.delete_agent(row.id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(no_agent(id.as_str())),
    }
}

impl App {
    /// An agent of the caller's team.
    pub(crate) async fn find_agent(&self, caller: &Caller, id: &AgentId) -> Result<AgentRow, ApiError> {
        let row = self.store.agent(id).await?.filter(|row| row.team == caller.team);
        row.ok_or_else(|| no_agent(id.as_str()))
    }

    async fn check_agent(&self, row: &AgentRow) -> Result<(), ApiError> {
        check_name(&row.name)?;
        check_length("description", &row.description, MAX_DESCRIPTION)?;
        check_length("system", &row.system, MAX_SYSTEM)?;
        check_limits(&row.limits)?;
        check_suggestions(&row.suggestions)?;
        check_agent_tools(&row.tools)?;
        match &row.model {
            Some(model) => self.models.resolve(&row.team, model).await.map(drop).map_err(ApiError::from),
            None => Ok(()),
        }
    }
}

fn check_agent_tools(tools: &[ChatTool]) -> Result<(), ApiError> {
    check_tools(tools).map_err(ApiError::invalid)
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let fits = (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b" ._-".contains(&b))
        && name.trim() == name;
    let text = format!("name must have 1 to {MAX_NAME} letters, digits, spaces, ., _ and -, no space at its ends");
    fits.then_some(()).ok_or_else(|| ApiError::invalid(text))
}

fn check_length(name: &str, text: &str, most: usize) -> Result<(), ApiError> {
    match text.chars().count() > most {
        true => Err(ApiError::invalid(format!("{name} has more than {most} characters"))),
        false => Ok(()),
    }
}

fn check_limits(limits: &TurnLimits) -> Result<(), ApiError> {
    let steps = (1..=500).contains(&limits.max_steps);
    let minutes = (1..=1440).contains(&limits.max_minutes);
    match (steps, minutes, limits.max_cost_micros) {
        (false, _, _) => Err(ApiError::invalid("limits.maxSteps must be between 1 and 500")),
        (_, false, _) => Err(ApiError::invalid("limits.maxMinutes must be between 1 and 1440")),
        (_, _, Some(0)) => Err(ApiError::invalid("limits.maxCostMicros must be at least 1, or null for no limit")),
        // The store keeps it as a signed number.
        (_, _, Some(cost)) if i64::try_from(cost).is_err() => {
            Err(ApiError::invalid("limits.maxCostMicros is too large"))
        }
        _ => Ok(()),
    }
}

fn check_suggestions(suggestions: &[String]) -> Result<(), ApiError> {
    if suggestions.len() > MAX_SUGGESTIONS {
        return Err(ApiError::invalid(format!("There are more than {MAX_SUGGESTIONS} suggestions")));
    }
    let fits = |text: &String| !text.trim().is_empty() && text.chars().count() <= MAX_SUGGESTION;
    match suggestions.iter().all(fits) {
        true => Ok(()),
        false => Err(ApiError::invalid(format!("A suggestion has 1 to {MAX_SUGGESTION} characters"))),
    }
}

fn put(put: AgentPut, row: &AgentRow) -> Result<(), ApiError> {
    match put {
        AgentPut::Done => Ok(()),
        AgentPut::Taken => {
            let text = format!("Another agent of the team has the name {:?}; choose another", row.name);
            Err(ApiError::new(ErrorCode::AgentConflict, text))
        }
        AgentPut::Absent => Err(no_agent(row.id.as_str())),
    }
}

/// As precise as the store, so that a later read gives the same.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

pub(super) fn no_agent(id: &str) -> ApiError {
    let text = format!("Agent {} was not found; list yours with GET /agents", short(id));
    ApiError::new(ErrorCode::AgentNotFound, text)
}

fn shown(row: AgentRow) -> Agent {
    Agent {
        id: row.id,
        name: row.name,
        description: row.description,
        kind: row.kind,
        model: row.model,
        system: row.system,
        tools: row.tools,
        limits: row.limits,
        suggestions: row.suggestions,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}

/// The id in the path.
#[derive(Debug)]
pub(super) struct AgentRef(AgentId);

impl<S: Send + Sync> FromRequestParts<S> for AgentRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("The path is not well formed"))?;
        text.parse().map(Self).map_err(|_| no_agent(&text))
    }
}
