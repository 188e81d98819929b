//! What teams used: sums over hours, grouped.

use cabana_types::{Micros, ProjectId, TeamId, UsageKind, UsageSubject};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite};

use crate::column::Columns;
use crate::{Error, Store, project};

/// What sums are grouped by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageGroup {
    /// Hours of a period: 1 or 24; `None`: all time together.
    pub period: Option<u32>,
    pub kind: bool,
    pub project: bool,
    /// By sandbox, snapshot or chat.
    pub subject: bool,
    pub model: bool,
}

/// Which sums.
#[derive(Debug, Clone)]
pub struct UsageQuery {
    pub team: TeamId,
    /// The first hour since 1970 UTC.
    pub from: i64,
    /// The hour after the last one.
    pub until: i64,
    pub group: UsageGroup,
    /// Only of this sandbox, snapshot or chat.
    pub subject: Option<String>,
    /// Only of these projects; `None`: of all.
    pub projects: Option<Vec<ProjectId>>,
    pub limit: u32,
}

/// A sum. What it is not grouped by is `None`, except the kind: amounts of different kinds are never added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// The first hour of the period.
    pub hour: Option<i64>,
    pub kind: UsageKind,
    pub project: Option<String>,
    pub subject: Option<(UsageSubject, String)>,
    pub model: Option<String>,
    /// Quantities times microseconds, or a count.
    pub amount: i128,
    pub cost: Micros,
}

impl Store {
    /// Sums of what a team used, in the order of time, then of their other columns.
    pub async fn usage(&self, query: &UsageQuery) -> Result<Vec<UsageRow>, Error> {
        let UsageGroup { period, project, subject, model, .. } = query.group;
        let mut columns = Vec::new();
        if let Some(hours) = period {
            columns.push(format!("hour / {hours} * {hours} as period"));
        }
        columns.push("kind".to_owned());
        for (wanted, column) in
            [(project, "project"), (model, "model"), (subject, "subject_kind"), (subject, "subject")]
        {
            if wanted {
                columns.push(column.to_owned());
            }
        }
        let table = if subject || query.subject.is_some() { "usage_hourly" } else { "usage_total" };
        let places: Vec<_> = (1..=columns.len()).map(|place| place.to_string()).collect();
        // In two parts: a long sum may be larger than an integer of SQLite.
        let mut sql: QueryBuilder<Sqlite> = QueryBuilder::new(format!(
            "select {}, sum(amount / 1000000) as whole, sum(amount % 1000000) as part, sum(micros) as cost from {table} where team = ",
            columns.join(", ")
        ));
        sql.push_bind(query.team.as_str().to_owned());
        sql.push(" and hour >= ").push_bind(query.from).push(" and hour < ").push_bind(query.until);
        if let Some(subject) = &query.subject {
            sql.push(" and subject = ").push_bind(subject.clone());
        }
        project::push_filter(&mut sql, "project", query.projects.as_deref());
        let places = places.join(", ");
        sql.push(format!(" group by {places} order by {places} limit ")).push_bind(query.limit);
        let rows = sql.build().fetch_all(self.reader()).await.map_err(|e| Error::query("add up usage", e))?;
        rows.iter().map(|row| decode(row, query.group)).collect()
    }
}

fn decode(row: &SqliteRow, group: UsageGroup) -> Result<UsageRow, Error> {
    let row = Columns(row);
    let subject = match group.subject {
        true => Some((row.word("subject_kind", UsageSubject::parse)?, row.text("subject")?)),
        false => None,
    };
    Ok(UsageRow {
        hour: group.period.map(|_| row.integer("period")).transpose()?,
        kind: row.word("kind", UsageKind::parse)?,
        project: group.project.then(|| row.text("project")).transpose()?,
        subject,
        model: group.model.then(|| row.text("model")).transpose()?,
        amount: i128::from(row.integer("whole")?) * 1_000_000 + i128::from(row.integer("part")?),
        cost: Micros(row.integer("cost")?),
    })
}
