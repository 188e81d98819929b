//! Build requests for an existing or a new template, within the team's limits.

use std::time::Duration;

use cabana_types::quota::{Limits, QuotaKind};
use cabana_types::{BuildId, ProjectId, Resources, TeamId, TemplateId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::{Build, BuildStatus, insert};
use crate::column::{Columns, micros};
use crate::{Boot, Error, Store, feed, project, quota, tag, template};

/// How long a build may stay unstarted; the client may be uploading large files.
const MAX_WAIT: Duration = Duration::from_secs(6 * 3600);
const NEVER_STARTED: &str = "the build was never started; request it again";

/// The template that a build is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildTarget {
    /// The team's template with this alias; created if there is none.
    Alias(String),
    /// An existing template.
    Template(TemplateId),
}

/// A request for a build.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    /// The team.
    pub team: TeamId,
    /// Project of the template if it is created.
    pub project: ProjectId,
    /// Projects whose templates may get the build; `None`: all.
    pub projects: Option<Vec<ProjectId>>,
    /// The template to build.
    pub wanted: BuildTarget,
    /// Id of the template if it is created.
    pub template: TemplateId,
    /// Id of the build.
    pub build: BuildId,
    /// Tags assigned when the build is ready; at least one.
    pub tags: Vec<String>,
    /// Default resources of its sandboxes.
    pub resources: Resources,
    /// Time of the request.
    pub at: Timestamp,
}

/// Limits of a team.
#[derive(Debug, Clone, Copy)]
pub struct BuildLimits {
    /// The server's limits, where neither the team nor its plan has one.
    pub server: Limits,
    /// Builds per team that are waiting or in progress.
    pub builds: u32,
    /// Tags per template.
    pub tags: u32,
}

impl Store {
    /// Inserts a waiting build, and the template if there is none. Returns the template's id.
    pub async fn request_build(&self, request: BuildRequest, limits: BuildLimits) -> Result<TemplateId, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                expire_waiting(connection, &request.team, request.at).await?;
                let unfinished: u32 = sqlx::query_scalar(
                    "select count(*) from builds b join templates t on t.id = b.template
                     where t.team = $1 and b.status in ('waiting', 'building')",
                )
                .bind(request.team.as_str())
                .fetch_one(&mut *connection)
                .await
                .map_err(|e| Error::query("count builds", e))?;
                if unfinished >= limits.builds {
                    return Err(Error::TooMany { what: "builds that wait or are under way", limit: limits.builds });
                }
                let template = find_or_create(connection, &request, limits.server).await?;
                check_tags(connection, &template, &request.tags, limits.tags).await?;
                let build = Build {
                    id: request.build,
                    template: template.clone(),
                    status: BuildStatus::Waiting,
                    resources: request.resources,
                    boot: Boot::default(),
                    tags: request.tags,
                    created_at: request.at,
                    updated_at: request.at,
                    finished_at: None,
                    error: None,
                    failed_step: None,
                };
                insert(connection, &build).await?;
                Ok(template)
            })
        })
        .await
    }
}

/// The template that a build is for, created if needed.
async fn find_or_create(
    connection: &mut SqliteConnection,
    request: &BuildRequest,
    server: Limits,
) -> Result<TemplateId, Error> {
    let alias = match &request.wanted {
        BuildTarget::Template(id) => {
            let there: bool = sqlx::query_scalar("select exists (select 1 from templates where id = $1 and team = $2)")
                .bind(id.as_str())
                .bind(request.team.as_str())
                .fetch_one(connection)
                .await
                .map_err(|e| Error::query("find a template", e))?;
            return if there { Ok(id.clone()) } else { Err(Error::NoTemplate(id.clone())) };
        }
        BuildTarget::Alias(alias) => alias,
    };
    if let Some(known) = template::by_own_alias(connection, &request.team, alias).await? {
        let project: ProjectId = project::of_template(connection, &known).await?;
        let within = request.projects.as_ref().is_none_or(|projects| projects.contains(&project));
        return if within { Ok(known) } else { Err(Error::NameTaken { name: alias.clone() }) };
    }
    let taken: bool = sqlx::query_scalar("select exists (select 1 from snapshots where team = $1 and name = $2)")
        .bind(request.team.as_str())
        .bind(alias)
        .fetch_one(&mut *connection)
        .await
        .map_err(|e| Error::query("look for a snapshot's name", e))?;
    if taken {
        return Err(Error::NameTaken { name: alias.clone() });
    }
    let count: i64 = sqlx::query_scalar("select count(*) from templates where team = $1")
        .bind(request.team.as_str())
        .fetch_one(&mut *connection)
        .await
        .map_err(|e| Error::query("count templates", e))?;
    let count = u64::try_from(count).unwrap_or_default();
    let place = (&request.team, &request.project);
    quota::check_one(connection, place, QuotaKind::Templates, count, server).await?;
    template::insert(connection, &request.template, place, alias, false, request.resources, request.at).await?;
    Ok(request.template.clone())
}

/// Checks the tag limit, counting the tags of unfinished builds.
async fn check_tags(
    connection: &mut SqliteConnection,
    template: &TemplateId,
    wanted: &[String],
    most: u32,
) -> Result<(), Error> {
    let mut all = tag::names(connection, template).await?;
    let promised: Vec<String> =
        sqlx::query_scalar("select tags from builds where template = $1 and status in ('waiting', 'building')")
            .bind(template.as_str())
            .fetch_all(connection)
            .await
            .map_err(|e| Error::query("read promised tags", e))?;
    for tags in promised {
        all.extend(serde_json::from_str::<Vec<String>>(&tags).map_err(|e| Error::decode("tags", e))?);
    }
    let before = all.len();
    all.extend(wanted.iter().cloned());
    tag::check_count(&all, before, most)
}

/// Fails builds that were requested long ago but never started, so that they do not count against the limit.
async fn expire_waiting(connection: &mut SqliteConnection, team: &TeamId, now: Timestamp) -> Result<(), Error> {
    let expired = sqlx::query(
        "update builds set status = 'error', error = $3, updated_at = $4, finished_at = $4
         where status = 'waiting' and created_at < $2 and template in (select id from templates where team = $1)
         returning id, template",
    )
    .bind(team.as_str())
    .bind(micros(now - MAX_WAIT))
    .bind(NEVER_STARTED)
    .bind(micros(now))
    .fetch_all(&mut *connection)
    .await
    .map_err(|e| Error::query("end builds that were never started", e))?;
    for row in &expired {
        feed::note_build(connection, &Columns(row).id("id")?, &Columns(row).id("template")?).await?;
    }
    Ok(())
}
