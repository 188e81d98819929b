//! Chats by the wire of OpenAI's chat completions, for programs that speak nothing else. Each request is one turn of a chat.

mod answer;
mod reader;
mod request;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use cabana_agent::title;
use cabana_types::chat::ChatTool;
use cabana_types::turn::TurnState;
use cabana_types::wire::{NewChat, NewMessage};
use cabana_types::{AgentId, ChatId, ErrorCode};
use futures_util::{Stream, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Request};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::answer::{Form, OpenAiError};
use self::reader::{Reader, Said};
use self::request::{Asked, CompletionRequest};
use super::App;
use super::body;
use super::chats::{MAX_BODY, Posted};
use crate::auth::Caller;
use crate::chats::Watcher;
use crate::chats::toolset::default_tools;
use crate::error::{ApiError, short};

const CHAT_ID: HeaderName = HeaderName::from_static("x-chat-id");
/// What names of agents begin with.
const AGENT: &str = "agent/";
/// A client that waits hears of it.
const PING: Duration = Duration::from_secs(15);

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list_models)).routes(routes!(complete))
}

/// List the team's agents, as `agent/NAME`, and the models, in OpenAI's form.
#[utoipa::path(get, path = "/v1/models", operation_id = "list_models_v1", tag = "models",
    responses((status = 200, description = "OpenAI's list of models", body = Object)))]
pub(super) async fn list_models(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Value>, OpenAiError> {
    let agents = app.store.agents(&caller.team).await?;
    let models = app.models.list(&caller.team).await?.models;
    let agents = agents.iter().map(|agent| {
        let created = agent.created_at.as_second();
        json!({"id": format!("{AGENT}{}", agent.name), "object": "model", "created": created, "owned_by": "cabana"})
    });
    let models =
        models.iter().map(|model| json!({"id": model.id, "object": "model", "created": 0, "owned_by": model.provider}));
    let data: Vec<Value> = agents.chain(models).collect();
    Ok(Json(json!({"object": "list", "data": data})))
}

/// Make one turn of a chat, in OpenAI's form. `model` is `agent/NAME`, the id of an agent, or a model of `GET /models`.
///
/// The last message is the one that is answered. Earlier messages become part of the first message of a new chat; with `X-Chat-Id`, or
/// `chat_id` in `metadata`, the turn belongs to that chat, and only the last message is used. The server runs the tools.
#[utoipa::path(post, path = "/v1/chat/completions", operation_id = "complete_chat", tag = "models", request_body = CompletionRequest,
    params(("X-Chat-Id" = Option<String>, Header, description = "The chat that goes on")),
    responses((status = 200, description = "OpenAI's completion, or with `stream` its chunks as server-sent events", body = Object,
        headers(("X-Chat-Id" = String, description = "The chat")))))]
pub(super) async fn complete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Response, OpenAiError> {
    let headers = request.headers().clone();
    let request: CompletionRequest = body::parse(&body::bytes(request, MAX_BODY).await?)?;
    let asked = Asked::read(request)?;
    let ended = caller.session.as_ref().map(|session| session.ended.clone()).unwrap_or_default();
    let (posted, model) = app.begin_completion(&caller, &headers, &asked).await?;
    let (Some(turn), Some(watcher)) = (posted.turn, posted.watcher) else {
        return Err(ApiError::new(ErrorCode::ServiceUnavailable, "The turn did not begin; try again").into());
    };
    let form = Form::new(&turn, &model, asked.include_usage);
    let stopping = app.live.stopping().clone();
    let reading = Reading { watcher, reader: Reader::new(turn, asked.show_tools), stopping, ended };
    let mut response = match asked.stream {
        true => sse(Body::from_stream(chunks(reading, form))),
        false => Json(whole(reading, &form).await?).into_response(),
    };
    if let Ok(value) = HeaderValue::from_str(posted.chat.as_str()) {
        response.headers_mut().insert(CHAT_ID, value);
    }
    Ok(response)
}

/// Who is asked.
enum Wanted {
    Agent(AgentId),
    Model(String),
    /// The server's default.
    Any,
}

impl App {
    /// Begins the turn. Returns it with the name of the model in the answer.
    async fn begin_completion(
        self: &Arc<Self>,
        caller: &Caller,
        headers: &HeaderMap,
        asked: &Asked,
    ) -> Result<(Posted, String), ApiError> {
        let wanted = self.asked_model(caller, asked.model.as_deref()).await?;
        let chat = match headers.get(&CHAT_ID) {
            Some(value) => Some(value.to_str().unwrap_or_default().to_owned()),
            None => asked.chat.clone(),
        };
        let named = asked.model.clone().unwrap_or_else(|| self.models.default_model().to_owned());
        let posted = match chat {
            Some(id) => self.go_on_with_chat(caller, &id, wanted, asked).await?,
            None => {
                let (agent_id, model, tools) = match wanted {
                    Wanted::Agent(id) => (Some(id), None, None),
                    Wanted::Model(model) => (None, Some(model), Some(unattended())),
                    Wanted::Any => (None, None, Some(unattended())),
                };
                let new = NewChat {
                    prompt: Some(asked.first_message()),
                    agent_id,
                    model,
                    tools,
                    title: Some(title::chat_title(&asked.prompt)),
                    metadata: Some(asked.metadata.clone()),
                    ..NewChat::default()
                };
                self.create_chat(caller, new, None).await?
            }
        };
        Ok((posted, named))
    }

