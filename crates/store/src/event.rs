//! What happened to sandboxes, written in the transaction that made it happen.

use cabana_types::{BuildId, SandboxId, TeamId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{Columns, json, micros};
use crate::delivery::{self, Fresh};
use crate::{Error, Order, Store};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: &str = $text;)*

        /// Every kind, in the order of this file.
        pub const KINDS: &[&str] = &[$($name),*];
    };
}

kinds! {
    /// Somebody asked for a sandbox.
    REQUESTED = "sandbox.lifecycle.requested";
    /// It came up.
    CREATED = "sandbox.lifecycle.created";
    /// Something about it changed while it ran; `reason` is `timeout`, `resize` or `oom`.
    UPDATED = "sandbox.lifecycle.updated";
    /// It is to be paused; `cause` says why.
    PAUSING = "sandbox.lifecycle.pausing";
    /// It sleeps; `pauseMode` says how it is kept.
    PAUSED = "sandbox.lifecycle.paused";
    /// It is to be woken.
    RESUMING = "sandbox.lifecycle.resuming";
    /// It is up again.
    RESUMED = "sandbox.lifecycle.resumed";
    /// It could not be paused, resumed or archived, and is as before; `reason` says why.
    UNCHANGED = "sandbox.lifecycle.unchanged";
    /// It slept with its memory, and that is gone; its disk is there.
    MEMORY_LOST = "sandbox.lifecycle.memory_lost";
    /// A copy of its disk was made.
    SNAPSHOTTED = "sandbox.lifecycle.snapshotted";
    /// Its disk is on its way to cold storage.
    ARCHIVING = "sandbox.lifecycle.archiving";
    /// Its disk is in cold storage alone.
    ARCHIVED = "sandbox.lifecycle.archived";
    /// Its disk came back from cold storage.
    RESTORED = "sandbox.lifecycle.restored";
    /// It ended by itself; its disk is kept for a while.
    FAILED = "sandbox.lifecycle.failed";
    /// It is to be removed; `cause` says why.
    ENDING = "sandbox.lifecycle.ending";
    /// Nothing of it is left; `cause` says why.
    KILLED = "sandbox.lifecycle.killed";
}

/// Events kept of one sandbox; the oldest make room.
pub const MAX_PER_SANDBOX: u32 = 200;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id, a UUID in order of time.
    pub id: String,
    /// One of the kinds of this module.
    pub kind: String,
    /// Details.
    pub data: Value,
    /// When.
    pub at: Timestamp,
    /// To which sandbox.
    pub sandbox: SandboxId,
    /// Its team.
    pub team: TeamId,
    /// Its template.
    pub template: String,
    /// Its build.
    pub build: BuildId,
}

/// Which events to read.
#[derive(Debug, Clone)]
pub struct EventQuery {
    /// Whose.
    pub team: TeamId,
    /// Of one sandbox only.
    pub sandbox: Option<SandboxId>,
    /// Of these kinds only, if any is named.
    pub kinds: Vec<String>,
    /// Not before this time.
    pub from: Option<Timestamp>,
    /// Not after this time.
    pub until: Option<Timestamp>,
    /// Oldest or newest first.
    pub order: Order,
    /// Events to skip.
    pub offset: u32,
    /// Events to return at most.
    pub limit: u32,
}

