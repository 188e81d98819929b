//! Teams and API keys. Only hashes of keys are stored.

use cabana_types::{ActorId, KeyId, Permissions, ProjectId, TeamId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, micros};
use crate::project::{self, Project};
use crate::{Error, Store};

/// A team: the owner of sandboxes, keys and templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Its id.
    pub id: TeamId,
    /// Its name; also the namespace of its templates.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// An API key; only a hash of the key is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Its public id.
    pub id: KeyId,
    /// Its team.
    pub team: TeamId,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// Name given by its owner.
    pub name: String,
    /// The key's first characters.
    pub prefix: String,
    /// The key's last characters.
    pub suffix: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last used, to within a minute.
    pub last_used_at: Option<Timestamp>,
    /// What it may do.
    pub scopes: Permissions,
    /// From then on it is invalid.
    pub expires_at: Option<Timestamp>,
    /// Networks that it can be used from (`10.0.0.0/8`); none: from anywhere.
    pub cidrs: Vec<String>,
    /// Who made it; nobody for those that the server made, and those of earlier versions.
    pub created_by: Option<ActorId>,
    /// The only project that it is for; `None`: all of the team.
    pub project: Option<ProjectId>,
}

/// The result of removing a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRemoval {
    /// Removed.
    Removed,
    /// The team has no such key.
    Unknown,
    /// It is the team's last key and was kept.
    Last,
}

impl Store {
    /// Every team, oldest first.
    pub async fn teams(&self) -> Result<Vec<Team>, Error> {
        let rows = sqlx::query("select id, name, created_at from teams order by created_at, id")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list teams", e))?;
        rows.iter().map(team).collect()
    }

    /// Every key of every team, oldest first.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, Error> {
        let rows = sqlx::query("select * from api_keys order by created_at, id")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list API keys", e))?;
        rows.iter().map(key).collect()
    }

    /// Inserts the first team and its first key if there is no team. Returns whether it did.
    pub async fn create_first_team(&self, team: Team, first: ApiKey) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let teams: i64 = sqlx::query_scalar("select count(*) from teams")
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(|e| Error::query("count teams", e))?;
                if teams > 0 {
                    return Ok(false);
                }
                insert_team(connection, &team).await?;
                insert_key(connection, &first).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Inserts a team. Used only by tests: no route or command creates teams.
    pub async fn add_team(&self, team: Team) -> Result<(), Error> {
        self.write(move |connection| Box::pin(async move { insert_team(connection, &team).await })).await
    }

    /// Inserts a key.
    pub async fn add_key(&self, key: ApiKey) -> Result<(), Error> {
        self.write(move |connection| Box::pin(async move { insert_key(connection, &key).await })).await
    }

    /// The keys of a team, oldest first.
    pub async fn team_keys(&self, team: &TeamId) -> Result<Vec<ApiKey>, Error> {
        let rows = sqlx::query("select * from api_keys where team = $1 order by created_at, id")
            .bind(team.as_str())
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list API keys", e))?;
        rows.iter().map(key).collect()
    }

    /// Inserts a key unless its team has `most` keys. Returns whether it did.
    pub async fn add_key_within(&self, key: ApiKey, most: u32) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                if count_keys(connection, &key.team).await? >= i64::from(most) {
                    return Ok(false);
                }
                insert_key(connection, &key).await?;
                Ok(true)
            })
        })
        .await
    }

    /// Renames a team's key. Returns whether it exists.
    pub async fn rename_key(&self, team: TeamId, id: KeyId, name: String) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("update api_keys set name = $3 where id = $1 and team = $2")
                    .bind(id.as_str())
                    .bind(team.as_str())
                    .bind(name)
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("rename an API key", e))?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// Removes a team's key, unless it is the last one.
    pub async fn remove_key(&self, team: TeamId, id: KeyId) -> Result<KeyRemoval, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let there: i64 = sqlx::query_scalar("select count(*) from api_keys where id = $1 and team = $2")
                    .bind(id.as_str())
                    .bind(team.as_str())
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(|e| Error::query("look for an API key", e))?;
                if there == 0 {
                    return Ok(KeyRemoval::Unknown);
                }
                if count_keys(connection, &team).await? <= 1 {
                    return Ok(KeyRemoval::Last);
                }
                sqlx::query("delete from api_keys where id = $1")
                    .bind(id.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete an API key", e))?;
                Ok(KeyRemoval::Removed)
            })
        })
        .await
    }

    /// Records when keys were last used.
    pub async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                for (id, at) in used {
                    sqlx::query("update api_keys set last_used_at = $2 where id = $1")
                        .bind(id.as_str())
                        .bind(micros(at))
                        .execute(&mut *connection)
                        .await
                        .map_err(|e| Error::query("record the use of an API key", e))?;
                }
                Ok(())
            })
        })
        .await
    }
}

