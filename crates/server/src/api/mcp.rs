//! MCP over HTTP (`POST /mcp`): the same tools as in REST, for programs that speak the Model Context Protocol. Only this module uses rmcp,
//! which speaks the protocol's revisions. What it leaves open is here: answers to messages that are none, and `notifications/cancelled`.

mod progress;
mod running;
mod tool_server;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use cabana_agent::tools::{self, Tool};
use cabana_types::routing::parse_sandbox_ref;
use cabana_types::wire::ErrorBody;
use cabana_types::{ErrorCode, SandboxId};
use http::header::{ACCEPT, CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::Full;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use url::Url;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::running::RunningCalls;
use self::tool_server::ToolServer;
use super::body;
use super::own_address::own_address;
use super::query::Query;
use super::tools::{MAX_ARGUMENTS, SandboxComputers};
use super::{App, MCP_PATH, Trail};
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// By which clients of the older revisions say that requests belong together. Nothing is kept under it.
const SESSION: &str = "mcp-session-id";
/// Longer ones are ignored.
const MAX_SESSION: usize = 128;
/// The tools without the parameter `tools`.
const DEFAULT_TOOLS: [&str; 2] = ["all", "lifecycle"];
/// Bytes of an error of rmcp.
const MAX_REFUSAL: usize = 4096;
/// What an answer may be; rmcp insists that a client names both.
const ACCEPTED: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(mcp))
}

/// Speak MCP: one JSON-RPC message in each request.
///
/// The server keeps no sessions. The answer is JSON, or a stream of events if the client asked for progress. Closing the connection cancels
/// the call.
#[utoipa::path(post, path = MCP_PATH, operation_id = "mcp_message", tag = "tools",
    params(
        ("tools" = Option<String>, Query, description = "Sets and names, as for `GET /tools`; default `all,lifecycle`"),
        ("sandbox" = Option<String>, Query, description = "The sandbox of calls that name none; otherwise one that belongs to the key"),
    ),
    request_body(content = Object, description = "A JSON-RPC message"),
    responses(
        (status = 200, description = "The JSON-RPC response", body = Object),
        (status = 202, description = "A notification was accepted"),
        (status = 400, description = "Not a message of MCP: a JSON-RPC error, or one of this API", body = Object),
    ))]
pub(super) async fn mcp(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    mut request: Request<Body>,
) -> Result<Response, ApiError> {
    let base = own_address(&request).ok_or_else(|| ApiError::invalid("The request has no Host header"))?;
    check_origin(request.headers(), &base)?;
    let chosen = chosen_tools(&query)?;
    let sandbox = bound_sandbox(&query)?;
    accept_anything(request.headers_mut());
    let trail = Trail::of(&request);
    let (parts, received) = request.into_parts();
    let is_json = is_json(&parts.headers);
    let bytes = body::bytes(Request::new(received), MAX_ARGUMENTS).await?;
    let message = match Message::read(&bytes) {
        Ok(message) => message,
        // A wrong content type is rmcp's to refuse.
        Err(refusal) if is_json => return Ok(refusal.into_response()),
        Err(_) => Message::default(),
    };
    if let Some((tool, named)) = &message.calls {
        trail.calls(tool, named.as_deref().or_else(|| sandbox.as_ref().map(SandboxId::as_str)));
    }
    if message.opens
        && let Some(id) = &sandbox
    {
        app.find_usable(&caller.team, id).await?;
    }
    let session = session(&parts.headers);
    if let (Some(cancelled), Some(session)) = (&message.cancels, &session) {
        app.mcp_calls.cancel(&caller.actor, session, cancelled);
    }
    let computers = SandboxComputers::new(Arc::clone(&app), caller.clone(), base.clone(), sandbox.clone());
    let tools = ToolServer { app, caller, tools: chosen, sandbox, session, computers: Arc::new(computers) };
    let service =
        StreamableHttpService::new(move || Ok(tools.clone()), Arc::new(NeverSessionManager::default()), config(&base));
    let response = service.handle(Request::from_parts(parts, Full::new(bytes))).await;
    if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        let text = "this is not a message of MCP: a method lacks parameters, or they have the wrong form";
        return Ok(Refusal { code: INVALID_REQUEST, text, id: message.id }.into_response());
    }
    let mut response = restated(response.map(Body::new)).await;
    if message.begins_session && response.status() == StatusCode::OK {
        let id = uuid::Uuid::new_v4().to_string();
        response.headers_mut().insert(SESSION, HeaderValue::try_from(id).map_err(|e| ApiError::internal(&e))?);
    }
    Ok(response)
}

