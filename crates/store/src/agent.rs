//! Agents: models with instructions and tools.

use cabana_types::chat::{ChatTool, TurnLimits};
use cabana_types::{ActorId, AgentId, TeamId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, micros};
use crate::{Error, Store};

/// An agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    pub id: AgentId,
    pub team: TeamId,
    /// One of its kind in the team.
    pub name: String,
    pub description: String,
    pub kind: String,
    /// The server's default if `None`.
    pub model: Option<String>,
    pub system: String,
    pub tools: Vec<ChatTool>,
    pub limits: TurnLimits,
    pub suggestions: Vec<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub created_by: Option<ActorId>,
}

/// Result of [`Store::insert_agent`] and [`Store::set_agent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentPut {
    Done,
    /// Another agent of the team has the name.
    Taken,
    /// There is none.
    Absent,
}

impl Store {
    /// Inserts an agent.
    pub async fn insert_agent(&self, agent: AgentRow) -> Result<AgentPut, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let sql =
                    "insert into agents (id, team, name, description, kind, model, system, tools, limits, suggestions,
                        updated_at, created_at, created_by)
                     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
                write(connection, &agent, sql).await
            })
        })
        .await
    }

    /// Replaces everything of an agent but who made it when.
    pub async fn set_agent(&self, agent: AgentRow) -> Result<AgentPut, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let sql = "update agents set name = $3, description = $4, kind = $5, model = $6, system = $7, tools = $8, limits = $9,
                        suggestions = $10, updated_at = $11
                     where id = $1 and team = $2";
                write(connection, &agent, sql).await
            })
        })
        .await
    }

    /// Deletes an agent. Chats keep its id. Returns whether there was one.
    pub async fn delete_agent(&self, id: AgentId) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from agents where id = $1")
                    .bind(id.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete an agent", e))?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// The agents of a team, by name.
    pub async fn agents(&self, team: &TeamId) -> Result<Vec<AgentRow>, Error> {
        let rows = sqlx::query("select * from agents where team = $1 order by name")
            .bind(team.as_str())
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("list agents", e))?.iter().map(decode).collect()
    }

    /// An agent.
    pub async fn agent(&self, id: &AgentId) -> Result<Option<AgentRow>, Error> {
        let row =
            sqlx::query("select * from agents where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read an agent", e))?.as_ref().map(decode).transpose()
    }

    /// The agent of a team that has this name.
    pub async fn agent_named(&self, team: &TeamId, name: &str) -> Result<Option<AgentRow>, Error> {
        let row = sqlx::query("select * from agents where team = $1 and name = $2")
            .bind(team.as_str())
            .bind(name)
            .fetch_optional(self.reader())
            .await;
        row.map_err(|e| Error::query("read an agent", e))?.as_ref().map(decode).transpose()
    }
}

async fn write(connection: &mut SqliteConnection, agent: &AgentRow, sql: &'static str) -> Result<AgentPut, Error> {
    let taken: bool =
        sqlx::query_scalar("select exists (select 1 from agents where team = $1 and name = $2 and id <> $3)")
            .bind(agent.team.as_str())
            .bind(&agent.name)
            .bind(agent.id.as_str())
            .fetch_one(&mut *connection)
            .await
            .map_err(|e| Error::query("look for the name of an agent", e))?;
    if taken {
        return Ok(AgentPut::Taken);
    }
    let done = sqlx::query(sql)
        .bind(agent.id.as_str())
        .bind(agent.team.as_str())
        .bind(&agent.name)
        .bind(&agent.description)
        .bind(&agent.kind)
        .bind(&agent.model)
        .bind(&agent.system)
        .bind(column::json("tools", &agent.tools)?)
        .bind(column::json("limits", &agent.limits)?)
        .bind(column::json("suggestions", &agent.suggestions)?)
        .bind(micros(agent.updated_at))
        .bind(micros(agent.created_at))
        .bind(agent.created_by.as_ref().map(|actor| actor.as_str()))
        .execute(connection)
        .await
        .map_err(|e| Error::query("write an agent", e))?;
    Ok(if done.rows_affected() == 0 { AgentPut::Absent } else { AgentPut::Done })
}

fn decode(row: &SqliteRow) -> Result<AgentRow, Error> {
    let row = Columns(row);
    Ok(AgentRow {
        id: row.id("id")?,
        team: row.id("team")?,
        name: row.text("name")?,
        description: row.text("description")?,
        kind: row.text("kind")?,
        model: row.text_or_none("model")?,
        system: row.text("system")?,
        tools: row.json("tools")?,
        limits: row.json("limits")?,
        suggestions: row.json("suggestions")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        created_by: row.actor_or_none("created_by")?,
    })
}
