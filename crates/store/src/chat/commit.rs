//! Changes of a chat. Whatever belongs together is written in one transaction, with the events that tell of it.

use cabana_types::{ChatId, TeamId, TurnId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::{ChatRequest, ChatRow, ChatSandboxRow, request, row, sandbox};
use crate::column::micros;
use crate::{
    AttachmentRow, CallRow, CheckpointRow, Error, EventRow, MessageRow, ModelCallRow, Store, TurnRow, attachment,
    chat_call, chat_event, checkpoint, message, model_call, turn,
};

/// Changes of one chat that are written together.
#[derive(Debug, Clone)]
pub struct ChatCommit {
    pub team: TeamId,
    pub chat: ChatId,
    /// Made in this order.
    pub changes: Vec<ChatChange>,
    pub events: Vec<EventRow>,
    /// If it was made before, nothing is written.
    pub request: Option<ChatRequest>,
}

/// A change of a chat.
#[derive(Debug, Clone)]
pub enum ChatChange {
    InsertChat(ChatRow),
    /// Who made it when, and from what, stays.
    SetChat(ChatRow),
    /// Its `seq` is assigned: after all turns of the chat.
    InsertTurn(TurnRow),
    /// A cancel that was asked for stays asked for, whatever the row says.
    SetTurn(TurnRow),
    /// Takes a turn out of the queue, with its message.
    RemoveTurn(TurnId),
    /// Its `position` is assigned: after all messages of its turn.
    InsertMessage(MessageRow),
    SetMessage(MessageRow),
    InsertCall(CallRow),
    SetCall(CallRow),
    /// Messages from this position on are not part of the conversation any more. Their turns stay, and so do messages of queued turns.
    RemoveMessagesFrom {
        position: i64,
    },
    /// Replaces the sandbox of this name.
    SetSandbox(ChatSandboxRow),
    RemoveSandbox {
        name: String,
    },
    InsertCheckpoint(CheckpointRow),
    /// Counts a call of a model.
    CountModelCall(ModelCallRow),
    /// Inserts or replaces a file that is in no other chat.
    SetAttachment(AttachmentRow),
}

/// Result of [`Store::commit_chat`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatCommitted {
    Done,
    /// The request was made before, and this came of it. Nothing was written.
    Earlier {
        chat: ChatId,
        turn: Option<TurnId>,
    },
    /// Another request was made with this key. Nothing was written.
    Mismatch,
}

impl Store {
    /// Writes changes of a chat, all or none.
    pub async fn commit_chat(&self, commit: ChatCommit) -> Result<ChatCommitted, Error> {
        let now = Timestamp::now();
        self.write(move |connection| Box::pin(async move { write(connection, commit, now).await })).await
    }
}

async fn write(connection: &mut SqliteConnection, commit: ChatCommit, now: Timestamp) -> Result<ChatCommitted, Error> {
    let ChatCommit { team, chat, changes, events, request } = commit;
    if let Some(request) = &request
        && let Some(earlier) = request::earlier(connection, &team, request, now).await?
    {
        return Ok(earlier);
    }
    for change in &changes {
        Box::pin(apply(connection, &team, &chat, change)).await?;
    }
    for event in &events {
        chat_event::insert(connection, &chat, event).await?;
    }
    if let Some(at) = events.iter().map(|event| event.at).max() {
        sqlx::query("update chats set updated_at = max(updated_at, $2) where id = $1")
            .bind(chat.as_str())
            .bind(micros(at))
            .execute(&mut *connection)
            .await
            .map_err(|e| Error::query("write when a chat was changed", e))?;
    }
    if let Some(request) = &request {
        request::remember(connection, &team, &chat, request).await?;
    }
    Ok(ChatCommitted::Done)
}

async fn apply(
    connection: &mut SqliteConnection,
    team: &TeamId,
    chat: &ChatId,
    change: &ChatChange,
) -> Result<(), Error> {
    match change {
        ChatChange::InsertChat(row) => row::insert(connection, row).await,
        ChatChange::SetChat(row) => row::set(connection, row).await,
        ChatChange::InsertTurn(row) => turn::insert(connection, chat, row).await,
        ChatChange::SetTurn(row) => turn::set(connection, chat, row).await,
        ChatChange::RemoveTurn(id) => turn::remove(connection, chat, id).await,
        ChatChange::InsertMessage(row) => message::insert(connection, chat, row).await,
        ChatChange::SetMessage(row) => message::set(connection, chat, row).await,
        ChatChange::InsertCall(row) => chat_call::insert(connection, chat, row).await,
        ChatChange::SetCall(row) => chat_call::set(connection, chat, row).await,
        ChatChange::RemoveMessagesFrom { position } => message::remove_from(connection, chat, *position).await,
        ChatChange::SetSandbox(row) => sandbox::set(connection, chat, row).await,
        ChatChange::RemoveSandbox { name } => sandbox::remove(connection, chat, name).await,
        ChatChange::InsertCheckpoint(row) => checkpoint::insert(connection, chat, row).await,
        ChatChange::CountModelCall(row) => model_call::insert(connection, team, chat, row).await,
        ChatChange::SetAttachment(row) => attachment::set(connection, team, chat, row).await,
    }
}
