//! Messages of chats.

use cabana_types::chat::{MessageStatus, Part, Role, StopReason, Usage};
use cabana_types::{ChatId, MessageId, TurnId, UserId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, micros};
use crate::{Error, Store};

/// Positions of one turn's messages.
const PER_TURN: i64 = 1_000_000;

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageRow {
    pub id: MessageId,
    pub chat: ChatId,
    pub turn: TurnId,
    /// Its place in the conversation: the turn's number times a million, and a number within the turn.
    pub position: i64,
    pub role: Role,
    pub author: Option<UserId>,
    pub status: MessageStatus,
    pub content: Vec<Part>,
    pub stop: Option<StopReason>,
    pub usage: Option<Usage>,
    /// The model that wrote it.
    pub model: Option<String>,
    /// What the provider wants back as it was.
    pub raw: Option<Value>,
    pub created_at: Timestamp,
}

impl Store {
    /// The last messages of a chat, or the last ones before one of them, the newest last, and whether there are older ones. Messages of
    /// queued turns are not part of the conversation yet.
    pub async fn messages(
        &self,
        chat: &ChatId,
        before: Option<&MessageId>,
        limit: u32,
    ) -> Result<(Vec<MessageRow>, bool), Error> {
        let rows = sqlx::query(
            "select * from messages where chat = $1 and removed = 0
                and position < coalesce((select position from messages where chat = $1 and id = $2), $3)
                and turn not in (select id from turns where chat = $1 and state in ('queued', 'running', 'waiting') and state = 'queued')
             order by position desc limit $4",
        )
        .bind(chat.as_str())
        .bind(before.map(|id| id.as_str()))
        .bind(i64::MAX)
        .bind(i64::from(limit).saturating_add(1))
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list messages", e))?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        let mut messages = rows.iter().take(limit).map(decode).collect::<Result<Vec<_>, Error>>()?;
        messages.reverse();
        Ok((messages, more))
    }

    /// Messages of a chat after a position, the newest last. Messages of queued turns are not part of the conversation yet.
    pub async fn conversation(&self, chat: &ChatId, after_position: i64) -> Result<Vec<MessageRow>, Error> {
        let rows = sqlx::query(
            "select * from messages where chat = $1 and removed = 0 and position > $2
                and turn not in (select id from turns where chat = $1 and state in ('queued', 'running', 'waiting') and state = 'queued')
             order by position",
        )
        .bind(chat.as_str())
        .bind(after_position)
        .fetch_all(self.reader())
        .await;
        rows.map_err(|e| Error::query("read a conversation", e))?.iter().map(decode).collect()
    }

    /// A message, also of a queued turn.
    pub async fn message(&self, id: &MessageId) -> Result<Option<MessageRow>, Error> {
        let row = sqlx::query("select * from messages where id = $1 and removed = 0")
            .bind(id.as_str())
            .fetch_optional(self.reader())
            .await;
        row.map_err(|e| Error::query("read a message", e))?.as_ref().map(decode).transpose()
    }

    /// Keeps what a model has written so far. A message that is whole stays as it is.
    pub async fn touch_message_content(&self, id: MessageId, content: Vec<Part>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("update messages set content = $2 where id = $1 and status = 'streaming'")
                    .bind(id.as_str())
                    .bind(column::json("content", &content)?)
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("write the text of a message", e))?;
                Ok(())
            })
        })
        .await
    }
}

/// Inserts a message after all others of its turn.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    message: &MessageRow,
) -> Result<(), Error> {
    let position: Option<i64> = sqlx::query_scalar(
        "select coalesce((select max(position) + 1 from messages where messages.turn = turns.id), turns.seq * $3) from turns
         where turns.id = $1 and turns.chat = $2",
    )
    .bind(message.turn.as_str())
    .bind(chat.as_str())
    .bind(PER_TURN)
    .fetch_optional(&mut *connection)
    .await
    .map_err(|e| Error::query("find the place of a message", e))?;
    let position = position.ok_or_else(|| Error::NoTurn(message.turn.clone()))?;
    write(
        connection,
        chat,
        message,
        position,
        "insert into messages (id, chat, role, author, status, content, folded, stop, usage, model, raw, turn, position, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    )
    .await
}

/// Replaces everything of a message but its place and when it was made.
pub(crate) async fn set(connection: &mut SqliteConnection, chat: &ChatId, message: &MessageRow) -> Result<(), Error> {
    write(
        connection,
        chat,
        message,
        message.position,
        "update messages set role = $3, author = $4, status = $5, content = $6, folded = $7, stop = $8, usage = $9, model = $10,
            raw = $11
         where id = $1 and chat = $2",
    )
    .await
}

async fn write(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    message: &MessageRow,
    position: i64,
    sql: &'static str,
) -> Result<(), Error> {
    let done = sqlx::query(sql)
        .bind(message.id.as_str())
        .bind(chat.as_str())
        .bind(message.role.as_str())
        .bind(message.author.as_ref().map(|id| id.as_str()))
        .bind(message.status.as_str())
        .bind(column::json("content", &message.content)?)
        .bind(fold(&message.content))
        .bind(message.stop.map(StopReason::as_str))
        .bind(column::json_or_none("usage", message.usage.as_ref())?)
        .bind(&message.model)
        .bind(column::json_or_none("raw", message.raw.as_ref())?)
        .bind(message.turn.as_str())
        .bind(position)
        .bind(micros(message.created_at))
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a message", e))?;
    if done.rows_affected() == 0 { Err(Error::NoMessage(message.id.clone())) } else { Ok(()) }
}

/// Takes messages out of the conversation, and the summary if it stands for one of them.
pub(crate) async fn remove_from(connection: &mut SqliteConnection, chat: &ChatId, position: i64) -> Result<(), Error> {
    sqlx::query(
        "update messages set removed = 1 where chat = $1 and position >= $2
            and turn not in (select id from turns where chat = $1 and state in ('queued', 'running', 'waiting') and state = 'queued')",
    )
    .bind(chat.as_str())
    .bind(position)
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("remove messages", e))?;
    sqlx::query("update chats set summary_until = null, summary_text = null where id = $1 and summary_until >= $2")
        .bind(chat.as_str())
        .bind(position)
        .execute(connection)
        .await
        .map_err(|e| Error::query("remove a summary", e))?;
    Ok(())
}

/// The text of a message in lower case, for searching. What the model thought is not searched.
fn fold(content: &[Part]) -> String {
    let mut folded = String::new();
    for part in content {
        if let Part::Text { text } = part {
            folded.push_str(&text.to_lowercase());
            folded.push('\n');
        }
    }
    folded
}

fn decode(row: &SqliteRow) -> Result<MessageRow, Error> {
    let row = Columns(row);
    Ok(MessageRow {
        id: row.id("id")?,
        chat: row.id("chat")?,
        turn: row.id("turn")?,
        position: row.integer("position")?,
        role: row.word("role", Role::parse)?,
        author: row.id_or_none("author")?,
        status: row.word("status", MessageStatus::parse)?,
        content: row.json("content")?,
        stop: row.word_or_none("stop", StopReason::parse)?,
        usage: row.json_or_none("usage")?,
        model: row.text_or_none("model")?,
        raw: row.json_or_none("raw")?,
        created_at: row.time("created_at")?,
    })
}
