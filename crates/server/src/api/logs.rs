//! A sandbox's log: its lifecycle events and, while it is running, its guest's journal, as lines in E2B's form. The events can also be read
//! after the sandbox's end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::{Event, EventQuery, Order, event};
use cabana_types::SandboxId;
use cabana_types::sandbox::EndCause;
use cabana_types::wire::{LogEntry, LogLine, SandboxLogPage, SandboxLogs};
use jiff::Timestamp;
use serde_json::Value;

use super::App;
use super::query::Query;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::{ApiError, short};
use crate::lifecycle::{JournalLine, LEVELS};

/// Maximum number of lines in one response.
pub(super) const MAX_LINES: u32 = 1000;
/// Maximum length of a search text, in characters.
pub(super) const MAX_SEARCH: usize = 256;
const MILLISECOND: Duration = Duration::from_micros(999);

/// Log of a sandbox, oldest line first.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/logs", tag = "events",
    params(
        ("sandboxID" = String, Path, description = "Its id"),
        ("start" = Option<i64>, Query, description = "Not before this time, milliseconds since 1970"),
        ("limit" = Option<u32>, Query, description = "Maximum number of lines, 1 to 1000 (default)"),
    ),
    responses((status = 200, description = "Lines", body = SandboxLogs)))]
pub(super) async fn sandbox_logs(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
) -> Result<Json<SandboxLogs>, ApiError> {
    let (from, limit) = (query.millis("start")?, query.limit(MAX_LINES, MAX_LINES)?);
    let log_entries = read(&app, &caller, &id, from, None, Order::Ascending, limit).await?;
    let logs = log_entries.iter().map(line).collect();
    Ok(Json(SandboxLogs { logs, log_entries }))
}

/// Log of a sandbox, page by page.
#[utoipa::path(get, path = "/v2/sandboxes/{sandboxID}/logs", tag = "events",
    params(
        ("sandboxID" = String, Path, description = "Its id"),
        ("cursor" = Option<i64>, Query, description = "Where to begin, milliseconds since 1970"),
        ("limit" = Option<u32>, Query, description = "Maximum number of lines, 1 to 1000 (default)"),
        ("direction" = Option<String>, Query, description = "`forward` (default) or `backward` in time"),
        ("level" = Option<String>, Query, description = "Only lines of this level and above"),
        ("search" = Option<String>, Query, description = "Only lines that contain this text"),
    ),
    responses((status = 200, description = "Lines", body = SandboxLogPage)))]
pub(super) async fn sandbox_log_page(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
) -> Result<Json<SandboxLogPage>, ApiError> {
    let cursor = query.millis("cursor")?;
    let limit = query.limit(MAX_LINES, MAX_LINES)?;
    let (order, from, until) = match query.text("direction") {
        None | Some("forward") => (Order::Ascending, cursor, None),
        // The whole millisecond is included, or a line within it would be on no page.
        Some("backward") => (Order::Descending, None, cursor.map(|at| at + MILLISECOND)),
        Some(other) => {
            return Err(ApiError::invalid(format!("direction must be forward or backward, not {:?}", short(other))));
        }
    };
    let level = match query.text("level") {
        None => 0,
        Some(level) => LEVELS.iter().position(|l| *l == level).ok_or_else(|| {
            ApiError::invalid(format!("level must be one of {}, not {:?}", LEVELS.join(", "), short(level)))
        })?,
    };
    let search = query.text("search").unwrap_or_default();
    if search.chars().count() > MAX_SEARCH {
        return Err(ApiError::invalid(format!("search has at most {MAX_SEARCH} characters")));
    }
    let mut logs = read(&app, &caller, &id, from, until, order, MAX_LINES).await?;
    logs.retain(|l| LEVELS.iter().position(|known| *known == l.level) >= Some(level) && l.message.contains(search));
    logs.truncate(limit as usize);
    Ok(Json(SandboxLogPage { logs }))
}

async fn read(
    app: &App,
    caller: &Caller,
    id: &SandboxId,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    order: Order,
    limit: u32,
) -> Result<Vec<LogEntry>, ApiError> {
    let sandbox = app.find_sandbox(&caller.reach, id).await?;
    let wanted = EventQuery {
        team: caller.team.clone(),
        projects: None,
        sandbox: Some(id.clone()),
        kinds: vec![],
        from,
        until,
        order,
        offset: 0,
        limit,
    };
    let entries = app.store.events(&wanted).await?.into_iter().map(event_entry).collect();
    let noted = app.lifecycle.journal(id, sandbox.created_at).await;
    let noted =
        noted.into_iter().filter(|noted| from.is_none_or(|t| noted.at >= t) && until.is_none_or(|t| noted.at <= t));
    Ok(merge(entries, noted.map(journal_entry).collect(), order, limit as usize))
}

