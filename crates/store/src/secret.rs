//! Secrets of teams. Their values are sealed by the caller: the store never sees one.

use std::collections::BTreeMap;

use cabana_types::{SecretId, TeamId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, micros};
use crate::{Error, Store};

/// A secret with its sealed value.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// Its id.
    pub id: SecretId,
    /// Its team.
    pub team: TeamId,
    /// Its name as it was written; names that differ only in case are the same.
    pub name: String,
    /// How often its value was set.
    pub version: u32,
    /// Its sealed value.
    pub value: Vec<u8>,
    /// Labels.
    pub metadata: BTreeMap<String, String>,
    /// Hosts that it is for; empty for E2B's form.
    pub hosts: Vec<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What stands for its value inside a sandbox.
    pub placeholder: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its value was last set.
    pub updated_at: Timestamp,
}

impl std::fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedSecret").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a request names a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretRef {
    /// By id.
    Id(SecretId),
    /// By name, in any case.
    Name(String),
}

/// Result of inserting a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretInserted {
    /// It was inserted.
    New,
    /// The team has one of this name.
    Exists,
    /// The team has as many as it may have.
    Full,
}

/// A new value of a secret; what is `None` stays as it is.
#[derive(Clone)]
pub struct SecretChange {
    /// The sealed value.
    pub value: Vec<u8>,
    /// Labels.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Hosts and description.
    pub binding: Option<(Vec<String>, Option<String>)>,
}

impl Store {
    /// Inserts a secret unless its name is taken or its team has `most`.
    pub async fn insert_secret(&self, secret: SealedSecret, most: u32) -> Result<SecretInserted, Error> {
        self.write(move |connection| Box::pin(async move { insert(connection, secret, most).await })).await
    }

    /// Secrets of a team in the order of their creation, from the one after `after`.
    pub async fn secrets(
        &self,
        team: &TeamId,
        after: Option<&SecretId>,
        limit: u32,
    ) -> Result<Vec<SealedSecret>, Error> {
        let rows = sqlx::query("select * from secrets where team = $1 and id > $2 order by id limit $3")
            .bind(team.as_str())
            .bind(after.map_or("", SecretId::as_str))
            .bind(limit)
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list secrets", e))?;
        rows.iter().map(decode).collect()
    }

    /// A secret of a team.
    pub async fn secret(&self, team: &TeamId, secret: &SecretRef) -> Result<Option<SealedSecret>, Error> {
        let query = match secret {
            SecretRef::Id(id) => {
                sqlx::query("select * from secrets where team = $1 and id = $2").bind(team.as_str()).bind(id.as_str())
            }
            SecretRef::Name(name) => sqlx::query("select * from secrets where team = $1 and name = $2")
                .bind(team.as_str())
                .bind(name.to_ascii_lowercase()),
        };
        let row = query.fetch_optional(self.reader()).await.map_err(|e| Error::query("read a secret", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// Sets the value of a secret; `None` if it is gone.
    pub async fn change_secret(
        &self,
        team: TeamId,
        id: SecretId,
        change: SecretChange,
        at: Timestamp,
    ) -> Result<Option<SealedSecret>, Error> {
        self.write(move |connection| Box::pin(async move { change_one(connection, &team, &id, change, at).await }))
            .await
    }

    /// Deletes a secret of a team. Returns whether it existed.
    pub async fn remove_secret(&self, team: TeamId, id: SecretId) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from secrets where team = $1 and id = $2")
                    .bind(team.as_str())
                    .bind(id.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete a secret", e))?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }
}

async fn insert(connection: &mut SqliteConnection, secret: SealedSecret, most: u32) -> Result<SecretInserted, Error> {
    let name = secret.name.to_ascii_lowercase();
    let (count, same): (i64, i64) =
        sqlx::query_as("select count(*), coalesce(sum(name = $2), 0) from secrets where team = $1")
            .bind(secret.team.as_str())
            .bind(&name)
            .fetch_one(&mut *connection)
            .await
            .map_err(|e| Error::query("count secrets", e))?;
    if same > 0 {
        return Ok(SecretInserted::Exists);
    }
    if count >= i64::from(most) {
        return Ok(SecretInserted::Full);
    }
    sqlx::query(
        "insert into secrets (id, team, name, spelling, version, value, metadata, hosts, description, placeholder, created_at,
            updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    )
    .bind(secret.id.as_str())
    .bind(secret.team.as_str())
    .bind(name)
    .bind(&secret.name)
    .bind(secret.version)
    .bind(&secret.value)
    .bind(column::json("metadata", &secret.metadata)?)
    .bind(column::json("hosts", &secret.hosts)?)
    .bind(&secret.description)
    .bind(&secret.placeholder)
    .bind(micros(secret.created_at))
    .bind(micros(secret.updated_at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a secret", e))?;
    Ok(SecretInserted::New)
}

async fn change_one(
    connection: &mut SqliteConnection,
    team: &TeamId,
    id: &SecretId,
    change: SecretChange,
    at: Timestamp,
) -> Result<Option<SealedSecret>, Error> {
    let metadata = change.metadata.map(|metadata| column::json("metadata", &metadata)).transpose()?;
    let replaces = change.binding.is_some();
    let (hosts, description) = change.binding.unwrap_or_default();
    let row = sqlx::query(
        "update secrets set value = $3, version = version + 1, updated_at = $4, metadata = coalesce($5, metadata),
            hosts = iif($6, $7, hosts), description = iif($6, $8, description)
         where team = $1 and id = $2 returning *",
    )
    .bind(team.as_str())
    .bind(id.as_str())
    .bind(change.value)
    .bind(micros(at))
    .bind(metadata)
    .bind(replaces)
    .bind(column::json("hosts", &hosts)?)
    .bind(description)
    .fetch_optional(connection)
    .await
    .map_err(|e| Error::query("change a secret", e))?;
    row.as_ref().map(decode).transpose()
}

fn decode(row: &SqliteRow) -> Result<SealedSecret, Error> {
    let row = Columns(row);
    Ok(SealedSecret {
        id: row.id("id")?,
        team: row.id("team")?,
        name: row.text("spelling")?,
        version: row.number("version")?,
        value: row.bytes("value")?,
        metadata: row.json("metadata")?,
        hosts: row.json("hosts")?,
        description: row.text_or_none("description")?,
        placeholder: row.text("placeholder")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
    })
}
