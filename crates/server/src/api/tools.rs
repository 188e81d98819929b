//! Agent tools: their descriptions, and calling them in a sandbox.

mod computers;
pub(super) mod download;
mod lifecycle;
mod services;
mod stream;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cabana_agent::call::{self, Unobserved};
use cabana_agent::format::Format;
use cabana_agent::tools::{self, Tool};
use cabana_types::limits::MAX_IDEMPOTENCY_KEY_BYTES;
use cabana_types::routing::parse_sandbox_ref;
use cabana_types::tool::ToolResult;
use cabana_types::{CallId, ErrorCode, SandboxId};
use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::computers::{SandboxComputers, failed};
use super::App;
use super::body;
use super::own_address::own_address;
use super::query::Query;
use crate::auth::Caller;
use crate::error::{ApiError, short};
use crate::tools::{CallError, NewCall};

/// Bytes of the arguments of a call: a file of 5 MiB whose characters are escaped here and there.
pub(super) const MAX_ARGUMENTS: usize = 12 << 20;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list_tools)).routes(routes!(call_tool)).routes(routes!(get_call, cancel_call))
}

/// Describe the tools, in the form that a model provider takes.
#[utoipa::path(get, path = "/tools", tag = "tools",
    params(
        ("format" = Option<String>, Query, description = "`openai`, `anthropic` or `mcp` (default)"),
        ("tools" = Option<String>, Query, description = "Sets and names, separated by commas: `read`, `files`, `all` (default: the ten \
            tools of a sandbox), `lifecycle`, or names of tools"),
    ),
    responses((status = 200, description = "A list, to be passed on to the provider", body = Vec<Object>)))]
pub(super) async fn list_tools(query: Query) -> Result<Json<Vec<Value>>, ApiError> {
    let format = match query.text("format") {
        None => Format::default(),
        Some(name) => Format::parse(name).ok_or_else(|| {
            ApiError::invalid(format!("format must be openai, anthropic or mcp, not {:?}", short(name)))
        })?,
    };
    let words = query.list("tools");
    let words = if words.is_empty() { vec!["all"] } else { words };
    let chosen = tools::select(words).map_err(no_such_tool)?;
    Ok(Json(format.describe(&chosen)))
}

/// Call a tool in a sandbox, which is resumed if it is paused. The body is the tool's arguments.
///
/// The answer is 200 also if the tool failed: `status` tells. With `Accept: text/event-stream`, the output of a command is sent while it
/// runs: `tool.call`, `tool.output` and, at the end, `tool.message`. Closing the connection cancels the call, unless it is detached.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/tools/{name}", tag = "tools",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("name" = String, Path, description = "The tool, such as `sandbox_run_command`"),
        ("detach" = Option<bool>, Query, description = "Answer at once; the result is kept for an hour"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key with the same call gives the same result for 24 hours"),
    ),
    request_body(content = Option<Object>, description = "The arguments, as in the tool's schema"),
    responses(
        (status = 200, description = "The result", body = ToolResult),
        (status = 202, description = "The call is detached: `callId` and where its result will be", body = Object),
    ))]
pub(super) async fn call_tool(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    target: ToolRef,
    query: Query,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let ToolRef { id, tool } = target;
    app.find_usable(&caller.reach, &id).await?;
    let detach = query.flag("detach")?;
    let key = idempotency_key(request.headers())?;
    let live = wants_events(request.headers());
    let base = own_address(&request).unwrap_or_default();
    let arguments = body::value(request, MAX_ARGUMENTS).await?;
    let arguments =
        call::check(tool, &arguments).map_err(|problem| ApiError::invalid(format!("{problem}; see GET /tools")))?;
    if let Some(named) = arguments.get("sandbox").and_then(Value::as_str)
        && named != id.as_str()
        && named != "main"
    {
        return Err(ApiError::invalid(format!("sandbox must be {id}, as in the path, or left out")));
    }
    let computers = SandboxComputers::new(Arc::clone(&app), caller.clone(), base, Some(id.clone()));
    let new = NewCall {
        team: caller.team,
        sandbox: Some(id.clone()),
        tool,
        arguments,
        computers: Arc::new(computers),
        observer: Arc::new(Unobserved),
        key,
        detach,
    };
    if live && !detach {
        return stream::respond(&app, new).await;
    }
    let handle = app.calls.start(new).await?;
    if detach {
        let answer = json!({"callId": handle.id, "result": format!("/sandboxes/{id}/calls/{}", handle.id)});
        return Ok((StatusCode::ACCEPTED, Json(answer)).into_response());
    }
    let result = handle.result().await.ok_or_else(panicked)?;
    Ok(Json(&*result).into_response())
}