/// Errors of rmcp that are plain text, in this API's form.
async fn restated(response: Response) -> Response {
    let status = response.status();
    if status.is_success() || is_json(response.headers()) {
        return response;
    }
    let text = axum::body::to_bytes(response.into_body(), MAX_REFUSAL).await.unwrap_or_default();
    let message = String::from_utf8_lossy(&text).into_owned();
    let error_code = Some(ErrorCode::InvalidRequest);
    (status, Json(ErrorBody { code: status.as_u16(), message, error_code, details: None })).into_response()
}

/// Stateless in every revision. The edge has checked the host, and `check_origin` the origin; rmcp checks both again.
fn config(base: &str) -> StreamableHttpServerConfig {
    let own = Url::parse(base).ok();
    let host = own.as_ref().and_then(|url| Some(url.host_str()?.to_owned()));
    let origin = own
        .as_ref()
        .and_then(|url| Some(format!("{}://{}:{}", url.scheme(), url.host_str()?, url.port_or_known_default()?)));
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(host)
        .with_allowed_origins(origin)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_ARGUMENTS)
}

/// Refuses requests that a web page of another origin makes a browser send.
fn check_origin(headers: &HeaderMap, base: &str) -> Result<(), ApiError> {
    let Some(sent) = headers.get(ORIGIN) else { return Ok(()) };
    let parsed = |text: &str| Url::parse(text).ok().map(|url| url.origin()).filter(url::Origin::is_tuple);
    let sent = sent.to_str().ok().and_then(parsed);
    match sent.is_some() && sent == parsed(base) {
        true => Ok(()),
        false => {
            Err(ApiError::new(ErrorCode::Forbidden, "MCP is not served to web pages: the Origin is not this server's"))
        }
    }
}

fn chosen_tools(query: &Query) -> Result<Vec<&'static dyn Tool>, ApiError> {
    let words = query.list("tools");
    let words = if words.is_empty() { DEFAULT_TOOLS.to_vec() } else { words };
    tools::select(words).map_err(super::tools::no_such_tool)
}

fn bound_sandbox(query: &Query) -> Result<Option<SandboxId>, ApiError> {
    let Some(text) = query.text("sandbox") else { return Ok(None) };
    let id = parse_sandbox_ref(text).ok_or_else(|| {
        ApiError::invalid(format!(
            "sandbox must be the id of a sandbox, not {:?}; GET /v2/sandboxes lists them",
            short(text)
        ))
    })?;
    Ok(Some(id))
}

/// Names both forms of an answer if the client takes any, as programs such as curl do.
fn accept_anything(headers: &mut HeaderMap) {
    let any = match headers.get(ACCEPT) {
        None => true,
        Some(value) => value.to_str().is_ok_and(|value| value.contains("*/*")),
    };
    if any {
        headers.insert(ACCEPT, ACCEPTED);
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("application/json"))
}

fn session(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(SESSION)?.to_str().ok()?;
    (1..=MAX_SESSION).contains(&text.len()).then(|| text.to_owned())
}

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// What has to be known of a message before rmcp gets it.
#[derive(Debug, Default)]
struct Message {
    id: Value,
    /// Whether it is the first of a client.
    opens: bool,
    /// Whether the client repeats a session's id from now on.
    begins_session: bool,
    /// The request that it cancels.
    cancels: Option<String>,
    /// The tool that it calls, and the sandbox that it names for it.
    calls: Option<(String, Option<String>)>,
}

