//! What is left of sandboxes that have failed or ended: their last lines, and for how long they are remembered.

use cabana_types::SandboxId;
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::column::{self, micros};
use crate::{Error, Store};

impl Store {
    /// Keeps the last lines of a sandbox's journal.
    pub async fn keep_last_lines(&self, id: SandboxId, lines: Vec<String>) -> Result<(), Error> {
        self.write(move |connection| Box::pin(async move { write_last_lines(connection, &id, &lines).await })).await
    }

    /// Deletes up to `limit` tombstones, with their events, that are older than `before` or exceed the newest `keep`.
    /// Returns their number.
    pub async fn purge(&self, before: Timestamp, keep: u32, limit: u32) -> Result<u64, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let done = sqlx::query(
                    "delete from sandboxes where id in
                        (select id from sandboxes where state = 'ended' and ended_at <
                            max($1, coalesce((select ended_at from sandboxes where state = 'ended'
                                order by ended_at desc limit 1 offset $2 - 1), $1))
                         order by ended_at limit $3)",
                )
                .bind(micros(before))
                .bind(keep)
                .bind(limit)
                .execute(connection)
                .await
                .map_err(|e| Error::query("forget tombstones", e))?;
                Ok(done.rows_affected())
            })
        })
        .await
    }
}

pub(crate) async fn write_last_lines(
    connection: &mut SqliteConnection,
    id: &SandboxId,
    lines: &[String],
) -> Result<(), Error> {
    sqlx::query("update sandboxes set last_lines = $2 where id = $1")
        .bind(id.as_str())
        .bind(column::json("last_lines", &lines)?)
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a sandbox's last lines", e))?;
    Ok(())
}
