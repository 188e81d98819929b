//! What teams use and may use.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_store::QuotaUse;
use cabana_types::quota::{InvalidLimit, QuotaKind};
use cabana_types::wire::{LimitChanges, LimitSource, ProjectQuotas, QuotaState, TeamQuotas};
use cabana_types::{ErrorCode, Permission, ProjectId, TeamId};

use super::App;
use super::body::Body;
use super::query::Query;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// What the team uses and may use.
#[utoipa::path(get, path = "/quotas", tag = "quotas",
    responses((status = 200, description = "Use and limits", body = TeamQuotas)))]
pub(super) async fn own_quotas(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<TeamQuotas>, ApiError> {
    app.quotas_of(&caller, &caller.team).await
}

/// What a project uses and may use.
#[utoipa::path(get, path = "/projects/{projectID}/quotas", tag = "quotas",
    params(("projectID" = String, Path, description = "Its id, or `default`")),
    responses((status = 200, description = "Use and limits", body = ProjectQuotas)))]
pub(super) async fn project_quotas(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    project: Result<Path<String>, PathRejection>,
) -> Result<Json<ProjectQuotas>, ApiError> {
    let project = app.project_of(&caller, project)?;
    app.quotas_of_project(&project.id).await
}

/// Set limits of a project, which hold besides those of the team. Nothing that runs is ended; what would be more is refused.
#[utoipa::path(put, path = "/projects/{projectID}/quotas", tag = "quotas", request_body = LimitChanges,
    params(("projectID" = String, Path, description = "Its id, or `default`")),
    responses((status = 200, description = "Use and limits from now on", body = ProjectQuotas)))]
pub(super) async fn set_project_quotas(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    project: Result<Path<String>, PathRejection>,
    Body(changes): Body<LimitChanges>,
) -> Result<Json<ProjectQuotas>, ApiError> {
    let project = app.project_of(&caller, project)?;
    if let Some(kind) = changes.limits.keys().find(|kind| !kind.is_of_projects()) {
        return Err(ApiError::invalid(format!("{kind} is limited per team only; a project cannot have a limit of it")));
    }
    let limit = |(kind, value): (QuotaKind, Option<i64>)| Ok((kind, value.map(|value| kind.limit(value)).transpose()?));
    let changes = changes.limits.into_iter().map(limit).collect::<Result<Vec<_>, InvalidLimit>>()?;
    app.store.set_project_quotas(project.id.clone(), changes).await?;
    app.quotas_of_project(&project.id).await
}

/// What any team uses and may use. For operators.
#[utoipa::path(get, path = "/admin/teams/{teamID}/quotas", tag = "quotas",
    params(("teamID" = String, Path, description = "Id of the team")),
    responses((status = 200, description = "Use and limits", body = TeamQuotas)))]
pub(super) async fn team_quotas(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
) -> Result<Json<TeamQuotas>, ApiError> {
    app.quotas_of(&caller, &named_team(team)?).await
}

/// Set limits of a team, which come before those of its plan. Nothing that runs is ended; what would be more is refused. For operators.
#[utoipa::path(put, path = "/admin/teams/{teamID}/quotas", tag = "quotas", request_body = LimitChanges,
    params(("teamID" = String, Path, description = "Id of the team")),
    responses((status = 200, description = "Use and limits from now on", body = TeamQuotas)))]
pub(super) async fn set_quotas(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
    Body(changes): Body<LimitChanges>,
) -> Result<Json<TeamQuotas>, ApiError> {
    let team = named_team(team)?;
    let limit = |(kind, value): (QuotaKind, Option<i64>)| Ok((kind, value.map(|value| kind.limit(value)).transpose()?));
    let changes = changes.limits.into_iter().map(limit).collect::<Result<Vec<_>, InvalidLimit>>()?;
    app.store.set_quotas(team.clone(), changes).await?;
    app.chats.limits_changed();
    app.quotas_of(&caller, &team).await
}

