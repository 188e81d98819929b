//! Requests that may be repeated: a key stands for one request, and its repetition gets the first one's answer.

use cabana_types::{ChatId, TeamId, TurnId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::ChatCommitted;
use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A request that may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRequest {
    /// The caller's idempotency key.
    pub key: String,
    /// Digest of what was asked for.
    pub digest: [u8; 32],
    /// The turn that it begins.
    pub turn: Option<TurnId>,
    /// When it may be forgotten.
    pub expires_at: Timestamp,
}

impl Store {
    /// What an earlier request with this key did; `None` if there was none.
    pub async fn earlier_chat_request(
        &self,
        team: &TeamId,
        request: &ChatRequest,
    ) -> Result<Option<ChatCommitted>, Error> {
        let mut connection = self.reader().acquire().await.map_err(|e| Error::query("find a request of a chat", e))?;
        earlier(&mut connection, team, request, Timestamp::now()).await
    }

    /// Forgets requests that have expired. Returns how many.
    pub async fn remove_expired_chat_requests(&self, now: Timestamp) -> Result<u64, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from chat_requests where expires_at <= $1")
                    .bind(micros(now))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("remove requests of chats", e))?;
                Ok(done.rows_affected())
            })
        })
        .await
    }
}

/// What an earlier request with this key did, unless it has expired.
pub(super) async fn earlier(
    connection: &mut SqliteConnection,
    team: &TeamId,
    request: &ChatRequest,
    now: Timestamp,
) -> Result<Option<ChatCommitted>, Error> {
    let row = sqlx::query("select * from chat_requests where team = $1 and key = $2 and expires_at > $3")
        .bind(team.as_str())
        .bind(&request.key)
        .bind(micros(now))
        .fetch_optional(connection)
        .await
        .map_err(|e| Error::query("find a request of a chat", e))?;
    let Some(row) = row else { return Ok(None) };
    let row = Columns(&row);
    if row.bytes("digest")? != request.digest {
        return Ok(Some(ChatCommitted::Mismatch));
    }
    Ok(Some(ChatCommitted::Earlier { chat: row.id("chat")?, turn: row.id_or_none("turn")? }))
}

/// Remembers a request, in the place of an expired one.
pub(super) async fn remember(
    connection: &mut SqliteConnection,
    team: &TeamId,
    chat: &ChatId,
    request: &ChatRequest,
) -> Result<(), Error> {
    sqlx::query(
        "insert into chat_requests (team, key, digest, chat, turn, expires_at) values ($1, $2, $3, $4, $5, $6)
         on conflict (team, key) do update set digest = $3, chat = $4, turn = $5, expires_at = $6",
    )
    .bind(team.as_str())
    .bind(&request.key)
    .bind(request.digest.to_vec())
    .bind(chat.as_str())
    .bind(request.turn.as_ref().map(|id| id.as_str()))
    .bind(micros(request.expires_at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a request of a chat", e))?;
    Ok(())
}
