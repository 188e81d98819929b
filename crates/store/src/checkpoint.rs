//! Checkpoints: the files of a chat as they were before a turn.

use cabana_types::{ChatId, MessageId, TemplateId, TurnId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRow {
    pub chat: ChatId,
    /// The turn that it was taken before, or at whose restoring.
    pub turn: TurnId,
    /// `turn` or `restore`.
    pub kind: String,
    pub snapshot: TemplateId,
    /// The first position of a message that restoring removes.
    pub position: i64,
    /// The first message that restoring removes.
    pub message: Option<MessageId>,
    pub label: String,
    pub created_at: Timestamp,
}

impl Store {
    /// The checkpoints of a chat, the newest first.
    pub async fn checkpoints(&self, chat: &ChatId) -> Result<Vec<CheckpointRow>, Error> {
        let rows = sqlx::query("select * from checkpoints where chat = $1 order by created_at desc, snapshot desc")
            .bind(chat.as_str())
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("list checkpoints", e))?.iter().map(decode).collect()
    }

    /// The checkpoint of a turn; the newest one, if there are several.
    pub async fn checkpoint(&self, chat: &ChatId, turn: &TurnId) -> Result<Option<CheckpointRow>, Error> {
        let row = sqlx::query(
            "select * from checkpoints where chat = $1 and turn = $2 order by created_at desc, snapshot desc limit 1",
        )
        .bind(chat.as_str())
        .bind(turn.as_str())
        .fetch_optional(self.reader())
        .await;
        row.map_err(|e| Error::query("read a checkpoint", e))?.as_ref().map(decode).transpose()
    }

    /// Forgets a checkpoint. Its snapshot is the caller's.
    pub async fn remove_checkpoint(&self, chat: ChatId, snapshot: TemplateId) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("delete from checkpoints where chat = $1 and snapshot = $2")
                    .bind(chat.as_str())
                    .bind(snapshot.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("remove a checkpoint", e))?;
                Ok(())
            })
        })
        .await
    }
}

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    chat: &ChatId,
    checkpoint: &CheckpointRow,
) -> Result<(), Error> {
    sqlx::query(
        "insert into checkpoints (chat, turn, kind, snapshot, position, message, label, created_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(chat.as_str())
    .bind(checkpoint.turn.as_str())
    .bind(&checkpoint.kind)
    .bind(checkpoint.snapshot.as_str())
    .bind(checkpoint.position)
    .bind(checkpoint.message.as_ref().map(|id| id.as_str()))
    .bind(&checkpoint.label)
    .bind(micros(checkpoint.created_at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a checkpoint", e))?;
    Ok(())
}

fn decode(row: &SqliteRow) -> Result<CheckpointRow, Error> {
    let row = Columns(row);
    Ok(CheckpointRow {
        chat: row.id("chat")?,
        turn: row.id("turn")?,
        kind: row.text("kind")?,
        snapshot: row.id("snapshot")?,
        position: row.integer("position")?,
        message: row.id_or_none("message")?,
        label: row.text("label")?,
        created_at: row.time("created_at")?,
    })
}
