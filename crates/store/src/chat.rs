//! Chats: their rows, the list of a team's chats, and what each of them does.

mod commit;
mod request;
mod row;
mod sandbox;

use cabana_types::chat::{ChatStatus, ChatTool, Usage};
use cabana_types::{ActorId, AgentId, ChatId, ProjectId, SandboxId, TeamId};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sqlx::{QueryBuilder, Sqlite};

pub use self::commit::{ChatChange, ChatCommit, ChatCommitted};
pub use self::request::ChatRequest;
use self::row::{STATUS, decode};
pub use self::sandbox::ChatSandboxRow;
use crate::column::{self, Columns, micros};
use crate::{Error, Store, project};

/// A chat.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRow {
    pub id: ChatId,
    pub team: TeamId,
    pub project: ProjectId,
    pub title: String,
    /// Whether a person chose the title, or a model was asked for it.
    pub titled: bool,
    /// It may be gone.
    pub agent: Option<AgentId>,
    pub model: String,
    /// The agent's or the default ones if `None`.
    pub tools: Option<Vec<ChatTool>>,
    pub metadata: Map<String, Value>,
    /// The chat that it was forked from, which may be gone.
    pub parent: Option<ChatId>,
    pub usage: Usage,
    pub context_tokens: u64,
    pub context_window: u64,
    /// Names of tools that run without asking.
    pub always: Vec<String>,
    pub summary: Option<Summary>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub created_by: Option<ActorId>,
}

/// What stands for the oldest messages when the model is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Position of the last of these messages.
    pub until: i64,
    pub text: String,
}

/// Filter and page of chats.
#[derive(Debug, Clone)]
pub struct ChatQuery {
    pub team: TeamId,
    /// Only of these projects; `None`: of all.
    pub projects: Option<Vec<ProjectId>>,
    pub status: Option<ChatStatus>,
    /// Only with this text in the title or in a message; case does not matter.
    pub text: Option<String>,
    /// Continue after this chat.
    pub before: Option<(Timestamp, ChatId)>,
    pub limit: u32,
}

impl Store {
    /// A chat.
    pub async fn chat(&self, id: &ChatId) -> Result<Option<ChatRow>, Error> {
        let row =
            sqlx::query("select * from chats where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read a chat", e))?.as_ref().map(decode).transpose()
    }

    /// Chats of a team, the last changed first.
    pub async fn chats(&self, query: &ChatQuery) -> Result<Vec<(ChatRow, ChatStatus)>, Error> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select * from (select chats.*, ");
        sql.push(STATUS).push(" as status from chats where team = ").push_bind(query.team.as_str().to_owned());
        project::push_filter(&mut sql, query.projects.as_deref());
        if let Some((at, id)) = &query.before {
            sql.push(" and (updated_at, id) < (").push_bind(micros(*at)).push(", ");
            sql.push_bind(id.as_str().to_owned()).push(")");
        }
        if let Some(text) = &query.text {
            let text = text.to_lowercase();
            sql.push(" and (instr(folded, ").push_bind(text.clone());
            sql.push(
                ") > 0 or exists (select 1 from messages where chat = chats.id and removed = 0 and instr(folded, ",
            )
            .push_bind(text)
            .push(") > 0))");
        }
        sql.push(") as listed");
        if let Some(status) = query.status {
            sql.push(" where status = ").push_bind(status.as_str());
        }
        sql.push(" order by updated_at desc, id desc limit ").push_bind(query.limit);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("list chats", e))?;
        rows.iter().map(|row| Ok((decode(row)?, Columns(row).word("status", ChatStatus::parse)?))).collect()
    }

    /// What a chat does: `waiting` if a turn of it is, `running` if one runs or is queued, `failed` if its last turn was, else `idle`.
    /// Turns that were taken back do not count.
    pub async fn chat_status(&self, id: &ChatId) -> Result<ChatStatus, Error> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select ");
        sql.push(STATUS).push(" as status from chats where id = ").push_bind(id.as_str().to_owned());
        let row = sql.build().fetch_optional(self.reader()).await.map_err(|e| Error::query("read a chat", e))?;
        row.map_or(Ok(ChatStatus::Idle), |row| Columns(&row).word("status", ChatStatus::parse))
    }

    /// Reserves ids of events of a chat and returns the first one. An id is never reserved twice.
    pub async fn reserve_chat_events(&self, id: &ChatId, count: u64) -> Result<u64, Error> {
        let id = id.clone();
        self.write(move |connection| {
            Box::pin(async move {
                let next: Option<i64> = sqlx::query_scalar(
                    "update chats set event_next = event_next + $2 where id = $1 returning event_next",
                )
                .bind(id.as_str())
                .bind(column::integer(count))
                .fetch_optional(connection)
                .await
                .map_err(|e| Error::query("reserve ids of events", e))?;
                let next = next.ok_or(Error::NoChat(id))?;
                u64::try_from(next.saturating_sub(column::integer(count))).map_err(|e| Error::decode("event_next", e))
            })
        })
        .await
    }

    /// Deletes a chat with everything that belongs to it, and returns its sandboxes.
    pub async fn delete_chat(&self, id: ChatId) -> Result<Vec<SandboxId>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let sandboxes: Vec<String> =
                    sqlx::query_scalar("select sandbox from chat_sandboxes where chat = $1 order by created_at, name")
                        .bind(id.as_str())
                        .fetch_all(&mut *connection)
                        .await
                        .map_err(|e| Error::query("list the sandboxes of a chat", e))?;
                sqlx::query("delete from chats where id = $1")
                    .bind(id.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete a chat", e))?;
                sandboxes.into_iter().map(|text| Ok(text.parse()?)).collect()
            })
        })
        .await
    }
}
