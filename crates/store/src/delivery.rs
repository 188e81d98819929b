//! Webhook deliveries: one queue per webhook, in event order. An entry is written in the transaction of
//! its event, so a crash loses none.

use cabana_types::{SandboxId, Secret, TeamId, WebhookId};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::{Row, SqliteConnection};
use tokio::sync::Notify;

use crate::column::{Columns, micros};
use crate::{Error, Event, Store};

/// Pending deliveries per webhook; beyond that the oldest are dropped.
pub const MAX_PENDING: u32 = 1000;
/// Finished deliveries kept per webhook.
pub const MAX_FINISHED: u32 = 100;
/// Larger metadata of a sandbox is not sent, bytes.
pub const MAX_METADATA_BYTES: u32 = 16 * 1024;

/// A webhook with pending deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The webhook.
    pub webhook: WebhookId,
    /// Earliest time of the next attempt, after a failed one.
    pub due_at: Option<Timestamp>,
}

/// The next delivery of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDelivery {
    /// Its sequence number.
    pub seq: i64,
    /// The webhook.
    pub webhook: WebhookId,
    /// The webhook's URL.
    pub url: String,
    /// Secret that signs the delivery.
    pub secret: Secret,
    /// The event.
    pub event: Event,
    /// The sandbox's metadata, unless it is too large.
    pub metadata: Option<Value>,
    /// The sandbox's virtual CPUs.
    pub cpu_count: u32,
    /// The sandbox's memory, MiB.
    pub memory_mb: u32,
    /// When the sandbox started, if it had by then.
    pub started_at: Option<Timestamp>,
    /// Attempts so far.
    pub tries: u32,
    /// Consecutive failed attempts of this webhook.
    pub failures: u32,
    /// Earliest time of the next attempt.
    pub due_at: Option<Timestamp>,
}

/// Result of a delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its id, sent to the receiver.
    pub id: String,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Error, if it failed.
    pub error: Option<String>,
    /// When it ended.
    pub at: Timestamp,
}

/// What to do with a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was delivered.
    Delivered,
    /// Retry; the webhook's queue is on hold until this time.
    Again(Timestamp),
    /// Give up; the webhook's queue is on hold until this time.
    GivenUp(Timestamp),
}

/// A delivery as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Id of the event.
    pub event: String,
    /// Type of the event.
    pub kind: String,
    /// Time of the event.
    pub at: Timestamp,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// Attempts so far.
    pub tries: u32,
    /// Id of the last attempt.
    pub attempt: Option<String>,
    /// HTTP status of the last attempt.
    pub status: Option<u16>,
    /// Error of the last attempt.
    pub error: Option<String>,
    /// When it is retried, if it is pending.
    pub due_at: Option<Timestamp>,
    /// When it was delivered or given up.
    pub finished_at: Option<Timestamp>,
}

impl Store {
    /// Notified when a delivery may have become due. Supports one listener.
    pub fn deliveries_added(&self) -> &Notify {
        self.added()
    }

    /// Every webhook with pending deliveries.
    pub async fn queues(&self) -> Result<Vec<Queue>, Error> {
        let rows = sqlx::query(
            "select id, due_at from webhooks w
             where enabled and exists (select 1 from deliveries d where d.webhook = w.id and d.state = 'pending')",
        )
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list what waits for webhooks", e))?;
        rows.iter()
            .map(|row| {
                let row = Columns(row);
                Ok(Queue { webhook: row.id("id")?, due_at: row.time_or_none("due_at")? })
            })
            .collect()
    }

    /// How many deliveries are pending.
    pub async fn pending_deliveries(&self) -> Result<u64, Error> {
        let count: i64 = sqlx::query_scalar("select count(*) from deliveries where state = 'pending'")
            .fetch_one(self.reader())
            .await
            .map_err(|e| Error::query("count deliveries", e))?;
        u64::try_from(count).map_err(|e| Error::decode("count", e))
    }

