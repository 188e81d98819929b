//! Turns of chats.

use cabana_types::chat::{ChatTool, TurnLimits, Usage};
use cabana_types::turn::TurnState;
use cabana_types::{ChatId, MessageId, TeamId, TurnId};
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{self, Columns, micros};
use crate::{Error, Store};

/// A turn: a message of a person, and everything the model does until it has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRow {
    pub id: TurnId,
    pub chat: ChatId,
    /// Its number within the chat.
    pub seq: i64,
    /// The message that it began with.
    pub message: MessageId,
    pub state: TurnState,
    /// Why it failed or waits.
    pub reason: Option<String>,
    /// Whether a person wants it to stop. Never taken back.
    pub cancel: bool,
    pub model: String,
    /// The chat's if `None`.
    pub tools: Option<Vec<ChatTool>>,
    pub limits: TurnLimits,
    /// Calls of the model.
    pub steps: u32,
    /// How often the model was cut off.
    pub interruptions: u32,
    pub usage: Usage,
    /// Milliseconds in which it ran; those in which it waited do not count.
    pub busy_ms: u64,
    /// The beginning of its message.
    pub prompt: String,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl Store {
    /// A turn.
    pub async fn turn(&self, id: &TurnId) -> Result<Option<TurnRow>, Error> {
        let row =
            sqlx::query("select * from turns where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read a turn", e))?.as_ref().map(decode).transpose()
    }

    /// The turns that these messages belong to, in their order. All are of one chat, and as many as a page shows.
    pub async fn turns_of(&self, messages: &[MessageId]) -> Result<Vec<TurnRow>, Error> {
        if messages.is_empty() {
            return Ok(vec![]);
        }
        let mut sql: QueryBuilder<Sqlite> =
            QueryBuilder::new("select * from turns where id in (select turn from messages where id in (");
        let mut list = sql.separated(", ");
        for id in messages {
            list.push_bind(id.as_str().to_owned());
        }
        sql.push(")) order by seq");
        let rows = sql.build().fetch_all(self.reader()).await;
        rows.map_err(|e| Error::query("list the turns of messages", e))?.iter().map(decode).collect()
    }

    /// The turns of a chat that have not ended, in their order.
    pub async fn open_turns_of(&self, chat: &ChatId) -> Result<Vec<TurnRow>, Error> {
        let rows = sqlx::query(
            "select * from turns where chat = $1 and state in ('queued', 'running', 'waiting') order by seq",
        )
        .bind(chat.as_str())
        .fetch_all(self.reader())
        .await;
        rows.map_err(|e| Error::query("list the turns of a chat", e))?.iter().map(decode).collect()
    }

    /// The turns of all chats that have not ended; those of one chat are in their order.
    pub async fn open_turns(&self) -> Result<Vec<TurnRow>, Error> {
        let rows =
            sqlx::query("select * from turns where state in ('queued', 'running', 'waiting') order by chat, seq")
                .fetch_all(self.reader())
                .await;
        rows.map_err(|e| Error::query("list turns", e))?.iter().map(decode).collect()
    }

    /// Number of a team's turns that run. Those that wait do not count.
    pub async fn running_turns(&self, team: &TeamId) -> Result<u32, Error> {
        let count: i64 = sqlx::query_scalar(
            "select count(*) from turns where state in ('queued', 'running', 'waiting') and state = 'running'
                and (select team from chats where chats.id = turns.chat) = $1",
        )
        .bind(team.as_str())
        .fetch_one(self.reader())
        .await
        .map_err(|e| Error::query("count turns", e))?;
        u32::try_from(count).map_err(|e| Error::decode("count", e))
    }
}

/// Inserts a turn after all others of the chat.
pub(crate) async fn insert(connection: &mut SqliteConnection, chat: &ChatId, turn: &TurnRow) -> Result<(), Error> {
    write(
        connection,
        chat,
        turn,
        "insert into turns (id, chat, seq, message, state, reason, cancel, model, tools, limits, steps, interruptions, usage,
            busy_ms, prompt, started_at, ended_at, created_at)
         values ($1, $2, (select coalesce(max(seq), 0) + 1 from turns where chat = $2), $3, $4, $5, $6, $7, $8, $9, $10, $11,
            $12, $13, $14, $15, $16, $17)",
    )
    .await
}

/// Replaces everything of a turn but its number and when it was made. A cancel stays.
pub(crate) async fn set(connection: &mut SqliteConnection, chat: &ChatId, turn: &TurnRow) -> Result<(), Error> {
    write(
        connection,
        chat,
        turn,
        "update turns set message = $3, state = $4, reason = $5, cancel = max(cancel, $6), model = $7, tools = $8, limits = $9,
            steps = $10, interruptions = $11, usage = $12, busy_ms = $13, prompt = $14, started_at = $15, ended_at = $16
         where id = $1 and chat = $2",
    )
    .await
}

async fn write(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    turn: &TurnRow,
    sql: &'static str,
) -> Result<(), Error> {
    let done = sqlx::query(sql)
        .bind(turn.id.as_str())
        .bind(chat.as_str())
        .bind(turn.message.as_str())
        .bind(turn.state.as_str())
        .bind(&turn.reason)
        .bind(turn.cancel)
        .bind(&turn.model)
        .bind(column::json_or_none("tools", turn.tools.as_ref())?)
        .bind(column::json("limits", &turn.limits)?)
        .bind(turn.steps)
        .bind(turn.interruptions)
        .bind(column::json("usage", &turn.usage)?)
        .bind(column::integer(turn.busy_ms))
        .bind(&turn.prompt)
        .bind(turn.started_at.map(micros))
        .bind(turn.ended_at.map(micros))
        .bind(micros(turn.created_at))
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a turn", e))?;
    if done.rows_affected() == 0 { Err(Error::NoTurn(turn.id.clone())) } else { Ok(()) }
}

/// Takes a turn out of the queue; its message is deleted with it.
pub(crate) async fn remove(connection: &mut SqliteConnection, chat: &ChatId, id: &TurnId) -> Result<(), Error> {
    let state: Option<String> = sqlx::query_scalar("select state from turns where id = $1 and chat = $2")
        .bind(id.as_str())
        .bind(chat.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(|e| Error::query("read a turn", e))?;
    match state.as_deref().map(TurnState::parse) {
        None => return Err(Error::NoTurn(id.clone())),
        Some(Some(TurnState::Queued)) => {}
        Some(_) => return Err(Error::NotQueued(id.clone())),
    }
    sqlx::query("delete from turns where id = $1")
        .bind(id.as_str())
        .execute(connection)
        .await
        .map_err(|e| Error::query("remove a turn", e))?;
    Ok(())
}

fn decode(row: &SqliteRow) -> Result<TurnRow, Error> {
    let row = Columns(row);
    Ok(TurnRow {
        id: row.id("id")?,
        chat: row.id("chat")?,
        seq: row.integer("seq")?,
        message: row.id("message")?,
        state: row.word("state", TurnState::parse)?,
        reason: row.text_or_none("reason")?,
        cancel: row.flag("cancel")?,
        model: row.text("model")?,
        tools: row.json_or_none("tools")?,
        limits: row.json("limits")?,
        steps: row.number("steps")?,
        interruptions: row.number("interruptions")?,
        usage: row.json("usage")?,
        busy_ms: row.number("busy_ms")?,
        prompt: row.text("prompt")?,
        created_at: row.time("created_at")?,
        started_at: row.time_or_none("started_at")?,
        ended_at: row.time_or_none("ended_at")?,
    })
}
