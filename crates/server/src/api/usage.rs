//! What teams and sandboxes used.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cabana_meter::{HOUR, hour_of};
use cabana_store::{Interval, UsageGroup, UsageQuery, UsageRow};
use cabana_types::UsageKind;
use cabana_types::wire::{SandboxUsage, UsageEntry, UsageInterval, UsageReport};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use jiff::Timestamp;

use super::App;
use super::query::Query;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Hours of a day, and of the time that is answered by default.
const DAY: i64 = 24;
const DEFAULT_HOURS: i64 = 30 * DAY;
/// The longest time in one answer: by the hour or by what used it, and otherwise.
const MAX_FINE_HOURS: i64 = 31 * DAY;
const MAX_HOURS: i64 = 400 * DAY;
/// Rows of one answer.
const MAX_ROWS: u32 = 20_000;
/// Intervals of one answer.
pub(super) const MAX_INTERVALS: u32 = 1000;
/// The last hour that a time can name.
const LAST_HOUR: i64 = super::query::MAX_SECONDS / 3600;

/// What the team used, in sums of whole hours (UTC). They are exact, and at most a minute behind; `ratedUntil` says how far they go.
#[utoipa::path(get, path = "/usage", tag = "usage",
    params(
        ("from" = Option<String>, Query, description = "From the hour of this time on, RFC 3339; 30 days before `to` by default"),
        ("to" = Option<String>, Query, description = "Until the end of the hour of this time; now by default"),
        ("group" = Option<String>, Query,
            description = "`day` or `hour`, and any of `kind`, `project`, `sandbox`, `model`, separated by commas; `day,kind` by default. \
                By `hour` or `sandbox`, the time is at most 31 days, otherwise 400. Kinds are never added up"),
        ("sandbox" = Option<String>, Query, description = "Only this sandbox, snapshot or chat"),
        ("project" = Option<String>, Query, description = "Only this project"),
        ("format" = Option<String>, Query, description = "`json` (default) or `csv`"),
    ),
    responses((status = 200, description = "Sums, the earliest first", body = UsageReport)))]
pub(super) async fn usage(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<Response, ApiError> {
    let group = group(&query.list("group"))?;
    let to = query.time("to")?.unwrap_or_else(Timestamp::now);
    let until = hour_of(to.as_microsecond() - 1) + 1;
    let from = query.time("from")?.map_or(until - DEFAULT_HOURS, |from| hour_of(from.as_microsecond()));
    let subject = query.text("sandbox").map(str::to_owned);
    let fine = group.period == Some(1) || group.subject;
    let most = if fine { MAX_FINE_HOURS } else { MAX_HOURS };
    if from >= until {
        return Err(ApiError::invalid("from must be before to"));
    }
    if until - from > most {
        let days = most / DAY;
        return Err(ApiError::invalid(format!(
            "The time is longer than {days} days; ask for less, or group by day and not by hour or sandbox"
        )));
    }
    let projects = app.projects_in(&caller, query.text("project"))?;
    let limit = MAX_ROWS;
    let asked = UsageQuery { team: caller.team.clone(), from, until, group, subject, projects, limit: limit + 1 };
    let mut rows = app.store.usage(&asked).await?;
    let truncated = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let report = UsageReport {
        from: beginning(from)?,
        to: beginning(until)?,
        rated_until: app.store.rated_until().await?,
        billing: app.store.billing(),
        currency: app.currency.clone(),
        rows: rows.into_iter().map(entry).collect::<Result<_, _>>()?,
        truncated,
    };
    match query.text("format") {
        None | Some("json") => Ok(Json(report).into_response()),
        Some("csv") => {
            let headers = [
                (CONTENT_TYPE, "text/csv; charset=utf-8"),
                (CONTENT_DISPOSITION, "attachment; filename=\"usage.csv\""),
            ];
            Ok((headers, csv(&report)).into_response())
        }
        Some(other) => Err(ApiError::invalid(format!("format must be json or csv, not {:?}", short(other)))),
    }
}

/// What a sandbox used, also after its end: sums of its life, and when it used how much.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/usage", tag = "usage",
    params(
        ("sandboxID" = String, Path, description = "Id of the sandbox"),
        ("limit" = Option<u32>, Query, description = "Intervals, 1 to 1000 (100 by default)"),
    ),
    responses((status = 200, description = "What it used", body = SandboxUsage)))]
