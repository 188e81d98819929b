//! Builds of templates. Their logs are in `build_log.rs`; the tags that a finished build gets are in `tag.rs`.

mod request;

use cabana_types::limits::PIDS;
use cabana_types::{BuildId, Resources, TeamId, TemplateId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, json, micros};
use crate::{Boot, Error, Store, build_log, feed, tag};
pub use request::{BuildLimits, BuildRequest, BuildTarget};

/// Longest stored failure reason, bytes.
const MAX_REASON_BYTES: usize = 16 * 1024;
const INTERRUPTED: &str = "the server was restarted during the build; start it again: finished steps are kept";

/// Status of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStatus {
    /// Requested, not started.
    Waiting,
    /// In progress.
    Building,
    /// Finished; its root filesystem exists.
    Ready,
    /// It failed.
    Error,
}

impl BuildStatus {
    /// The status as it is stored and as clients know it.
    pub fn as_str(self) -> &'static str {
        match self {
            BuildStatus::Waiting => "waiting",
            BuildStatus::Building => "building",
            BuildStatus::Ready => "ready",
            BuildStatus::Error => "error",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Waiting, Self::Building, Self::Ready, Self::Error].into_iter().find(|s| s.as_str() == text)
    }
}

/// One build of a template: a root filesystem and the defaults of its sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Its id, which names the root filesystem in the pool.
    pub id: BuildId,
    /// Its template.
    pub template: TemplateId,
    /// Its status.
    pub status: BuildStatus,
    /// Default resources of its sandboxes.
    pub resources: Resources,
    /// Boot settings of its sandboxes.
    pub boot: Boot,
    /// Tags assigned when it is ready.
    pub tags: Vec<String>,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<String>,
    /// Failed step: `base`, `finalize` or its number, from 1.
    pub failed_step: Option<String>,
}

/// The columns of a build `b`.
pub(crate) const COLUMNS: &str = "b.id as build_id, b.template as build_template, b.status as build_status,
    b.cpu_count as build_cpu_count, b.memory_mb as build_memory_mb, b.disk_mb as build_disk_mb, b.boot as build_boot,
    b.tags as build_tags, b.created_at as build_created_at, b.updated_at as build_updated_at,
    b.finished_at as build_finished_at, b.error as build_error, b.failed_step as build_failed_step";

