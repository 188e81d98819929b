//! Checkpoints: the files of a chat's sandbox as they were before a turn. Taking one copies no data.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::{Extension, Json};
use cabana_store::{ChatChange, ChatRow, CheckpointRow, Sandbox, TurnRow};
use cabana_types::chat::{MAIN_SANDBOX, MAX_CHECKPOINTS, SandboxRole};
use cabana_types::sandbox::State as SandboxState;
use cabana_types::wire::{Checkpoint, NewService, Restored};
use cabana_types::{ErrorCode, MessageId, SandboxId, TurnId};
use http::request::Parts;
use jiff::Timestamp;
use serde_json::json;

use super::{App, ChatRef, computers};
use crate::api::query::Query;
use crate::api::snapshots::fork_request;
use crate::auth::Caller;
use crate::chats::engine::TURN_POSITIONS;
use crate::chats::event::NewEvent;
use crate::chats::toolset::{SandboxSpec, ToolSet};
use crate::chats::{Room, describe, engine};
use crate::error::{ApiError, short};

/// Percent of a disk from which on no checkpoint is taken.
const NEARLY_FULL: u64 = 80;
/// Characters of a label.
const LABEL: usize = 120;

/// Checkpoints of a chat.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(in crate::api) struct CheckpointList {
    checkpoints: Vec<Checkpoint>,
}

/// List the checkpoints of a chat, the newest first.
#[utoipa::path(get, path = "/chats/{chatID}/checkpoints", tag = "chats",
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 200, description = "The checkpoints", body = CheckpointList)))]
pub(in crate::api) async fn list_checkpoints(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
) -> Result<Json<CheckpointList>, ApiError> {
    app.find_chat(&caller, &id).await?;
    let rows = app.store.checkpoints(&id).await?;
    Ok(Json(CheckpointList { checkpoints: rows.iter().map(describe::checkpoint).collect() }))
}

/// Put files and conversation back to what they were before a turn. The present is kept as another checkpoint.
#[utoipa::path(post, path = "/chats/{chatID}/checkpoints/{turnID}/restore", tag = "chats",
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("turnID" = String, Path, description = "The turn"),
        ("kind" = Option<String>, Query, description = "`turn` (default): before the turn; `restore`: what was kept then"),
    ),
    responses((status = 200, description = "The chat", body = Restored)))]
pub(in crate::api) async fn restore_checkpoint(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    TurnRef(turn): TurnRef,
    query: Query,
) -> Result<Json<Restored>, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let kind = match query.text("kind") {
        None | Some("turn") => "turn",
        Some("restore") => "restore",
        Some(_) => return Err(ApiError::invalid("kind must be turn or restore")),
    };
    let all = app.store.checkpoints(&id).await?;
    let found = all.into_iter().find(|row| row.turn == turn && row.kind == kind);
    let checkpoint = found.ok_or_else(|| no_checkpoint(turn.as_str()))?;
    let task = {
        let app = Arc::clone(&app);
        async move { app.restore(&caller, chat, checkpoint).await }
    };
    app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into())).map(Json)
}

impl App {
    /// Takes a checkpoint of a sandbox, if it can be.
    pub(super) async fn take_checkpoint(
        &self,
        room: &Room,
        turn: &TurnRow,
        sandbox: &SandboxId,
        kind: &str,
        message: Option<MessageId>,
    ) -> Result<(), ApiError> {
        let snapshot = self.lifecycle.snapshot(sandbox, None).await?;
        let row = CheckpointRow {
            chat: room.chat.clone(),
            turn: turn.id.clone(),
            kind: kind.to_owned(),
            snapshot: snapshot.id.clone(),
            position: turn.seq * TURN_POSITIONS,
            message,
            label: turn.prompt.chars().take(LABEL).collect(),
            created_at: Timestamp::now(),
        };
        let written = room.write().await.commit(vec![ChatChange::InsertCheckpoint(row)], Vec::new()).await;
        if let Err(error) = written {
            let _ = self.lifecycle.delete_snapshot(&snapshot.id).await;
            return Err(error.into());
        }
        for old in self.store.checkpoints(&room.chat).await?.into_iter().skip(MAX_CHECKPOINTS as usize) {
            self.store.remove_checkpoint(room.chat.clone(), old.snapshot.clone()).await?;
            let _ = self.lifecycle.delete_snapshot(&old.snapshot).await?;
        }
        Ok(())
    }

