//! Plans: limits under a name. For operators.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_store::{BUILT_IN_PLAN, PlanRemoval, PlanRow};
use cabana_types::ErrorCode;
use cabana_types::quota::{InvalidLimit, Limits};
use cabana_types::wire::{Plan, PlanChoice, PlanSettings, TeamQuotas};
use http::StatusCode;
use jiff::Timestamp;

use super::App;
use super::body::Body;
use super::keys::check_name;
use super::quotas::named_team;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// How many plans there may be.
const MAX_PLANS: u32 = 100;
/// Bytes of a plan's id.
const MAX_ID_BYTES: usize = 64;

/// List the plans.
#[utoipa::path(get, path = "/admin/plans", tag = "quotas",
    responses((status = 200, description = "Plans, by id", body = Vec<Plan>)))]
pub(super) async fn list_plans(State(app): State<Arc<App>>) -> Result<Json<Vec<Plan>>, ApiError> {
    Ok(Json(app.store.plans().await?.into_iter().map(shown).collect()))
}

/// A plan.
#[utoipa::path(get, path = "/admin/plans/{planID}", tag = "quotas",
    params(("planID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The plan", body = Plan)))]
pub(super) async fn get_plan(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Plan>, ApiError> {
    Ok(Json(shown(app.store.plan(&named(id)?).await?)))
}

/// Make a plan, or replace its name and limits. They hold for its teams at once.
#[utoipa::path(put, path = "/admin/plans/{planID}", tag = "quotas", request_body = PlanSettings,
    params(("planID" = String, Path, description = "Its id: 1 to 64 characters of a-z, 0-9 and -")),
    responses((status = 200, description = "The plan", body = Plan)))]
pub(super) async fn put_plan(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    Body(settings): Body<PlanSettings>,
) -> Result<Json<Plan>, ApiError> {
    let id = named(id)?;
    check_own(&id)?;
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=MAX_ID_BYTES).contains(&id.len()) || !id.bytes().all(allowed) {
        return Err(ApiError::invalid(format!(
            "The id of a plan takes 1 to {MAX_ID_BYTES} characters of a-z, 0-9 and -"
        )));
    }
    let name = settings.name.as_deref().map_or(Ok(id.as_str()), check_name)?.to_owned();
    let limits = settings.limits.into_iter().try_fold(Limits::NONE, |limits, (kind, value)| {
        Ok::<_, InvalidLimit>(limits.with(kind, Some(kind.limit(value)?)))
    })?;
    let row = PlanRow { id: id.clone(), name, limits, teams: 0 };
    if !app.store.put_plan(row, MAX_PLANS, Timestamp::now()).await? {
        let text = format!("There are {MAX_PLANS} plans, as many as there may be; delete one first");
        return Err(ApiError::new(ErrorCode::LimitReached, text));
    }
    app.chats.limits_changed();
    Ok(Json(shown(app.store.plan(&id).await?)))
}

/// Delete a plan that no team has.
#[utoipa::path(delete, path = "/admin/plans/{planID}", tag = "quotas",
    params(("planID" = String, Path, description = "Its id")),
    responses((status = 204, description = "The plan is deleted")))]
pub(super) async fn delete_plan(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let id = named(id)?;
    check_own(&id)?;
    match app.store.remove_plan(id.clone()).await? {
        PlanRemoval::Removed => Ok(StatusCode::NO_CONTENT),
        PlanRemoval::InUse { teams } => {
            let text =
                format!("{teams} teams have the plan {id}; give them another first (PUT /admin/teams/{{id}}/plan)");
            Err(ApiError::new(ErrorCode::PlanConflict, text))
        }
    }
}

/// Give a team a plan.
#[utoipa::path(put, path = "/admin/teams/{teamID}/plan", tag = "quotas", request_body = PlanChoice,
    params(("teamID" = String, Path, description = "Id of the team")),
    responses((status = 200, description = "Use and limits from now on", body = TeamQuotas)))]
pub(super) async fn assign_plan(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
    Body(choice): Body<PlanChoice>,
) -> Result<Json<TeamQuotas>, ApiError> {
    let team = named_team(team)?;
    app.store.assign_plan(team.clone(), choice.plan).await?;
    app.chats.limits_changed();
    app.quotas_of(&caller, &team).await
}

fn named(id: Result<Path<String>, PathRejection>) -> Result<String, ApiError> {
    id.map(|Path(text)| text).map_err(|_| ApiError::invalid("The path is not well formed"))
}

/// Refuses changes of the plan that comes with the server.
fn check_own(id: &str) -> Result<(), ApiError> {
    if id == BUILT_IN_PLAN {
        let text = format!("The plan {} is built in and has no limits; make another plan and assign it", short(id));
        return Err(ApiError::new(ErrorCode::PlanConflict, text));
    }
    Ok(())
}

fn shown(row: PlanRow) -> Plan {
    Plan { id: row.id, name: row.name, limits: row.limits.into(), teams: row.teams }
}