impl Store {
    /// A build of any team.
    pub async fn build(&self, id: &BuildId) -> Result<Option<Build>, Error> {
        let row = sqlx::query(sqlx::AssertSqlSafe(format!("select {COLUMNS} from builds b where b.id = $1")))
            .bind(id.as_str())
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a build", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// The builds of a template, newest first, at most `limit`.
    pub async fn builds(&self, id: &TemplateId, limit: u32) -> Result<Vec<Build>, Error> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "select {COLUMNS} from builds b where b.template = $1 order by b.created_at desc, b.id limit $2"
        )))
        .bind(id.as_str())
        .bind(limit)
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list builds", e))?;
        rows.iter().map(decode).collect()
    }

    /// All builds of all teams.
    pub async fn all_builds(&self) -> Result<Vec<(BuildId, BuildStatus)>, Error> {
        let rows = sqlx::query("select id, status from builds")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list all builds", e))?;
        rows.iter().map(|row| Ok((Columns(row).id("id")?, status(&Columns(row), "status")?))).collect()
    }

    /// The builds of a template that are in progress.
    pub async fn running_builds(&self, id: &TemplateId) -> Result<Vec<BuildId>, Error> {
        let ids: Vec<String> = sqlx::query_scalar("select id from builds where template = $1 and status = 'building'")
            .bind(id.as_str())
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list builds under way", e))?;
        ids.into_iter().map(|id| Ok(id.parse()?)).collect()
    }

    /// Numbers of waiting and running builds of a team. Used only by tests.
    pub async fn unfinished_builds(&self, team: &TeamId) -> Result<(u64, u64), Error> {
        let row = sqlx::query(
            "select count(*) filter (where b.status = 'waiting') as waiting, count(*) filter (where b.status = 'building') as building
             from builds b join templates t on t.id = b.template where t.team = $1 and b.status in ('waiting', 'building')",
        )
        .bind(team.as_str())
        .fetch_one(self.reader())
        .await
        .map_err(|e| Error::query("count builds", e))?;
        Ok((Columns(&row).number("waiting")?, Columns(&row).number("building")?))
    }

    /// Finished builds that ended before a time and are referenced by no tag, sandbox or snapshot, and failed ones.
    pub async fn untagged_builds(&self, before: Timestamp) -> Result<Vec<BuildId>, Error> {
        let ids: Vec<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
            "select b.id from builds b where b.status in ('ready', 'error') and b.finished_at < $1 and {UNUSED}"
        )))
        .bind(micros(before))
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list builds without tags", e))?;
        ids.into_iter().map(|id| Ok(id.parse()?)).collect()
    }

    /// Starts a waiting build.
    pub async fn begin_build(&self, id: BuildId, at: Timestamp) -> Result<Build, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let build = only(connection, &id, &[BuildStatus::Waiting]).await?;
                set_status(connection, &build, BuildStatus::Building, at).await?;
                Ok(Build { status: BuildStatus::Building, updated_at: at, ..build })
            })
        })
        .await
    }

    /// Finishes a build and assigns all its tags in the same transaction.
    pub async fn finish_build(&self, id: BuildId, boot: Boot, at: Timestamp) -> Result<Build, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let build = only(connection, &id, &[BuildStatus::Building]).await?;
                let build = Build {
                    status: BuildStatus::Ready,
                    boot,
                    updated_at: at,
                    finished_at: Some(at),
                    error: None,
                    failed_step: None,
                    ..build
                };
                insert_or_update(connection, &build).await?;
                for name in &build.tags {
                    tag::assign(connection, &build, name, at).await?;
                }
                Ok(build)
            })
        })
        .await
    }

    /// Fails a build that is waiting or in progress.
    pub async fn fail_build(
        &self,
        id: BuildId,
        step: Option<String>,
        message: String,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let build = only(connection, &id, &[BuildStatus::Waiting, BuildStatus::Building]).await?;
                set_status(connection, &build, BuildStatus::Error, at).await?;
                sqlx::query("update builds set finished_at = $2, error = $3, failed_step = $4 where id = $1")
                    .bind(id.as_str())
                    .bind(micros(at))
                    .bind(build_log::cut(&message, MAX_REASON_BYTES))
                    .bind(step)
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("write why a build failed", e))?;
                Ok(())
            })
        })
        .await
    }

    /// Fails the builds that the previous server left in progress, and returns them.
    pub async fn interrupt_builds(&self, at: Timestamp) -> Result<Vec<BuildId>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let ids: Vec<String> = sqlx::query_scalar(
                    "update builds set status = 'error', error = $1, updated_at = $2, finished_at = $2
                     where status = 'building' returning id",
                )
                .bind(INTERRUPTED)
                .bind(micros(at))
                .fetch_all(connection)
                .await
                .map_err(|e| Error::query("end builds that were interrupted", e))?;
                ids.into_iter().map(|id| Ok(id.parse()?)).collect()
            })
        })
        .await
    }

    /// Deletes a finished build unless a tag, sandbox or snapshot references it. Returns whether it was deleted.
    pub async fn delete_build(&self, id: BuildId) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let template: Option<String> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
                    "delete from builds as b where b.id = $1 and b.status in ('ready', 'error') and {UNUSED}
                     returning template"
                )))
                .bind(id.as_str())
                .fetch_optional(&mut *connection)
                .await
                .map_err(|e| Error::query("forget a build", e))?;
                let Some(template) = template else { return Ok(false) };
                feed::note_template(connection, &template.parse()?).await?;
                Ok(true)
            })
        })
        .await
    }
}

/// Condition: nothing references build `b`.
const UNUSED: &str = "not exists (select 1 from templates where build = b.id)
    and not exists (select 1 from template_tags where build = b.id)
    and not exists (select 1 from sandboxes where build = b.id and state <> 'ended')
    and not exists (select 1 from snapshots where build = b.id)";

