//! Links by which anyone can read a chat. Only hashes of their names are stored.

use cabana_types::{ChatId, GrantId};
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A link to a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatShareRow {
    pub id: GrantId,
    /// SHA-256 of the name.
    pub hash: [u8; 32],
    pub chat: ChatId,
    /// Position of the last message that it shows; `None`: also those that come later.
    pub until: Option<i64>,
    /// Whether arguments and output of tools are shown.
    pub tool_details: bool,
    pub created_at: Timestamp,
    pub created_by: Option<String>,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    /// How often the page was opened.
    pub opened: u64,
    pub last_opened_at: Option<Timestamp>,
}

impl Store {
    /// Inserts a share. `false` if the chat has `most` that are valid.
    pub async fn insert_chat_share(&self, row: ChatShareRow, most: u32) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let valid: i64 = sqlx::query_scalar(
                    "select count(*) from chat_shares where chat = $1 and revoked_at is null and expires_at > $2",
                )
                .bind(row.chat.as_str())
                .bind(micros(row.created_at))
                .fetch_one(&mut *connection)
                .await
                .map_err(|e| Error::query("count shares", e))?;
                if valid >= i64::from(most) {
                    return Ok(false);
                }
                sqlx::query(
                    "insert into chat_shares (id, hash, chat, until, tool_details, created_at, created_by, expires_at)
                     values ($1, $2, $3, $4, $5, $6, $7, $8)",
                )
                .bind(row.id.as_str())
                .bind(row.hash.to_vec())
                .bind(row.chat.as_str())
                .bind(row.until)
                .bind(row.tool_details)
                .bind(micros(row.created_at))
                .bind(&row.created_by)
                .bind(micros(row.expires_at))
                .execute(connection)
                .await
                .map_err(|e| Error::query("write a share", e))?;
                Ok(true)
            })
        })
        .await
    }

    /// The shares of a chat, newest first, also those that have ended.
    pub async fn chat_shares(&self, chat: &ChatId) -> Result<Vec<ChatShareRow>, Error> {
        let rows = sqlx::query("select * from chat_shares where chat = $1 order by created_at desc, id limit 1000")
            .bind(chat.as_str())
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("list shares", e))?.iter().map(decode).collect()
    }

    /// Whether a chat has a share that is valid.
    pub async fn is_chat_shared(&self, chat: &ChatId, now: Timestamp) -> Result<bool, Error> {
        sqlx::query_scalar(
            "select exists (select 1 from chat_shares where chat = $1 and revoked_at is null and expires_at > $2)",
        )
        .bind(chat.as_str())
        .bind(micros(now))
        .fetch_one(self.reader())
        .await
        .map_err(|e| Error::query("look for shares", e))
    }

    /// The share with this name, if it is valid.
    pub async fn chat_share_of(&self, hash: [u8; 32], now: Timestamp) -> Result<Option<ChatShareRow>, Error> {
        let row = sqlx::query("select * from chat_shares where hash = $1 and revoked_at is null and expires_at > $2")
            .bind(hash.to_vec())
            .bind(micros(now))
            .fetch_optional(self.reader())
            .await;
        row.map_err(|e| Error::query("find a share", e))?.as_ref().map(decode).transpose()
    }

    /// Revokes a share of a chat. `false` if there is none; one that was revoked before stays so.
    pub async fn revoke_chat_share(&self, chat: ChatId, id: GrantId, at: Timestamp) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let sql = "update chat_shares set revoked_at = coalesce(revoked_at, $3) where id = $1 and chat = $2";
                let done = sqlx::query(sql).bind(id.as_str()).bind(chat.as_str()).bind(micros(at)).execute(connection);
                Ok(done.await.map_err(|e| Error::query("revoke a share", e))?.rows_affected() > 0)
            })
        })
        .await
    }

    /// Records that the page of a share was opened.
    pub async fn open_chat_share(&self, id: GrantId, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("update chat_shares set opened = opened + 1, last_opened_at = $2 where id = $1")
                    .bind(id.as_str())
                    .bind(micros(at))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("record the use of a share", e))?;
                Ok(())
            })
        })
        .await
    }

    /// Deletes shares that expired or were revoked before `before`.
    pub async fn remove_old_chat_shares(&self, before: Timestamp) -> Result<u64, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from chat_shares where expires_at < $1 or revoked_at < $1")
                    .bind(micros(before))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete old shares", e))?;
                Ok(done.rows_affected())
            })
        })
        .await
    }
}

fn decode(row: &SqliteRow) -> Result<ChatShareRow, Error> {
    let row = Columns(row);
    let hash = row.bytes("hash")?.try_into().map_err(|_| Error::decode("hash", "not 32 bytes long"))?;
    Ok(ChatShareRow {
        id: row.id("id")?,
        hash,
        chat: row.id("chat")?,
        until: row.number_or_none("until")?,
        tool_details: row.flag("tool_details")?,
        created_at: row.time("created_at")?,
        created_by: row.text_or_none("created_by")?,
        expires_at: row.time("expires_at")?,
        revoked_at: row.time_or_none("revoked_at")?,
        opened: row.number("opened")?,
        last_opened_at: row.time_or_none("last_opened_at")?,
    })
}