/// Get the result of a detached call, or of one with an idempotency key.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/calls/{callID}", tag = "tools",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("callID" = String, Path, description = "The call"),
    ),
    responses(
        (status = 200, description = "The result", body = ToolResult),
        (status = 202, description = "The call still runs", body = Object),
    ))]
pub(super) async fn get_call(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    CallRef { sandbox, call }: CallRef,
) -> Result<Response, ApiError> {
    app.find_sandbox(&caller.reach, &sandbox).await?;
    match app.calls.result(&caller.team, &sandbox, &call).await? {
        Some(Some(result)) => Ok(Json(&*result).into_response()),
        Some(None) => Ok((StatusCode::ACCEPTED, Json(json!({"callId": call, "status": "running"}))).into_response()),
        None => Err(no_call(call.as_str())),
    }
}

/// Cancel a detached call: a command is ended.
#[utoipa::path(delete, path = "/sandboxes/{sandboxID}/calls/{callID}", tag = "tools",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("callID" = String, Path, description = "The call"),
    ),
    responses((status = 204, description = "The call is cancelled, or has ended")))]
pub(super) async fn cancel_call(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    CallRef { sandbox, call }: CallRef,
) -> Result<StatusCode, ApiError> {
    app.find_sandbox(&caller.reach, &sandbox).await?;
    if app.calls.cancel(&caller.team, &sandbox, &call) {
        return Ok(StatusCode::NO_CONTENT);
    }
    match app.calls.result(&caller.team, &sandbox, &call).await? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(no_call(call.as_str())),
    }
}

/// The sandbox and the tool in a path.
pub(super) struct ToolRef {
    id: SandboxId,
    tool: &'static dyn Tool,
}

impl<S: Send + Sync> FromRequestParts<S> for ToolRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let (sandbox, name) = two(parts, state).await?;
        let id = parse_sandbox_ref(&sandbox).ok_or_else(|| ApiError::no_sandbox(&sandbox))?;
        let tool = tools::find(&name).filter(|tool| tool.spec().opens).ok_or_else(|| {
            let text = format!("There is no tool {:?} in a sandbox; GET /tools lists them", short(&name));
            ApiError::new(ErrorCode::RouteNotFound, text)
        })?;
        Ok(Self { id, tool })
    }
}

/// The sandbox and the call in a path.
pub(super) struct CallRef {
    sandbox: SandboxId,
    call: CallId,
}

impl<S: Send + Sync> FromRequestParts<S> for CallRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let (sandbox, call) = two(parts, state).await?;
        let sandbox = parse_sandbox_ref(&sandbox).ok_or_else(|| no_call(&call))?;
        Ok(Self { sandbox, call: call.parse().map_err(|_| no_call(&call))? })
    }
}

async fn two<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<(String, String), ApiError> {
    let Path(names) = Path::<(String, String)>::from_request_parts(parts, state)
        .await
        .map_err(|_| ApiError::invalid("The path is not well formed"))?;
    Ok(names)
}

pub(super) fn no_such_tool(word: &str) -> ApiError {
    let text = format!("There is no tool or set of tools {:?}; sets are read, files, all and lifecycle", short(word));
    ApiError::invalid(text)
}

fn no_call(id: &str) -> ApiError {
    let text = format!("Call {} was not found; results are kept for an hour after the call", short(id));
    ApiError::new(ErrorCode::CallNotFound, text)
}

fn panicked() -> ApiError {
    ApiError::new(ErrorCode::Internal, "The call failed; the server's log has the details")
}

pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|kind| kind.trim().starts_with("text/event-stream"))
}

pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let fits = |text: &&str| (1..=MAX_IDEMPOTENCY_KEY_BYTES).contains(&text.len());
    let text = value.to_str().ok().filter(fits).ok_or_else(|| {
        ApiError::invalid(format!(
            "Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY_BYTES} printable ASCII characters"
        ))
    })?;
    Ok(Some(text.to_owned()))
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::KeyMismatch => Self::new(
                ErrorCode::IdempotencyMismatch,
                "The idempotency key was used for another call; use a new key for each call",
            ),
            CallError::Store(error) => error.into(),
        }
    }
}
