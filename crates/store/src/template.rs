//! Templates, their aliases and their builds.

use std::collections::BTreeMap;

use cabana_types::limits::PIDS;
use cabana_types::{BuildId, Resources, TeamId, TemplateId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, json, micros};
use crate::{Error, Store};

/// A template with the build that new sandboxes start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its id.
    pub id: TemplateId,
    /// Whose it is.
    pub team: TeamId,
    /// The name of that team: the namespace of the aliases.
    pub namespace: String,
    /// Whether every team may use it.
    pub public: bool,
    /// Its aliases, sorted.
    pub aliases: Vec<String>,
    /// What its sandboxes get unless they ask for something else.
    pub resources: Resources,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Sandboxes started from it.
    pub spawn_count: u64,
    /// When the last of them was.
    pub last_spawned_at: Option<Timestamp>,
    /// The build that new sandboxes start from.
    pub build: Option<Build>,
    /// All its builds.
    pub build_count: u64,
}

/// How far a build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStatus {
    /// Not begun.
    Waiting,
    /// Under way.
    Building,
    /// Its root filesystem is there.
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

    fn parse(text: &str) -> Option<Self> {
        [Self::Waiting, Self::Building, Self::Ready, Self::Error].into_iter().find(|s| s.as_str() == text)
    }
}

/// One build of a template: a root filesystem and what commands in it start with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// Its id, which names the root filesystem in the pool.
    pub id: BuildId,
    /// How far it is.
    pub status: BuildStatus,
    /// When it was begun.
    pub created_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<String>,
    /// User of commands that name none.
    pub default_user: String,
    /// Working directory of commands that name none.
    pub default_workdir: Option<String>,
    /// Environment of every command.
    pub env: BTreeMap<String, String>,
}

const SELECT: &str = "select t.*, n.name as namespace,
        (select count(*) from builds where template = t.id) as build_count,
        (select group_concat(alias) from (select alias from template_aliases where template = t.id order by alias)) as aliases,
        b.id as build_id, b.status as build_status, b.created_at as build_created_at,
        b.finished_at as build_finished_at, b.error as build_error, b.default_user as build_default_user,
        b.default_workdir as build_default_workdir, b.env as build_env
    from templates t
    join teams n on n.id = t.team
    left join builds b on b.id = t.build";

impl Store {
    /// Every template that a team may use, own ones first, then by age.
    pub async fn templates(&self, team: &TeamId) -> Result<Vec<Template>, Error> {
        let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
            "{SELECT} where t.team = $1 or t.public order by t.team <> $1, t.created_at, t.id"
        )))
        .bind(team.as_str())
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list templates", e))?;
        rows.iter().map(template).collect()
    }

    /// A template by its id, whoever's it is.
    pub async fn template(&self, id: &TemplateId) -> Result<Option<Template>, Error> {
        let row = sqlx::query(sqlx::AssertSqlSafe(format!("{SELECT} where t.id = $1")))
            .bind(id.as_str())
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a template", e))?;
        row.as_ref().map(template).transpose()
    }

    /// A template by its alias, as a team sees it: its own before a public one of another.
    pub async fn template_by_alias(
        &self,
        team: &TeamId,
        namespace: Option<&str>,
        alias: &str,
    ) -> Result<Option<Template>, Error> {
        let row = sqlx::query(sqlx::AssertSqlSafe(format!(
            "{SELECT} join template_aliases a on a.template = t.id
             where a.alias = $2 and (t.team = $1 or t.public) and ($3 is null or n.name = $3)
             order by t.team <> $1, t.created_at, t.id limit 1"
        )))
        .bind(team.as_str())
        .bind(alias)
        .bind(namespace)
        .fetch_optional(self.reader())
        .await
        .map_err(|e| Error::query("find a template", e))?;
        row.as_ref().map(template).transpose()
    }

    /// The builds of a template, newest first, at most `limit`.
    pub async fn builds(&self, id: &TemplateId, limit: u32) -> Result<Vec<Build>, Error> {
        let rows = sqlx::query(
            "select id as build_id, status as build_status, created_at as build_created_at,
                finished_at as build_finished_at, error as build_error, default_user as build_default_user,
                default_workdir as build_default_workdir, env as build_env
             from builds where template = $1 order by created_at desc, id limit $2",
        )
        .bind(id.as_str())
        .bind(limit)
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list builds", e))?;
        rows.iter().map(|row| build(&Columns(row))).collect()
    }

    /// Makes sure that a team has a template of this alias with this build, and answers its id; `id` is taken if the template is new.
    /// New sandboxes start from the build once it is ready; until then from the one before, if there is one.
    pub async fn ensure_template(
        &self,
        id: TemplateId,
        team: TeamId,
        alias: String,
        public: bool,
        resources: Resources,
        build: Build,
    ) -> Result<TemplateId, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let known: Option<String> =
                    sqlx::query_scalar("select template from template_aliases where team = $1 and alias = $2")
                        .bind(team.as_str())
                        .bind(&alias)
                        .fetch_optional(&mut *connection)
                        .await
                        .map_err(|e| Error::query("find a template", e))?;
                let id = match known {
                    Some(known) => known.parse()?,
                    None => {
                        insert_template(connection, &id, &team, &alias, public, resources, &build).await?;
                        id
                    }
                };
                insert_build(connection, &id, &build).await?;
                sqlx::query(
                    "update templates set build = $2, updated_at = $3
                     where id = $1 and build is not $2 and ($4 = 'ready' or build is null)",
                )
                .bind(id.as_str())
                .bind(build.id.as_str())
                .bind(micros(build.finished_at.unwrap_or(build.created_at)))
                .bind(build.status.as_str())
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("set a template's build", e))?;
                sqlx::query(
                    "update templates set public = $2, cpu_count = $3, memory_mb = $4, disk_mb = $5 where id = $1",
                )
                .bind(id.as_str())
                .bind(public)
                .bind(resources.cpu_count)
                .bind(resources.memory_mb)
                .bind(resources.disk_mb)
                .execute(connection)
                .await
                .map_err(|e| Error::query("set a template's defaults", e))?;
                Ok(id)
            })
        })
        .await
    }
}

