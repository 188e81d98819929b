//! Snapshots of sandboxes' disks, from which new sandboxes can be created. The row is inserted before the copy is made
//! and deleted after the copy, so that a crash leaves no unknown copy.

use cabana_types::quota::{Limits, QuotaKind};
use cabana_types::{BuildId, ProjectId, Resources, SandboxId, TeamId, TemplateId, UsageKind, UsageSubject};
use jiff::Timestamp;
use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite};

use crate::column::{self, Columns, micros};
use crate::interval::{self, Metered};
use crate::{Boot, Error, Store, event, measured, project, quota};

/// State of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotState {
    /// Being created.
    Making,
    /// Used by one operation of the server only. Invisible to clients and not counted for the team.
    Temporary,
    /// Usable.
    Ready,
    /// Being deleted.
    Deleting,
}

impl SnapshotState {
    fn as_str(self) -> &'static str {
        match self {
            SnapshotState::Making => "making",
            SnapshotState::Temporary => "lent",
            SnapshotState::Ready => "ready",
            SnapshotState::Deleting => "deleting",
        }
    }
}

/// Contents of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotKind {
    /// The disk.
    #[default]
    Disk,
    /// The disk, and the memory of the processes at the same time.
    DiskMemory,
}

impl SnapshotKind {
    /// Its name in the store and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            SnapshotKind::Disk => "disk",
            SnapshotKind::DiskMemory => "disk_memory",
        }
    }
}

/// A snapshot of a sandbox, with the defaults of sandboxes created from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id; clients use it like a template id.
    pub id: TemplateId,
    /// Its team.
    pub team: TeamId,
    /// Its project: that of its source sandbox.
    pub project: ProjectId,
    /// Its name, unique in the team.
    pub name: Option<String>,
    /// Its state.
    pub state: SnapshotState,
    /// Its contents.
    pub kind: SnapshotKind,
    /// Isolation backend of its source sandbox.
    pub isolation: String,
    /// Its source sandbox.
    pub sandbox: SandboxId,
    /// The source sandbox's template.
    pub template: TemplateId,
    /// Build that provides the root filesystem below.
    pub build: BuildId,
    /// The template's alias at that time.
    pub alias: Option<String>,
    /// Default resources of sandboxes created from it.
    pub resources: Resources,
    /// Boot settings of sandboxes created from it.
    pub boot: Boot,
    /// When it was created.
    pub created_at: Timestamp,
}

/// Result of inserting a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotInserted {
    /// It was inserted.
    New,
    /// Another snapshot with the name is being created, or is of another project.
    Taken,
}

/// Filter and page of snapshots, newest first.
#[derive(Debug, Clone)]
pub struct SnapshotQuery {
    /// Owner of the snapshots.
    pub team: TeamId,
    /// Only of these projects; `None`: of all.
    pub projects: Option<Vec<ProjectId>>,
    /// Only of this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only with this name.
    pub name: Option<String>,
    /// Continue after this position: time and id.
    pub after: Option<(Timestamp, String)>,
    /// Page size.
    pub limit: u32,
}

