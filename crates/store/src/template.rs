//! Templates and their aliases. Builds are in `build.rs`, tags in `tag.rs`.

mod settings;

use cabana_types::egress::Preset;
use cabana_types::limits::PIDS;
use cabana_types::{BuildId, ProjectId, Resources, TeamId, TemplateId};
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{SqliteConnection, SqliteExecutor};

use crate::build::{self, Build, BuildStatus};
use crate::column::{Columns, micros};
use crate::{Boot, Error, Store, feed, tag};

/// A template and its current build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its id.
    pub id: TemplateId,
    /// Its team.
    pub team: TeamId,
    /// Its project.
    pub project: ProjectId,
    /// Name of its team: the namespace of its aliases.
    pub namespace: String,
    /// Whether every team may use it.
    pub public: bool,
    /// Its aliases, sorted.
    pub aliases: Vec<String>,
    /// Default resources of its sandboxes.
    pub resources: Resources,
    /// Default isolation backend of its sandboxes; `None` for the server's default.
    pub isolation: Option<String>,
    /// Egress preset of sandboxes that ask for none; `None` for the server's default.
    pub network: Option<Preset>,
    /// Whether set-uid programs gain nothing in its sandboxes.
    pub no_new_privileges: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Number of sandboxes started from it.
    pub spawn_count: u64,
    /// When the last of them was started.
    pub last_spawned_at: Option<Timestamp>,
    /// The build that new sandboxes start from: tag `default`.
    pub build: Option<Build>,
    /// The most recently requested build.
    pub newest: Option<(BuildId, BuildStatus)>,
    /// Number of its builds.
    pub build_count: u64,
}

/// A template whose root filesystem is provided by the server itself.
#[derive(Debug, Clone)]
pub struct ProvidedTemplate {
    /// Id of the template if it is created.
    pub id: TemplateId,
    /// Its team.
    pub team: TeamId,
    /// Its alias.
    pub alias: String,
    /// Whether every team may use it, if it is created.
    pub public: bool,
    /// Its build.
    pub build: BuildId,
    /// Whether the build is finished.
    pub ready: bool,
    /// Default resources of its sandboxes.
    pub resources: Resources,
    /// Boot settings of its sandboxes.
    pub boot: Boot,
    /// Current time.
    pub at: Timestamp,
}

const SELECT: &str = "select t.*, n.name as namespace,
        (select count(*) from builds where template = t.id) as build_count,
        (select group_concat(alias) from (select alias from template_aliases where template = t.id order by alias)) as aliases,
        l.id as newest_id, l.status as newest_status, ";
const FROM: &str = "from templates t
    join teams n on n.id = t.team
    left join builds b on b.id = t.build
    left join builds l on l.id = (select id from builds where template = t.id order by created_at desc, id limit 1)";

fn select(rest: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{SELECT}{} {FROM} {rest}", build::COLUMNS))
}

impl Store {
    /// Every template that a team may use, own ones first, then by age.
    pub async fn templates(&self, team: &TeamId) -> Result<Vec<Template>, Error> {
        let rows = sqlx::query(select("where t.team = $1 or t.public order by t.team <> $1, t.created_at, t.id"))
            .bind(team.as_str())
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list templates", e))?;
        rows.iter().map(decode).collect()
    }

    /// A template of any team, by its id.
    pub async fn template(&self, id: &TemplateId) -> Result<Option<Template>, Error> {
        let row = sqlx::query(select("where t.id = $1"))
            .bind(id.as_str())
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a template", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// A template by its alias, as a team sees it: its own templates take precedence over public ones.
    pub async fn template_by_alias(
        &self,
        team: &TeamId,
        namespace: Option<&str>,
        alias: &str,
    ) -> Result<Option<Template>, Error> {
        let row = sqlx::query(select(
            "join template_aliases a on a.template = t.id
             where a.alias = $2 and (t.team = $1 or t.public) and ($3 is null or n.name = $3)
             order by t.team <> $1, t.created_at, t.id limit 1",
        ))
        .bind(team.as_str())
        .bind(alias)
        .bind(namespace)
        .fetch_optional(self.reader())
        .await
        .map_err(|e| Error::query("find a template", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// Whether another team has a template with this alias in the namespace, public or not.
    pub async fn is_alias_taken(&self, team: &TeamId, namespace: &str, alias: &str) -> Result<bool, Error> {
        sqlx::query_scalar(
            "select exists (select 1 from template_aliases a join teams n on n.id = a.team
                where a.team <> $1 and n.name = $2 and a.alias = $3)",
        )
        .bind(team.as_str())
        .bind(namespace)
        .bind(alias)
        .fetch_one(self.reader())
        .await
        .map_err(|e| Error::query("look for an alias", e))
    }

    /// Ensures that a team has a template with this alias and build, and returns its id. The build becomes the current
    /// one when it is ready; until then the previous one stays. A build that was already ready changes nothing: the
    /// owner may have selected another one since.
    pub async fn ensure_template(&self, given: ProvidedTemplate) -> Result<TemplateId, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let ProvidedTemplate { id, team, alias, public, resources, at, .. } = &given;
                let id = match by_own_alias(connection, team, alias).await? {
                    Some(known) => known,
                    None => {
                        let project = ProjectId::default_of(team);
                        insert(connection, id, (team, &project), alias, *public, *resources, *at).await?;
                        id.clone()
                    }
                };
                let before = build::read(connection, &given.build).await?;
                let was_ready = before.as_ref().is_some_and(|b| b.status == BuildStatus::Ready);
                let build = Build {
                    id: given.build.clone(),
                    template: id.clone(),
                    status: if given.ready { BuildStatus::Ready } else { BuildStatus::Building },
                    resources: *resources,
                    boot: given.boot.clone(),
                    tags: vec![tag::DEFAULT_TAG.into()],
                    created_at: before.as_ref().map_or(*at, |b| b.created_at),
                    updated_at: before.as_ref().filter(|_| was_ready).map_or(*at, |b| b.updated_at),
                    finished_at: match before.filter(|_| was_ready) {
                        Some(before) => before.finished_at,
                        None => given.ready.then_some(*at),
                    },
                    error: None,
                    failed_step: None,
                };
                build::insert_or_update(connection, &build).await?;
                if given.ready && !was_ready {
                    tag::assign(connection, &build, tag::DEFAULT_TAG, *at).await?;
                }
                // The configured defaults may have changed; a template without a build shows those of the coming one.
                sqlx::query(
                    "update templates set build = $2, cpu_count = $3, memory_mb = $4, disk_mb = $5
                     where id = $1 and (build is null or build = $2)",
                )
                .bind(id.as_str())
                .bind(build.id.as_str())
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

    /// Fails like [`Store::delete_template`] if the template is in use.
    pub async fn check_template_unused(&self, id: &TemplateId) -> Result<(), Error> {
        check_unused(self.reader(), id).await
    }

    /// Deletes a template and its builds, unless a sandbox that has not ended or a snapshot uses one. Returns the
    /// builds.
    pub async fn delete_template(&self, id: TemplateId) -> Result<Vec<BuildId>, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                check_unused(&mut *connection, &id).await?;
                feed::note_template(connection, &id).await?;
                let builds: Vec<String> = sqlx::query_scalar("select id from builds where template = $1")
                    .bind(id.as_str())
                    .fetch_all(&mut *connection)
                    .await
                    .map_err(|e| Error::query("list builds", e))?;
                let done = sqlx::query("delete from templates where id = $1")
                    .bind(id.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete a template", e))?;
                if done.rows_affected() == 0 {
                    return Err(Error::NoTemplate(id));
                }
                builds.into_iter().map(|id| Ok(id.parse()?)).collect()
            })
        })
        .await
    }
}