    async fn go_on_with_chat(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
        wanted: Wanted,
        asked: &Asked,
    ) -> Result<Posted, ApiError> {
        let unknown = || ApiError::new(ErrorCode::ChatNotFound, format!("Chat {} was not found", short(id)));
        let id: ChatId = id.parse().map_err(|_| unknown())?;
        let chat = self.find_chat(caller, &id).await?;
        let open = self.store.open_turns_of(&id).await?;
        if open.iter().any(|turn| turn.state == TurnState::Waiting) {
            let text = format!(
                "Chat {id} waits for a person; answer it in the console, or with POST /chats/{id}/tool-results"
            );
            return Err(ApiError::new(ErrorCode::ChatConflict, text));
        }
        let model = match wanted {
            Wanted::Agent(agent) if chat.agent.as_ref() != Some(&agent) => {
                let text = format!("Chat {id} has another agent; leave out the chat's id to begin a new one");
                return Err(ApiError::new(ErrorCode::ChatConflict, text));
            }
            Wanted::Model(model) if model != chat.model => Some(model),
            _ => None,
        };
        let new = NewMessage { prompt: Some(asked.prompt.clone()), model, ..NewMessage::default() };
        self.post_message(caller, &id, new, None).await
    }

    async fn asked_model(&self, caller: &Caller, model: Option<&str>) -> Result<Wanted, ApiError> {
        let Some(name) = model.filter(|name| !name.is_empty()) else { return Ok(Wanted::Any) };
        let agent = match (name.strip_prefix(AGENT), name.parse::<AgentId>()) {
            // By its name, or by its id after the same beginning.
            (Some(name), _) => match name.parse::<AgentId>() {
                Ok(id) => self.store.agent(&id).await?,
                Err(_) => self.store.agent_named(&caller.team, name).await?,
            },
            (None, Ok(id)) => self.store.agent(&id).await?,
            (None, Err(_)) => return Ok(Wanted::Model(name.to_owned())),
        };
        match agent.filter(|row| row.team == caller.team) {
            Some(row) => Ok(Wanted::Agent(row.id)),
            None => Err(super::agents::no_agent(name)),
        }
    }
}

/// The default tools without questions: nobody is there to answer them.
fn unattended() -> Vec<ChatTool> {
    default_tools().into_iter().filter(|tool| !matches!(tool, ChatTool::Ask {})).collect()
}

/// What is read of a turn.
struct Reading {
    watcher: Watcher,
    reader: Reader,
    stopping: CancellationToken,
    /// The caller's session is over.
    ended: CancellationToken,
}

impl Reading {
    /// The next pieces. `None`: nothing happened for a while.
    async fn next(&mut self) -> Option<Vec<Said>> {
        let events = tokio::select! {
            biased;
            () = self.stopping.cancelled() => return Some(vec![Said::unavailable("The server is shutting down")]),
            () = self.ended.cancelled() => return Some(vec![Said::unavailable("The session is over")]),
            next = tokio::time::timeout(PING, self.watcher.next()) => next.ok()?,
        };
        match events {
            Ok(events) => Some(events.iter().flat_map(|event| self.reader.read(event)).collect()),
            Err(error) => {
                tracing::warn!(error = cabana_types::error::chain(&error), "events of a chat could not be read");
                Some(vec![Said::unavailable("The events of the chat could not be read")])
            }
        }
    }
}

/// The whole answer, when the turn has ended.
async fn whole(mut reading: Reading, form: &Form) -> Result<Value, OpenAiError> {
    let (mut text, mut reasoning) = (String::new(), String::new());
    loop {
        for said in reading.next().await.unwrap_or_default() {
            match said {
                Said::Text(more) => text.push_str(&more),
                Said::Reasoning(more) => reasoning.push_str(&more),
                Said::End { reason, usage } => return Ok(form.whole(&text, &reasoning, reason, usage)),
                Said::Failed(error) => return Err(error),
            }
        }
    }
}

/// The answer in chunks, as they come.
fn chunks(reading: Reading, form: Form) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let first = Bytes::from(form.first());
    stream::unfold((Some(reading), form, Some(first)), |(reading, form, first)| async move {
        let mut reading = reading?;
        if let Some(first) = first {
            return Some((Ok(first), (Some(reading), form, None)));
        }
        let Some(pieces) = reading.next().await else {
            return Some((Ok(Bytes::from_static(b": ping\n\n")), (Some(reading), form, None)));
        };
        let mut text = String::new();
        for said in pieces {
            let over = matches!(said, Said::End { .. } | Said::Failed(_));
            text.push_str(&form.piece(said));
            if over {
                return Some((Ok(Bytes::from(text)), (None, form, None)));
            }
        }
        Some((Ok(Bytes::from(text)), (Some(reading), form, None)))
    })
}

fn sse(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
