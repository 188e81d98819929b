//! The sandboxes of chats.

use cabana_types::chat::SandboxRole;
use cabana_types::{ChatId, SandboxId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A sandbox of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatSandboxRow {
    pub chat: ChatId,
    /// What tools call it.
    pub name: String,
    pub role: SandboxRole,
    /// It may be gone.
    pub sandbox: SandboxId,
    pub template: Option<String>,
    pub created_at: Timestamp,
}

impl Store {
    /// The sandboxes of a chat, the oldest first.
    pub async fn chat_sandboxes(&self, chat: &ChatId) -> Result<Vec<ChatSandboxRow>, Error> {
        let rows = sqlx::query("select * from chat_sandboxes where chat = $1 order by created_at, name")
            .bind(chat.as_str())
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("list the sandboxes of a chat", e))?.iter().map(decode).collect()
    }

    /// The chat that a sandbox belongs to.
    pub async fn chat_of_sandbox(&self, sandbox: &SandboxId) -> Result<Option<ChatId>, Error> {
        let row = sqlx::query("select chat from chat_sandboxes where sandbox = $1 order by created_at desc limit 1")
            .bind(sandbox.as_str())
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("find the chat of a sandbox", e))?;
        row.map(|row| Columns(&row).id("chat")).transpose()
    }
}

/// Gives a chat a sandbox, in the place of one of the same name.
pub(super) async fn set(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    sandbox: &ChatSandboxRow,
) -> Result<(), Error> {
    sqlx::query(
        "insert into chat_sandboxes (chat, name, role, sandbox, template, created_at) values ($1, $2, $3, $4, $5, $6)
         on conflict (chat, name) do update set role = $3, sandbox = $4, template = $5, created_at = $6",
    )
    .bind(chat.as_str())
    .bind(&sandbox.name)
    .bind(sandbox.role.as_str())
    .bind(sandbox.sandbox.as_str())
    .bind(&sandbox.template)
    .bind(micros(sandbox.created_at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a sandbox of a chat", e))?;
    Ok(())
}

pub(super) async fn remove(connection: &mut SqliteConnection, chat: &ChatId, name: &str) -> Result<(), Error> {
    sqlx::query("delete from chat_sandboxes where chat = $1 and name = $2")
        .bind(chat.as_str())
        .bind(name)
        .execute(connection)
        .await
        .map_err(|e| Error::query("remove a sandbox of a chat", e))?;
    Ok(())
}

fn decode(row: &SqliteRow) -> Result<ChatSandboxRow, Error> {
    let row = Columns(row);
    Ok(ChatSandboxRow {
        chat: row.id("chat")?,
        name: row.text("name")?,
        role: row.word("role", SandboxRole::parse)?,
        sandbox: row.id("sandbox")?,
        template: row.text_or_none("template")?,
        created_at: row.time("created_at")?,
    })
}
