//! How much space the disks and archives of sandboxes take. The newest measurements of disks are in memory, until a change of the
//! sandbox or the hourly round writes them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_meter::Sizes;
use cabana_types::SandboxId;
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::column::{Columns, integer, micros};
use crate::interval::settle_sandbox;
use crate::{Error, Store};

/// A measured disk is written at most so often while nothing else changes.
const MEASURE_EVERY: i64 = 3_600_000_000;
/// Disks whose measurements are written in one transaction.
const AT_ONCE: usize = 500;
/// A larger quantity would not fit into an hour's sum.
const MAX_QUANTITY: u64 = 1 << 31;

/// The newest measurements of disks, in memory until a change of the sandbox or the hourly round writes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured(Arc<Mutex<HashMap<SandboxId, u64>>>);

impl Measured {
    fn map(&self) -> MutexGuard<'_, HashMap<SandboxId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self, id: &SandboxId) -> Option<u64> {
        self.map().remove(id)
    }
}

impl Store {
    /// Notes how many bytes of its disk a sandbox uses. The next change of the sandbox, or the next hourly round, writes it.
    pub fn note_disk(&self, id: &SandboxId, bytes: u64) {
        self.measured().map().insert(id.clone(), bytes.div_ceil(1 << 20));
    }

    /// Writes the noted measurements of disks of which none was written within the last hour.
    pub async fn write_measured(&self, at: Timestamp) -> Result<(), Error> {
        let noted: Vec<_> = self.measured().map().iter().map(|(id, mib)| (id.clone(), *mib)).collect();
        for some in noted.chunks(AT_ONCE) {
            let some = some.to_vec();
            let written = self.write(move |connection| {
                Box::pin(async move {
                    let mut written = Vec::new();
                    for (id, mib) in some {
                        if write_measurement(connection, &id, mib, at).await? {
                            written.push(id);
                        }
                    }
                    Ok(written)
                })
            });
            let written = written.await?;
            let mut map = self.measured().map();
            for id in &written {
                map.remove(id);
            }
        }
        Ok(())
    }
}

pub(crate) async fn sizes(connection: &mut SqliteConnection, subject: &str) -> Result<Sizes, Error> {
    let row = sqlx::query("select disk_mib, archive_mib from meters where subject = $1")
        .bind(subject)
        .fetch_optional(connection)
        .await
        .map_err(|e| Error::query("read what was measured", e))?;
    let Some(row) = row else { return Ok(Sizes::default()) };
    Ok(Sizes { disk_mib: Columns(&row).number("disk_mib")?, archive_mib: Columns(&row).number("archive_mib")? })
}

/// What was last measured of a sandbox's disk, MiB.
pub(crate) async fn disk_mib(
    connection: &mut SqliteConnection,
    id: &SandboxId,
    measured: &Measured,
) -> Result<u64, Error> {
    let noted = measured.map().get(id).copied();
    Ok(noted.unwrap_or(sizes(connection, id.as_str()).await?.disk_mib))
}

/// Keeps the size of a sandbox's archive.
pub(crate) async fn write_archive(connection: &mut SqliteConnection, id: &SandboxId, bytes: u64) -> Result<(), Error> {
    sqlx::query(
        "insert into meters (subject, archive_mib) values ($1, $2) on conflict do update set archive_mib = excluded.archive_mib",
    )
    .bind(id.as_str())
    .bind(integer(bytes.div_ceil(1 << 20).min(MAX_QUANTITY)))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write the size of an archive", e))?;
    Ok(())
}

pub(crate) async fn write_disk(
    connection: &mut SqliteConnection,
    id: &SandboxId,
    mib: u64,
    at: Timestamp,
) -> Result<(), Error> {
    sqlx::query(
        "insert into meters (subject, disk_mib, measured_at) values ($1, $2, $3)
         on conflict do update set disk_mib = excluded.disk_mib, measured_at = excluded.measured_at",
    )
    .bind(id.as_str())
    .bind(integer(mib.min(MAX_QUANTITY)))
    .bind(micros(at))
    .execute(connection)
    .await
    .map_err(|e| Error::query("write what was measured", e))?;
    Ok(())
}

/// Writes a measurement unless there is a recent one or the sandbox is gone; whether it need not be kept any longer.
async fn write_measurement(
    connection: &mut SqliteConnection,
    id: &SandboxId,
    mib: u64,
    at: Timestamp,
) -> Result<bool, Error> {
    let last: Option<Option<i64>> = sqlx::query_scalar("select measured_at from meters where subject = $1")
        .bind(id.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(|e| Error::query("read when a disk was measured", e))?;
    if last.flatten().is_some_and(|last| (0..MEASURE_EVERY).contains(&(micros(at) - last))) {
        return Ok(false);
    }
    let sandbox = match crate::sandbox::read(connection, id).await {
        Err(Error::NoSandbox(_)) => return Ok(true),
        found => found?,
    };
    if sandbox.state.cause().is_none() {
        write_disk(connection, id, mib, at).await?;
        settle_sandbox(connection, &sandbox, None, at).await?;
    }
    Ok(true)
}
