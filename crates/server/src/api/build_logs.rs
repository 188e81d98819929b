//! Status and log of builds.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::{BuildLine, BuildLogQuery, LogLevel, Order};
use cabana_types::limits::PAGE;
use cabana_types::wire::{BuildInfo, BuildLogEntry, BuildLogPage, BuildReason};

use super::App;
use super::query::{MAX_OFFSET, Query};
use super::template_ref::PathNames;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Log lines in the reason of a failure.
const REASON_LINES: u32 = 10;
const MILLISECOND: Duration = Duration::from_micros(999);

/// Status of a build, with a page of its log. Clients continue after the lines they have; an empty page is the current end.
#[utoipa::path(get, path = "/templates/{templateID}/builds/{buildID}/status", tag = "builds",
    params(
        ("templateID" = String, Path, description = "The template's id or alias"),
        ("buildID" = String, Path, description = "The build's id"),
        ("logsOffset" = Option<u32>, Query, description = "Lines to skip, of those that the level leaves"),
        ("limit" = Option<u32>, Query, description = "Maximum number of lines, 1 to 100 (default)"),
        ("level" = Option<String>, Query, description = "Only lines of this level and above"),
    ),
    responses((status = 200, description = "The build", body = BuildInfo)))]
pub(super) async fn build_status(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathNames(template, build): PathNames,
    query: Query,
) -> Result<Json<BuildInfo>, ApiError> {
    let offset = query.number("logsOffset", 0..=MAX_OFFSET)?.and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
    let limit = query.limit(*PAGE.end(), *PAGE.end())?;
    let level = level(&query)?;
    // The build is read before its lines: if it has ended, all lines are there.
    let build = app.find_build(&caller.reach, &template, &build).await?;
    let lines = app.store.build_log(&build.id, offset, limit, level).await?;
    let reason = match build.error {
        None => None,
        Some(message) => {
            let last = BuildLogQuery {
                build: build.id.clone(),
                from: None,
                until: None,
                order: Order::Descending,
                level: LogLevel::Info,
                limit: REASON_LINES,
            };
            let last = app.store.build_log_around(&last).await?;
            let log_entries = last.into_iter().rev().map(shown).collect();
            Some(BuildReason { message, step: build.failed_step, log_entries })
        }
    };
    Ok(Json(BuildInfo {
        template_id: build.template,
        build_id: build.id,
        status: build.status.as_str().into(),
        logs: vec![],
        log_entries: lines.into_iter().map(shown).collect(),
        reason,
    }))
}

/// The log of a build, page by page.
#[utoipa::path(get, path = "/templates/{templateID}/builds/{buildID}/logs", tag = "builds",
    params(
        ("templateID" = String, Path, description = "The template's id or alias"),
        ("buildID" = String, Path, description = "The build's id"),
        ("cursor" = Option<i64>, Query, description = "Where to begin, milliseconds since 1970"),
        ("limit" = Option<u32>, Query, description = "Maximum number of lines, 1 to 100 (default)"),
        ("direction" = Option<String>, Query, description = "`forward` (default) or `backward` in time"),
        ("level" = Option<String>, Query, description = "Only lines of this level and above"),
        ("source" = Option<String>, Query, description = "`temporary` or `persistent`; here they are the same"),
    ),
    responses((status = 200, description = "Lines", body = BuildLogPage)))]
pub(super) async fn build_log(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathNames(template, build): PathNames,
    query: Query,
) -> Result<Json<BuildLogPage>, ApiError> {
    let cursor = query.millis("cursor")?;
    let limit = query.limit(*PAGE.end(), *PAGE.end())?;
    let (order, from, until) = match query.text("direction") {
        None | Some("forward") => (Order::Ascending, cursor, None),
        // The whole millisecond is included, or a line within it would be on no page.
        Some("backward") => (Order::Descending, None, cursor.map(|at| at + MILLISECOND)),
        Some(other) => {
            return Err(ApiError::invalid(format!("direction must be forward or backward, not {:?}", short(other))));
        }
    };
    if let Some(other) = query.text("source").filter(|source| !["temporary", "persistent"].contains(source)) {
        return Err(ApiError::invalid(format!("source must be temporary or persistent, not {:?}", short(other))));
    }
    let level = level(&query)?;
    let build = app.find_build(&caller.reach, &template, &build).await?.id;
    let lines = app.store.build_log_around(&BuildLogQuery { build, from, until, order, level, limit }).await?;
    Ok(Json(BuildLogPage { logs: lines.into_iter().map(shown).collect() }))
}

fn level(query: &Query) -> Result<LogLevel, ApiError> {
    let Some(text) = query.text("level") else { return Ok(LogLevel::Debug) };
    let names = LogLevel::ALL.map(LogLevel::as_str);
    LogLevel::ALL
        .into_iter()
        .find(|level| level.as_str() == text)
        .ok_or_else(|| ApiError::invalid(format!("level must be one of {}, not {:?}", names.join(", "), short(text))))
}

/// A line in its wire form.
pub(super) fn shown(line: BuildLine) -> BuildLogEntry {
    BuildLogEntry { timestamp: line.at, level: line.level.as_str().into(), message: line.message, step: line.step }
}