/// A build, if it has one of these statuses.
async fn only(connection: &mut SqliteConnection, id: &BuildId, among: &[BuildStatus]) -> Result<Build, Error> {
    let build = read(connection, id).await?.ok_or_else(|| Error::NoBuild(id.clone()))?;
    if among.contains(&build.status) {
        return Ok(build);
    }
    Err(Error::BuildStatus { id: id.clone(), status: build.status.as_str() })
}

pub(crate) async fn read(connection: &mut SqliteConnection, id: &BuildId) -> Result<Option<Build>, Error> {
    let row = sqlx::query(sqlx::AssertSqlSafe(format!("select {COLUMNS} from builds b where b.id = $1")))
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .map_err(|e| Error::query("read a build", e))?;
    row.as_ref().map(decode).transpose()
}

async fn set_status(
    connection: &mut SqliteConnection,
    build: &Build,
    status: BuildStatus,
    at: Timestamp,
) -> Result<(), Error> {
    sqlx::query("update builds set status = $2, updated_at = $3 where id = $1")
        .bind(build.id.as_str())
        .bind(status.as_str())
        .bind(micros(at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("write a build's status", e))?;
    feed::note_build(connection, &build.id, &build.template).await
}

const INSERT: &str =
    "insert into builds (id, template, status, cpu_count, memory_mb, disk_mb, boot, tags, created_at, updated_at, finished_at,
        error, failed_step) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const OR_UPDATE: &str = "on conflict (id) do update set status = excluded.status, cpu_count = excluded.cpu_count,
        memory_mb = excluded.memory_mb, disk_mb = excluded.disk_mb, boot = excluded.boot, updated_at = excluded.updated_at,
        finished_at = excluded.finished_at, error = excluded.error, failed_step = excluded.failed_step";

/// Inserts a build.
async fn insert(connection: &mut SqliteConnection, build: &Build) -> Result<(), Error> {
    write(connection, build, INSERT.to_owned()).await
}

/// Inserts a build or updates its mutable columns.
pub(crate) async fn insert_or_update(connection: &mut SqliteConnection, build: &Build) -> Result<(), Error> {
    write(connection, build, format!("{INSERT} {OR_UPDATE}")).await
}

async fn write(connection: &mut SqliteConnection, build: &Build, sql: String) -> Result<(), Error> {
    sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(build.id.as_str())
        .bind(build.template.as_str())
        .bind(build.status.as_str())
        .bind(build.resources.cpu_count)
        .bind(build.resources.memory_mb)
        .bind(build.resources.disk_mb)
        .bind(json("boot", &build.boot)?)
        .bind(json("tags", &build.tags)?)
        .bind(micros(build.created_at))
        .bind(micros(build.updated_at))
        .bind(build.finished_at.map(micros))
        .bind(&build.error)
        .bind(&build.failed_step)
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("write a build", e))?;
    feed::note_build(connection, &build.id, &build.template).await
}

pub(crate) fn status(row: &Columns<'_>, column: &'static str) -> Result<BuildStatus, Error> {
    let text = row.text(column)?;
    BuildStatus::parse(&text).ok_or_else(|| Error::decode(column, text))
}

pub(crate) fn decode(row: &SqliteRow) -> Result<Build, Error> {
    let row = Columns(row);
    Ok(Build {
        id: row.id("build_id")?,
        template: row.id("build_template")?,
        status: status(&row, "build_status")?,
        resources: Resources {
            cpu_count: row.number("build_cpu_count")?,
            memory_mb: row.number("build_memory_mb")?,
            disk_mb: row.number("build_disk_mb")?,
            pids: PIDS,
        },
        boot: row.json("build_boot")?,
        tags: row.json("build_tags")?,
        created_at: row.time("build_created_at")?,
        updated_at: row.time("build_updated_at")?,
        finished_at: row.time_or_none("build_finished_at")?,
        error: row.text_or_none("build_error")?,
        failed_step: row.text_or_none("build_failed_step")?,
    })
}
