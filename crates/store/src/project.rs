//! Projects: the parts of a team to which sandboxes, templates, snapshots and chats belong.

use cabana_types::{ProjectId, Role, TeamId, TemplateId, UserId};
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{Columns, micros};
use crate::{Error, Store, Team, member};

/// Name of the project that every team has.
pub const DEFAULT_PROJECT: &str = "default";

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: ProjectId,
    pub team: TeamId,
    /// Unique in the team.
    pub name: String,
    pub created_at: Timestamp,
}

impl Project {
    pub(crate) fn default_of(team: &Team) -> Self {
        Self {
            id: ProjectId::default_of(&team.id),
            team: team.id.clone(),
            name: DEFAULT_PROJECT.into(),
            created_at: team.created_at,
        }
    }
}

impl Store {
    /// A project of any team.
    pub async fn project(&self, id: &ProjectId) -> Result<Option<Project>, Error> {
        let row =
            sqlx::query("select * from projects where id = $1").bind(id.as_str()).fetch_optional(self.reader()).await;
        row.map_err(|e| Error::query("read a project", e))?.as_ref().map(decode).transpose()
    }
}

/// The result of deleting a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectRemoval {
    Removed,
    Unknown,
    /// These must be deleted first.
    InUse {
        sandboxes: Vec<String>,
        templates: Vec<String>,
        snapshots: Vec<String>,
        chats: Vec<String>,
        keys: Vec<String>,
    },
}

/// The result of setting the role of a person in a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectMemberSet {
    Done,
    /// The person is no member of the team, or of the project.
    Unknown,
    /// The role is more than the one in the team.
    AboveTeamRole(Role),
}

/// Names of what keeps a project from being deleted that an error lists.
const MAX_LISTED: u32 = 10;

impl Store {
    /// Inserts a project. Returns `false` if another one of the team has the name, or the team has `most`.
    pub async fn create_project(&self, project: Project, most: u32) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let count: u32 = sqlx::query_scalar("select count(*) from projects where team = $1")
                    .bind(project.team.as_str())
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(|e| Error::query("count projects", e))?;
                if count >= most {
                    return Err(Error::TooMany { what: "projects", limit: most });
                }
                if name_taken(connection, &project).await? {
                    return Ok(false);
                }
                insert(connection, &project).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Renames a project. Returns `false` if another one of the team has the name.
    pub async fn rename_project(&self, project: Project) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                if name_taken(connection, &project).await? {
                    return Ok(false);
                }
                let query = sqlx::query("update projects set name = $2 where id = $1").bind(project.id.as_str());
                query.bind(&project.name).execute(connection).await.map_err(|e| Error::query("rename a project", e))?;
                Ok(true)
            })
        })
        .await
    }

    /// Deletes a project that has nothing any more.
    pub async fn remove_project(&self, id: ProjectId) -> Result<ProjectRemoval, Error> {
        self.write(move |connection| Box::pin(async move { remove(connection, &id).await })).await
    }

    /// Sets the role of a person in a project, or removes them.
    pub async fn set_project_member(
        &self,
        project: Project,
        user: UserId,
        role: Option<Role>,
        at: Timestamp,
    ) -> Result<ProjectMemberSet, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let Some(role) = role else {
                    let query = sqlx::query("delete from project_members where project = $1 and user = $2");
                    let done = query.bind(project.id.as_str()).bind(user.as_str()).execute(connection).await;
                    return Ok(match done.map_err(|e| Error::query("remove a member", e))?.rows_affected() {
                        0 => ProjectMemberSet::Unknown,
                        _ => ProjectMemberSet::Done,
                    });
                };
                let Some(own) = member::role(connection, &project.team, &user).await? else {
                    return Ok(ProjectMemberSet::Unknown);
                };
                if !role.permissions().beyond(own.permissions()).is_empty() {
                    return Ok(ProjectMemberSet::AboveTeamRole(own));
                }
                set_member(connection, &project.id, &user, role, at).await?;
                Ok(ProjectMemberSet::Done)
            })
        })
        .await
    }
}