impl Message {
    fn read(bytes: &Bytes) -> Result<Self, Refusal> {
        let refusal = |code, text| Refusal { code, text, id: Value::Null };
        let mut message: Value =
            serde_json::from_slice(bytes).map_err(|_| refusal(PARSE_ERROR, "the body is not JSON"))?;
        if message.is_array() {
            return Err(refusal(
                INVALID_REQUEST,
                "batches are not supported: send each message in a request of its own",
            ));
        }
        if message["jsonrpc"] != "2.0" {
            return Err(refusal(INVALID_REQUEST, "the body is not a JSON-RPC 2.0 message"));
        }
        let method = message["method"].as_str().unwrap_or_default();
        let cancels = match (method, &message["params"]["requestId"]) {
            ("notifications/cancelled", id @ (Value::Number(_) | Value::String(_))) => Some(id.to_string()),
            _ => None,
        };
        let calls = (method == "tools/call").then(|| {
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let params = &message["params"];
            (text(&params["name"]).unwrap_or_default(), text(&params["arguments"]["sandbox"]))
        });
        let begins_session = method == "initialize";
        let opens = begins_session || method == "server/discover";
        let id = match message["id"].take() {
            id @ (Value::Number(_) | Value::String(_)) => id,
            _ => Value::Null,
        };
        Ok(Self { id, opens, begins_session, cancels, calls })
    }
}

/// An answer to what is no message.
#[derive(Debug)]
struct Refusal {
    code: i32,
    text: &'static str,
    id: Value,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { code, text, id } = self;
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}});
        (StatusCode::BAD_REQUEST, Json(answer)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_origin_is_accepted() {
        let check = |origin: &str, base: &str| {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_str(origin).expect("value"))]);
            check_origin(&headers, base).is_ok()
        };
        for (origin, base) in [
            ("http://127.0.0.1:3000", "http://127.0.0.1:3000"),
            ("http://LOCALHOST:3000", "http://localhost:3000"),
            ("https://api.example.test", "https://api.example.test:443"),
            ("http://[::1]:3000", "http://[::1]:3000"),
        ] {
            assert!(check(origin, base), "{origin} {base}");
        }
        for origin in [
            "null",
            "",
            "http://localhost:3001",
            "https://localhost:3000",
            "http://evil.test",
            "http://3000-iabc.localhost:3000",
            "x",
        ] {
            assert!(!check(origin, "http://localhost:3000"), "{origin}");
        }
        assert!(!check("null", "null"));
        assert!(check_origin(&HeaderMap::new(), "http://localhost:3000").is_ok());
    }

    #[test]
    fn messages_are_told_apart() {
        let read = |text: &str| Message::read(&Bytes::copy_from_slice(text.as_bytes()));
        for (text, code) in [
            ("", PARSE_ERROR),
            ("{", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, INVALID_REQUEST),
            ("1", INVALID_REQUEST),
            ("null", INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, INVALID_REQUEST),
        ] {
            assert_eq!(read(text).expect_err(text).code, code, "{text}");
        }
        let cancel = |id: &str| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            read(&text).expect("message").cancels
        };
        assert_eq!(cancel("7").as_deref(), Some("7"));
        assert_eq!(cancel("\"7\"").as_deref(), Some("\"7\""));
        assert_eq!(cancel("null"), None);
        let first = read(r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#).expect("message");
        assert!(first.opens && first.begins_session && first.id == 0);
        let first = read(r#"{"jsonrpc":"2.0","id":{},"method":"server/discover"}"#).expect("message");
        assert!(first.opens && !first.begins_session && first.id.is_null());
    }
}
