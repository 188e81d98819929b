//! Lifecycle events of sandboxes, written in the transaction of the change that they describe.

use std::sync::Arc;

use cabana_types::{BuildId, ProjectId, SandboxId, TeamId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{Columns, json, micros};
use crate::delivery::{self, Fresh};
use crate::feed::{self, Change, NewEvent};
use crate::{Error, Order, Store, project};

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: &str = $text;)*

        /// Every kind, in the order of this file.
        pub const KINDS: &[&str] = &[$($name),*];
    };
}

kinds! {
    /// Creation was requested.
    REQUESTED = "sandbox.lifecycle.requested";
    /// It is running for the first time.
    CREATED = "sandbox.lifecycle.created";
    /// It changed while running; `reason` is `timeout`, `resize`, `network` or `oom`.
    UPDATED = "sandbox.lifecycle.updated";
    /// Pausing; `cause` says why.
    PAUSING = "sandbox.lifecycle.pausing";
    /// Paused; `pauseMode` says what is kept.
    PAUSED = "sandbox.lifecycle.paused";
    /// Resuming.
    RESUMING = "sandbox.lifecycle.resuming";
    /// Running again.
    RESUMED = "sandbox.lifecycle.resumed";
    /// A pause, resume or archive failed and its state is as before; `reason` says why.
    UNCHANGED = "sandbox.lifecycle.unchanged";
    /// The memory of a paused sandbox is lost; its disk is kept.
    MEMORY_LOST = "sandbox.lifecycle.memory_lost";
    /// A snapshot was taken.
    SNAPSHOTTED = "sandbox.lifecycle.snapshotted";
    /// Its disk is being archived.
    ARCHIVING = "sandbox.lifecycle.archiving";
    /// Its disk was archived and removed from the pool.
    ARCHIVED = "sandbox.lifecycle.archived";
    /// Its disk was restored from cold storage.
    RESTORED = "sandbox.lifecycle.restored";
    /// It stopped by itself; its disk is kept for some time.
    FAILED = "sandbox.lifecycle.failed";
    /// It is being removed; `cause` says why.
    ENDING = "sandbox.lifecycle.ending";
    /// It was removed; `cause` says why.
    KILLED = "sandbox.lifecycle.killed";
    /// Connections were denied by its egress policy; at most one a minute, with totals by rule.
    DENIED = "sandbox.network.denied";
}

/// Events kept per sandbox; beyond that the oldest are deleted.
pub const MAX_PER_SANDBOX: u32 = 200;

/// A lifecycle event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its id, a time-ordered UUID.
    pub id: String,
    /// One of the kinds of this module.
    pub kind: String,
    /// Details.
    pub data: Value,
    /// Time of the event.
    pub at: Timestamp,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Its team.
    pub team: TeamId,
    /// Its template.
    pub template: String,
    /// Its build.
    pub build: BuildId,
}

/// Filter and page of events.
#[derive(Debug, Clone)]
pub struct EventQuery {
    /// Owner of the sandboxes.
    pub team: TeamId,
    /// Only of these projects; `None`: of all.
    pub projects: Option<Vec<ProjectId>>,
    /// Only this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only these kinds; empty for all.
    pub kinds: Vec<String>,
    /// Earliest time, inclusive.
    pub from: Option<Timestamp>,
    /// Latest time, inclusive.
    pub until: Option<Timestamp>,
    /// Oldest or newest first.
    pub order: Order,
    /// Events to skip.
    pub offset: u32,
    /// Page size.
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
        project::push_filter(&mut sql, "s.project", query.projects.as_deref());
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

    /// Records an [`UPDATED`] event of a running sandbox. Consecutive events with the same reason replace each other,
    /// so that a busy client does not push out the sandbox's history.
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

/// Inserts an event, queues it for subscribed webhooks, and deletes the oldest beyond the limit.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    sandbox: &SandboxId,
    team: &TeamId,
    kind: &'static str,
    data: &Value,
    at: Timestamp,
) -> Result<(), Error> {
    let id = uuid::Uuid::now_v7().to_string();
    note(&id, sandbox, team, kind, data, at);
    let data = json("data", data)?;
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

/// Notes a new event for the listeners.
fn note(id: &str, sandbox: &SandboxId, team: &TeamId, kind: &'static str, data: &Value, at: Timestamp) {
    feed::note(|| {
        // As it is read from the store.
        let at = Timestamp::from_microsecond(micros(at)).unwrap_or(at);
        let (sandbox, team) = (sandbox.clone(), team.clone());
        Change::Event(Arc::new(NewEvent { id: id.to_owned(), kind, data: data.clone(), at, sandbox, team }))
    });
}

/// Inserts an [`UPDATED`] event, or replaces the last event if it has the same reason.
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
    replace_last(connection, sandbox, team, (UPDATED, Some(reason)), &details, at).await
}

/// Inserts an event, or replaces the last event if it has the same kind and reason. The replacement has a new id, so that
/// webhooks that got the old one get it too.
pub(crate) async fn replace_last(
    connection: &mut SqliteConnection,
    sandbox: &SandboxId,
    team: &TeamId,
    (kind, reason): (&'static str, Option<&'static str>),
    details: &Value,
    at: Timestamp,
) -> Result<(), Error> {
    let last: Option<String> = sqlx::query_scalar(
        "select id from events
         where seq = (select max(seq) from events where sandbox = $1) and kind = $2 and data ->> 'reason' is $3",
    )
    .bind(sandbox.as_str())
    .bind(kind)
    .bind(reason)
    .fetch_optional(&mut *connection)
    .await
    .map_err(|e| Error::query("read the last event", e))?;
    let Some(last) = last else {
        return insert(connection, sandbox, team, kind, details, at).await;
    };
    let id = uuid::Uuid::now_v7().to_string();
    note(&id, sandbox, team, kind, details, at);
    let data = json("data", details)?;
    sqlx::query("update events set id = $3, data = $4, at = $5 where sandbox = $1 and id = $2")
        .bind(sandbox.as_str())
        .bind(&last)
        .bind(&id)
        .bind(&data)
        .bind(micros(at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("replace an event", e))?;
    let fresh = Fresh { id: &id, kind, data: &data, at: micros(at), sandbox, team };
    delivery::enqueue(connection, &fresh, Some(&last)).await
}