pub(super) async fn sandbox_usage(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
) -> Result<Json<SandboxUsage>, ApiError> {
    let limit = query.limit(100, MAX_INTERVALS)?;
    let found = app.store.sandbox(&id).await?;
    let visible = match &found {
        Some(sandbox) => caller.reach.check(&sandbox.team, &sandbox.project).is_ok(),
        // Its project is not known any more.
        None => caller.reach.is_whole(),
    };
    if !visible {
        return Err(ApiError::no_sandbox(id.as_str()));
    }
    let mut intervals = app.store.intervals(&caller.team, id.as_str(), Timestamp::UNIX_EPOCH, limit + 1).await?;
    let group = UsageGroup { kind: true, ..UsageGroup::default() };
    let asked = UsageQuery {
        team: caller.team.clone(),
        from: 0,
        until: LAST_HOUR,
        group,
        subject: Some(id.to_string()),
        projects: None,
        limit: MAX_ROWS,
    };
    let totals = app.store.usage(&asked).await?;
    // The row of a sandbox that ended long ago is gone; what it used is not.
    if found.is_none() && intervals.is_empty() && totals.is_empty() {
        return Err(ApiError::no_sandbox(id.as_str()));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let truncated = intervals.len() > limit;
    intervals.truncate(limit);
    Ok(Json(SandboxUsage {
        sandbox_id: id.to_string(),
        rated_until: app.store.rated_until().await?,
        billing: app.store.billing(),
        currency: app.currency.clone(),
        totals: totals.into_iter().map(entry).collect::<Result<_, _>>()?,
        intervals: intervals.into_iter().map(interval).collect(),
        truncated,
    }))
}

fn group(names: &[&str]) -> Result<UsageGroup, ApiError> {
    let mut group = UsageGroup::default();
    if names.is_empty() {
        return Ok(UsageGroup { period: Some(24), kind: true, ..group });
    }
    for name in names {
        match *name {
            "day" | "hour" if group.period.is_some() => {
                return Err(ApiError::invalid("group takes day or hour, not both"));
            }
            "day" => group.period = Some(24),
            "hour" => group.period = Some(1),
            "kind" => group.kind = true,
            "project" => group.project = true,
            "sandbox" => group.subject = true,
            "model" => group.model = true,
            other => {
                let text = format!("group takes day, hour, kind, project, sandbox and model, not {:?}", short(other));
                return Err(ApiError::invalid(text));
            }
        }
    }
    Ok(group)
}

fn beginning(hour: i64) -> Result<Timestamp, ApiError> {
    let micros = hour.checked_mul(HOUR).and_then(|micros| Timestamp::from_microsecond(micros).ok());
    micros.ok_or_else(|| ApiError::invalid("The time is out of range"))
}

fn entry(row: UsageRow) -> Result<UsageEntry, ApiError> {
    let (subject_kind, subject_id) = row.subject.unzip();
    Ok(UsageEntry {
        period: row.hour.map(beginning).transpose()?,
        kind: row.kind,
        project_id: row.project,
        subject_kind,
        subject_id,
        model: row.model,
        amount: amount(row.kind, row.amount),
        unit: row.kind.unit().to_owned(),
        cost_micros: row.cost,
    })
}

/// Seconds with all six digits, or a count.
fn amount(kind: UsageKind, amount: i128) -> String {
    match kind.is_time() {
        true => format!("{}.{:06}", amount / 1_000_000, amount % 1_000_000),
        false => amount.to_string(),
    }
}

fn interval(interval: Interval) -> UsageInterval {
    let Interval { id, kind, quantity, opened_at, closed_at } = interval;
    UsageInterval { id, kind, quantity, opened_at, closed_at }
}

/// The rows as CSV (RFC 4180). All columns are there, whatever the sums are grouped by.
fn csv(report: &UsageReport) -> String {
    let mut text =
        "period,kind,project_id,subject_kind,subject_id,model,amount,unit,cost_micros,currency\r\n".to_owned();
    for row in &report.rows {
        let period = row.period.map(|period| period.to_string()).unwrap_or_default();
        let subject = row.subject_kind.map(|kind| kind.to_string()).unwrap_or_default();
        let model = field(row.model.as_deref().unwrap_or_default());
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{period},{},{},{subject},{},{model},{},{},{},{}\r\n",
            row.kind,
            row.project_id.as_deref().unwrap_or_default(),
            row.subject_id.as_deref().unwrap_or_default(),
            row.amount,
            row.unit,
            row.cost_micros.0,
            report.currency,
        );
    }
    text
}

/// A field of CSV that a spreadsheet does not take for a formula: names of models come from outside.
fn field(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{guard}{}\"", text.replace('"', "\"\"")),
        false => format!("{guard}{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_checked() {
        assert_eq!(group(&[]).expect("default").period, Some(24));
        let all = group(&["hour", "kind", "project", "sandbox", "model"]).expect("all");
        assert!(all.period == Some(1) && all.kind && all.project && all.subject && all.model);
        for bad in [&["day", "hour"][..], &["week"], &["kind;"]] {
            assert!(group(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn amounts_are_exact() {
        assert_eq!(amount(UsageKind::Vcpu, 12_000_001), "12.000001");
        assert_eq!(amount(UsageKind::DiskMib, i128::from(i64::MAX) * 10), "92233720368547.758070");
        assert_eq!(amount(UsageKind::OutputTokens, 17), "17");
    }

    #[test]
    fn fields_of_csv_are_no_formulas() {
        assert_eq!(field("demo/demo"), "demo/demo");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=1+1"), "'=1+1");
    }
}