async fn name_taken(connection: &mut SqliteConnection, project: &Project) -> Result<bool, Error> {
    sqlx::query_scalar("select exists (select 1 from projects where team = $1 and name = $2 and id <> $3)")
        .bind(project.team.as_str())
        .bind(&project.name)
        .bind(project.id.as_str())
        .fetch_one(connection)
        .await
        .map_err(|e| Error::query("look for a project's name", e))
}

async fn remove(connection: &mut SqliteConnection, id: &ProjectId) -> Result<ProjectRemoval, Error> {
    let mut found = [const { Vec::<String>::new() }; 5];
    for (list, sql) in found.iter_mut().zip([
        "select id from sandboxes where project = $1 and state <> 'ended' order by id limit $2",
        "select id from templates where project = $1 order by id limit $2",
        "select id from snapshots where project = $1 order by id limit $2",
        "select id from chats where project = $1 order by id limit $2",
        "select name from api_keys where project = $1 order by name limit $2",
    ]) {
        let names = sqlx::query_scalar(sql).bind(id.as_str()).bind(MAX_LISTED).fetch_all(&mut *connection).await;
        *list = names.map_err(|e| Error::query("look for what a project has", e))?;
    }
    if found.iter().any(|list| !list.is_empty()) {
        let [sandboxes, templates, snapshots, chats, keys] = found;
        return Ok(ProjectRemoval::InUse { sandboxes, templates, snapshots, chats, keys });
    }
    let query = sqlx::query("delete from quotas where scope = 'project' and owner = $1").bind(id.as_str());
    query.execute(&mut *connection).await.map_err(|e| Error::query("delete quotas", e))?;
    let done = sqlx::query("delete from projects where id = $1").bind(id.as_str()).execute(connection).await;
    match done.map_err(|e| Error::query("delete a project", e))?.rows_affected() {
        0 => Ok(ProjectRemoval::Unknown),
        _ => Ok(ProjectRemoval::Removed),
    }
}

pub(crate) async fn set_member(
    connection: &mut SqliteConnection,
    project: &ProjectId,
    user: &UserId,
    role: Role,
    at: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "insert into project_members (project, user, role, created_at) values ($1, $2, $3, $4)
         on conflict do update set role = $3",
    )
    .bind(project.as_str())
    .bind(user.as_str())
    .bind(role.as_str())
    .bind(micros(at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a member", e))?;
    Ok(())
}

pub(crate) async fn insert(connection: &mut SqliteConnection, project: &Project) -> Result<(), Error> {
    sqlx::query("insert into projects (id, team, name, created_at) values ($1, $2, $3, $4)")
        .bind(project.id.as_str())
        .bind(project.team.as_str())
        .bind(&project.name)
        .bind(micros(project.created_at))
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a project", e))?;
    Ok(())
}

/// The project of a template.
pub(crate) async fn of_template(connection: &mut SqliteConnection, id: &TemplateId) -> Result<ProjectId, Error> {
    let project: Option<String> = sqlx::query_scalar("select project from templates where id = $1")
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .map_err(|e| Error::query("find the project of a template", e))?;
    Ok(project.ok_or_else(|| Error::NoTemplate(id.clone()))?.parse()?)
}

/// Adds a condition to a query: a column is one of some projects. Nothing for `None`, which is all.
pub(crate) fn push_filter(sql: &mut QueryBuilder<Sqlite>, column: &'static str, projects: Option<&[ProjectId]>) {
    let Some(projects) = projects else { return };
    sql.push(" and ").push(column).push(" in (");
    let mut list = sql.separated(", ");
    for project in projects {
        list.push_bind(project.as_str().to_owned());
    }
    sql.push(")");
}

pub(crate) fn decode(row: &SqliteRow) -> Result<Project, Error> {
    let row = Columns(row);
    Ok(Project {
        id: row.id("id")?,
        team: row.id("team")?,
        name: row.text("name")?,
        created_at: row.time("created_at")?,
    })
}
