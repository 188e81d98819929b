//! Intervals: what is used over time. [`settle`] is the only place that opens and closes them, in the transaction of the change that causes
//! it.
//!
//! Times of one subject never go back: where the clock was set back, an interval begins when the last one ended, and ends no earlier than
//! it began or than it was rated. So no time is counted twice, and none is negative.

use cabana_meter::demand;
use cabana_types::{TeamId, UsageKind, UsageSubject};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{Columns, integer, micros};
use crate::measured::{Measured, sizes, write_disk};
use crate::{Error, Sandbox, Store};

/// Sandboxes that are settled in one transaction.
const AT_ONCE: usize = 500;

/// An interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    pub id: i64,
    pub kind: UsageKind,
    pub quantity: u64,
    pub opened_at: Timestamp,
    pub closed_at: Option<Timestamp>,
}

/// What is metered, and who pays for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metered<'a> {
    pub(crate) team: &'a TeamId,
    pub(crate) project: Option<&'a str>,
    pub(crate) kind: UsageSubject,
    pub(crate) id: &'a str,
}

impl Store {
    /// Opens the intervals that existing sandboxes should have, and closes those that they should not have: of databases of earlier
    /// versions, and after [`Store::machine_died`].
    pub async fn settle_all(&self, at: Timestamp) -> Result<(), Error> {
        let all: Vec<_> = self.live_sandboxes().await?.into_iter().map(|sandbox| sandbox.id).collect();
        for some in all.chunks(AT_ONCE) {
            let some = some.to_vec();
            self.write(move |connection| {
                Box::pin(async move {
                    for id in some {
                        let sandbox = crate::sandbox::read(connection, &id).await?;
                        settle_sandbox(connection, &sandbox, None, at).await?;
                    }
                    Ok(())
                })
            })
            .await?;
        }
        Ok(())
    }

    /// Writes that the machine is up.
    pub async fn alive(&self, at: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                sqlx::query("update rating set alive_at = $1")
                    .bind(micros(at))
                    .execute(connection)
                    .await
                    .map_err(|e| Error::query("write that the machine is up", e))?;
                Ok(())
            })
        })
        .await
    }

    /// The machine was down: closes every interval when it was last known to be up, and opens those of snapshots again now. Those of
    /// sandboxes follow from what recovery finds and from [`Store::settle_all`].
    pub async fn machine_died(&self, now: Timestamp) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let rows = sqlx::query(
                    "select id, team, project, subject_kind, subject, kind, quantity, opened_at, rated_until from intervals
                     where closed_at is null",
                )
                .fetch_all(&mut *connection)
                .await
                .map_err(|e| Error::query("list open intervals", e))?;
                let alive: i64 = sqlx::query_scalar("select alive_at from rating")
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(|e| Error::query("read when the machine was up", e))?;
                for row in &rows {
                    let columns = Columns(row);
                    let (open, subject) = (Open::decode(row)?, columns.text("subject")?);
                    open.close(connection, &subject, alive.min(micros(now))).await?;
                    let kind = columns.word("subject_kind", UsageSubject::parse)?;
                    if kind != UsageSubject::Sandbox {
                        let (team, project) = (columns.id("team")?, columns.text_or_none("project")?);
                        let metered = Metered { team: &team, project: project.as_deref(), kind, id: &subject };
                        insert(connection, metered, open.kind, open.quantity, micros(now)).await?;
                    }
                }
                Ok(())
            })
        })
        .await
    }

    /// The intervals of a subject of a team, newest first, that are not older than `since`.
    pub async fn intervals(
        &self,
        team: &TeamId,
        subject: &str,
        since: Timestamp,
        limit: u32,
    ) -> Result<Vec<Interval>, Error> {
        let rows = sqlx::query(
            "select id, kind, quantity, opened_at, closed_at from intervals
             where subject = $1 and team = $2 and (closed_at is null or closed_at > $3) order by opened_at desc, id desc limit $4",
        )
        .bind(subject)
        .bind(team.as_str())
        .bind(micros(since))
        .bind(limit)
        .fetch_all(self.reader())
        .await
        .map_err(|e| Error::query("list intervals", e))?;
        rows.iter()
            .map(|row| {
                let row = Columns(row);
                Ok(Interval {
                    id: row.integer("id")?,
                    kind: row.word("kind", UsageKind::parse)?,
                    quantity: row.number("quantity")?,
                    opened_at: row.time("opened_at")?,
                    closed_at: row.time_or_none("closed_at")?,
                })
            })
            .collect()
    }
}

/// Opens and closes the intervals of a sandbox as its row asks for. Called in the transaction of every change of the row.
pub(crate) async fn settle_sandbox(
    connection: &mut SqliteConnection,
    sandbox: &Sandbox,
    measured: Option<&Measured>,
    at: Timestamp,
) -> Result<(), Error> {
    let disk = measured.and_then(|measured| measured.take(&sandbox.id));
    if sandbox.state.cause().is_some() {
        return end(connection, sandbox.id.as_str(), at).await;
    }
    if let Some(mib) = disk {
        write_disk(connection, &sandbox.id, mib, at).await?;
    }
    let sizes = sizes(connection, sandbox.id.as_str()).await?;
    let metered = Metered {
        team: &sandbox.team,
        project: Some(sandbox.project.as_str()),
        kind: UsageSubject::Sandbox,
        id: sandbox.id.as_str(),
    };
    settle(connection, metered, &demand(&sandbox.state, sandbox.resources, sizes), at).await
}

