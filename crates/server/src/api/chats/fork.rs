//! Forking a chat: a new one with the same messages and a copy of the computer.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::{AttachmentRow, CallRow, ChatChange, ChatCommitted, ChatRequest, ChatRow, MessageRow, TurnRow};
use cabana_types::chat::{MAIN_SANDBOX, Part, SandboxRole, Usage};
use cabana_types::turn::TurnState;
use cabana_types::wire::{ForkChat, ForkedChat};
use cabana_types::{AttachmentId, CallId, ChatId, ErrorCode, MessageId, TurnId};
use http::{Request, StatusCode};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::{App, ChatRef, checkpoints, computers};
use crate::api::body;
use crate::auth::Caller;
use crate::chats::engine;
use crate::chats::toolset::ToolSet;
use crate::error::ApiError;
use cabana_types::limits::MAX_API_BODY_BYTES;

/// How long an idempotency key stands for its first request.
const KEEP_KEY: SignedDuration = SignedDuration::from_hours(24);

/// Fork a chat: a new one with the messages up to one of them, and a copy of the sandbox.
///
/// With `messageId`, the sandbox is copied as it was at the end of that message's turn, if there is a checkpoint of it.
#[utoipa::path(post, path = "/chats/{chatID}/fork", tag = "chats", request_body = Option<ForkChat>,
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same key with the same body forks once, for 24 hours"),
    ),
    responses((status = 201, description = "The new chat", body = ForkedChat)))]
pub(in crate::api) async fn fork_chat(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    request: Request<Body>,
) -> Result<(StatusCode, Json<ForkedChat>), ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let key = crate::api::tools::idempotency_key(request.headers())?;
    let bytes = body::bytes(request, MAX_API_BODY_BYTES).await?;
    let asked: ForkChat = if bytes.trim_ascii().is_empty() { ForkChat::default() } else { body::parse(&bytes)? };
    let request = key.map(|key| {
        let digest = Sha256::new().chain_update(id.as_str()).chain_update(b"\0fork\0").chain_update(&bytes);
        ChatRequest { key, digest: digest.finalize().into(), turn: None, expires_at: Timestamp::now() + KEEP_KEY }
    });
    let task = {
        let app = Arc::clone(&app);
        async move { app.fork_chat(&caller, chat, asked, request).await }
    };
    let chat = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok((StatusCode::CREATED, Json(ForkedChat { chat: app.chats.describe(&chat).await? })))
}

impl App {
    async fn fork_chat(
        self: &Arc<Self>,
        caller: &Caller,
        chat: ChatRow,
        asked: ForkChat,
        request: Option<ChatRequest>,
    ) -> Result<ChatRow, ApiError> {
        if !self.store.open_turns_of(&chat.id).await?.is_empty() {
            return Err(checkpoints::busy());
        }
        let messages = self.store.conversation(&chat.id, 0).await?;
        let (messages, end) = until(messages, asked.message_id.as_ref())?;
        let turns: Vec<TurnId> = distinct(messages.iter().map(|message| message.turn.clone()));
        let mut rows = Vec::new();
        for id in &turns {
            let turn = self.store.turn(id).await?;
            rows.extend(turn.filter(|turn| turn.state.is_ended()));
        }
        let messages: Vec<MessageRow> =
            messages.into_iter().filter(|message| rows.iter().any(|turn| turn.id == message.turn)).collect();
        let ids: Vec<MessageId> = messages.iter().map(|message| message.id.clone()).collect();
        let calls = self.store.calls_of(&ids).await?;
        // The other chat may be deleted meanwhile, and its files with it.
        let (mut files, mut held) = (Vec::new(), Vec::new());
        for file in self.store.attachments_of(&chat.id).await? {
            if let Some(pin) = self.blobs.hold(&file.team, &file.sha256).await {
                held.push(pin);
                files.push(file);
            }
        }
        let now = Timestamp::now();
        let new = ChatRow {
            id: ChatId::from_random(rand::random()),
            title: format!("{} (fork)", chat.title).chars().take(cabana_types::chat::MAX_TITLE).collect(),
            parent: Some(chat.id.clone()),
            usage: Usage { cost_micros: Some(0), ..Usage::default() },
            // Positions are others there.
            summary: None,
            created_at: now,
            updated_at: now,
            created_by: Some(caller.actor.clone()),
            ..chat.clone()
        };
        let changes = copies(&new, rows, messages, calls, &files);
        let room = self.chats.room(&new);
        match room.write().await.commit_request(changes, Vec::new(), request).await? {
            ChatCommitted::Done => {}
            ChatCommitted::Earlier { chat, .. } => return self.find_chat(caller, &chat).await,
            ChatCommitted::Mismatch => {
                let text = "The idempotency key was used for another request; use a new key for each request";
                return Err(ApiError::new(ErrorCode::IdempotencyMismatch, text));
            }
        }
        drop(held);
        if asked.with_sandbox.unwrap_or(true)
            && let Err(error) = self.fork_sandbox(&chat, &new, end).await
        {
            self.store.delete_chat(new.id.clone()).await?;
            return Err(error);
        }
        self.chats.changed(&new.id).await;
        Ok(new)
    }