/// Fails if a sandbox that has not ended or a snapshot uses a build of the template.
async fn check_unused<'e>(executor: impl SqliteExecutor<'e>, id: &TemplateId) -> Result<(), Error> {
    let used = sqlx::query(
        "select (select count(*) from sandboxes s join builds b on b.id = s.build
                 where b.template = $1 and s.state <> 'ended') as sandboxes,
            (select count(*) from snapshots s join builds b on b.id = s.build where b.template = $1) as snapshots",
    )
    .bind(id.as_str())
    .fetch_one(executor)
    .await
    .map_err(|e| Error::query("count the users of a template", e))?;
    match (Columns(&used).number("sandboxes")?, Columns(&used).number("snapshots")?) {
        (0, 0) => Ok(()),
        (sandboxes, snapshots) => Err(Error::TemplateInUse { id: id.clone(), sandboxes, snapshots }),
    }
}

/// A team's own template of an alias.
pub(crate) async fn by_own_alias(
    connection: &mut SqliteConnection,
    team: &TeamId,
    alias: &str,
) -> Result<Option<TemplateId>, Error> {
    let known: Option<String> =
        sqlx::query_scalar("select template from template_aliases where team = $1 and alias = $2")
            .bind(team.as_str())
            .bind(alias)
            .fetch_optional(connection)
            .await
            .map_err(|e| Error::query("find a template", e))?;
    Ok(known.map(|id| id.parse()).transpose()?)
}

/// Inserts a template without a build.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    id: &TemplateId,
    (team, project): (&TeamId, &ProjectId),
    alias: &str,
    public: bool,
    resources: Resources,
    at: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "insert into templates (id, team, public, cpu_count, memory_mb, disk_mb, created_at, updated_at, project)
         values ($1, $2, $3, $4, $5, $6, $7, $7, $8)",
    )
    .bind(id.as_str())
    .bind(team.as_str())
    .bind(public)
    .bind(resources.cpu_count)
    .bind(resources.memory_mb)
    .bind(resources.disk_mb)
    .bind(micros(at))
    .bind(project.as_str())
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

fn decode(from: &SqliteRow) -> Result<Template, Error> {
    let row = Columns(from);
    let aliases = row.text_or_none("aliases")?.unwrap_or_default();
    Ok(Template {
        id: row.id("id")?,
        team: row.id("team")?,
        project: row.id("project")?,
        namespace: row.text("namespace")?,
        public: row.flag("public")?,
        aliases: aliases.split(',').filter(|a| !a.is_empty()).map(str::to_owned).collect(),
        resources: Resources {
            cpu_count: row.number("cpu_count")?,
            memory_mb: row.number("memory_mb")?,
            disk_mb: row.number("disk_mb")?,
            pids: PIDS,
        },
        isolation: row.text_or_none("isolation")?,
        network: match row.text_or_none("network")? {
            Some(text) => Some(text.parse().map_err(|e| Error::decode("network", e))?),
            None => None,
        },
        no_new_privileges: row.flag("no_new_privileges")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        spawn_count: row.number("spawn_count")?,
        last_spawned_at: row.time_or_none("last_spawned_at")?,
        build: match row.text_or_none("build_id")? {
            Some(_) => Some(build::decode(from)?),
            None => None,
        },
        newest: match row.text_or_none("newest_id")? {
            Some(_) => Some((row.id("newest_id")?, build::status(&row, "newest_status")?)),
            None => None,
        },
        build_count: row.number("build_count")?,
    })
}
