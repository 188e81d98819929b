//! Calls of tools in chats.

use cabana_types::chat::CallStatus;
use cabana_types::tool::ToolResult;
use cabana_types::{AttachmentId, CallId, ChatId, MessageId, SandboxId, TurnId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{self, Columns, micros};
use crate::{Error, Store};

/// Ids in one query.
const CHUNK: usize = 500;

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRow {
    pub id: CallId,
    pub chat: ChatId,
    pub turn: TurnId,
    pub message: MessageId,
    /// Its place within the message.
    pub number: u32,
    /// The provider's name of the call.
    pub provider_id: String,
    pub name: String,
    /// For people, such as `Run npm test`.
    pub title: String,
    pub arguments: Value,
    pub sandbox: Option<SandboxId>,
    pub status: CallStatus,
    /// Why a person is asked.
    pub why: Option<String>,
    /// What the person said to the model.
    pub note: Option<String>,
    pub result: Option<ToolResult>,
    /// Files that it made.
    pub attachments: Vec<AttachmentId>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl Store {
    /// The calls of messages; those of one message are together, in their order.
    pub async fn calls_of(&self, messages: &[MessageId]) -> Result<Vec<CallRow>, Error> {
        let mut calls = vec![];
        for chunk in messages.chunks(CHUNK) {
            let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select * from chat_calls where message in (");
            let mut list = sql.separated(", ");
            for id in chunk {
                list.push_bind(id.as_str().to_owned());
            }
            sql.push(") order by message, number");
            let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("list calls", e))?;
            for row in &rows {
                calls.push(decode(row)?);
            }
        }
        Ok(calls)
    }

    /// The calls of a turn, in the order of the conversation.
    pub async fn calls_of_turn(&self, turn: &TurnId) -> Result<Vec<CallRow>, Error> {
        let rows = sqlx::query(
            "select chat_calls.* from chat_calls join messages on messages.id = chat_calls.message
             where chat_calls.turn = $1 order by messages.position, chat_calls.number",
        )
        .bind(turn.as_str())
        .fetch_all(self.reader())
        .await;
        rows.map_err(|e| Error::query("list the calls of a turn", e))?.iter().map(decode).collect()
    }

    /// A call.
    pub async fn chat_call(&self, id: &CallId) -> Result<Option<CallRow>, Error> {
        let row =
            sqlx::query("select * from chat_calls where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read a call", e))?.as_ref().map(decode).transpose()
    }
}

/// Inserts a call.
pub(crate) async fn insert(connection: &mut SqliteConnection, chat: &ChatId, call: &CallRow) -> Result<(), Error> {
    write(
        connection,
        chat,
        call,
        "insert into chat_calls (id, chat, title, arguments, sandbox, status, why, note, result, attachments, started_at, ended_at,
            turn, message, number, provider_id, name)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
    )
    .await
}

/// Replaces everything of a call but its place and its name.
pub(crate) async fn set(connection: &mut SqliteConnection, chat: &ChatId, call: &CallRow) -> Result<(), Error> {
    write(
        connection,
        chat,
        call,
        "update chat_calls set title = $3, arguments = $4, sandbox = $5, status = $6, why = $7, note = $8, result = $9,
            attachments = $10, started_at = $11, ended_at = $12
         where id = $1 and chat = $2",
    )
    .await
}

async fn write(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    call: &CallRow,
    sql: &'static str,
) -> Result<(), Error> {
    let done = sqlx::query(sql)
        .bind(call.id.as_str())
        .bind(chat.as_str())
        .bind(&call.title)
        .bind(column::json("arguments", &call.arguments)?)
        .bind(call.sandbox.as_ref().map(|id| id.as_str()))
        .bind(call.status.as_str())
        .bind(&call.why)
        .bind(&call.note)
        .bind(column::json_or_none("result", call.result.as_ref())?)
        .bind(column::json("attachments", &call.attachments)?)
        .bind(call.started_at.map(micros))
        .bind(call.ended_at.map(micros))
        .bind(call.turn.as_str())
        .bind(call.message.as_str())
        .bind(call.number)
        .bind(&call.provider_id)
        .bind(&call.name)
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a call", e))?;
    if done.rows_affected() == 0 { Err(Error::NoCall(call.id.clone())) } else { Ok(()) }
}

fn decode(row: &SqliteRow) -> Result<CallRow, Error> {
    let row = Columns(row);
    Ok(CallRow {
        id: row.id("id")?,
        chat: row.id("chat")?,
        turn: row.id("turn")?,
        message: row.id("message")?,
        number: row.number("number")?,
        provider_id: row.text("provider_id")?,
        name: row.text("name")?,
        title: row.text("title")?,
        arguments: row.json("arguments")?,
        sandbox: row.id_or_none("sandbox")?,
        status: row.word("status", CallStatus::parse)?,
        why: row.text_or_none("why")?,
        note: row.text_or_none("note")?,
        result: row.json_or_none("result")?,
        attachments: row.json("attachments")?,
        started_at: row.time_or_none("started_at")?,
        ended_at: row.time_or_none("ended_at")?,
    })
}
