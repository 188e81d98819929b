//! Model providers that teams added.

use cabana_types::TeamId;
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, micros};
use crate::{Error, Store};

/// A model provider of a team.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderRow {
    pub team: TeamId,
    pub name: String,
    pub kind: String,
    pub base_url: Option<String>,
    /// Sealed.
    pub key: Option<Vec<u8>>,
    pub models: Vec<String>,
    pub created_at: Timestamp,
}

impl std::fmt::Debug for ProviderRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderRow").field("team", &self.team).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Store {
    /// Inserts a provider, or replaces the team's provider of this name.
    pub async fn set_provider(&self, provider: ProviderRow) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query(
                    "insert into model_providers (team, name, kind, base_url, key, models, created_at)
                     values ($1, $2, $3, $4, $5, $6, $7)
                     on conflict (team, name) do update set kind = $3, base_url = $4, key = $5, models = $6, created_at = $7",
                )
                .bind(provider.team.as_str())
                .bind(&provider.name)
                .bind(&provider.kind)
                .bind(&provider.base_url)
                .bind(&provider.key)
                .bind(column::json("models", &provider.models)?)
                .bind(micros(provider.created_at))
                .execute(connection)
                .await
                .map_err(|e| Error::query("write a model provider", e))?;
                Ok(())
            })
        })
        .await
    }

    /// Deletes a provider. Returns whether there was one.
    pub async fn delete_provider(&self, team: TeamId, name: String) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from model_providers where team = $1 and name = $2")
                    .bind(team.as_str())
                    .bind(name)
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete a model provider", e))?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }

    /// The providers of a team, by name.
    pub async fn providers(&self, team: &TeamId) -> Result<Vec<ProviderRow>, Error> {
        let rows = sqlx::query("select * from model_providers where team = $1 order by name")
            .bind(team.as_str())
            .fetch_all(self.reader())
            .await;
        rows.map_err(|e| Error::query("list model providers", e))?.iter().map(decode).collect()
    }

    /// A provider of a team.
    pub async fn provider(&self, team: &TeamId, name: &str) -> Result<Option<ProviderRow>, Error> {
        let row = sqlx::query("select * from model_providers where team = $1 and name = $2")
            .bind(team.as_str())
            .bind(name)
            .fetch_optional(self.reader())
            .await;
        row.map_err(|e| Error::query("read a model provider", e))?.as_ref().map(decode).transpose()
    }
}

fn decode(row: &SqliteRow) -> Result<ProviderRow, Error> {
    let row = Columns(row);
    Ok(ProviderRow {
        team: row.id("team")?,
        name: row.text("name")?,
        kind: row.text("kind")?,
        base_url: row.text_or_none("base_url")?,
        key: row.bytes_or_none("key")?,
        models: row.json("models")?,
        created_at: row.time("created_at")?,
    })
}