async fn insert_template(
    connection: &mut SqliteConnection,
    id: &TemplateId,
    team: &TeamId,
    alias: &str,
    public: bool,
    resources: Resources,
    build: &Build,
) -> Result<(), Error> {
    sqlx::query(
        "insert into templates (id, team, public, cpu_count, memory_mb, disk_mb, created_at, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $7)",
    )
    .bind(id.as_str())
    .bind(team.as_str())
    .bind(public)
    .bind(resources.cpu_count)
    .bind(resources.memory_mb)
    .bind(resources.disk_mb)
    .bind(micros(build.created_at))
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("write a template", e))?;
    sqlx::query("insert into template_aliases (team, alias, template) values ($1, $2, $3)")
        .bind(team.as_str())
        .bind(alias)
        .bind(id.as_str())
        .execute(connection)
        .await
        .map_err(|e| Error::query("write an alias", e))?;
    Ok(())
}

async fn insert_build(connection: &mut SqliteConnection, template: &TemplateId, build: &Build) -> Result<(), Error> {
    sqlx::query(
        "insert into builds
            (id, template, status, created_at, finished_at, error, default_user, default_workdir, env)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict (id) do update set status = excluded.status, finished_at = excluded.finished_at,
            error = excluded.error, default_user = excluded.default_user,
            default_workdir = excluded.default_workdir, env = excluded.env",
    )
    .bind(build.id.as_str())
    .bind(template.as_str())
    .bind(build.status.as_str())
    .bind(micros(build.created_at))
    .bind(build.finished_at.map(micros))
    .bind(&build.error)
    .bind(&build.default_user)
    .bind(&build.default_workdir)
    .bind(json("env", &build.env)?)
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a build", e))?;
    Ok(())
}

fn template(row: &SqliteRow) -> Result<Template, Error> {
    let row = Columns(row);
    let aliases = row.text_or_none("aliases")?.unwrap_or_default();
    Ok(Template {
        id: row.id("id")?,
        team: row.id("team")?,
        namespace: row.text("namespace")?,
        public: row.flag("public")?,
        aliases: aliases.split(',').filter(|a| !a.is_empty()).map(str::to_owned).collect(),
        resources: Resources {
            cpu_count: row.number("cpu_count")?,
            memory_mb: row.number("memory_mb")?,
            disk_mb: row.number("disk_mb")?,
            pids: PIDS,
        },
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        spawn_count: row.number("spawn_count")?,
        last_spawned_at: row.time_or_none("last_spawned_at")?,
        build: match row.text_or_none("build_id")? {
            Some(_) => Some(build(&row)?),
            None => None,
        },
        build_count: row.number("build_count")?,
    })
}

fn build(row: &Columns<'_>) -> Result<Build, Error> {
    let status = row.text("build_status")?;
    Ok(Build {
        id: row.id("build_id")?,
        status: BuildStatus::parse(&status).ok_or_else(|| Error::decode("build_status", status))?,
        created_at: row.time("build_created_at")?,
        finished_at: row.time_or_none("build_finished_at")?,
        error: row.text_or_none("build_error")?,
        default_user: row.text("build_default_user")?,
        default_workdir: row.text_or_none("build_default_workdir")?,
        env: row.json("build_env")?,
    })
}
