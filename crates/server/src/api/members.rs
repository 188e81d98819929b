//! The members of a team, and invitations to it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_accounts::Directory;
use cabana_store::{Changer, Invitation as Row, InvitationState, MemberChange, User};
use cabana_types::wire::{Invitation, MadeInvitation, Member, MemberRole, NewInvitation, Person};
use cabana_types::{ErrorCode, InvitationId, Role, Secret, TeamId, UserId};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::account::read_email;
use super::body::Body;
use super::team_acts::{last_owner, own_team};
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Hours that an invitation can be accepted.
const HOURS: std::ops::RangeInclusive<i64> = 1..=720;
const USUAL_HOURS: i64 = 168;

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list_members))
        .routes(routes!(change_member, remove_member))
        .routes(routes!(list_invitations, invite))
        .routes(routes!(revoke_invitation))
}

/// List the members of the team.
#[utoipa::path(get, path = "/teams/{teamID}/members", tag = "people",
    params(("teamID" = String, Path, description = "The team of the request")),
    responses((status = 200, description = "Members, in the order in which they came", body = Vec<Member>)))]
pub(super) async fn list_members(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
) -> Result<Json<Vec<Member>>, ApiError> {
    let team = own_team(&caller, team)?;
    let directory = app.accounts.directory();
    let keys = app.keys_by_maker(&team).await?;
    let shown = |row: &cabana_store::MemberRow| {
        let user = directory.user(&row.user)?;
        Some(member(user, row.role, Some(row.created_at), keys.get(row.user.as_str()).copied()))
    };
    Ok(Json(directory.members(&team).filter_map(shown).collect()))
}

/// Change the role of a member. What they have open is closed, and their next request has the new role.
#[utoipa::path(patch, path = "/teams/{teamID}/members/{userID}", tag = "people", request_body = MemberRole,
    params(
        ("teamID" = String, Path, description = "The team of the request"),
        ("userID" = String, Path, description = "The person"),
    ),
    responses((status = 204, description = "The person has the role")))]
pub(super) async fn change_member(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<(String, String)>, PathRejection>,
    Body(MemberRole { role }): Body<MemberRole>,
) -> Result<StatusCode, ApiError> {
    set(&app, &caller, path, Some(role)).await
}

/// Remove a member. What they made stays, also their keys; what they have open is closed.
#[utoipa::path(delete, path = "/teams/{teamID}/members/{userID}", tag = "people",
    params(
        ("teamID" = String, Path, description = "The team of the request"),
        ("userID" = String, Path, description = "The person"),
    ),
    responses((status = 204, description = "The person is no member any more")))]
pub(super) async fn remove_member(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    set(&app, &caller, path, None).await
}

async fn set(
    app: &Arc<App>,
    caller: &Caller,
    path: Result<Path<(String, String)>, PathRejection>,
    role: Option<Role>,
) -> Result<StatusCode, ApiError> {
    let Path((team, user)) = path.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    let team = own_team(caller, Ok(Path(team)))?;
    let user: UserId = user.parse().map_err(|_| no_member(&user))?;
    let changer = match caller.person() {
        Some(person) => Changer::User(person.clone()),
        None => Changer::Role(Role::Admin),
    };
    let task = {
        let (app, user) = (Arc::clone(app), user.clone());
        async move { app.accounts.change(app.store.change_member(team, user, role, Some(changer))).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        MemberChange::Done => Ok(StatusCode::NO_CONTENT),
        MemberChange::Unknown => Err(no_member(user.as_str())),
        MemberChange::LastOwner => Err(last_owner()),
        MemberChange::Forbidden => Err(only_owners()),
    }
}

/// List the invitations to the team that can still be accepted.
#[utoipa::path(get, path = "/teams/{teamID}/invitations", tag = "people",
    params(("teamID" = String, Path, description = "The team of the request")),
    responses((status = 200, description = "Invitations, newest first, without their links", body = Vec<Invitation>)))]
pub(super) async fn list_invitations(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
) -> Result<Json<Vec<Invitation>>, ApiError> {
    let team = own_team(&caller, team)?;
    let rows = app.store.open_invitations(&team, Timestamp::now()).await?;
    Ok(Json(rows.into_iter().map(shown).collect()))
}

/// Invite somebody to the team. An earlier invitation of the same person is revoked.
#[utoipa::path(post, path = "/teams/{teamID}/invitations", operation_id = "invite_member", tag = "people", request_body = NewInvitation,
    params(("teamID" = String, Path, description = "The team of the request")),
    responses((status = 201, description = "The invitation with its link, which is shown only once", body = MadeInvitation)))]
