//! Bodies of the API for people, their teams and projects.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::account::Person;
use crate::{InvitationId, ProjectId, Role, Secret, TeamId, UserId};

/// Body of `PUT /auth/session`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionUpdate {
    /// One of the person's teams.
    pub team_id: TeamId,
}

/// Body of `POST /auth/confirm`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Confirmation {
    pub password: Secret,
}

/// Body of `PUT /auth/password`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPassword {
    /// The present one, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_password: Option<Secret>,
    /// 10 to 200 characters.
    pub password: Secret,
}

/// Body of `PATCH /auth/user`. What is omitted stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PersonUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
}

/// How people can sign in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignInMethods {
    /// Whether with email and password.
    pub password: bool,
    /// What the OIDC provider is called, if there is one.
    pub oidc: Option<String>,
}

/// Body of `POST /teams` and `PATCH /teams/{teamID}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TeamName {
    /// 1 to 40 characters of `a-z`, `0-9` and `-`: it is also the namespace of the team's templates.
    pub name: String,
}

/// A team of a person.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OwnTeam {
    pub id: TeamId,
    pub name: String,
    pub role: Role,
}

/// A member of a team or project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Member {
    pub user: Person,
    pub role: Role,
    /// Whether the person can sign in.
    pub disabled: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_seen_at: Option<Timestamp>,
    /// When they came to the team.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub joined_at: Option<Timestamp>,
    /// Keys of the team that they made. They stay when the person goes.
    pub keys: u64,
}

/// Body of `PATCH /teams/{teamID}/members/{userID}` and `PUT /projects/{projectID}/members/{userID}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MemberRole {
    pub role: Role,
}

/// Body of `POST /teams/{teamID}/invitations`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewInvitation {
    /// Whom it is for: only an account with this email can accept it.
    pub email: String,
    pub role: Role,
    /// A project to be added to as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Hours until it expires, 1 to 720; 168 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_hours: Option<i64>,
}

/// An invitation that can still be accepted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invitation {
    pub id: InvitationId,
    pub email: String,
    pub role: Role,
    pub project_id: Option<ProjectId>,
    /// Who made it: a person or a key.
    #[serde(rename = "creatorID")]
    pub creator_id: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
}

/// An invitation with its link, which is shown only once.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MadeInvitation {
    #[serde(flatten)]
    pub invitation: Invitation,
    /// The link to hand over.
    pub url: Secret,
}

/// Body of `POST /auth/invitation`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvitationCode {
    /// What follows `#` in the link.
    pub code: Secret,
}

/// What somebody who has the link of an invitation sees.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InvitationInfo {
    /// Name of the team.
    pub team: String,
    pub email: String,
    pub role: Role,
    /// Whether there is an account with the email, which has to sign in first.
    pub has_account: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
}

/// Body of `POST /auth/invitation/accept`. Without a name and password: as the person who is signed in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AcceptInvitation {
    pub code: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

/// Body of `POST /projects` and `PATCH /projects/{projectID}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectName {
    /// Unique in the team.
    pub name: String,
}

/// A project.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    /// Whether it is the one that every team has, in which everybody works with their role in the team.
    pub is_default: bool,
    /// The role of the person who asks; null for API keys.
    pub role: Option<Role>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// A person as operators see them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerUser {
    #[serde(flatten)]
    pub user: Person,
    pub disabled: bool,
    /// Whether they sign in with OIDC.
    pub oidc: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_seen_at: Option<Timestamp>,
    pub teams: Vec<OwnTeam>,
}

/// A page of people.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserPage {
    pub users: Vec<ServerUser>,
    pub next_cursor: Option<UserId>,
}

/// Body of `PATCH /admin/users/{userID}`. What is omitted stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserUpdate {
    /// Whether they may not sign in. Their sessions end at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Whether they may change the server itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<bool>,
}

/// A team as operators see it: nothing of what is in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TeamOverview {
    pub id: TeamId,
    pub name: String,
    pub plan: String,
    pub members: u64,
    /// Sandboxes that have not ended.
    pub sandboxes: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// Body of `POST /admin/teams`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TeamForOthers {
    pub name: String,
    /// Email of its owner, who gets an invitation.
    pub owner: String,
}

/// A team that an operator made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MadeTeam {
    pub team: TeamOverview,
    /// For the owner; shown only once.
    pub invitation: MadeInvitation,
}