impl Store {
    /// Inserts a snapshot unless it is to be kept and its team's quota is used up. A ready one with the same name loses its name.
    pub async fn insert_snapshot(&self, snapshot: Snapshot, server: Limits) -> Result<SnapshotInserted, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let kept: i64 =
                    sqlx::query_scalar("select count(*) from snapshots where team = $1 and state in ('making', 'ready')")
                        .bind(snapshot.team.as_str())
                        .fetch_one(&mut *connection)
                        .await
                        .map_err(|e| Error::query("count a team's snapshots", e))?;
                if snapshot.state != SnapshotState::Temporary {
                    let kept = u64::try_from(kept).unwrap_or_default();
                    let place = (&snapshot.team, &snapshot.project);
                    quota::check_one(connection, place, QuotaKind::Snapshots, kept, server).await?;
                }
                if let Some(name) = &snapshot.name {
                    let freed = sqlx::query(
                        "update snapshots set name = null
                         where team = $1 and name = $2 and project = $3 and state <> 'making'",
                    )
                    .bind(snapshot.team.as_str())
                    .bind(name)
                    .bind(snapshot.project.as_str());
                    freed.execute(&mut *connection).await.map_err(|e| Error::query("free a snapshot's name", e))?;
                    let taken: bool = sqlx::query_scalar(
                        "select exists (select 1 from snapshots where team = $1 and name = $2)",
                    )
                    .bind(snapshot.team.as_str())
                    .bind(name)
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(|e| Error::query("look for a snapshot's name", e))?;
                    if taken {
                        return Ok(SnapshotInserted::Taken);
                    }
                }
                sqlx::query(
                    "insert into snapshots (id, team, name, state, sandbox, template, build, alias, cpu_count, memory_mb, disk_mb,
                        pids, boot, created_at, kind, isolation, project)
                     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
                )
                .bind(snapshot.id.as_str())
                .bind(snapshot.team.as_str())
                .bind(&snapshot.name)
                .bind(snapshot.state.as_str())
                .bind(snapshot.sandbox.as_str())
                .bind(snapshot.template.as_str())
                .bind(snapshot.build.as_str())
                .bind(&snapshot.alias)
                .bind(snapshot.resources.cpu_count)
                .bind(snapshot.resources.memory_mb)
                .bind(snapshot.resources.disk_mb)
                .bind(snapshot.resources.pids)
                .bind(column::json("boot", &snapshot.boot)?)
                .bind(micros(snapshot.created_at))
                .bind(snapshot.kind.as_str())
                .bind(&snapshot.isolation)
                .bind(snapshot.project.as_str())
                .execute(connection)
                .await
                .map_err(|e| Error::query("write a snapshot", e))?;
                Ok(SnapshotInserted::New)
            })
        })
        .await
    }

    /// Marks a snapshot as ready.
    pub async fn snapshot_ready(&self, snapshot: Snapshot, at: Timestamp) -> Result<(), Error> {
        let noted = self.measured().clone();
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("update snapshots set state = 'ready' where id = $1 and state = 'making'")
                    .bind(snapshot.id.as_str())
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("mark a snapshot as ready", e))?;
                let data = json!({ "snapshotID": snapshot.id, "name": snapshot.name });
                event::insert(connection, &snapshot.sandbox, &snapshot.team, event::SNAPSHOTTED, &data, at).await?;
                let mib = measured::disk_mib(connection, &snapshot.sandbox, &noted).await?;
                let metered = Metered {
                    team: &snapshot.team,
                    project: Some(snapshot.project.as_str()),
                    kind: UsageSubject::Snapshot,
                    id: snapshot.id.as_str(),
                };
                interval::settle(connection, metered, &[(UsageKind::ColdMib, mib)], at).await
            })
        })
        .await
    }

    /// Marks a snapshot as deleting; it cannot be found any more. Returns `false` if it does not exist.
    pub async fn delete_snapshot(&self, id: TemplateId) -> Result<bool, Error> {
        let now = Timestamp::now();
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query(
                    "update snapshots set state = 'deleting', name = null where id = $1 and state <> 'deleting'",
                )
                .bind(id.as_str())
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("mark a snapshot as deleting", e))?;
                interval::end(connection, id.as_str(), now).await?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// Deletes the row of a snapshot whose copy was removed.
    pub async fn remove_snapshot(&self, id: TemplateId) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("delete from snapshots where id = $1")
                    .bind(id.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("forget a snapshot", e))?;
                Ok(())
            })
        })
        .await
    }

    /// A ready snapshot, by id.
    pub async fn snapshot(&self, team: &TeamId, id: &TemplateId) -> Result<Option<Snapshot>, Error> {
        self.find_snapshot("select * from snapshots where team = $1 and id = $2 and state = 'ready'", team, id.as_str())
            .await
    }

    /// A ready snapshot, by name.
    pub async fn snapshot_by_name(&self, team: &TeamId, name: &str) -> Result<Option<Snapshot>, Error> {
        self.find_snapshot("select * from snapshots where team = $1 and name = $2 and state = 'ready'", team, name)
            .await
    }

    /// A ready snapshot, by id or name.
    pub async fn snapshot_by_id_or_name(&self, team: &TeamId, text: &str) -> Result<Option<Snapshot>, Error> {
        if let Ok(id) = text.parse()
            && let Some(snapshot) = self.snapshot(team, &id).await?
        {
            return Ok(Some(snapshot));
        }
        self.snapshot_by_name(team, text).await
    }

    async fn find_snapshot(&self, sql: &'static str, team: &TeamId, key: &str) -> Result<Option<Snapshot>, Error> {
        let row = sqlx::query(sql)
            .bind(team.as_str())
            .bind(key)
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a snapshot", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// Every snapshot in any state.
    pub async fn all_snapshots(&self) -> Result<Vec<Snapshot>, Error> {
        let rows = sqlx::query("select * from snapshots")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list all snapshots", e))?;
        rows.iter().map(decode).collect()
    }

    /// Lists ready snapshots.
    pub async fn snapshots(&self, query: &SnapshotQuery) -> Result<Vec<Snapshot>, Error> {
        let mut sql: QueryBuilder<Sqlite> =
            QueryBuilder::new("select * from snapshots where state = 'ready' and team = ");
        sql.push_bind(query.team.as_str().to_owned());
        project::push_filter(&mut sql, "project", query.projects.as_deref());
        if let Some(sandbox) = &query.sandbox {
            sql.push(" and sandbox = ").push_bind(sandbox.as_str().to_owned());
        }
        if let Some(name) = &query.name {
            sql.push(" and name = ").push_bind(name.clone());
        }
        if let Some((at, id)) = &query.after {
            sql.push(" and (created_at, id) < (").push_bind(micros(*at)).push(", ").push_bind(id.clone()).push(")");
        }
        sql.push(" order by created_at desc, id desc limit ").push_bind(query.limit);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("list snapshots", e))?;
        rows.iter().map(decode).collect()
    }
}

fn decode(row: &SqliteRow) -> Result<Snapshot, Error> {
    let row = Columns(row);
    let state = match row.text("state")?.as_str() {
        "making" => SnapshotState::Making,
        "lent" => SnapshotState::Temporary,
        "ready" => SnapshotState::Ready,
        "deleting" => SnapshotState::Deleting,
        other => return Err(Error::decode("state", other)),
    };
    Ok(Snapshot {
        id: row.id("id")?,
        team: row.id("team")?,
        project: row.id("project")?,
        name: row.text_or_none("name")?,
        state,
        kind: match row.text("kind")?.as_str() {
            "disk" => SnapshotKind::Disk,
            "disk_memory" => SnapshotKind::DiskMemory,
            other => return Err(Error::decode("kind", other)),
        },
        isolation: row.text("isolation")?,
        sandbox: row.id("sandbox")?,
        template: row.id("template")?,
        build: row.id("build")?,
        alias: row.text_or_none("alias")?,
        resources: Resources {
            cpu_count: row.number("cpu_count")?,
            memory_mb: row.number("memory_mb")?,
            disk_mb: row.number("disk_mb")?,
            pids: row.number("pids")?,
        },
        boot: row.json("boot")?,
        created_at: row.time("created_at")?,
    })
}