    /// The oldest pending delivery of a webhook.
    pub async fn next_delivery(&self, webhook: &WebhookId) -> Result<Option<PendingDelivery>, Error> {
        let row = sqlx::query(
            "select d.*, w.team, w.url, w.secret, w.failures, w.due_at from webhooks w join deliveries d on d.webhook = w.id
             where w.id = $1 and w.enabled and d.state = 'pending' order by d.seq limit 1",
        )
        .bind(webhook.as_str())
        .fetch_optional(self.reader())
        .await
        .map_err(|e| Error::query("read what waits for a webhook", e))?;
        let Some(row) = row.as_ref().map(Columns) else { return Ok(None) };
        Ok(Some(PendingDelivery {
            seq: row.integer("seq")?,
            webhook: row.id("webhook")?,
            url: row.text("url")?,
            secret: Secret::new(row.text("secret")?),
            event: Event {
                id: row.text("event")?,
                kind: row.text("kind")?,
                data: row.json("data")?,
                at: row.time("at")?,
                sandbox: row.id("sandbox")?,
                team: row.id("team")?,
                template: row.text("template")?,
                build: row.id("build")?,
            },
            metadata: row.text_or_none("metadata")?.map(|_| row.json("metadata")).transpose()?,
            cpu_count: row.number("cpu_count")?,
            memory_mb: row.number("memory_mb")?,
            started_at: row.time_or_none("started_at")?,
            tries: row.number("tries")?,
            failures: row.number("failures")?,
            due_at: row.time_or_none("due_at")?,
        }))
    }

    /// Records the result of an attempt. A delivery that was deleted or replaced since is left unchanged.
    pub async fn record_attempt(
        &self,
        delivery: &PendingDelivery,
        attempt: Attempt,
        verdict: Verdict,
    ) -> Result<(), Error> {
        let (seq, webhook, event) = (delivery.seq, delivery.webhook.clone(), delivery.event.id.clone());
        self.write(move |connection| {
            Box::pin(async move {
                let (failed, due_at) = match verdict {
                    Verdict::Delivered => (false, None),
                    Verdict::Again(at) | Verdict::GivenUp(at) => (true, Some(micros(at))),
                };
                sqlx::query(
                    "update webhooks set failures = case when $2 then failures + 1 else 0 end, due_at = $3 where id = $1",
                )
                .bind(webhook.as_str())
                .bind(failed)
                .bind(due_at)
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("write how a webhook does", e))?;
                let (state, finished_at) = match verdict {
                    Verdict::Delivered => ("delivered", Some(micros(attempt.at))),
                    Verdict::Again(_) => ("pending", None),
                    Verdict::GivenUp(_) => ("failed", Some(micros(attempt.at))),
                };
                sqlx::query(
                    "update deliveries set state = $3, tries = tries + 1, attempt = $4, status = $5, error = $6,
                        finished_at = $7, data = iif($7 is null, data, 'null'), metadata = iif($7 is null, metadata, null)
                     where seq = $1 and event = $2 and state = 'pending'",
                )
                .bind(seq)
                .bind(event)
                .bind(state)
                .bind(attempt.id)
                .bind(attempt.status)
                .bind(attempt.error)
                .bind(finished_at)
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("write how a delivery went", e))?;
                if finished_at.is_some() { trim(connection, &webhook).await } else { Ok(()) }
            })
        })
        .await
    }

    /// Deliveries to a webhook, newest first.
    pub async fn deliveries(&self, webhook: &WebhookId, limit: u32) -> Result<Vec<Delivery>, Error> {
        let rows = sqlx::query(
            "select d.event, d.kind, d.at, d.sandbox, d.state, d.tries, d.attempt, d.status, d.error, d.finished_at,
                case when d.state = 'pending' then w.due_at end as due_at
             from deliveries d join webhooks w on w.id = d.webhook where d.webhook = $1 order by d.seq desc limit $2",
        )
        .bind(webhook.as_str())
        .bind(limit)
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list deliveries", e))?;
        rows.iter()
            .map(|row| {
                let row = Columns(row);
                Ok(Delivery {
                    event: row.text("event")?,
                    kind: row.text("kind")?,
                    at: row.time("at")?,
                    sandbox: row.id("sandbox")?,
                    state: row.text("state")?,
                    tries: row.number("tries")?,
                    attempt: row.text_or_none("attempt")?,
                    status: row.number_or_none("status")?,
                    error: row.text_or_none("error")?,
                    due_at: row.time_or_none("due_at")?,
                    finished_at: row.time_or_none("finished_at")?,
                })
            })
            .collect()
    }
}

