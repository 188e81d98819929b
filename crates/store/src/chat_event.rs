//! Events of chats that readers who come later still need.

use cabana_types::{ChatId, TurnId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, micros};
use crate::{Error, Store};

/// An event of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Reserved by [`Store::reserve_chat_events`].
    pub id: u64,
    pub turn: Option<TurnId>,
    pub kind: String,
    /// A JSON object without `type`, `chatId`, `turnId` and `at`.
    pub data: String,
    pub at: Timestamp,
}

impl Store {
    /// Events of a chat after an id, the oldest first.
    pub async fn chat_events(&self, chat: &ChatId, after: u64, limit: u32) -> Result<Vec<EventRow>, Error> {
        let rows = sqlx::query("select * from chat_events where chat = $1 and id > $2 order by id limit $3")
            .bind(chat.as_str())
            .bind(column::integer(after))
            .bind(limit)
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("read events of a chat", e))?.iter().map(decode).collect()
    }

    /// Id of the last event of a chat that was written; 0 if there is none.
    pub async fn last_chat_event(&self, chat: &ChatId) -> Result<u64, Error> {
        let id: i64 = sqlx::query_scalar("select coalesce(max(id), 0) from chat_events where chat = $1")
            .bind(chat.as_str())
            .fetch_one(self.reader())
            .await
            .map_err(|e| Error::query("read the last event of a chat", e))?;
        u64::try_from(id).map_err(|e| Error::decode("id", e))
    }
}

pub(crate) async fn insert(connection: &mut SqliteConnection, chat: &ChatId, event: &EventRow) -> Result<(), Error> {
    sqlx::query("insert into chat_events (chat, id, turn, kind, data, at) values ($1, $2, $3, $4, $5, $6)")
        .bind(chat.as_str())
        .bind(column::integer(event.id))
        .bind(event.turn.as_ref().map(|id| id.as_str()))
        .bind(&event.kind)
        .bind(&event.data)
        .bind(micros(event.at))
        .execute(connection)
        .await
        .map_err(|e| Error::query("write an event of a chat", e))?;
    Ok(())
}

fn decode(row: &SqliteRow) -> Result<EventRow, Error> {
    let row = Columns(row);
    Ok(EventRow {
        id: row.number("id")?,
        turn: row.id_or_none("turn")?,
        kind: row.text("kind")?,
        data: row.text("data")?,
        at: row.time("at")?,
    })
}
