//! Making, renaming and deleting teams.

use cabana_types::{Role, TeamId, UserId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::column::{Columns, micros};
use crate::{Error, Store, Team, key, member};

/// Names of what keeps a team from being deleted that an error lists.
const MAX_LISTED: u32 = 10;

/// What of a team must be deleted before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TeamInUse {
    pub sandboxes: Vec<String>,
    pub templates: Vec<String>,
    pub snapshots: Vec<String>,
    pub chats: Vec<String>,
}

/// The result of deleting a team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TeamRemoval {
    Removed,
    Unknown,
    InUse(TeamInUse),
}

/// A team as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamOverview {
    pub team: Team,
    pub plan: String,
    pub members: u64,
    pub sandboxes: u64,
}

impl Store {
    /// Inserts a team, with an owner if one is given. Returns `false` if another team has the name.
    pub async fn create_team(&self, team: Team, owner: Option<UserId>) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                if name_taken(connection, &team.id, &team.name).await? {
                    return Ok(false);
                }
                key::insert_team(connection, &team).await?;
                if let Some(owner) = owner {
                    member::insert(connection, &team.id, &owner, Role::Owner, team.created_at).await?;
                }
                Ok(true)
            })
        })
        .await
    }

    /// Renames a team. Returns `false` if another team has the name.
    pub async fn rename_team(&self, team: TeamId, name: String) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                if name_taken(connection, &team, &name).await? {
                    return Ok(false);
                }
                let query = sqlx::query("update teams set name = $2 where id = $1 and deleted_at is null");
                let done = query.bind(team.as_str()).bind(name).execute(connection).await;
                match done.map_err(|e| Error::query("rename a team", e))?.rows_affected() {
                    0 => Err(Error::NoTeam(team)),
                    _ => Ok(true),
                }
            })
        })
        .await
    }

    /// Deletes a team that has no sandboxes, templates, snapshots and chats any more. Its row stays for what it has used.
    pub async fn remove_team(&self, team: TeamId, at: Timestamp) -> Result<TeamRemoval, Error> {
        self.write(move |connection| Box::pin(async move { remove(connection, &team, at).await })).await
    }

    /// Every team, oldest first.
    pub async fn team_overviews(&self) -> Result<Vec<TeamOverview>, Error> {
        let rows = sqlx::query(
            "select teams.*, (select count(*) from members where team = teams.id) as members,
                (select count(*) from sandboxes where team = teams.id and state <> 'ended') as sandboxes
             from teams where deleted_at is null order by created_at, id",
        )
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list teams", e))?;
        let read = |row| {
            let columns = Columns(row);
            Ok(TeamOverview {
                team: key::team(row)?,
                plan: columns.text("plan")?,
                members: columns.number("members")?,
                sandboxes: columns.number("sandboxes")?,
            })
        };
        rows.iter().map(read).collect()
    }
}

async fn name_taken(connection: &mut SqliteConnection, team: &TeamId, name: &str) -> Result<bool, Error> {
    sqlx::query_scalar("select exists (select 1 from teams where name = $2 and id <> $1)")
        .bind(team.as_str())
        .bind(name)
        .fetch_one(connection)
        .await
        .map_err(|e| Error::query("look for a team's name", e))
}

async fn remove(connection: &mut SqliteConnection, team: &TeamId, at: Timestamp) -> Result<TeamRemoval, Error> {
    let mut found = TeamInUse::default();
    for (list, sql) in [
        (&mut found.sandboxes, "select id from sandboxes where team = $1 and state <> 'ended' order by id limit $2"),
        (&mut found.templates, "select alias from template_aliases where team = $1 order by alias limit $2"),
        (&mut found.snapshots, "select id from snapshots where team = $1 order by id limit $2"),
        (&mut found.chats, "select id from chats where team = $1 order by id limit $2"),
    ] {
        let names = sqlx::query_scalar(sql).bind(team.as_str()).bind(MAX_LISTED).fetch_all(&mut *connection).await;
        *list = names.map_err(|e| Error::query("look for what a team has", e))?;
    }
    if found != TeamInUse::default() {
        return Ok(TeamRemoval::InUse(found));
    }
    // The name is free again; no other team can have an id as its name.
    let gone =
        sqlx::query("update teams set deleted_at = $2, name = 'deleted ' || id where id = $1 and deleted_at is null");
    let gone = gone.bind(team.as_str()).bind(micros(at)).execute(&mut *connection).await;
    if gone.map_err(|e| Error::query("delete a team", e))?.rows_affected() == 0 {
        return Ok(TeamRemoval::Unknown);
    }
    for sql in [
        "delete from invitations where team = $1",
        "delete from project_members where project in (select id from projects where team = $1)",
        "delete from members where team = $1",
        "delete from sessions where team = $1 and key is not null",
        "delete from api_keys where team = $1",
        "delete from webhooks where team = $1",
        "delete from secrets where team = $1",
        "delete from agents where team = $1",
        "delete from model_providers where team = $1",
        "delete from attachments where team = $1",
        "delete from quotas where owner = $1 or owner in (select id from projects where team = $1)",
    ] {
        let query = sqlx::query(sql).bind(team.as_str());
        query.execute(&mut *connection).await.map_err(|e| Error::query("delete what a team has", e))?;
    }
    Ok(TeamRemoval::Removed)
}
