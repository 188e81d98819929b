//! Keyset pagination of sandboxes: a page continues after the last row of the previous one, so that sandboxes
//! created or ended in between cause neither repeats nor gaps.

use std::collections::BTreeMap;

use cabana_types::{ProjectId, SandboxId, TeamId, TemplateId};
use jiff::Timestamp;
use sqlx::{QueryBuilder, Sqlite};

use crate::column::micros;
use crate::{Error, Sandbox, Store, project, sandbox};

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
    /// Start time of its last sandbox; of ended ones, the time of its end.
    pub at: Timestamp,
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
    /// Of one of these projects; `None`: of all.
    pub projects: Option<Vec<ProjectId>>,
    /// In one of these states.
    pub groups: Vec<Group>,
    /// Only with all of this metadata.
    pub metadata: BTreeMap<String, String>,
    /// Only with this text in the id, the template's alias or the value of a label; case does not matter in ASCII.
    pub text: Option<String>,
    /// Only of this template.
    pub template: Option<TemplateId>,
    /// Only started at or after this time.
    pub started_after: Option<Timestamp>,
    /// Oldest or newest first.
    pub order: Order,
    /// Continue after this position.
    pub after: Option<Position>,
    /// Page size.
    pub limit: u32,
}

/// Which sandboxes are listed. The conditions match those of partial indexes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Started and not ended, by the time of the start.
    Living,
    /// Tombstones, by the time of the end.
    Ended,
}

impl Kind {
    fn condition(self) -> &'static str {
        match self {
            Kind::Living => "state <> 'ended' and started_at is not null",
            Kind::Ended => "state = 'ended' and ended_at is not null",
        }
    }

    /// The column that orders them.
    fn time(self) -> &'static str {
        match self {
            Kind::Living => "started_at",
            Kind::Ended => "ended_at",
        }
    }
}

impl Store {
    /// Lists sandboxes that have been started and have not ended.
    pub async fn sandboxes(&self, query: &SandboxQuery) -> Result<Vec<Sandbox>, Error> {
        self.list(query, Kind::Living).await
    }

    /// Lists tombstones, whatever groups are asked for. The last end is the newest.
    pub async fn ended_sandboxes(&self, query: &SandboxQuery) -> Result<Vec<Sandbox>, Error> {
        self.list(query, Kind::Ended).await
    }

    async fn list(&self, query: &SandboxQuery, kind: Kind) -> Result<Vec<Sandbox>, Error> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select * from sandboxes where ");
        sql.push(kind.condition()).push(" and team = ").push_bind(query.team.as_str().to_owned());
        project::push_filter(&mut sql, "project", query.projects.as_deref());
        if matches!(kind, Kind::Living) {
            sql.push(" and state in (");
            let mut states = sql.separated(", ");
            for state in query.groups.iter().flat_map(|group| group.states()) {
                states.push_bind(*state);
            }
            sql.push(")");
        }
        if let Some(text) = &query.text {
            let text = text.to_ascii_lowercase();
            sql.push(" and (instr(lower(id), ")
                .push_bind(text.clone())
                .push(") > 0 or instr(lower(coalesce(alias, '')), ")
                .push_bind(text.clone())
                .push(") > 0 or exists (select 1 from json_each(metadata) m where instr(lower(m.value), ")
                .push_bind(text)
                .push(") > 0))");
        }
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
            sql.push(" and started_at >= ").push_bind(micros(after));
        }
        if let Some(position) = &query.after {
            sql.push(format!(" and ({}, id) ", kind.time())).push(match query.order {
                Order::Ascending => "> (",
                Order::Descending => "< (",
            });
            sql.push_bind(micros(position.at)).push(", ").push_bind(position.id.as_str().to_owned()).push(")");
        }
        let direction = if query.order == Order::Ascending { "asc" } else { "desc" };
        sql.push(format!(" order by {} {direction}, id {direction}", kind.time()));
        sql.push(" limit ").push_bind(query.limit);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("list sandboxes", e))?;
        rows.iter().map(sandbox::decode).collect()
    }

    /// The sandboxes of these ids that exist, in any state and in no order.
    pub async fn sandboxes_by_id(&self, ids: impl IntoIterator<Item = &SandboxId>) -> Result<Vec<Sandbox>, Error> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select * from sandboxes where id in (");
        let mut list = sql.separated(", ");
        for id in ids {
            list.push_bind(id.as_str().to_owned());
        }
        sql.push(")");
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("read sandboxes", e))?;
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

    /// How many sandboxes that have not ended are in each state, of all teams.
    pub async fn sandboxes_by_state(&self) -> Result<Vec<(String, i64)>, Error> {
        sqlx::query_as("select state, count(*) from sandboxes where state <> 'ended' group by state order by state")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("count sandboxes by state", e))
    }

    /// Number of a team's running sandboxes, of all or some of its projects.
    pub async fn running_count(&self, team: &TeamId, projects: Option<&[ProjectId]>) -> Result<u64, Error> {
        let sql = "select count(*) from sandboxes where state = 'running' and team = ";
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new(sql);
        sql.push_bind(team.as_str().to_owned());
        project::push_filter(&mut sql, "project", projects);
        let count: Result<i64, _> = sql.build_query_scalar().fetch_one(self.reader()).await;
        let count = count.map_err(|e| Error::query("count sandboxes", e))?;
        u64::try_from(count).map_err(|e| Error::decode("count", e))
    }
}