async fn count_keys(connection: &mut SqliteConnection, team: &TeamId) -> Result<i64, Error> {
    sqlx::query_scalar("select count(*) from api_keys where team = $1")
        .bind(team.as_str())
        .fetch_one(connection)
        .await
        .map_err(|e| Error::query("count API keys", e))
}

async fn insert_team(connection: &mut SqliteConnection, team: &Team) -> Result<(), Error> {
    sqlx::query("insert into teams (id, name, created_at) values ($1, $2, $3)")
        .bind(team.id.as_str())
        .bind(&team.name)
        .bind(micros(team.created_at))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("write a team", e))?;
    project::insert(connection, &Project::default_of(team)).await
}

async fn insert_key(connection: &mut SqliteConnection, key: &ApiKey) -> Result<(), Error> {
    sqlx::query(
        "insert into api_keys (id, team, hash, name, prefix, suffix, created_at, last_used_at, scopes, expires_at, cidrs, created_by,
            project)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    )
    .bind(key.id.as_str())
    .bind(key.team.as_str())
    .bind(key.hash.as_slice())
    .bind(&key.name)
    .bind(&key.prefix)
    .bind(&key.suffix)
    .bind(micros(key.created_at))
    .bind(key.last_used_at.map(micros))
    .bind(scopes_text(key.scopes))
    .bind(key.expires_at.map(micros))
    .bind((!key.cidrs.is_empty()).then(|| key.cidrs.join(" ")))
    .bind(key.created_by.as_ref().map(ActorId::as_str))
    .bind(key.project.as_ref().map(ProjectId::as_str))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write an API key", e))?;
    Ok(())
}

fn team(row: &SqliteRow) -> Result<Team, Error> {
    let row = Columns(row);
    Ok(Team { id: row.id("id")?, name: row.text("name")?, created_at: row.time("created_at")? })
}

fn key(row: &SqliteRow) -> Result<ApiKey, Error> {
    let row = Columns(row);
    Ok(ApiKey {
        id: row.id("id")?,
        team: row.id("team")?,
        hash: row.hash_or_none("hash")?.ok_or_else(|| Error::decode("hash", "missing"))?,
        name: row.text("name")?,
        prefix: row.text("prefix")?,
        suffix: row.text("suffix")?,
        created_at: row.time("created_at")?,
        last_used_at: row.time_or_none("last_used_at")?,
        scopes: scopes(row.text_or_none("scopes")?.as_deref())?,
        expires_at: row.time_or_none("expires_at")?,
        cidrs: row.text_or_none("cidrs")?.iter().flat_map(|text| text.split(' ')).map(str::to_owned).collect(),
        created_by: row.actor_or_none("created_by")?,
        project: row.id_or_none("project")?,
    })
}

/// Scopes as the column has them. Keys of E2B's form get scopes that are added later; those with a list do not.
fn scopes_text(scopes: Permissions) -> Option<String> {
    match scopes {
        Permissions::PLAIN_KEY => None,
        Permissions::ALL => Some("*".into()),
        scopes => Some(scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ")),
    }
}

fn scopes(text: Option<&str>) -> Result<Permissions, Error> {
    match text {
        None => Ok(Permissions::PLAIN_KEY),
        Some("*") => Ok(Permissions::ALL),
        Some(text) => {
            text.split_whitespace().map(|word| word.parse().map_err(|e| Error::decode("scopes", e))).collect()
        }
    }
}