    /// Makes a sandbox of a chat with the files of another one.
    pub(super) async fn copy_sandbox(
        self: &Arc<Self>,
        chat: &ChatRow,
        name: &str,
        from: &SandboxId,
    ) -> Result<Sandbox, ApiError> {
        let row = self.find_created(&engine::reach(chat), from).await?;
        let mut request = fork_request(&row, &engine::caller(chat), self.limits.longest_timeout());
        request.sandbox.metadata = computers::labels(chat, name);
        let made = self.lifecycle.fork(from, vec![request]).await?.into_iter().next();
        Ok(made.unwrap_or(Err(cabana_store::Error::Closed.into()))?)
    }

    pub(super) async fn from_snapshot(
        self: &Arc<Self>,
        chat: &ChatRow,
        name: &str,
        spec: &SandboxSpec,
        snapshot: &str,
    ) -> Result<Sandbox, ApiError> {
        self.new_chat_sandbox(chat, name, spec, Some(snapshot.to_owned())).await
    }

    async fn restore(
        self: &Arc<Self>,
        caller: &Caller,
        chat: ChatRow,
        checkpoint: CheckpointRow,
    ) -> Result<Restored, ApiError> {
        if !self.store.open_turns_of(&chat.id).await?.is_empty() {
            return Err(busy());
        }
        let room = self.chats.room(&chat);
        let _alone = room.computers.lock().await;
        let tools = self.chats.tools(&chat).await?;
        let spec = ToolSet::new(&tools).sandbox().cloned().unwrap_or_default();
        let made = self.from_snapshot(&chat, MAIN_SANDBOX, &spec, checkpoint.snapshot.as_str()).await?;
        match self.put_back(&chat, &room, &checkpoint, &made.id).await {
            Ok((old, removed)) => {
                if let Some(old) = old {
                    self.move_services(&chat, &old, &made.id).await;
                    self.end_sandbox(caller, &old).await;
                }
                self.chats.changed(&chat.id).await;
                let chat = self.find_chat(caller, &chat.id).await?;
                Ok(Restored { chat: self.chats.describe(&chat).await?, removed_messages: removed })
            }
            Err(error) => {
                self.end_sandbox(caller, &made.id).await;
                Err(error)
            }
        }
    }

    /// Takes messages back and replaces the sandbox. Returns the one before, and how many messages went.
    async fn put_back(
        &self,
        chat: &ChatRow,
        room: &Room,
        checkpoint: &CheckpointRow,
        made: &SandboxId,
    ) -> Result<(Option<SandboxId>, u64), ApiError> {
        let old = self.store.chat_sandboxes(&chat.id).await?.into_iter().find(|row| row.name == MAIN_SANDBOX);
        let turn = self.store.turn(&checkpoint.turn).await?;
        if let (Some(old), Some(turn)) = (&old, turn)
            && let Err(error) = self.take_checkpoint(room, &turn, &old.sandbox, "restore", None).await
        {
            tracing::warn!(chat = %chat.id, error = error.message(), "what was there is not kept at a restore");
        }
        let mut writing = room.write().await;
        if !self.store.open_turns_of(&chat.id).await?.is_empty() {
            return Err(busy());
        }
        let removed = self.store.conversation(&chat.id, checkpoint.position - 1).await?;
        let data = json!({"messageId": removed.first().map(|message| &message.id), "removedMessages": removed.len()});
        let row = computers::row(&chat.id, MAIN_SANDBOX, SandboxRole::Code, made);
        let told = json!({"name": MAIN_SANDBOX, "sandboxId": made, "state": "running", "role": SandboxRole::Code});
        let changes =
            vec![ChatChange::RemoveMessagesFrom { position: checkpoint.position }, ChatChange::SetSandbox(row)];
        let events = vec![NewEvent::new("chat.restored", None, data), NewEvent::new("sandbox.updated", None, told)];
        writing.commit(changes, events).await?;
        Ok((old.map(|old| old.sandbox), removed.len() as u64))
    }

