//! Webhooks: URLs that receive a team's events. Pending deliveries are in [`crate::delivery`].

use cabana_types::{Secret, TeamId, WebhookId};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, micros};
use crate::{Error, Store, delivery};

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// The team whose events it receives.
    pub team: TeamId,
    /// Name given by its owner.
    pub name: String,
    /// URL that events are posted to.
    pub url: String,
    /// Secret that signs deliveries.
    pub secret: Secret,
    /// Types of events that it receives.
    pub events: Vec<String>,
    /// Whether events are sent.
    pub enabled: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// Pending deliveries.
    pub pending: u64,
    /// Events that were dropped because its queue was full.
    pub dropped: u64,
}

/// Changes of a webhook; `None` leaves a field unchanged.
#[derive(Debug, Clone, Default)]
pub struct WebhookChange {
    pub name: Option<String>,
    pub url: Option<String>,
    pub secret: Option<Secret>,
    pub events: Option<Vec<String>>,
    pub enabled: Option<bool>,
}

const SELECT: &str = "select w.*,
        (select count(*) from deliveries d where d.webhook = w.id and d.state = 'pending') as pending
     from webhooks w ";

impl Store {
    /// Inserts a webhook unless its team has `most`. Returns whether it did.
    pub async fn add_webhook_within(&self, webhook: Webhook, most: u32) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let count: i64 = sqlx::query_scalar("select count(*) from webhooks where team = $1")
                    .bind(webhook.team.as_str())
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(|e| Error::query("count webhooks", e))?;
                if count >= i64::from(most) {
                    return Ok(false);
                }
                sqlx::query(
                    "insert into webhooks (id, team, name, url, secret, events, enabled, created_at)
                     values ($1, $2, $3, $4, $5, $6, $7, $8)",
                )
                .bind(webhook.id.as_str())
                .bind(webhook.team.as_str())
                .bind(&webhook.name)
                .bind(&webhook.url)
                .bind(webhook.secret.expose())
                .bind(column::json("events", &webhook.events)?)
                .bind(webhook.enabled)
                .bind(micros(webhook.created_at))
                .execute(connection)
                .await
                .map_err(|e| Error::query("write a webhook", e))?;
                Ok(true)
            })
        })
        .await
    }

    /// The webhooks of a team, oldest first.
    pub async fn webhooks(&self, team: &TeamId) -> Result<Vec<Webhook>, Error> {
        let sql = format!("{SELECT} where w.team = $1 order by w.created_at, w.id");
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(team.as_str())
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list webhooks", e))?;
        rows.iter().map(decode).collect()
    }

    /// A webhook of a team.
    pub async fn webhook(&self, team: &TeamId, id: &WebhookId) -> Result<Option<Webhook>, Error> {
        let sql = format!("{SELECT} where w.id = $1 and w.team = $2");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .bind(id.as_str())
            .bind(team.as_str())
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a webhook", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// Changes a team's webhook and clears its backoff. If it is disabled, its pending deliveries are given up.
    pub async fn change_webhook(
        &self,
        team: TeamId,
        id: WebhookId,
        change: WebhookChange,
        at: Timestamp,
    ) -> Result<Option<Webhook>, Error> {
        let changed = self
            .write(move |connection| Box::pin(async move { change_one(connection, &team, &id, change, at).await }))
            .await?;
        self.deliveries_added().notify_one();
        Ok(changed)
    }

    /// Deletes a team's webhook and its deliveries. Returns whether it existed.
    pub async fn remove_webhook(&self, team: TeamId, id: WebhookId) -> Result<bool, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query("delete from webhooks where id = $1 and team = $2")
                    .bind(id.as_str())
                    .bind(team.as_str())
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("delete a webhook", e))?;
                Ok(done.rows_affected() > 0)
            })
        })
        .await
    }
}

async fn change_one(
    connection: &mut SqliteConnection,
    team: &TeamId,
    id: &WebhookId,
    change: WebhookChange,
    at: Timestamp,
) -> Result<Option<Webhook>, Error> {
    let events = change.events.map(|events| column::json("events", &events)).transpose()?;
    let done = sqlx::query(
        "update webhooks set name = coalesce($3, name), url = coalesce($4, url), secret = coalesce($5, secret),
            events = coalesce($6, events), enabled = coalesce($7, enabled), failures = 0, due_at = null
         where id = $1 and team = $2",
    )
    .bind(id.as_str())
    .bind(team.as_str())
    .bind(change.name)
    .bind(change.url)
    .bind(change.secret.as_ref().map(|secret| secret.expose().to_owned()))
    .bind(events)
    .bind(change.enabled)
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("change a webhook", e))?;
    if done.rows_affected() == 0 {
        return Ok(None);
    }
    if change.enabled == Some(false) {
        delivery::give_up(connection, id, "the webhook was disabled", at).await?;
    }
    let row = sqlx::query(sqlx::AssertSqlSafe(format!("{SELECT} where w.id = $1")))
        .bind(id.as_str())
        .fetch_one(connection)
        .await
        .map_err(|e| Error::query("read a webhook", e))?;
    decode(&row).map(Some)
}

fn decode(row: &SqliteRow) -> Result<Webhook, Error> {
    let row = Columns(row);
    Ok(Webhook {
        id: row.id("id")?,
        team: row.id("team")?,
        name: row.text("name")?,
        url: row.text("url")?,
        secret: Secret::new(row.text("secret")?),
        events: row.json("events")?,
        enabled: row.flag("enabled")?,
        created_at: row.time("created_at")?,
        pending: row.number("pending")?,
        dropped: row.number("dropped")?,
    })
}
