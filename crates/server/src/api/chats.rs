//! Chats: making, listing, changing and deleting them. Messages and turns, streams, files, checkpoints and sandboxes of a chat are below.

mod acts;
mod checkpoints;
mod computers;
mod files;
mod fork;
mod messages;
mod new_message;
mod post;
mod sandboxes;
mod stream;
mod work;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_store::{ChatChange, ChatQuery, ChatRow};
use cabana_types::chat::{ChatStatus, MAX_METADATA, MAX_TITLE};
use cabana_types::error::chain;
use cabana_types::wire::{Chat, ChatPage, ChatUpdate, NewChat, StartedTurn};
use cabana_types::{ChatId, ErrorCode};
use http::request::Parts;
use http::{Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body;
use super::query::Query;
use crate::auth::Caller;
use crate::chats::Chats;
use crate::chats::event::NewEvent;
use crate::chats::tool_check::check_tools;
use crate::error::{ApiError, short};
pub(super) use messages::MAX_PAGE as MAX_MESSAGES;
pub(super) use post::Posted;
pub(super) use stream::{MAX_AGE, wants_events};

/// Bytes of a body with a message.
pub(super) const MAX_BODY: usize = 2 << 20;
/// Chats of a page.
const PAGE: u32 = 30;
const MAX_PAGE: u32 = 100;
/// Characters of a search.
pub(super) const MAX_SEARCH: usize = 200;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(create_chat, list_chats))
        .routes(routes!(get_chat, update_chat, delete_chat))
        .routes(routes!(messages::post_message, messages::list_messages))
        .routes(routes!(stream::chat_events))
        .routes(routes!(stream::resume_chat))
        .routes(routes!(acts::cancel_turn))
        .routes(routes!(acts::approve_call))
        .routes(routes!(acts::tool_results))
        .routes(routes!(files::add_files, files::list_files))
        .routes(routes!(files::sync_files))
        .routes(routes!(sandboxes::add_sandbox))
        .routes(routes!(sandboxes::remove_sandbox))
        .routes(routes!(checkpoints::list_checkpoints))
        .routes(routes!(checkpoints::restore_checkpoint))
        .routes(routes!(fork::fork_chat))
}

/// Make a chat; with `prompt` or `content`, also its first turn.
///
/// With `Accept: text/event-stream`, the answer is the events of that turn.
#[utoipa::path(post, path = "/chats", tag = "chats", request_body = NewChat,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body makes one chat, for 24 hours")),
    responses(
        (status = 201, description = "The chat and its turn", body = StartedTurn),
        (status = 200, description = "The events of the turn", body = String, content_type = "text/event-stream"),
    ))]
pub(super) async fn create_chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let (live, key) = (wants_events(request.headers()), super::tools::idempotency_key(request.headers())?);
    let max_age = stream::max_age(&app, &query)?;
    let bytes = body::bytes(request, MAX_BODY).await?;
    let new: NewChat = if bytes.trim_ascii().is_empty() { NewChat::default() } else { body::parse(&bytes)? };
    let task = {
        let app = Arc::clone(&app);
        let key = key.map(|key| (key, bytes));
        async move { app.create_chat(&caller, new, key).await }
    };
    // To its end: what is written is also told and begun.
    let posted = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    if live && let Some(turn) = &posted.turn {
        return stream::of_turn(&app, &posted.chat, turn, posted.watcher, max_age).await;
    }
    let started = app.started(&posted).await?;
    Ok((StatusCode::CREATED, Json(started)).into_response())
}

/// List the chats of the team, those that changed last first.
#[utoipa::path(get, path = "/chats", tag = "chats",
    params(
        ("status" = Option<String>, Query, description = "`idle`, `running`, `waiting` or `failed`"),
        ("q" = Option<String>, Query, description = "Only those with this text in their title or messages"),
        ("project" = Option<String>, Query, description = "Only those of this project: an id, or `default`"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("limit" = Option<u32>, Query, description = "Chats of a page, 1 to 100 (default 30)"),
    ),
    responses((status = 200, description = "A page", body = ChatPage)))]
