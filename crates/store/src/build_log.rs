//! Build logs. Build output is untrusted, so the number and the length of lines are bounded.

use cabana_types::BuildId;
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use crate::column::{Columns, micros};
use crate::feed::{self, Change};
use crate::{Error, Order, Store};

/// Stored lines per build; one more line says that output was truncated.
pub const MAX_LINES: u32 = 10_000;
/// Length of a line, bytes.
pub const MAX_LINE_BYTES: usize = 4096;
const MAX_STEP_BYTES: usize = 64;
const LEFT_OUT: &str = "the build says more than is kept; the rest is left out";

/// Severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Diagnostics.
    Debug,
    /// Progress.
    Info,
    /// A possible problem.
    Warn,
    /// An error.
    Error,
}

impl LogLevel {
    /// Every level, lowest severity first.
    pub const ALL: [LogLevel; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// The API's name of the level.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        }
    }
}

/// A line of a build's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildLine {
    /// Time of the line.
    pub at: Timestamp,
    /// Severity.
    pub level: LogLevel,
    /// Its step: `base`, `finalize` or a number, from 1.
    pub step: Option<String>,
    /// Text of the line.
    pub message: String,
}

/// A time range of a build's log.
#[derive(Debug, Clone)]
pub struct BuildLogQuery {
    /// The build.
    pub build: BuildId,
    /// Earliest time, inclusive.
    pub from: Option<Timestamp>,
    /// Latest time, inclusive.
    pub until: Option<Timestamp>,
    /// Oldest or newest first.
    pub order: Order,
    /// Lowest severity.
    pub level: LogLevel,
    /// Page size.
    pub limit: u32,
}

impl Store {
    /// Appends lines to a build's log. Lines beyond the limit are dropped, and one line says so.
    pub async fn append_build_log(&self, build: BuildId, lines: Vec<BuildLine>) -> Result<(), Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let next: u32 = sqlx::query_scalar("select coalesce(max(seq) + 1, 0) from build_log where build = $1")
                    .bind(build.as_str())
                    .fetch_one(&mut *connection)
                    .await
                    .map_err(|e| Error::query("count a build's lines", e))?;
                for (seq, line) in (next..=MAX_LINES).zip(&lines) {
                    if seq < MAX_LINES {
                        insert(connection, &build, seq, line).await?;
                    } else {
                        let last = BuildLine { level: LogLevel::Warn, message: LEFT_OUT.into(), ..line.clone() };
                        insert(connection, &build, seq, &last).await?;
                    }
                }
                feed::note(|| Change::BuildLog(build.clone()));
                Ok(())
            })
        })
        .await
    }

    /// Lines of a level and above, oldest first, starting at an offset among them.
    pub async fn build_log(
        &self,
        build: &BuildId,
        offset: u32,
        limit: u32,
        level: LogLevel,
    ) -> Result<Vec<BuildLine>, Error> {
        let rows =
            sqlx::query("select * from build_log where build = $1 and level >= $2 order by seq limit $3 offset $4")
                .bind(build.as_str())
                .bind(number(level))
                .bind(limit)
                .bind(offset)
                .fetch_all(self.reader())
                .await
                .map_err(|e| Error::query("read a build's log", e))?;
        rows.iter().map(decode).collect()
    }

    /// Lines of a build's log in a time range.
    pub async fn build_log_around(&self, query: &BuildLogQuery) -> Result<Vec<BuildLine>, Error> {
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new("select * from build_log where build = ");
        sql.push_bind(query.build.as_str().to_owned()).push(" and level >= ").push_bind(number(query.level));
        if let Some(from) = query.from {
            sql.push(" and at >= ").push_bind(micros(from));
        }
        if let Some(until) = query.until {
            sql.push(" and at <= ").push_bind(micros(until));
        }
        sql.push(match query.order {
            Order::Ascending => " order by seq",
            Order::Descending => " order by seq desc",
        });
        sql.push(" limit ").push_bind(query.limit);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("read a build's log", e))?;
        rows.iter().map(decode).collect()
    }
}

async fn insert(connection: &mut SqliteConnection, build: &BuildId, seq: u32, line: &BuildLine) -> Result<(), Error> {
    sqlx::query("insert into build_log (build, seq, at, level, step, message) values ($1, $2, $3, $4, $5, $6)")
        .bind(build.as_str())
        .bind(seq)
        .bind(micros(line.at))
        .bind(number(line.level))
        .bind(line.step.as_deref().map(|step| cut(step, MAX_STEP_BYTES)))
        .bind(cut(&line.message, MAX_LINE_BYTES))
        .execute(connection)
        .await
        .map_err(|e| Error::query("write a build's line", e))?;
    Ok(())
}

/// The longest prefix of a text that fits.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

fn number(level: LogLevel) -> i64 {
    match level {
        LogLevel::Debug => 0,
        LogLevel::Info => 1,
        LogLevel::Warn => 2,
        LogLevel::Error => 3,
    }
}

fn decode(row: &SqliteRow) -> Result<BuildLine, Error> {
    let row = Columns(row);
    let level: usize = row.number("level")?;
    Ok(BuildLine {
        at: row.time("at")?,
        level: *LogLevel::ALL.get(level).ok_or_else(|| Error::decode("level", level))?,
        step: row.text_or_none("step")?,
        message: row.text("message")?,
    })
}
