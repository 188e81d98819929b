//! Who belongs to which team and project, with which role.

use cabana_types::{ProjectId, Role, TeamId, UserId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::{Error, Project, Store, Team, User, project, user};

/// A person of a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    pub team: TeamId,
    pub user: UserId,
    pub role: Role,
    pub created_at: Timestamp,
}

/// A person of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectMemberRow {
    pub project: ProjectId,
    pub user: UserId,
    /// At most the role in the team counts.
    pub role: Role,
}

/// Everybody, and where they belong: what is known of people to decide about a request.
#[derive(Debug, Clone, Default)]
pub struct People {
    pub users: Vec<User>,
    pub teams: Vec<Team>,
    pub members: Vec<MemberRow>,
    pub projects: Vec<Project>,
    pub project_members: Vec<ProjectMemberRow>,
}

/// The result of changing the role of a member, or of removing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange {
    Done,
    /// The person is no member of the team.
    Unknown,
    /// Whoever changes it may not give or take such a role.
    Forbidden,
    /// A team must have an owner.
    LastOwner,
}

impl Store {
    /// Everybody, and where they belong.
    pub async fn people(&self) -> Result<People, Error> {
        // One statement per table within one snapshot.
        let failed = |e| Error::query("read people", e);
        let mut reader = self.reader().begin().await.map_err(failed)?;
        let users = sqlx::query("select * from users order by created_at, id").fetch_all(&mut *reader).await;
        let teams =
            sqlx::query("select id, name, created_at from teams where deleted_at is null order by created_at, id");
        let teams = teams.fetch_all(&mut *reader).await.map_err(failed)?;
        let members = sqlx::query("select * from members order by created_at, user").fetch_all(&mut *reader).await;
        let projects = sqlx::query("select * from projects order by created_at, id").fetch_all(&mut *reader).await;
        let inside = sqlx::query("select * from project_members order by created_at, user");
        let inside = inside.fetch_all(&mut *reader).await.map_err(failed)?;
        Ok(People {
            users: users.map_err(failed)?.iter().map(user::decode).collect::<Result<_, _>>()?,
            teams: teams.iter().map(crate::key::team).collect::<Result<_, _>>()?,
            members: members.map_err(failed)?.iter().map(decode).collect::<Result<_, _>>()?,
            projects: projects.map_err(failed)?.iter().map(project::decode).collect::<Result<_, _>>()?,
            project_members: inside.iter().map(decode_inside).collect::<Result<_, _>>()?,
        })
    }

    /// Adds a person to a team, or changes their role.
    pub async fn add_member(&self, member: MemberRow) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let MemberRow { team, user, role, created_at } = &member;
                insert(connection, team, user, *role, *created_at).await
            })
        })
        .await
    }

    /// Gives a member another role, or none: then they leave the team and its projects. `by` is who does it; `None` is the operator,
    /// or the member who leaves.
    pub async fn change_member(
        &self,
        team: TeamId,
        user: UserId,
        role: Option<Role>,
        by: Option<Changer>,
    ) -> Result<MemberChange, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let Some(before) = self::role(connection, &team, &user).await? else {
                    return Ok(MemberChange::Unknown);
                };
                // Read here: whoever was demoted a moment ago decides nothing any more.
                let changer = match by {
                    None => None,
                    Some(Changer::Role(role)) => Some(role),
                    Some(Changer::User(by)) => match self::role(connection, &team, &by).await? {
                        Some(role) => Some(role),
                        None => return Ok(MemberChange::Forbidden),
                    },
                };
                if changer.is_some_and(|by| !by.may_grant(before) || role.is_some_and(|role| !by.may_grant(role))) {
                    return Ok(MemberChange::Forbidden);
                }
                if before == Role::Owner && role != Some(Role::Owner) && owners(connection, &team).await? <= 1 {
                    return Ok(MemberChange::LastOwner);
                }
                match role {
                    Some(role) => set(connection, &team, &user, role).await?,
                    None => remove(connection, &team, &user).await?,
                }
                Ok(MemberChange::Done)
            })
        })
        .await
    }
}

/// Who changes a member.
#[derive(Debug, Clone)]
pub enum Changer {
    /// A member, by the role that they have then.
    User(UserId),
    /// A key, with what a role may do.
    Role(Role),
}

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    team: &TeamId,
    user: &UserId,
    role: Role,
    at: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "insert into members (team, user, role, created_at) values ($1, $2, $3, $4) on conflict do update set role = $3",
    )
    .bind(team.as_str())
    .bind(user.as_str())
    .bind(role.as_str())
    .bind(micros(at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("insert a member", e))?;
    Ok(())
}

pub(crate) async fn role(
    connection: &mut SqliteConnection,
    team: &TeamId,
    user: &UserId,
) -> Result<Option<Role>, Error> {
    let row = sqlx::query("select role from members where team = $1 and user = $2")
        .bind(team.as_str())
        .bind(user.as_str())
        .fetch_optional(connection)
        .await;
    let row = row.map_err(|e| Error::query("read a role", e))?;
    row.map(|row| Columns(&row).word("role", |word| word.parse().ok())).transpose()
}

async fn owners(connection: &mut SqliteConnection, team: &TeamId) -> Result<i64, Error> {
    // A disabled owner cannot act for the team.
    sqlx::query_scalar(
        "select count(*) from members join users on users.id = members.user
         where team = $1 and role = 'owner' and disabled_at is null",
    )
    .bind(team.as_str())
    .fetch_one(connection)
    .await
    .map_err(|e| Error::query("count owners", e))
}

async fn set(connection: &mut SqliteConnection, team: &TeamId, user: &UserId, role: Role) -> Result<(), Error> {
    let query = sqlx::query("update members set role = $3 where team = $1 and user = $2");
    let query = query.bind(team.as_str()).bind(user.as_str()).bind(role.as_str());
    query.execute(connection).await.map_err(|e| Error::query("write a role", e))?;
    Ok(())
}

async fn remove(connection: &mut SqliteConnection, team: &TeamId, user: &UserId) -> Result<(), Error> {
    for sql in [
        "delete from members where team = $1 and user = $2",
        "delete from project_members where user = $2 and project in (select id from projects where team = $1)",
    ] {
        let query = sqlx::query(sql).bind(team.as_str()).bind(user.as_str());
        query.execute(&mut *connection).await.map_err(|e| Error::query("remove a member", e))?;
    }
    Ok(())
}

fn decode(row: &SqliteRow) -> Result<MemberRow, Error> {
    let row = Columns(row);
    Ok(MemberRow {
        team: row.id("team")?,
        user: row.id("user")?,
        role: row.word("role", |word| word.parse().ok())?,
        created_at: row.time("created_at")?,
    })
}

fn decode_inside(row: &SqliteRow) -> Result<ProjectMemberRow, Error> {
    let row = Columns(row);
    Ok(ProjectMemberRow {
        project: row.id("project")?,
        user: row.id("user")?,
        role: row.word("role", |word| word.parse().ok())?,
    })
}