pub(super) async fn invite(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    team: Result<Path<String>, PathRejection>,
    Body(new): Body<NewInvitation>,
) -> Result<(StatusCode, Json<MadeInvitation>), ApiError> {
    let team = own_team(&caller, team)?;
    let own = caller.role.unwrap_or(Role::Admin);
    if !own.may_grant(new.role) {
        return Err(only_owners());
    }
    let email = read_email(&new.email)?;
    let directory = app.accounts.directory();
    if directory.user_by_email(&email).is_some_and(|user| directory.members(&team).any(|row| row.user == user.id)) {
        let text = format!("{email} is a member of the team already; change the role instead");
        return Err(ApiError::new(ErrorCode::AccountConflict, text));
    }
    let project = match new.project_id.as_deref() {
        None => None,
        Some(text) => Some(app.find_project(&caller, text)?.id).filter(|id| !id.is_default()),
    };
    if project.is_some() && !matches!(new.role, Role::Developer | Role::Viewer) {
        return Err(ApiError::invalid(
            "projectId goes with the roles developer and viewer: others reach all projects or none",
        ));
    }
    let hours = new.expires_in_hours.unwrap_or(USUAL_HOURS);
    if !HOURS.contains(&hours) {
        return Err(ApiError::invalid(format!("expiresInHours must be between {} and {}", HOURS.start(), HOURS.end())));
    }
    let row = Row { project, ..invitation(&caller, team, email, new.role, hours) };
    Ok((StatusCode::CREATED, Json(app.made_invitation(row).await?)))
}

/// Revoke an invitation: its link is invalid from then on.
#[utoipa::path(delete, path = "/teams/{teamID}/invitations/{invitationID}", tag = "people",
    params(
        ("teamID" = String, Path, description = "The team of the request"),
        ("invitationID" = String, Path, description = "The invitation"),
    ),
    responses((status = 204, description = "It is revoked")))]
pub(super) async fn revoke_invitation(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let Path((team, id)) = path.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    let team = own_team(&caller, Ok(Path(team)))?;
    let unknown = || {
        let text = format!("There is no open invitation {:?}; it may have been accepted, or has expired", short(&id));
        ApiError::new(ErrorCode::InvitationNotFound, text)
    };
    let parsed: InvitationId = id.parse().map_err(|_| unknown())?;
    match app.store.revoke_invitation(team, parsed, Timestamp::now()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(unknown()),
    }
}

/// A new invitation.
pub(super) fn invitation(caller: &Caller, team: TeamId, email: String, role: Role, hours: i64) -> Row {
    let now = Timestamp::now();
    Row {
        id: InvitationId::from_random(rand::random()),
        hash: [0; 32],
        team,
        email,
        role,
        project: None,
        created_by: caller.actor.clone(),
        created_at: now,
        expires_at: now + SignedDuration::from_hours(hours),
        state: InvitationState::Open,
    }
}

impl App {
    /// Stores an invitation, and makes its link.
    pub(super) async fn made_invitation(&self, row: Row) -> Result<MadeInvitation, ApiError> {
        let invitation = shown(row.clone());
        let Some(code) = self.accounts.invite(row).await? else {
            let text = "The team has as many open invitations as it may have; revoke some first";
            return Err(ApiError::new(ErrorCode::LimitReached, text));
        };
        // In the fragment, which browsers neither send nor log.
        let url = Secret::new(format!("{}/console/invitation#{}", self.console_url, code.expose()));
        Ok(MadeInvitation { invitation, url })
    }

    /// How many keys of a team each person made.
    async fn keys_by_maker(&self, team: &TeamId) -> Result<HashMap<String, u64>, cabana_store::Error> {
        let mut counts = HashMap::new();
        for maker in self.store.team_keys(team).await?.into_iter().filter_map(|key| key.created_by) {
            *counts.entry(maker.as_str().to_owned()).or_default() += 1;
        }
        Ok(counts)
    }
}

/// A person as a member.
pub(super) fn member(user: &User, role: Role, joined_at: Option<Timestamp>, keys: Option<u64>) -> Member {
    Member {
        user: person(user),
        role,
        disabled: user.disabled_at.is_some(),
        last_seen_at: user.last_seen_at,
        joined_at,
        keys: keys.unwrap_or_default(),
    }
}

/// A person, as others see them.
pub(super) fn person(user: &User) -> Person {
    Person {
        id: user.id.clone(),
        name: user.name.clone(),
        email: user.email.clone(),
        has_password: user.has_password,
        admin: user.admin,
    }
}

/// The role of a person in a team.
pub(super) fn role_of(directory: &Directory, team: &TeamId, user: &UserId) -> Option<Role> {
    directory.members(team).find(|row| row.user == *user).map(|row| row.role)
}

fn shown(row: Row) -> Invitation {
    Invitation {
        id: row.id,
        email: row.email,
        role: row.role,
        project_id: row.project,
        creator_id: row.created_by.as_str().to_owned(),
        created_at: row.created_at,
        expires_at: row.expires_at,
    }
}

pub(super) fn no_member(id: &str) -> ApiError {
    ApiError::new(ErrorCode::MemberNotFound, format!("Person {:?} is no member", short(id)))
}

fn only_owners() -> ApiError {
    let text =
        "Only owners of the team give or take the role owner, and your role must be owner or admin to change others";
    ApiError::new(ErrorCode::Forbidden, text)
}
