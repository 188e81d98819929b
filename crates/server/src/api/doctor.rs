//! The checks of `cabana doctor`, for the operator.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use cabana_types::wire::{DoctorCheck, DoctorReport, DoctorState};
use cabana_types::{ErrorCode, Fact};
use http::Request;
use tokio::sync::Mutex;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::own_address::own_address;
use super::server::server_status;
use crate::auth::{Caller, FIRST_TEAM};
use crate::doctor::{self, Check, Group};
use crate::error::ApiError;

/// The checks start programs of the machine: once at a time.
static RUNNING: Mutex<()> = Mutex::const_new(());

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(examine))
}

/// Check the server's machine, as `cabana doctor` does. For the first team only, which is the operator's.
#[utoipa::path(get, path = "/status/doctor", tag = "server",
    responses((status = 200, description = "The checks, and the level of protection in words", body = DoctorReport)))]
pub(super) async fn examine(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<Json<DoctorReport>, ApiError> {
    if caller.team.as_str() != FIRST_TEAM {
        return Err(ApiError::new(ErrorCode::RouteNotFound, "Only the operator's team can see this"));
    }
    let url = own_address(&request).unwrap_or_default();
    let data_dir = app.data_dir.clone();
    let _one = RUNNING.lock().await;
    // The server runs, so it has a guest program.
    let examined = tokio::task::spawn_blocking(move || doctor::checks(&data_dir, Ok("in use".into()), "")).await;
    let mut checks = examined.map_err(|error| ApiError::internal(&error))?;
    checks.push(Check { group: Group::Hardening, fact: doctor::encryption(&url) });
    checks.push(Check { group: Group::Server, fact: doctor::server(&server_status(&app), &url) });
    let facts: Vec<Fact> = checks.iter().map(|check| check.fact.clone()).collect();
    let protection = doctor::protection(&facts);
    Ok(Json(DoctorReport {
        level: protection.level.words().into(),
        raise: protection.raise,
        checks: checks.into_iter().map(shown).collect(),
    }))
}

fn shown(check: Check) -> DoctorCheck {
    let Check { group, fact } = check;
    DoctorCheck {
        group: group.name().into(),
        name: fact.name.into(),
        state: match (fact.ok, fact.required) {
            (true, _) => DoctorState::Ok,
            (false, false) => DoctorState::Warning,
            (false, true) => DoctorState::Failed,
        },
        message: fact.detail,
        hint: fact.remedy,
    }
}