/// Closes all intervals of a subject that is gone for ever.
pub(crate) async fn end(connection: &mut SqliteConnection, subject: &str, at: Timestamp) -> Result<(), Error> {
    for open in open_of(connection, subject).await? {
        open.finish(connection, micros(at)).await?;
    }
    sqlx::query("delete from meters where subject = $1")
        .bind(subject)
        .execute(connection)
        .await
        .map_err(|e| Error::query("forget what was measured", e))?;
    Ok(())
}

/// Opens and closes intervals, so that exactly the demand is open.
pub(crate) async fn settle(
    connection: &mut SqliteConnection,
    metered: Metered<'_>,
    demand: &[(UsageKind, u64)],
    at: Timestamp,
) -> Result<(), Error> {
    let open = open_of(connection, metered.id).await?;
    let wanted = |open: &Open| demand.contains(&(open.kind, open.quantity));
    let mut latest = 0;
    for open in open.iter().filter(|open| !wanted(open)) {
        latest = latest.max(open.close(connection, metered.id, micros(at)).await?);
    }
    let missing =
        demand.iter().filter(|(kind, quantity)| !open.iter().any(|o| (o.kind, o.quantity) == (*kind, *quantity)));
    let missing: Vec<_> = missing.filter(|(_, quantity)| *quantity > 0).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let closed: Option<i64> = sqlx::query_scalar("select closed_at from meters where subject = $1")
        .bind(metered.id)
        .fetch_optional(&mut *connection)
        .await
        .map_err(|e| Error::query("read the end of the last interval", e))?;
    let begin = micros(at).max(latest).max(closed.unwrap_or_default());
    for (kind, quantity) in missing {
        insert(connection, metered, *kind, *quantity, begin).await?;
    }
    Ok(())
}

/// An open interval.
struct Open {
    id: i64,
    kind: UsageKind,
    quantity: u64,
    opened_at: i64,
    rated_until: i64,
}

impl Open {
    fn decode(row: &SqliteRow) -> Result<Self, Error> {
        let row = Columns(row);
        Ok(Self {
            id: row.integer("id")?,
            kind: row.word("kind", UsageKind::parse)?,
            quantity: row.number("quantity")?,
            opened_at: row.integer("opened_at")?,
            rated_until: row.integer("rated_until")?,
        })
    }

    /// Closes it, and remembers until when its subject was metered. Returns when it ended.
    async fn close(&self, connection: &mut SqliteConnection, subject: &str, at: i64) -> Result<i64, Error> {
        let end = self.finish(connection, at).await?;
        sqlx::query(
            "insert into meters (subject, closed_at) values ($1, $2)
             on conflict do update set closed_at = max(closed_at, excluded.closed_at)",
        )
        .bind(subject)
        .bind(end)
        .execute(connection)
        .await
        .map_err(|e| Error::query("write the end of an interval", e))?;
        Ok(end)
    }

    /// Closes it; one without a length is forgotten.
    async fn finish(&self, connection: &mut SqliteConnection, at: i64) -> Result<i64, Error> {
        let end = at.max(self.rated_until).max(self.opened_at);
        let sql = match end > self.opened_at {
            true => "update intervals set closed_at = $2 where id = $1",
            false => "delete from intervals where id = $1",
        };
        let query = sqlx::query(sql).bind(self.id);
        let query = if end > self.opened_at { query.bind(end) } else { query };
        query.execute(connection).await.map_err(|e| Error::query("close an interval", e))?;
        Ok(end)
    }
}

async fn open_of(connection: &mut SqliteConnection, subject: &str) -> Result<Vec<Open>, Error> {
    let rows = sqlx::query(
        "select id, kind, quantity, opened_at, rated_until from intervals where subject = $1 and closed_at is null",
    )
    .bind(subject)
    .fetch_all(connection)
    .await;
    rows.map_err(|e| Error::query("list open intervals", e))?.iter().map(Open::decode).collect()
}

async fn insert(
    connection: &mut SqliteConnection,
    metered: Metered<'_>,
    kind: UsageKind,
    quantity: u64,
    at: i64,
) -> Result<(), Error> {
    sqlx::query(
        "insert into intervals (team, project, subject_kind, subject, kind, quantity, opened_at, rated_until)
         values ($1, $2, $3, $4, $5, $6, $7, $7)",
    )
    .bind(metered.team.as_str())
    .bind(metered.project)
    .bind(metered.kind.as_str())
    .bind(metered.id)
    .bind(kind.as_str())
    .bind(integer(quantity))
    .bind(at)
    .execute(connection)
    .await
    .map_err(|e| Error::query("open an interval", e))?;
    Ok(())
}