/// Merges both by time. If there are more events than were read, journal lines after the last of them are left out.
fn merge(mut entries: Vec<LogEntry>, mut noted: Vec<LogEntry>, order: Order, limit: usize) -> Vec<LogEntry> {
    if let Some(last) = entries.last().filter(|_| entries.len() >= limit) {
        noted.retain(|entry| match order {
            Order::Ascending => entry.timestamp <= last.timestamp,
            Order::Descending => entry.timestamp >= last.timestamp,
        });
    }
    entries.append(&mut noted);
    // Stable: lines with the same time keep their order.
    match order {
        Order::Ascending => entries.sort_by_key(|entry| entry.timestamp),
        Order::Descending => entries.sort_by_key(|entry| std::cmp::Reverse(entry.timestamp)),
    }
    entries.truncate(limit);
    entries
}

/// A line of the guest's journal.
fn journal_entry(noted: JournalLine) -> LogEntry {
    let mut fields = BTreeMap::from([("logger".into(), "guest".into())]);
    if let Some(pid) = noted.pid {
        fields.insert("pid".into(), pid.to_string());
    }
    LogEntry { timestamp: noted.at, message: noted.message, level: noted.level.into(), fields }
}

/// A lifecycle event as a line.
fn event_entry(event: Event) -> LogEntry {
    let text = |name: &str| event.data.get(name).and_then(Value::as_str).map(str::to_owned).unwrap_or_default();
    let reason = text("reason");
    let (level, message) = match event.kind.as_str() {
        event::REQUESTED => ("debug", format!("Sandbox requested with API key {}", text("by"))),
        event::CREATED => ("info", "Sandbox started".into()),
        event::UPDATED if reason == "oom" => {
            ("warn", format!("Out of memory: {} processes were killed", event.data["oomKills"]))
        }
        event::UPDATED if reason == "not_ready" => {
            ("error", format!("Sandbox is up, but not ready: {}", text("message")))
        }
        event::UPDATED if reason == "resize" => ("info", "Sandbox may use more or less from now on".into()),
        event::UPDATED => ("info", format!("Sandbox will expire at {}", text("endAt"))),
        event::PAUSING => ("debug", format!("Sandbox is being paused: it {reason}")),
        event::PAUSED => ("info", format!("Sandbox is paused ({}): it {reason}", text("pauseMode"))),
        event::RESUMING => ("debug", "Sandbox is being resumed".into()),
        event::RESUMED => ("info", "Sandbox resumed".into()),
        event::UNCHANGED => ("warn", format!("Sandbox stays as it was: {reason}")),
        event::MEMORY_LOST => ("warn", "Sandbox has lost its memory and will boot from its disk".into()),
        event::SNAPSHOTTED => ("info", format!("Snapshot {} taken", text("snapshotID"))),
        event::ARCHIVING => ("debug", "Sandbox is on its way to cold storage".into()),
        event::ARCHIVED => ("info", "Sandbox is in cold storage".into()),
        event::RESTORED => ("info", "Sandbox is back from cold storage".into()),
        event::FAILED => ("error", format!("Sandbox failed: it {reason}; its disk is kept")),
        event::ENDING | event::KILLED => {
            let cause = serde_json::from_value::<EndCause>(event.data["cause"].clone()).ok();
            let level = match (event.kind.as_str(), cause.is_some_and(|c| c.is_failure())) {
                (event::ENDING, false) => "debug",
                (_, false) => "info",
                (_, true) => "error",
            };
            let what = if event.kind == event::ENDING { "is being removed: it" } else { "is gone: it" };
            (level, format!("Sandbox {what} {reason}"))
        }
        other => ("info", other.to_owned()),
    };
    LogEntry {
        timestamp: event.at,
        message,
        level: level.into(),
        fields: BTreeMap::from([("logger".into(), "lifecycle".into()), ("event".into(), event.kind)]),
    }
}

/// The older form: E2B's CLI parses the line as JSON and reads `level` and `logger`.
fn line(entry: &LogEntry) -> LogLine {
    let mut fields: serde_json::Map<String, Value> =
        entry.fields.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    fields.insert("level".into(), entry.level.clone().into());
    fields.insert("message".into(), entry.message.clone().into());
    LogLine { timestamp: entry.timestamp, line: Value::Object(fields).to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(second: i64, logger: &str) -> LogEntry {
        let timestamp = Timestamp::from_second(second).expect("time");
        let fields = BTreeMap::from([("logger".to_owned(), logger.to_owned())]);
        LogEntry { timestamp, message: String::new(), level: "info".into(), fields }
    }

    proptest! {
        #[test]
        fn pages_follow_each_other_without_a_hole(
            mut events in prop::collection::vec(0i64..100, 0..30), mut noted in prop::collection::vec(0i64..100, 0..30),
            limit in 1usize..40,
        ) {
            events.sort_unstable();
            noted.sort_unstable();
            let lines = |seconds: &[i64], logger| seconds.iter().map(|s| at(*s, logger)).collect::<Vec<_>>();
            let mut all = [events.clone(), noted.clone()].concat();
            all.sort_unstable();
            let read = lines(&events, "lifecycle").into_iter().take(limit).collect();
            let merged = merge(read, lines(&noted, "guest"), Order::Ascending, limit);
            let seconds: Vec<i64> = merged.iter().map(|l| l.timestamp.as_second()).collect();
            // As many as were asked for, unless events fill the page: always the first ones, none left out.
            prop_assert_eq!(&seconds[..], &all[..seconds.len()]);
            prop_assert!(seconds.len() == limit.min(all.len()));
        }
    }
}