/// An event that was just inserted.
pub(crate) struct Fresh<'a> {
    pub(crate) id: &'a str,
    pub(crate) kind: &'a str,
    /// Details, as JSON text.
    pub(crate) data: &'a str,
    pub(crate) at: i64,
    pub(crate) sandbox: &'a SandboxId,
    pub(crate) team: &'a TeamId,
}

/// Queues an event for every webhook that subscribes to its type. If it replaces an event that is still pending,
/// the queued entry is replaced too.
pub(crate) async fn enqueue(
    connection: &mut SqliteConnection,
    event: &Fresh<'_>,
    replaces: Option<&str>,
) -> Result<(), Error> {
    if let Some(old) = replaces {
        sqlx::query("update deliveries set event = $2, data = $3, at = $4 where event = $1 and state = 'pending'")
            .bind(old)
            .bind(event.id)
            .bind(event.data)
            .bind(event.at)
            .execute(&mut *connection)
            .await
            .map_err(|e| Error::query("replace what waits for webhooks", e))?;
    }
    let rows = sqlx::query(
        "insert into deliveries (webhook, event, kind, data, at, sandbox, template, build, metadata, cpu_count, memory_mb,
            started_at)
         select w.id, $1, $2, $3, $4, s.id, s.template, s.build,
            case when octet_length(s.metadata) <= $7 then s.metadata end, s.cpu_count, s.memory_mb, s.started_at
         from webhooks w join sandboxes s on s.id = $5
         where w.team = $6 and w.enabled and exists (select 1 from json_each(w.events) where value = $2)
            and not exists (select 1 from deliveries d where d.event = $1 and d.state = 'pending' and d.webhook = w.id)
         returning webhook",
    )
    .bind(event.id)
    .bind(event.kind)
    .bind(event.data)
    .bind(event.at)
    .bind(event.sandbox.as_str())
    .bind(event.team.as_str())
    .bind(MAX_METADATA_BYTES)
    .fetch_all(&mut *connection)
    .await
    .map_err(|e| Error::query("write an event for webhooks", e))?;
    for row in rows {
        let webhook: String = row.try_get("webhook").map_err(|e| Error::decode("webhook", e))?;
        make_room(connection, &webhook).await?;
    }
    Ok(())
}

async fn make_room(connection: &mut SqliteConnection, webhook: &str) -> Result<(), Error> {
    let dropped = sqlx::query(
        "delete from deliveries where webhook = $1 and state = 'pending' and seq <=
            (select seq from deliveries where webhook = $1 and state = 'pending' order by seq desc limit 1 offset $2)",
    )
    .bind(webhook)
    .bind(MAX_PENDING)
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("make room in a webhook's queue", e))?;
    if dropped.rows_affected() > 0 {
        sqlx::query("update webhooks set dropped = dropped + $2 where id = $1")
            .bind(webhook)
            .bind(i64::try_from(dropped.rows_affected()).unwrap_or(i64::MAX))
            .execute(connection)
            .await
            .map_err(|e| Error::query("count what a webhook missed", e))?;
    }
    Ok(())
}

/// Gives up all pending deliveries of a webhook.
pub(crate) async fn give_up(
    connection: &mut SqliteConnection,
    webhook: &WebhookId,
    why: &str,
    at: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "update deliveries set state = 'failed', error = $2, finished_at = $3, data = 'null', metadata = null
         where webhook = $1 and state = 'pending'",
    )
    .bind(webhook.as_str())
    .bind(why)
    .bind(micros(at))
    .execute(&mut *connection)
    .await
    .map_err(|e| Error::query("give up what waits for a webhook", e))?;
    trim(connection, webhook).await
}

/// Deletes the oldest finished deliveries.
async fn trim(connection: &mut SqliteConnection, webhook: &WebhookId) -> Result<(), Error> {
    sqlx::query(
        "delete from deliveries where webhook = $1 and state <> 'pending' and seq <=
            (select seq from deliveries where webhook = $1 and state <> 'pending' order by seq desc limit 1 offset $2)",
    )
    .bind(webhook.as_str())
    .bind(MAX_FINISHED)
    .execute(connection)
    .await
    .map_err(|e| Error::query("forget old deliveries", e))?;
    Ok(())
}