    /// Starts the services of a sandbox in the one that replaces it.
    async fn move_services(self: &Arc<Self>, chat: &ChatRow, from: &SandboxId, to: &SandboxId) {
        let rows = self.store.services_of(from).await.unwrap_or_default();
        let caller = engine::caller(chat);
        for row in rows.into_iter().filter(|row| row.up && !row.removed) {
            let new = NewService {
                name: Some(row.name.clone()),
                command: row.command.clone(),
                port: row.port,
                cwd: row.cwd.clone(),
                env: row.env.clone(),
                ..NewService::default()
            };
            let started = self.start_service(&caller, to, new, std::time::Duration::ZERO, None).await;
            if let Err(error) = started {
                tracing::warn!(sandbox = %to, service = row.name, error = error.message(), "a service was not started again");
            }
        }
    }

    /// The main sandbox of a chat, if its files can be copied.
    pub(super) async fn copyable(&self, chat: &ChatRow) -> Result<Option<SandboxId>, cabana_store::Error> {
        let rows = self.store.chat_sandboxes(&chat.id).await?;
        let Some(main) = rows.into_iter().find(|row| row.name == MAIN_SANDBOX) else { return Ok(None) };
        let state = self.store.sandbox(&main.sandbox).await?.map(|sandbox| sandbox.state);
        Ok(state
            .filter(|state| matches!(state, SandboxState::Running | SandboxState::Paused { .. }))
            .map(|_| main.sandbox))
    }

    /// Whether little is left of a sandbox's disk. What a checkpoint holds counts too: with one, removing files would free nothing.
    async fn is_nearly_full(&self, id: &SandboxId) -> Result<bool, cabana_store::Error> {
        let Some(sandbox) = self.store.sandbox(id).await? else { return Ok(true) };
        let most = u64::from(sandbox.resources.disk_mb) << 20;
        let used = self.lifecycle.disk_used(id).await.unwrap_or_default();
        Ok(used >= most / 100 * NEARLY_FULL)
    }

    /// Takes the checkpoint of a turn that begins. Without one the turn goes on.
    pub(super) async fn checkpoint_turn(&self, chat: &ChatRow, room: &Room, turn: &TurnRow) {
        let taken = async {
            if let Some(sandbox) = self.copyable(chat).await?
                && !self.is_nearly_full(&sandbox).await?
            {
                self.take_checkpoint(room, turn, &sandbox, "turn", Some(turn.message.clone())).await?;
            }
            Ok::<_, ApiError>(())
        };
        if let Err(error) = taken.await {
            tracing::info!(chat = %chat.id, error = error.message(), "no checkpoint before a turn");
        }
    }
}

pub(super) fn busy() -> ApiError {
    let text = "A turn runs or waits in this chat; stop it first, then restore or fork it";
    ApiError::new(ErrorCode::ChatConflict, text)
}

fn no_checkpoint(turn: &str) -> ApiError {
    let text = format!(
        "There is no checkpoint before turn {}: the chat had no sandbox yet, or it is older than the newest {MAX_CHECKPOINTS}",
        short(turn)
    );
    ApiError::new(ErrorCode::CheckpointNotFound, text)
}

/// The turn in a path.
pub(in crate::api) struct TurnRef(TurnId);

impl<S: Send + Sync> FromRequestParts<S> for TurnRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = super::path_part(parts, state, "turnID").await?;
        text.parse().map(Self).map_err(|_| no_checkpoint(&text))
    }
}
