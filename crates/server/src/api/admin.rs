//! People and teams of the whole server, for its operators: who there is, and nothing of what they have.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_accounts::Directory;
use cabana_store::{User, UserChange};
use cabana_types::wire::{MadeTeam, OwnTeam, ServerUser, TeamForOthers, TeamOverview, UserPage, UserUpdate};
use cabana_types::{ErrorCode, Role, UserId};
use http::StatusCode;
use jiff::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::account::read_email;
use super::body::Body;
use super::members::{invitation, person};
use super::query::Query;
use super::team_acts::{name_taken, new_team};
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// People of a page, unless asked otherwise, and at most.
const PAGE: u32 = 100;
const MAX_PAGE: u32 = 1000;
/// Hours that the owner of a new team has to accept.
const OWNER_HOURS: i64 = 168;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list_users))
        .routes(routes!(update_server_user))
        .routes(routes!(list_all_teams, create_team_for_others))
}

/// List the people of this server. For operators.
#[utoipa::path(get, path = "/admin/users", tag = "people",
    params(
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("limit" = Option<u32>, Query, description = "People of a page, 1 to 1000 (default 100)"),
    ),
    responses((status = 200, description = "A page, by id", body = UserPage)))]
pub(super) async fn list_users(State(app): State<Arc<App>>, query: Query) -> Result<Json<UserPage>, ApiError> {
    let limit = query.limit(PAGE, MAX_PAGE)? as usize;
    let after: Option<UserId> = match query.text("cursor") {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| ApiError::invalid("cursor is not one of this server's"))?),
    };
    let directory = app.accounts.directory();
    let mut users: Vec<ServerUser> = directory
        .users()
        .filter(|user| after.as_ref().is_none_or(|after| user.id > *after))
        .take(limit + 1)
        .map(|user| shown(&directory, user))
        .collect();
    let more = users.len() > limit;
    users.truncate(limit);
    let next_cursor = users.last().filter(|_| more).map(|last| last.user.id.clone());
    Ok(Json(UserPage { users, next_cursor }))
}

/// Disable or enable a person, or make them an admin of the server. Disabling ends their sessions and what they have open at once; keys
/// that they made stay. For operators.
#[utoipa::path(patch, path = "/admin/users/{userID}", tag = "people", request_body = UserUpdate,
    params(("userID" = String, Path, description = "The person")),
    responses((status = 200, description = "The person", body = ServerUser)))]
pub(super) async fn update_server_user(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    Body(update): Body<UserUpdate>,
) -> Result<Json<ServerUser>, ApiError> {
    let Path(text) = id.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    let unknown =
        || ApiError::new(ErrorCode::UserNotFound, format!("There is no person {:?} on this server", short(&text)));
    let id: UserId = text.parse().map_err(|_| unknown())?;
    let disabled = update.disabled.map(|disabled| UserChange::Disabled(disabled.then(Timestamp::now)));
    let changes = disabled.into_iter().chain(update.admin.map(UserChange::Admin)).collect();
    app.change_user(id.clone(), changes).await?;
    let directory = app.accounts.directory();
    Ok(Json(shown(&directory, directory.user(&id).ok_or_else(unknown)?)))
}

/// List the teams of this server: nothing of what is in them. For operators.
#[utoipa::path(get, path = "/admin/teams", tag = "teams",
    responses((status = 200, description = "Teams, oldest first", body = Vec<TeamOverview>)))]
pub(super) async fn list_all_teams(State(app): State<Arc<App>>) -> Result<Json<Vec<TeamOverview>>, ApiError> {
    Ok(Json(app.store.team_overviews().await?.into_iter().map(overview).collect()))
}

/// Make a team for somebody else, who gets an invitation to be its owner. For operators.
#[utoipa::path(post, path = "/admin/teams", tag = "teams", request_body = TeamForOthers,
    responses((status = 201, description = "The team, and the invitation with its link", body = MadeTeam)))]
pub(super) async fn create_team_for_others(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(new): Body<TeamForOthers>,
) -> Result<(StatusCode, Json<MadeTeam>), ApiError> {
    let email = read_email(&new.owner)?;
    let team = new_team(&new.name)?;
    let task = {
        let (app, team) = (Arc::clone(&app), team.clone());
        async move { app.accounts.change(app.store.create_team(team, None)).await }
    };
    if !app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        return Err(name_taken(&new.name));
    }
    let invitation = app.made_invitation(invitation(&caller, team.id.clone(), email, Role::Owner, OWNER_HOURS)).await?;
    let found = app.store.team_overviews().await?.into_iter().find(|row| row.team.id == team.id);
    let team = overview(found.ok_or(cabana_store::Error::NoTeam(team.id))?);
    Ok((StatusCode::CREATED, Json(MadeTeam { team, invitation })))
}

fn shown(directory: &Directory, user: &User) -> ServerUser {
    let team =
        |(team, role): (&cabana_store::Team, Role)| OwnTeam { id: team.id.clone(), name: team.name.clone(), role };
    ServerUser {
        user: person(user),
        disabled: user.disabled_at.is_some(),
        oidc: user.oidc.is_some(),
        created_at: user.created_at,
        last_seen_at: user.last_seen_at,
        teams: directory.teams_of(&user.id).map(team).collect(),
    }
}

fn overview(row: cabana_store::TeamOverview) -> TeamOverview {
    TeamOverview {
        id: row.team.id,
        name: row.team.name,
        plan: row.plan,
        members: row.members,
        sandboxes: row.sandboxes,
        created_at: row.team.created_at,
    }
}