    /// Copies the sandbox: as it was before the turn after the last message, or as it is.
    async fn fork_sandbox(self: &Arc<Self>, from: &ChatRow, to: &ChatRow, end: i64) -> Result<(), ApiError> {
        let checkpoints = self.store.checkpoints(&from.id).await?;
        let after = checkpoints.iter().filter(|row| row.kind == "turn" && row.position > end);
        let tools = self.chats.tools(from).await?;
        let spec = ToolSet::new(&tools).sandbox().cloned().unwrap_or_default();
        let made = match (after.min_by_key(|row| row.position), self.copyable(from).await?) {
            (Some(row), _) => self.from_snapshot(to, MAIN_SANDBOX, &spec, row.snapshot.as_str()).await?,
            (None, Some(sandbox)) => self.copy_sandbox(to, MAIN_SANDBOX, &sandbox).await?,
            (None, None) => return Ok(()),
        };
        let row = computers::row(&to.id, MAIN_SANDBOX, SandboxRole::Code, &made.id);
        if let Err(error) = self.keep_sandbox(&self.chats.room(to), row, "running").await {
            self.end_sandbox(&engine::caller(to), &made.id).await;
            return Err(error.into());
        }
        Ok(())
    }
}

/// The messages up to one of them, and the position of the last.
fn until(messages: Vec<MessageRow>, last: Option<&MessageId>) -> Result<(Vec<MessageRow>, i64), ApiError> {
    let Some(last) = last else {
        let end = i64::MAX;
        return Ok((messages, end));
    };
    let end = messages.iter().find(|message| message.id == *last).map(|message| message.position).ok_or_else(|| {
        ApiError::new(ErrorCode::MessageNotFound, format!("Message {last} was not found in this chat"))
    })?;
    Ok((messages.into_iter().filter(|message| message.position <= end).collect(), end))
}

fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// The rows of a chat under new ids.
fn copies(
    chat: &ChatRow,
    turns: Vec<TurnRow>,
    messages: Vec<MessageRow>,
    calls: Vec<CallRow>,
    files: &[AttachmentRow],
) -> Vec<ChatChange> {
    let mut changes = vec![ChatChange::InsertChat(chat.clone())];
    let mut file_ids: HashMap<&AttachmentId, AttachmentId> = HashMap::new();
    for file in files {
        let id = AttachmentId::from_random(rand::random());
        file_ids.insert(&file.id, id.clone());
        let chat = Some(chat.id.clone());
        changes.push(ChatChange::SetAttachment(AttachmentRow { id, chat, ..file.clone() }));
    }
    let message_ids: HashMap<MessageId, MessageId> =
        messages.iter().map(|message| (message.id.clone(), MessageId::from_random(rand::random()))).collect();
    let call_ids: HashMap<CallId, CallId> =
        calls.iter().map(|call| (call.id.clone(), CallId::from_random(rand::random()))).collect();
    for turn in turns {
        let id = TurnId::from_random(rand::random());
        let Some(first) = message_ids.get(&turn.message).cloned() else { continue };
        let own: Vec<&MessageRow> = messages.iter().filter(|message| message.turn == turn.id).collect();
        let ended = TurnRow { state: TurnState::Complete, reason: None, ..turn };
        changes.push(ChatChange::InsertTurn(TurnRow {
            id: id.clone(),
            chat: chat.id.clone(),
            message: first,
            ..ended
        }));
        for message in own {
            let Some(new_id) = message_ids.get(&message.id).cloned() else { continue };
            let content = message.content.iter().map(|part| copied(part, &file_ids, &call_ids)).collect();
            changes.push(ChatChange::InsertMessage(MessageRow {
                id: new_id.clone(),
                chat: chat.id.clone(),
                turn: id.clone(),
                content,
                ..message.clone()
            }));
            for call in calls.iter().filter(|call| call.message == message.id) {
                let Some(call_id) = call_ids.get(&call.id).cloned() else { continue };
                let attachments = call.attachments.iter().filter_map(|file| file_ids.get(file).cloned()).collect();
                changes.push(ChatChange::InsertCall(CallRow {
                    id: call_id,
                    chat: chat.id.clone(),
                    turn: id.clone(),
                    message: new_id.clone(),
                    attachments,
                    ..call.clone()
                }));
            }
        }
    }
    changes
}

fn copied(part: &Part, files: &HashMap<&AttachmentId, AttachmentId>, calls: &HashMap<CallId, CallId>) -> Part {
    let mut part = part.clone();
    match &mut part {
        Part::Image { attachment_id } | Part::File { attachment_id, .. } | Part::Screenshot { attachment_id, .. } => {
            if let Some(id) = files.get(attachment_id) {
                *attachment_id = id.clone();
            }
        }
        Part::ToolCall { tool_call_id, .. } => {
            if let Some(id) = calls.get(tool_call_id) {
                *tool_call_id = id.clone();
            }
        }
        Part::Text { .. } | Part::Reasoning { .. } => {}
    }
    part
}