pub(super) async fn list_chats(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Json<ChatPage>, ApiError> {
    let limit = query.limit(PAGE, MAX_PAGE)?;
    let status = query.text("status").map(|text| {
        let unknown = || ApiError::invalid("status must be idle, running, waiting or failed");
        ChatStatus::parse(text).ok_or_else(unknown)
    });
    let projects = app.projects_in(&caller, query.text("project"))?;
    let text = query.text("q").map(str::to_owned);
    if text.as_ref().is_some_and(|text| text.chars().count() > MAX_SEARCH) {
        return Err(ApiError::invalid(format!("q has more than {MAX_SEARCH} characters")));
    }
    let before = query.text("cursor").map(position).transpose()?;
    let wanted = ChatQuery { team: caller.team, projects, status: status.transpose()?, text, before, limit: limit + 1 };
    let mut rows = app.store.chats(&wanted).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next_cursor = rows
        .last()
        .filter(|_| more)
        .map(|(row, _)| URL_SAFE_NO_PAD.encode(format!("{}:{}", row.updated_at.as_microsecond(), row.id)));
    let mut chats = Vec::with_capacity(rows.len());
    for (row, _) in rows {
        chats.push(app.chats.describe(&row).await?);
    }
    Ok(Json(ChatPage { chats, next_cursor }))
}

/// Where a page goes on.
fn position(cursor: &str) -> Result<(Timestamp, ChatId), ApiError> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (at, id) = text.split_once(':')?;
        Some((Timestamp::from_microsecond(at.parse().ok()?).ok()?, id.parse().ok()?))
    };
    read().ok_or_else(|| ApiError::invalid("cursor is not one that this server made"))
}

/// Get a chat.
#[utoipa::path(get, path = "/chats/{chatID}", tag = "chats",
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 200, description = "The chat", body = Chat)))]
pub(super) async fn get_chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
) -> Result<Json<Chat>, ApiError> {
    let row = app.find_chat(&caller, &id).await?;
    Ok(Json(app.chats.describe(&row).await?))
}

/// Change the title, model, agent, tools or metadata of a chat.
#[utoipa::path(patch, path = "/chats/{chatID}", tag = "chats", request_body = ChatUpdate,
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 200, description = "The chat", body = Chat)))]
pub(super) async fn update_chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    request: Request<Body>,
) -> Result<Json<Chat>, ApiError> {
    let row = app.find_chat(&caller, &id).await?;
    let change: ChatUpdate = body::parse(&body::bytes(request, MAX_BODY).await?)?;
    let title = change.title.map(|title| checked_title(&title)).transpose()?;
    if let Some(model) = &change.model {
        app.check_model(&caller, model).await?;
    }
    if let Some(tools) = &change.tools {
        check_tools(tools).map_err(ApiError::invalid)?;
    }
    let agent = match change.agent_id.as_deref() {
        None => None,
        Some("") => Some(None),
        Some(text) => Some(Some(app.agent_of(&caller, text).await?.id)),
    };
    let metadata = change.metadata.map(checked_metadata).transpose()?;
    let room = app.chats.room(&row);
    let task = {
        let app = Arc::clone(&app);
        async move {
            let mut writing = room.write().await;
            let row = app.find_chat(&caller, &id).await?;
            let row = ChatRow {
                titled: row.titled || title.is_some(),
                title: title.unwrap_or(row.title),
                model: change.model.unwrap_or(row.model),
                agent: agent.unwrap_or(row.agent),
                tools: change.tools.or(row.tools),
                metadata: metadata.unwrap_or(row.metadata),
                ..row
            };
            writing.commit(vec![ChatChange::SetChat(row.clone())], Vec::new()).await?;
            drop(writing);
            app.chats.changed(&id).await;
            Ok::<_, ApiError>(app.chats.describe(&row).await?)
        }
    };
    app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into())).map(Json)
}