impl Store {
    /// Reads events.
    pub async fn events(&self, query: &EventQuery) -> Result<Vec<Event>, Error> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new(
            "select e.id, e.kind, e.data, e.at, e.sandbox, e.team, s.template, s.build
             from events e join sandboxes s on s.id = e.sandbox where e.team = ",
        );
        sql.push_bind(query.team.as_str().to_owned());
        if let Some(sandbox) = &query.sandbox {
            sql.push(" and e.sandbox = ").push_bind(sandbox.as_str().to_owned());
        }
        if !query.kinds.is_empty() {
            sql.push(" and e.kind in (");
            let mut list = sql.separated(", ");
            for kind in &query.kinds {
                list.push_bind(kind.clone());
            }
            sql.push(")");
        }
        if let Some(from) = query.from {
            sql.push(" and e.at >= ").push_bind(micros(from));
        }
        if let Some(until) = query.until {
            sql.push(" and e.at <= ").push_bind(micros(until));
        }
        sql.push(match query.order {
            Order::Ascending => " order by e.seq asc",
            Order::Descending => " order by e.seq desc",
        });
        sql.push(" limit ").push_bind(query.limit).push(" offset ").push_bind(query.offset);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("list events", e))?;
        rows.iter()
            .map(|row| {
                let row = Columns(row);
                Ok(Event {
                    id: row.text("id")?,
                    kind: row.text("kind")?,
                    data: row.json("data")?,
                    at: row.time("at")?,
                    sandbox: row.id("sandbox")?,
                    team: row.id("team")?,
                    template: row.text("template")?,
                    build: row.id("build")?,
                })
            })
            .collect()
    }

    /// Notes something about a running sandbox. Repeated notes of one reason replace each other while nothing else comes
    /// between, so that a busy client does not push the sandbox's history out.
    pub async fn note(
        &self,
        sandbox: SandboxId,
        reason: &'static str,
        details: Value,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let team: Option<String> = sqlx::query_scalar("select team from sandboxes where id = $1")
                    .bind(sandbox.as_str())
                    .fetch_optional(&mut *connection)
                    .await
                    .map_err(|e| Error::query("read a sandbox", e))?;
                let team = team.ok_or_else(|| Error::NoSandbox(sandbox.clone()))?.parse()?;
                updated(connection, &sandbox, &team, reason, details, at).await
            })
        })
        .await
    }
}

/// Writes an event, also for the webhooks that want it, and drops the oldest beyond the bound.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    sandbox: &SandboxId,
    team: &TeamId,
    kind: &'static str,
    data: &Value,
    at: Timestamp,
) -> Result<(), Error> {
    let (id, data) = (uuid::Uuid::now_v7().to_string(), json("data", data)?);
    sqlx::query("insert into events (id, sandbox, team, kind, data, at) values ($1, $2, $3, $4, $5, $6)")
        .bind(&id)
        .bind(sandbox.as_str())
        .bind(team.as_str())
        .bind(kind)
        .bind(&data)
        .bind(micros(at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("write an event", e))?;
    sqlx::query(
        "delete from events where sandbox = $1
         and seq <= (select seq from events where sandbox = $1 order by seq desc limit 1 offset $2)",
    )
    .bind(sandbox.as_str())
    .bind(MAX_PER_SANDBOX)
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("drop old events", e))?;
    delivery::enqueue(connection, &Fresh { id: &id, kind, data: &data, at: micros(at), sandbox, team }, None).await
}

/// Writes an [`UPDATED`] event, or replaces the last one if it has the same reason. The new one has an id of its own,
/// so that webhooks that got the old one get it too.
pub(crate) async fn updated(
    connection: &mut SqliteConnection,
    sandbox: &SandboxId,
    team: &TeamId,
    reason: &'static str,
    mut details: Value,
    at: Timestamp,
) -> Result<(), Error> {
    if let Value::Object(map) = &mut details {
        map.insert("reason".into(), reason.into());
    }
    let last: Option<String> = sqlx::query_scalar(
        "select id from events
         where seq = (select max(seq) from events where sandbox = $1) and kind = $2 and data ->> 'reason' = $3",
    )
    .bind(sandbox.as_str())
    .bind(UPDATED)
    .bind(reason)
    .fetch_optional(&mut *connection)
    .await
    .map_err(|e| Error::query("read the last event", e))?;
    let Some(last) = last else {
        return insert(connection, sandbox, team, UPDATED, &details, at).await;
    };
    let (id, data) = (uuid::Uuid::now_v7().to_string(), json("data", &details)?);
    sqlx::query("update events set id = $3, data = $4, at = $5 where sandbox = $1 and id = $2")
        .bind(sandbox.as_str())
        .bind(&last)
        .bind(&id)
        .bind(&data)
        .bind(micros(at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("replace an event", e))?;
    let fresh = Fresh { id: &id, kind: UPDATED, data: &data, at: micros(at), sandbox, team };
    delivery::enqueue(connection, &fresh, Some(&last)).await
}
