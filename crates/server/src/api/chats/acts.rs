//! What people and clients do to a turn: stopping it, allowing a call, answering one.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, State};
use axum::{Extension, Json};
use cabana_store::{CallRow, ChatChange, ChatRow, TurnRow};
use cabana_types::chat::CallStatus;
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::tool::{ToolError, ToolErrorCode, ToolResult, ToolStatus};
use cabana_types::turn::TurnState;
use cabana_types::wire::{Approval, ApprovalDecision, CancelRequest, ToolAnswer, ToolAnswers, ToolCall, Turn};
use cabana_types::{CallId, ErrorCode, TurnId};
use http::Request;
use http::request::Parts;
use jiff::Timestamp;
use serde_json::json;

use super::{App, ChatRef, MAX_BODY};
use crate::api::body::{self, OptionalBody};
use crate::auth::Caller;
use crate::chats::event::NewEvent;
use crate::chats::{Chats, Room, calls, describe};
use crate::error::{ApiError, short};
use crate::failpoint;

/// Characters of a note, and of an answer.
const MAX_NOTE: usize = 4000;
const MAX_ANSWER: usize = 262_144;
/// Answers of one request.
const MAX_ANSWERS: usize = 64;

/// What was answered.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::api) struct AnsweredCalls {
    tool_calls: Vec<ToolCall>,
}

/// Stop the running turn, or take one out of the queue. Answers when everything that it did has stopped.
#[utoipa::path(post, path = "/chats/{chatID}/cancel", tag = "chats", request_body = Option<CancelRequest>,
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 200, description = "The turn", body = Turn)))]
pub(in crate::api) async fn cancel_turn(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    body: Request<Body>,
) -> Result<Json<Turn>, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let OptionalBody(request) = OptionalBody::<CancelRequest>::from_request(body, &()).await?;
    let open = app.store.open_turns_of(&id).await?;
    let chosen = match &request.turn_id {
        Some(turn) => open.into_iter().find(|row| row.id == *turn),
        None => open.iter().find(|row| row.state != TurnState::Queued).or_else(|| open.first()).cloned(),
    };
    let turn = chosen.ok_or_else(not_running)?;
    let task = {
        let app = Arc::clone(&app);
        async move { app.cancel(&chat, turn).await }
    };
    let turn = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok(Json(turn))
}

fn not_running() -> ApiError {
    ApiError::new(ErrorCode::TurnNotRunning, "No such turn runs or waits in this chat")
}

impl App {
    async fn cancel(self: &Arc<Self>, chat: &ChatRow, turn: TurnRow) -> Result<Turn, ApiError> {
        let room = self.chats.room(chat);
        if turn.state == TurnState::Queued {
            let mut writing = room.write().await;
            if let Some(now) = self.store.turn(&turn.id).await?.filter(|now| now.state == TurnState::Queued) {
                let event = NewEvent::new("turn.removed", Some(&now.id), json!({"turnId": now.id}));
                writing.commit(vec![ChatChange::RemoveTurn(now.id.clone())], vec![event]).await?;
                drop(writing);
                self.chats.changed(&chat.id).await;
                let ended_at = Some(Timestamp::now());
                return Ok(describe::turn(&TurnRow { state: TurnState::Cancelled, ended_at, ..now }));
            }
        }
        self.ask_to_end(&room, &turn.id).await?;
        failpoint::hit("chat.cancelled");
        Chats::wake(self, &chat.id);
        self.chats.end_turn(&room, &turn.id).await?.ok_or_else(not_running)
    }

    /// Writes that a turn is to end.
    pub(super) async fn ask_to_end(&self, room: &Room, id: &TurnId) -> Result<(), ApiError> {
        let mut writing = room.write().await;
        if let Some(turn) = self.store.turn(id).await?.filter(|turn| !turn.state.is_ended()) {
            let turn = TurnRow { cancel: true, ..turn };
            writing.commit(vec![ChatChange::SetTurn(turn)], Vec::new()).await?;
        }
        Ok(())
    }

    /// A call of a chat.
    async fn call_of(&self, chat: &ChatRow, id: &CallId) -> Result<CallRow, ApiError> {
        let found = self.store.chat_call(id).await?.filter(|call| call.chat == chat.id);
        found.ok_or_else(|| no_call(id.as_str()))
    }

    /// A person decides about a call.
    async fn decide(
        self: &Arc<Self>,
        caller: &Caller,
        chat: &ChatRow,
        call: &CallId,
        (decision, note): (ApprovalDecision, Option<String>),
    ) -> Result<CallRow, ApiError> {
        let room = self.chats.room(chat);
        let mut writing = room.write().await;
        let row = self.call_of(chat, call).await?;
        if row.status != CallStatus::Approval {
            return Err(not_waiting(&row));
        }
        let (mut changes, mut events) = (Vec::new(), Vec::new());
        let row = match decision {
            ApprovalDecision::Deny => {
                let said = note.as_ref().map(|note| format!(" and says: {note}")).unwrap_or_default();
                let text = format!("the person did not allow this call{said}");
                let denied = calls::refused(CallRow { note, ..row }, ToolErrorCode::PermissionDenied, &text);
                events.push(calls::tool_message(&denied, &[]));
                denied
            }
            ApprovalDecision::Allow | ApprovalDecision::Always => {
                if decision == ApprovalDecision::Always {
                    let mut now = self.find_chat(caller, &chat.id).await?;
                    if !now.always.contains(&row.name) {
                        now.always.push(row.name.clone());
                    }
                    changes.push(ChatChange::SetChat(now));
                }
                CallRow { status: CallStatus::Pending, note, ..row }
            }
        };
        changes.push(ChatChange::SetCall(row.clone()));
        writing.commit(changes, events).await?;
        drop(writing);
        Chats::wake(self, &chat.id);
        Ok(row)
    }

