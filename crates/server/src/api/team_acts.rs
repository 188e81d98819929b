//! Making, renaming, deleting and leaving teams.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_store::{MemberChange, Team as Row, TeamInUse, TeamRemoval};
use cabana_types::wire::{OwnTeam, TeamName};
use cabana_types::{ErrorCode, Permission, Role, TeamId};
use http::StatusCode;
use jiff::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::account::{no_own_team, person};
use super::body::Body;
use crate::auth::{Caller, FIRST_TEAM};
use crate::error::{ApiError, short};

/// Teams that one person may be in before they may make no more.
const MAX_OWN: usize = 50;
/// Characters of a name.
const MAX_NAME: usize = 40;

/// The routes. Those for its members are in `members.rs`.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(rename_team, delete_team)).routes(routes!(leave_team))
}

/// Make a team, as its owner. Only admins of the server may, unless `accounts.open_teams` is set.
#[utoipa::path(post, path = "/teams", tag = "teams", request_body = TeamName,
    responses((status = 201, description = "The team", body = OwnTeam)))]
pub(super) async fn create_team(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(TeamName { name }): Body<TeamName>,
) -> Result<(StatusCode, Json<OwnTeam>), ApiError> {
    let owner = person(&caller)?.user.clone();
    if !app.people.open_teams {
        caller.require(Permission::Admin)?;
    }
    if app.accounts.directory().teams_of(&owner).count() >= MAX_OWN {
        let text = format!("You are in {MAX_OWN} teams, which is the most; leave or delete one first");
        return Err(ApiError::new(ErrorCode::LimitReached, text));
    }
    let team = new_team(&name)?;
    let task = {
        let (app, team) = (Arc::clone(&app), team.clone());
        async move { app.accounts.change(app.store.create_team(team, Some(owner))).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        true => Ok((StatusCode::CREATED, Json(OwnTeam { id: team.id, name: team.name, role: Role::Owner }))),
        false => Err(name_taken(&name)),
    }
}

/// Rename the team. The namespace of its templates changes with it.
#[utoipa::path(patch, path = "/teams/{teamID}", tag = "teams", request_body = TeamName,
    params(("teamID" = String, Path, description = "The team of the request")),
    responses((status = 204, description = "It has the name")))]
pub(super) async fn rename_team(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
    Body(TeamName { name }): Body<TeamName>,
) -> Result<StatusCode, ApiError> {
    let team = own_team(&caller, team)?;
    if team.as_str() == FIRST_TEAM {
        let text = "The server's first team keeps its name, in which its templates are known to everybody";
        return Err(ApiError::new(ErrorCode::TeamConflict, text));
    }
    let checked = check_name(&name)?.to_owned();
    let task = {
        let app = Arc::clone(&app);
        async move { app.accounts.change(app.store.rename_team(team, checked)).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(name_taken(&name)),
    }
}

/// Delete the team with its keys, secrets, webhooks, agents and invitations. Its sandboxes, templates, snapshots and chats must be
/// deleted before. Only owners may.
#[utoipa::path(delete, path = "/teams/{teamID}", tag = "teams",
    params(("teamID" = String, Path, description = "The team of the request")),
    responses((status = 204, description = "The team is gone")))]
pub(super) async fn delete_team(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let team = own_team(&caller, team)?;
    if caller.role != Some(Role::Owner) {
        return Err(ApiError::new(ErrorCode::Forbidden, "Only an owner can delete a team, signed in as a person"));
    }
    if team.as_str() == FIRST_TEAM {
        let text = "The server's first team cannot be deleted: it has the server's own templates and key";
        return Err(ApiError::new(ErrorCode::TeamConflict, text));
    }
    let task = {
        let (app, team) = (Arc::clone(&app), team.clone());
        async move {
            let removed = app.accounts.change(app.store.remove_team(team.clone(), Timestamp::now())).await?;
            if removed == TeamRemoval::Removed {
                app.keys.forget_team(&team);
                app.accounts.team_removed(&team).await?;
            }
            Ok::<_, cabana_store::Error>(removed)
        }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        TeamRemoval::Removed => Ok(StatusCode::NO_CONTENT),
        TeamRemoval::Unknown => Err(no_own_team(team.as_str())),
        TeamRemoval::InUse(found) => Err(in_use(&found)),
    }
}

/// Leave the team. Its last owner cannot.
#[utoipa::path(post, path = "/teams/{teamID}/leave", tag = "teams",
    params(("teamID" = String, Path, description = "The team of the request")),
    responses((status = 204, description = "The person is no member any more")))]
pub(super) async fn leave_team(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let team = own_team(&caller, team)?;
    let user = person(&caller)?.user.clone();
    let task = {
        let (app, team) = (Arc::clone(&app), team.clone());
        async move { app.accounts.change(app.store.change_member(team, user, None, None)).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        MemberChange::Done => Ok(StatusCode::NO_CONTENT),
        MemberChange::LastOwner => Err(last_owner()),
        MemberChange::Unknown | MemberChange::Forbidden => Err(no_own_team(team.as_str())),
    }
}

/// The team of a path, which must be the one that the request is for.
pub(super) fn own_team(caller: &Caller, team: Result<Path<String>, PathRejection>) -> Result<TeamId, ApiError> {
    let Path(text) = team.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    if text == caller.team.as_str() { Ok(caller.team.clone()) } else { Err(no_own_team(&text)) }
}

/// A team of a name.
pub(super) fn new_team(name: &str) -> Result<Row, ApiError> {
    let id = TeamId::from_random(rand::random());
    Ok(Row { id, name: check_name(name)?.to_owned(), created_at: Timestamp::now() })
}

pub(super) fn name_taken(name: &str) -> ApiError {
    let text = format!("Another team has the name {:?}; choose another", short(name));
    ApiError::new(ErrorCode::TeamConflict, text)
}

pub(super) fn last_owner() -> ApiError {
    let text = "The team would have no owner; make somebody else an owner first";
    ApiError::new(ErrorCode::LastOwner, text)
}

/// Names of teams are namespaces of templates.
fn check_name(name: &str) -> Result<&str, ApiError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let fits = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain);
    if fits && !name.starts_with('-') && !name.ends_with('-') {
        return Ok(name);
    }
    Err(ApiError::invalid(format!("name takes 1 to {MAX_NAME} characters of a-z, 0-9 and -, with - only inside")))
}

fn in_use(found: &TeamInUse) -> ApiError {
    let lists = [
        ("sandboxes", &found.sandboxes),
        ("templates", &found.templates),
        ("snapshots", &found.snapshots),
        ("chats", &found.chats),
    ];
    ApiError::new(ErrorCode::TeamConflict, format!("The team still has {}; delete them first", listed(&lists)))
}

/// What keeps something from being deleted.
pub(super) fn listed(lists: &[(&str, &Vec<String>)]) -> String {
    let parts: Vec<String> = lists
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what} ({})", names.join(", ")))
        .collect();
    parts.join(", ")
}
