//! Messages of a chat.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cabana_store::ChatRow;
use cabana_types::wire::{MessagePage, NewMessage, StartedTurn};
use cabana_types::{ErrorCode, MessageId};
use http::{Request, StatusCode};

use super::{App, ChatRef, MAX_BODY, stream, wants_events};
use crate::api::body;
use crate::api::query::Query;
use crate::auth::Caller;
use crate::chats::describe;
use crate::error::{ApiError, short};

/// Messages of a page.
const PAGE: u32 = 50;
pub(in crate::api) const MAX_PAGE: u32 = 200;

/// Post a message: a turn begins, or waits for the running one. `onBusy` says what happens while a turn runs.
///
/// With `Accept: text/event-stream`, the answer is the events of that turn.
#[utoipa::path(post, path = "/chats/{chatID}/messages", tag = "chats", request_body = NewMessage,
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body posts one message, for 24 hours"),
    ),
    responses(
        (status = 202, description = "The chat and the turn", body = StartedTurn),
        (status = 200, description = "The events of the turn", body = String, content_type = "text/event-stream"),
    ))]
pub(in crate::api) async fn post_message(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    query: Query,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    app.find_chat(&caller, &id).await?;
    let key = crate::api::tools::idempotency_key(request.headers())?;
    let (live, max_age) = (wants_events(request.headers()), stream::max_age(&app, &query)?);
    let bytes = body::bytes(request, MAX_BODY).await?;
    let new = body::parse(&bytes)?;
    let task = {
        let app = Arc::clone(&app);
        let key = key.map(|key| (key, bytes));
        async move { app.post_message(&caller, &id, new, key).await }
    };
    // To its end: what is written is also told and begun.
    let posted = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    if live && let Some(turn) = &posted.turn {
        return stream::of_turn(&app, &posted.chat, turn, posted.watcher, max_age).await;
    }
    let started = app.started(&posted).await?;
    Ok((StatusCode::ACCEPTED, Json(started)).into_response())
}

/// List messages with the results of their calls, the newest last.
#[utoipa::path(get, path = "/chats/{chatID}/messages", tag = "chats",
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("before" = Option<String>, Query, description = "Only messages before this one"),
        ("limit" = Option<u32>, Query, description = "Messages of a page, 1 to 200 (default 50)"),
    ),
    responses((status = 200, description = "A page", body = MessagePage)))]
pub(in crate::api) async fn list_messages(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    query: Query,
) -> Result<Json<MessagePage>, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let limit = query.limit(PAGE, MAX_PAGE)?;
    let before = query.text("before").map(|text| {
        let unknown = || ApiError::new(ErrorCode::MessageNotFound, format!("Message {} was not found", short(text)));
        text.parse::<MessageId>().map_err(|_| unknown())
    });
    let before = before.transpose()?;
    if let Some(before) = &before {
        let known = app.store.message(before).await?.is_some_and(|message| message.chat == id);
        if !known {
            return Err(ApiError::new(ErrorCode::MessageNotFound, format!("Message {before} was not found")));
        }
    }
    Ok(Json(app.message_page(&chat, before.as_ref(), limit).await?))
}

impl App {
    /// A page of messages, consistent with the number of an event.
    pub(crate) async fn message_page(
        &self,
        chat: &ChatRow,
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<MessagePage, ApiError> {
        let room = self.chats.room(chat);
        // Nothing changes while the rows are read.
        let writing = room.write().await;
        let (rows, more) = self.store.messages(&chat.id, before, limit).await?;
        let ids: Vec<MessageId> = rows.iter().map(|row| row.id.clone()).collect();
        let calls = self.store.calls_of(&ids).await?;
        let turns = self.store.turns_of(&ids).await?;
        let files: Vec<_> = calls.iter().flat_map(|call| call.attachments.iter().cloned()).collect();
        let files = self.store.attachments_by_id(&files).await?;
        let files: describe::Files = files.into_iter().map(|file| (file.id.clone(), file)).collect();
        let present = room.present(&writing);
        let stored = self.store.last_chat_event(&chat.id).await?;
        drop(writing);
        let shown = rows.iter().map(|row| describe::present_message(row, &calls, &files, &present));
        Ok(MessagePage {
            messages: shown.collect(),
            turns: turns.iter().map(describe::turn).collect(),
            more,
            last_event_id: present.last.max(stored),
        })
    }
}