/// Delete a chat with its messages and files. Its turns end, and its sandboxes are killed.
#[utoipa::path(delete, path = "/chats/{chatID}", tag = "chats",
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("keepSandbox" = Option<bool>, Query, description = "Whether its sandboxes stay"),
    ),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete_chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    query: Query,
) -> Result<StatusCode, ApiError> {
    let row = app.find_chat(&caller, &id).await?;
    let keep = query.flag("keepSandbox")?;
    let task = {
        let app = Arc::clone(&app);
        async move { app.delete_chat(&caller, row, keep).await }
    };
    app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok(StatusCode::NO_CONTENT)
}

impl App {
    /// A chat of the caller's team.
    pub(crate) async fn find_chat(&self, caller: &Caller, id: &ChatId) -> Result<ChatRow, ApiError> {
        let row = self.store.chat(id).await?.filter(|row| row.team == caller.team);
        row.ok_or_else(|| no_chat(id.as_str()))
    }

    async fn delete_chat(self: &Arc<Self>, caller: &Caller, row: ChatRow, keep: bool) -> Result<(), ApiError> {
        let room = self.chats.room(&row);
        let turns = self.store.open_turns_of(&row.id).await?;
        for turn in &turns {
            self.ask_to_end(&room, &turn.id).await?;
        }
        Chats::wake(self, &row.id);
        for turn in &turns {
            self.chats.end_turn(&room, &turn.id).await?;
        }
        // What the rows name goes first: a crash leaves a chat that can be deleted again.
        for checkpoint in self.store.checkpoints(&row.id).await? {
            if let Err(error) = self.lifecycle.delete_snapshot(&checkpoint.snapshot).await {
                tracing::warn!(chat = %row.id, error = chain(&error), "a checkpoint of a deleted chat is left");
            }
        }
        for sandbox in self.store.chat_sandboxes(&row.id).await?.iter().filter(|_| !keep) {
            self.end_sandbox(caller, &sandbox.sandbox).await;
        }
        let files = self.store.attachments_of(&row.id).await?;
        room.publish(NewEvent::new("chat.removed", None, json!({}))).await;
        self.store.delete_chat(row.id.clone()).await?;
        self.chats.removed(&row.team, &row.id);
        for file in files {
            // What stays is swept later.
            let _ = self.blobs.remove_unused(&file.team, &file.sha256).await;
        }
        Ok(())
    }
}

/// A title that people can read.
pub(super) fn checked_title(text: &str) -> Result<String, ApiError> {
    let title: String = text.chars().filter(|c| !c.is_control()).collect();
    let title = title.trim();
    match title.chars().count() {
        1..=MAX_TITLE => Ok(title.to_owned()),
        _ => Err(ApiError::invalid(format!("title must have 1 to {MAX_TITLE} characters"))),
    }
}

fn checked_metadata(metadata: Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    match serde_json::to_string(&metadata).map_or(usize::MAX, |text| text.len()) {
        size if size <= MAX_METADATA => Ok(metadata),
        _ => Err(ApiError::invalid(format!("metadata has more than {MAX_METADATA} bytes"))),
    }
}

/// The chat in a path.
pub(super) struct ChatRef(pub(super) ChatId);

impl<S: Send + Sync> FromRequestParts<S> for ChatRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = path_part(parts, state, "chatID").await?;
        text.parse().map(Self).map_err(|_| no_chat(&text))
    }
}

/// A part of the path.
async fn path_part<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, ApiError> {
    let Path(named) = Path::<Vec<(String, String)>>::from_request_parts(parts, state)
        .await
        .map_err(|_| ApiError::invalid("The path is not well formed"))?;
    Ok(named.into_iter().find(|(known, _)| known == name).map(|(_, text)| text).unwrap_or_default())
}

fn no_chat(id: &str) -> ApiError {
    ApiError::new(ErrorCode::ChatNotFound, format!("Chat {} was not found", short(id)))
}
