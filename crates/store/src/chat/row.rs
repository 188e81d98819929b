//! Rows of chats.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::{ChatRow, Summary};
use crate::Error;
use crate::column::{self, Columns, micros};

/// What a chat does, as an expression over its row.
pub(super) const STATUS: &str = "
    coalesce(
        (select case when turns.state = 'waiting' then 'waiting' else 'running' end from turns
         where turns.chat = chats.id and turns.state in ('queued', 'running', 'waiting')
         order by turns.state = 'queued', turns.seq limit 1),
        (select case when turns.state in ('failed', 'interrupted') then 'failed' else 'idle' end
         from turns join messages on messages.id = turns.message
         where turns.chat = chats.id and turns.state in ('complete', 'failed', 'cancelled', 'interrupted') and messages.removed = 0
         order by turns.seq desc limit 1),
        'idle')";

/// Inserts a chat.
pub(super) async fn insert(connection: &mut SqliteConnection, chat: &ChatRow) -> Result<(), Error> {
    write(
        connection,
        chat,
        "insert into chats (id, team, title, titled, folded, agent, model, tools, metadata, parent, usage, context_tokens,
            context_window, always, summary_until, summary_text, created_at, updated_at, created_by, project)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)",
    )
    .await
}

/// Replaces everything of a chat but who made it when, and from what.
pub(super) async fn set(connection: &mut SqliteConnection, chat: &ChatRow) -> Result<(), Error> {
    write(
        connection,
        chat,
        "update chats set title = $3, titled = $4, folded = $5, agent = $6, model = $7, tools = $8, metadata = $9, usage = $11,
            context_tokens = $12, context_window = $13, always = $14, summary_until = $15, summary_text = $16,
            updated_at = max(updated_at, $18)
         where id = $1 and team = $2 and project = $20",
    )
    .await
}

async fn write(connection: &mut SqliteConnection, chat: &ChatRow, sql: &'static str) -> Result<(), Error> {
    let done = sqlx::query(sql)
        .bind(chat.id.as_str())
        .bind(chat.team.as_str())
        .bind(&chat.title)
        .bind(chat.titled)
        .bind(chat.title.to_lowercase())
        .bind(chat.agent.as_ref().map(|id| id.as_str()))
        .bind(&chat.model)
        .bind(column::json_or_none("tools", chat.tools.as_ref())?)
        .bind(column::json("metadata", &chat.metadata)?)
        .bind(chat.parent.as_ref().map(|id| id.as_str()))
        .bind(column::json("usage", &chat.usage)?)
        .bind(column::integer(chat.context_tokens))
        .bind(column::integer(chat.context_window))
        .bind(column::json("always", &chat.always)?)
        .bind(chat.summary.as_ref().map(|summary| summary.until))
        .bind(chat.summary.as_ref().map(|summary| summary.text.as_str()))
        .bind(micros(chat.created_at))
        .bind(micros(chat.updated_at))
        .bind(chat.created_by.as_ref().map(|actor| actor.as_str()))
        .bind(chat.project.as_str())
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a chat", e))?;
    if done.rows_affected() == 0 { Err(Error::NoChat(chat.id.clone())) } else { Ok(()) }
}

pub(super) fn decode(row: &SqliteRow) -> Result<ChatRow, Error> {
    let row = Columns(row);
    let summary = match row.text_or_none("summary_text")? {
        None => None,
        Some(text) => Some(Summary { until: row.integer("summary_until")?, text }),
    };
    Ok(ChatRow {
        id: row.id("id")?,
        team: row.id("team")?,
        project: row.id("project")?,
        title: row.text("title")?,
        titled: row.flag("titled")?,
        agent: row.id_or_none("agent")?,
        model: row.text("model")?,
        tools: row.json_or_none("tools")?,
        metadata: row.json("metadata")?,
        parent: row.id_or_none("parent")?,
        usage: row.json("usage")?,
        context_tokens: row.number("context_tokens")?,
        context_window: row.number("context_window")?,
        always: row.json("always")?,
        summary,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        created_by: row.actor_or_none("created_by")?,
    })
}
