//! Projects: the parts of a team to which sandboxes, templates, snapshots and chats belong.

use cabana_types::{ProjectId, TeamId};
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{Columns, micros};
use crate::{Error, Store, Team};

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

/// Adds a condition to a query: the column `project` is one of some. Nothing for `None`, which is all.
pub(crate) fn push_filter(sql: &mut QueryBuilder<Sqlite>, projects: Option<&[ProjectId]>) {
    let Some(projects) = projects else { return };
    sql.push(" and project in (");
    let mut list = sql.separated(", ");
    for project in projects {
        list.push_bind(project.as_str().to_owned());
    }
    sql.push(")");
}

fn decode(row: &SqliteRow) -> Result<Project, Error> {
    let row = Columns(row);
    Ok(Project {
        id: row.id("id")?,
        team: row.id("team")?,
        name: row.text("name")?,
        created_at: row.time("created_at")?,
    })
}
