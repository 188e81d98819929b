//! Keyset pagination of sandboxes: a page continues after the last row of the previous one, so that sandboxes
//! created or ended in between cause neither repeats nor gaps.

use std::collections::BTreeMap;

use cabana_types::{SandboxId, TeamId, TemplateId};
use jiff::Timestamp;
use sqlx::{QueryBuilder, Sqlite};

use crate::column::micros;
use crate::{Error, Sandbox, Store, sandbox};

/// Sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Oldest first.
    Ascending,
    /// Newest first.
    #[default]
    Descending,
}

/// Position of a page's last row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Start time of its last sandbox.
    pub started_at: Timestamp,
    /// Id of its last sandbox.
    pub id: SandboxId,
}

/// Groups of states in listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Running.
    Running,
    /// Paused, pausing, resuming or archiving.
    Paused,
    /// Failed; their disks are kept.
    Failed,
}

impl Group {
    fn states(self) -> &'static [&'static str] {
        match self {
            Group::Running => &["running"],
            Group::Paused => &["pausing", "paused", "resuming", "archiving"],
            Group::Failed => &["failed"],
        }
    }
}

/// Filter and page of sandboxes.
#[derive(Debug, Clone)]
pub struct SandboxQuery {
    /// Owner of the sandboxes.
    pub team: TeamId,
    /// In one of these states.
    pub groups: Vec<Group>,
    /// Only with all of this metadata.
    pub metadata: BTreeMap<String, String>,
    /// Only of this template.
    pub template: Option<TemplateId>,
    /// Only started after this time.
    pub started_after: Option<Timestamp>,
    /// Oldest or newest first.
    pub order: Order,
    /// Continue after this position.
    pub after: Option<Position>,
    /// Page size.
    pub limit: u32,
}

impl Store {
    /// Lists sandboxes that have been started and have not ended.
    pub async fn sandboxes(&self, query: &SandboxQuery) -> Result<Vec<Sandbox>, Error> {
        // This condition matches that of the partial index.
        let mut sql: QueryBuilder<Sqlite> =
            QueryBuilder::new("select * from sandboxes where state <> 'ended' and started_at is not null and team = ");
        sql.push_bind(query.team.as_str().to_owned());
        sql.push(" and state in (");
        let mut states = sql.separated(", ");
        for state in query.groups.iter().flat_map(|group| group.states()) {
            states.push_bind(*state);
        }
        sql.push(")");
        for (name, value) in &query.metadata {
            sql.push(" and exists (select 1 from json_each(metadata) m where m.key = ")
                .push_bind(name.clone())
                .push(" and m.value = ")
                .push_bind(value.clone())
                .push(")");
        }
        if let Some(template) = &query.template {
            sql.push(" and template = ").push_bind(template.as_str().to_owned());
        }
        if let Some(after) = query.started_after {
            sql.push(" and started_at > ").push_bind(micros(after));
        }
        if let Some(position) = &query.after {
            sql.push(match query.order {
                Order::Ascending => " and (started_at, id) > (",
                Order::Descending => " and (started_at, id) < (",
            });
            sql.push_bind(micros(position.started_at)).push(", ").push_bind(position.id.as_str().to_owned()).push(")");
        }
        sql.push(match query.order {
            Order::Ascending => " order by started_at asc, id asc",
            Order::Descending => " order by started_at desc, id desc",
        });
        sql.push(" limit ").push_bind(query.limit);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("list sandboxes", e))?;
        rows.iter().map(sandbox::decode).collect()
    }

    /// Number, virtual CPUs and memory (MiB) of a team's running sandboxes.
    pub async fn running_sums(&self, team: &TeamId) -> Result<(u64, u64, u64), Error> {
        let sums: (i64, i64, i64) = sqlx::query_as(
            "select count(*), coalesce(sum(cpu_count), 0), coalesce(sum(memory_mb), 0) from sandboxes
             where state = 'running' and team = $1",
        )
        .bind(team.as_str())
        .fetch_one(self.reader())
        .await
        .map_err(|e| Error::query("add up sandboxes", e))?;
        let read = |sum: i64| u64::try_from(sum).map_err(|e| Error::decode("sum", e));
        Ok((read(sums.0)?, read(sums.1)?, read(sums.2)?))
    }

    /// Number of a team's running sandboxes.
    pub async fn running_count(&self, team: &TeamId) -> Result<u64, Error> {
        let count: i64 = sqlx::query_scalar("select count(*) from sandboxes where state = 'running' and team = $1")
            .bind(team.as_str())
            .fetch_one(self.reader())
            .await
            .map_err(|e| Error::query("count sandboxes", e))?;
        u64::try_from(count).map_err(|e| Error::decode("count", e))
    }
}
