//! The activity log of sandboxes: the events under fewer names (`create`, `update`, `timeout`, `delete`).

use cabana_types::{ProjectId, SandboxId, TeamId};
use jiff::Timestamp;
use sqlx::{QueryBuilder, Sqlite};

use crate::column::{Columns, micros};
use crate::{Error, Order, Store, event, project};

/// The total is counted up to this number.
pub const MAX_COUNTED: u32 = 10_000;

/// An entry of the activity log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Id of the event.
    pub id: String,
    /// `create`, `update`, `timeout` or `delete`.
    pub name: String,
    /// Whether it is the result of a failure.
    pub failed: bool,
    /// Cause, for people.
    pub reason: String,
    /// Time of the event.
    pub at: Timestamp,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Its template.
    pub template: String,
    /// The template's alias at that time.
    pub alias: Option<String>,
}

/// Filter and page of the activity log.
#[derive(Debug, Clone)]
pub struct ActivityQuery {
    /// Owner of the sandboxes.
    pub team: TeamId,
    /// Only of these projects; `None`: of all.
    pub projects: Option<Vec<ProjectId>>,
    /// Only this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only sandboxes of this template.
    pub template: Option<String>,
    /// Only these names; empty for all.
    pub names: Vec<String>,
    /// Only failures, or only successes.
    pub failed: Option<bool>,
    /// Earliest time, inclusive.
    pub from: Option<Timestamp>,
    /// Latest time, inclusive.
    pub until: Option<Timestamp>,
    /// Oldest or newest first.
    pub order: Order,
    /// Entries to skip.
    pub offset: u32,
    /// Page size.
    pub limit: u32,
}

impl Store {
    /// A page and the total, counted up to [`MAX_COUNTED`].
    pub async fn activity(&self, query: &ActivityQuery) -> Result<(Vec<Activity>, u64), Error> {
        let mut sql = QueryBuilder::new("select * from (");
        select(&mut sql, query);
        sql.push(match query.order {
            Order::Ascending => " order by seq asc",
            Order::Descending => " order by seq desc",
        });
        sql.push(" limit ").push_bind(query.limit).push(" offset ").push_bind(query.offset);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("list activity", e))?;
        let mut sql = QueryBuilder::new("select count(*) from (select 1 from (");
        select(&mut sql, query);
        sql.push(" limit ").push_bind(MAX_COUNTED).push(")");
        let total: i64 =
            sql.build_query_scalar().fetch_one(self.reader()).await.map_err(|e| Error::query("count activity", e))?;
        let rows = rows.iter().map(|row| {
            let row = Columns(row);
            Ok(Activity {
                id: row.text("id")?,
                name: row.text("name")?,
                failed: row.flag("failed")?,
                reason: row.text("reason")?,
                at: row.time("at")?,
                sandbox: row.id("sandbox")?,
                template: row.text("template")?,
                alias: row.text_or_none("alias")?,
            })
        });
        Ok((rows.collect::<Result<_, Error>>()?, u64::try_from(total).map_err(|e| Error::decode("count", e))?))
    }
}

/// The inner selection and its conditions, up to the order.
fn select(sql: &mut QueryBuilder<Sqlite>, query: &ActivityQuery) {
    sql.push(
        "select e.seq, e.id, e.at, e.sandbox, s.template, s.alias, coalesce(e.data ->> 'reason', '') as reason,
            case
                when e.kind = 'sandbox.lifecycle.created' then 'create'
                when e.kind = 'sandbox.lifecycle.updated' then 'update'
                when e.data ->> '$.cause.kind' = 'create_failed' then 'create'
                when e.data ->> '$.cause.kind' = 'expired' then 'timeout'
                else 'delete'
            end as name,
            e.kind = 'sandbox.lifecycle.killed' and e.data ->> '$.cause.kind' not in ('killed', 'expired')
                or e.kind = 'sandbox.lifecycle.updated' and e.data ->> 'reason' = 'oom' as failed
         from events e join sandboxes s on s.id = e.sandbox where e.kind in (",
    );
    let mut kinds = sql.separated(", ");
    for kind in [event::CREATED, event::UPDATED, event::KILLED] {
        kinds.push_bind(kind);
    }
    sql.push(") and e.team = ").push_bind(query.team.as_str().to_owned());
    project::push_filter(sql, "s.project", query.projects.as_deref());
    if let Some(sandbox) = &query.sandbox {
        sql.push(" and e.sandbox = ").push_bind(sandbox.as_str().to_owned());
    }
    if let Some(template) = &query.template {
        sql.push(" and s.template = ").push_bind(template.clone());
    }
    if let Some(from) = query.from {
        sql.push(" and e.at >= ").push_bind(micros(from));
    }
    if let Some(until) = query.until {
        sql.push(" and e.at < ").push_bind(micros(until) + 1_000_000);
    }
    sql.push(") where true");
    if !query.names.is_empty() {
        sql.push(" and name in (");
        let mut names = sql.separated(", ");
        for name in &query.names {
            names.push_bind(name.clone());
        }
        sql.push(")");
    }
    if let Some(failed) = query.failed {
        sql.push(" and failed = ").push_bind(failed);
    }
}
