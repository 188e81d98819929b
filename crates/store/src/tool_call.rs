//! Calls of agent tools whose result is asked for later.

use cabana_types::{CallId, SandboxId, TeamId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Store};

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub id: CallId,
    pub team: TeamId,
    pub sandbox: SandboxId,
    pub tool: String,
    /// The caller's idempotency key.
    pub key: Option<String>,
    /// Digest of what was asked for.
    pub digest: [u8; 32],
    /// The result as JSON; `None` while the call runs, or if the server ended before it did.
    pub result: Option<String>,
    pub created_at: Timestamp,
    /// When it may be forgotten.
    pub expires_at: Timestamp,
}

impl Store {
    /// Inserts a call before it begins. If its key was used before, returns that call instead. Of the team's calls that have ended, only
    /// the newest `most` are kept.
    pub async fn begin_tool_call(&self, call: ToolCall, most: u32) -> Result<Option<ToolCall>, Error> {
        self.write(move |connection| Box::pin(async move { begin(connection, call, most).await })).await
    }

    /// Writes the result of a call.
    pub async fn end_tool_call(&self, id: CallId, result: String, expires_at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("update tool_calls set result = $2, expires_at = max(expires_at, $3) where id = $1")
                    .bind(id.as_str())
                    .bind(result)
                    .bind(micros(expires_at))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("end a tool call", e))?;
                Ok(())
            })
        })
        .await
    }

    /// A call.
    pub async fn tool_call(&self, id: &CallId) -> Result<Option<ToolCall>, Error> {
        let row =
            sqlx::query("select * from tool_calls where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read a tool call", e))?.as_ref().map(decode).transpose()
    }

    /// Forgets calls that have expired. Returns how many.
    pub async fn remove_expired_tool_calls(&self, now: Timestamp) -> Result<u64, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from tool_calls where expires_at <= $1")
                    .bind(micros(now))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("remove tool calls", e))?;
                Ok(done.rows_affected())
            })
        })
        .await
    }
}

async fn begin(connection: &mut SqliteConnection, call: ToolCall, most: u32) -> Result<Option<ToolCall>, Error> {
    if let Some(key) = &call.key {
        let row = sqlx::query("select * from tool_calls where team = $1 and key = $2")
            .bind(call.team.as_str())
            .bind(key)
            .fetch_optional(&mut *connection)
            .await
            .map_err(|e| Error::query("find a tool call", e))?;
        match row.as_ref().map(decode).transpose()? {
            Some(earlier) if earlier.expires_at > call.created_at => return Ok(Some(earlier)),
            Some(expired) => {
                sqlx::query("delete from tool_calls where id = $1")
                    .bind(expired.id.as_str())
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("remove a tool call", e))?;
            }
            None => {}
        }
    }
    sqlx::query(
        "delete from tool_calls where team = $1 and result is not null and created_at <= (select created_at from tool_calls
            where team = $1 and result is not null order by created_at desc limit 1 offset $2)",
    )
    .bind(call.team.as_str())
    .bind(most)
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("remove tool calls", e))?;
    sqlx::query(
        "insert into tool_calls (id, team, sandbox, tool, key, digest, result, created_at, expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(call.id.as_str())
    .bind(call.team.as_str())
    .bind(call.sandbox.as_str())
    .bind(call.tool)
    .bind(call.key)
    .bind(call.digest.to_vec())
    .bind(call.result)
    .bind(micros(call.created_at))
    .bind(micros(call.expires_at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("insert a tool call", e))?;
    Ok(None)
}

fn decode(row: &SqliteRow) -> Result<ToolCall, Error> {
    let row = Columns(row);
    Ok(ToolCall {
        id: row.id("id")?,
        team: row.id("team")?,
        sandbox: row.id("sandbox")?,
        tool: row.text("tool")?,
        key: row.text_or_none("key")?,
        digest: row.bytes("digest")?.try_into().map_err(|_| Error::decode("digest", "not 32 bytes long"))?,
        result: row.text_or_none("result")?,
        created_at: row.time("created_at")?,
        expires_at: row.time("expires_at")?,
    })
}
