//! The caller's team and its metrics.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_types::wire::{MaxTeamMetric, Team, TeamMetric};
use cabana_types::{ErrorCode, Secret};
use jiff::Timestamp;

use super::App;
use super::query::Query;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// The team of the API key, or the teams of the person who is signed in.
#[utoipa::path(get, path = "/teams", tag = "teams",
    responses((status = 200, description = "Teams", body = Vec<Team>)))]
pub(super) async fn list_teams(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Team>>, ApiError> {
    let directory = app.accounts.directory();
    let shown = |team: &cabana_store::Team, role| Team {
        team_id: team.id.to_string(),
        name: team.name.clone(),
        // A person sees no key.
        api_key: caller.secret.clone().unwrap_or_else(|| Secret::new("")),
        is_default: team.id == caller.team,
        role,
    };
    Ok(Json(match caller.person() {
        Some(person) => directory.teams_of(person).map(|(team, role)| shown(team, Some(role))).collect(),
        None => directory.team(&caller.team).map(|team| shown(team, None)).into_iter().collect(),
    }))
}

/// Number of running and started sandboxes of the team over time, since this server started.
#[utoipa::path(get, path = "/teams/{teamID}/metrics", tag = "teams",
    params(
        ("teamID" = String, Path, description = "The team of the key"),
        ("start" = Option<i64>, Query, description = "Not before this time, seconds since 1970"),
        ("end" = Option<i64>, Query, description = "Not after this time, seconds since 1970"),
    ),
    responses((status = 200, description = "Samples, oldest first", body = Vec<TeamMetric>)))]
pub(super) async fn team_metrics(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, axum::extract::rejection::PathRejection>,
    query: Query,
) -> Result<Json<Vec<TeamMetric>>, ApiError> {
    check_team(&caller, team)?;
    Ok(Json(app.lifecycle.team_usage(&caller.team, query.range()?)))
}

/// Maximum of a metric of the team: running sandboxes, or sandboxes started per second.
#[utoipa::path(get, path = "/teams/{teamID}/metrics/max", tag = "teams",
    params(
        ("teamID" = String, Path, description = "The team of the key"),
        ("metric" = String, Query, description = "`concurrent_sandboxes` or `sandbox_start_rate`"),
        ("start" = Option<i64>, Query, description = "Not before this time, seconds since 1970"),
        ("end" = Option<i64>, Query, description = "Not after this time, seconds since 1970"),
    ),
    responses((status = 200, body = MaxTeamMetric,
        description = "The maximum and when it was first reached; 0 now if there are no samples")))]
pub(super) async fn team_metrics_max(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, axum::extract::rejection::PathRejection>,
    query: Query,
) -> Result<Json<MaxTeamMetric>, ApiError> {
    check_team(&caller, team)?;
    let value: fn(&TeamMetric) -> f64 = match query.text("metric") {
        Some("concurrent_sandboxes") => |metric| f64::from(metric.concurrent_sandboxes),
        Some("sandbox_start_rate") => |metric| metric.sandbox_start_rate,
        other => {
            let text = format!(
                "metric must be concurrent_sandboxes or sandbox_start_rate, not {:?}",
                short(other.unwrap_or_default())
            );
            return Err(ApiError::invalid(text));
        }
    };
    let now = Timestamp::now();
    let nothing = MaxTeamMetric { timestamp: now, timestamp_unix: now.as_second(), value: 0.0 };
    let samples = app.lifecycle.team_usage(&caller.team, query.range()?);
    let max = samples.iter().fold(None, |max: Option<&TeamMetric>, sample| match max {
        Some(max) if value(max) >= value(sample) => Some(max),
        _ => Some(sample),
    });
    Ok(Json(max.map_or(nothing, |sample| MaxTeamMetric {
        timestamp: sample.timestamp,
        timestamp_unix: sample.timestamp_unix,
        value: value(sample),
    })))
}

/// Checks that the path names the caller's team.
fn check_team(
    caller: &Caller,
    team: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Result<(), ApiError> {
    let Path(team) = team.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    if team == caller.team.as_str() {
        return Ok(());
    }
    let text = format!("This key is not one of the team {:?}; its own team is {}", short(&team), caller.team);
    Err(ApiError::new(ErrorCode::Forbidden, text))
}