/// Remove limits of a team, so that those of its plan hold. For operators.
#[utoipa::path(delete, path = "/admin/teams/{teamID}/quotas", tag = "quotas",
    params(
        ("teamID" = String, Path, description = "Id of the team"),
        ("kinds" = Option<String>, Query, description = "Only these, separated by commas; all by default"),
    ),
    responses((status = 200, description = "Use and limits from now on", body = TeamQuotas)))]
pub(super) async fn unset_quotas(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<TeamQuotas>, ApiError> {
    let team = named_team(team)?;
    let named = query.list("kinds");
    let kinds = match named.is_empty() {
        true => QuotaKind::ALL.to_vec(),
        false => named.into_iter().map(kind).collect::<Result<_, _>>()?,
    };
    app.store.set_quotas(team.clone(), kinds.into_iter().map(|kind| (kind, None)).collect()).await?;
    app.chats.limits_changed();
    app.quotas_of(&caller, &team).await
}

impl App {
    async fn quotas_of_project(&self, project: &ProjectId) -> Result<Json<ProjectQuotas>, ApiError> {
        let (used, limits) = self.store.project_quota_use(project).await?;
        let state = |kind: &QuotaKind| {
            let limit = limits.get(*kind);
            let source = if limit.is_some() { LimitSource::Project } else { LimitSource::None };
            QuotaState { kind: *kind, used: used.get(*kind), limit, source }
        };
        let quotas = QuotaKind::ALL.iter().filter(|kind| kind.is_of_projects()).map(state).collect();
        Ok(Json(ProjectQuotas { project_id: project.clone(), quotas }))
    }

    pub(super) async fn quotas_of(&self, caller: &Caller, team: &TeamId) -> Result<Json<TeamQuotas>, ApiError> {
        let found = self.store.quota_use(team).await?;
        let quotas = QuotaKind::ALL.iter().map(|kind| self.quota_state(&found, *kind)).collect();
        Ok(Json(TeamQuotas {
            team_id: team.to_string(),
            plan: found.plan,
            operator: caller.permissions.has(Permission::Admin),
            quotas,
        }))
    }

    fn quota_state(&self, found: &QuotaUse, kind: QuotaKind) -> QuotaState {
        let own = found.own_limits.get(kind).map(|limit| (limit, LimitSource::Team));
        let plan = found.plan_limits.get(kind).map(|limit| (limit, LimitSource::Plan));
        let server = self.quotas.get(kind).map(|limit| (limit, LimitSource::Server));
        let mut limit = own.or(plan).or(server);
        // No timeout is longer than the server's, whatever a team may.
        if kind == QuotaKind::LifetimeSeconds {
            let longest = self.limits.longest_timeout();
            limit = limit.filter(|(limit, _)| *limit <= longest).or(Some((longest, LimitSource::Server)));
        }
        let (limit, source) = limit.map_or((None, LimitSource::None), |(limit, source)| (Some(limit), source));
        QuotaState { kind, used: found.used.get(kind), limit, source }
    }
}

/// The team of a path.
pub(super) fn named_team(team: Result<Path<String>, PathRejection>) -> Result<TeamId, ApiError> {
    let Path(text) = team.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    // A malformed id is treated like one that does not exist.
    let unknown =
        || ApiError::new(ErrorCode::TeamNotFound, format!("There is no team {:?} on this server", short(&text)));
    text.parse().map_err(|_| unknown())
}

fn kind(text: &str) -> Result<QuotaKind, ApiError> {
    QuotaKind::parse(text).ok_or_else(|| {
        let kinds = QuotaKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ");
        ApiError::invalid(format!("{:?} is not limited; the kinds are {kinds}", short(text)))
    })
}

impl From<InvalidLimit> for ApiError {
    fn from(error: InvalidLimit) -> Self {
        Self::invalid(error.to_string())
    }
}