    /// The client, or a person, answers calls.
    async fn answer_calls(
        self: &Arc<Self>,
        chat: &ChatRow,
        answers: Vec<ToolAnswer>,
    ) -> Result<Vec<ToolCall>, ApiError> {
        let room = self.chats.room(chat);
        let mut writing = room.write().await;
        let (mut changes, mut events, mut shown) = (Vec::new(), Vec::new(), Vec::new());
        for answer in answers {
            if answer.output.chars().count() > MAX_ANSWER {
                return Err(ApiError::invalid(format!("output has more than {MAX_ANSWER} characters")));
            }
            let row = self.call_of(chat, &answer.tool_call_id).await?;
            let twice = shown.iter().any(|call: &ToolCall| call.id == row.id);
            if row.status != CallStatus::Client || twice {
                return Err(not_waiting(&row));
            }
            let row = answered(row, answer);
            events.push(calls::tool_message(&row, &[]));
            shown.push(describe::call(&row, &[], None));
            changes.push(ChatChange::SetCall(row));
        }
        writing.commit(changes, events).await?;
        drop(writing);
        Chats::wake(self, &chat.id);
        Ok(shown)
    }
}

/// Allow or deny a call that waits for a person.
#[utoipa::path(post, path = "/chats/{chatID}/approvals/{callID}", tag = "chats", request_body = Approval,
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("callID" = String, Path, description = "The call"),
    ),
    responses((status = 200, description = "The call", body = ToolCall)))]
pub(in crate::api) async fn approve_call(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    ChatCallRef(call): ChatCallRef,
    request: Request<Body>,
) -> Result<Json<ToolCall>, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    app.call_of(&chat, &call).await?;
    let approval: Approval = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
    let note = approval.note.filter(|note| !note.trim().is_empty());
    if note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE) {
        return Err(ApiError::invalid(format!("note has more than {MAX_NOTE} characters")));
    }
    let decision = (approval.decision, note);
    let task = {
        let app = Arc::clone(&app);
        async move { app.decide(&caller, &chat, &call, decision).await }
    };
    let row = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok(Json(describe::call(&row, &[], None)))
}

/// Answer calls that the client runs, and questions to the person: all of them, or none.
#[utoipa::path(post, path = "/chats/{chatID}/tool-results", tag = "chats", request_body = ToolAnswers,
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 200, description = "The calls", body = AnsweredCalls)))]
pub(in crate::api) async fn tool_results(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    request: Request<Body>,
) -> Result<Json<AnsweredCalls>, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let answers: ToolAnswers = body::parse(&body::bytes(request, MAX_BODY).await?)?;
    if answers.results.is_empty() || answers.results.len() > MAX_ANSWERS {
        return Err(ApiError::invalid(format!("results must have 1 to {MAX_ANSWERS} answers")));
    }
    let task = {
        let app = Arc::clone(&app);
        async move { app.answer_calls(&chat, answers.results).await }
    };
    let shown = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok(Json(AnsweredCalls { tool_calls: shown }))
}

fn answered(row: CallRow, answer: ToolAnswer) -> CallRow {
    let error = answer.is_error.then(|| ToolError {
        code: ToolErrorCode::CommandFailed,
        message: "the client says that the call failed".into(),
        hint: String::new(),
        retryable: false,
    });
    let result = ToolResult {
        call_id: row.id.clone(),
        tool: row.name.clone(),
        sandbox_id: None,
        status: if answer.is_error { ToolStatus::Error } else { ToolStatus::Success },
        output: answer.output,
        data: json!({}),
        images: Vec::new(),
        error,
        truncated: false,
        duration_ms: 0,
    };
    calls::ended(row, result)
}

fn not_waiting(row: &CallRow) -> ApiError {
    let what = if calls::is_question(row) { "question" } else { "call" };
    ApiError::new(ErrorCode::CallNotWaiting, format!("This {what} does not wait for this; it is {}", row.status))
}

fn no_call(id: &str) -> ApiError {
    ApiError::new(ErrorCode::CallNotFound, format!("Call {} was not found in this chat", short(id)))
}

/// The call in a path.
pub(in crate::api) struct ChatCallRef(CallId);

impl<S: Send + Sync> FromRequestParts<S> for ChatCallRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = super::path_part(parts, state, "callID").await?;
        text.parse().map(Self).map_err(|_| no_call(&text))
    }
}
