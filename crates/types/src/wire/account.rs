//! Bodies of the API for people and their sessions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::people::OwnTeam;
use crate::{Permission, Role, Secret, SessionId, TeamId, UserId};

/// Body of `POST /auth/welcome`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WelcomeRequest {
    /// The code of a link that `cabana login` printed.
    pub code: Secret,
}

/// Body of `POST /auth/sign-in`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignInRequest {
    /// An API key of this server, instead of email and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
}

/// A one-time code for signing in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignInCode {
    /// The link to open: it signs in once.
    pub url: Secret,
    /// When it becomes invalid.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
}

/// A person.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Person {
    pub id: UserId,
    pub name: String,
    /// The first admin has none until they choose one.
    #[serde(default)]
    pub email: Option<String>,
    /// Whether they have a password.
    #[serde(default)]
    pub has_password: bool,
    /// Whether they may change the server itself.
    pub admin: bool,
}

/// The team that a session acts for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionTeam {
    pub id: TeamId,
    pub name: String,
}

/// Who is signed in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionInfo {
    pub id: SessionId,
    pub user: Person,
    pub team: SessionTeam,
    /// All teams of the person.
    #[serde(default)]
    pub teams: Vec<OwnTeam>,
    /// The role in the team; null for those who are in none, and for sessions of API keys.
    #[serde(default)]
    pub role: Option<Role>,
    /// What the session may do in the team, and with the server.
    #[serde(default)]
    pub permissions: Vec<Permission>,
    /// Whether it was signed in with an API key: it may do what the key may.
    #[serde(default)]
    pub by_key: bool,
    /// Whether this server lets everybody make teams.
    #[serde(default)]
    pub may_make_teams: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
}

/// A session as listings show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListedSession {
    pub id: SessionId,
    /// Whether this request belongs to it.
    pub current: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_seen_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
    /// Address of the client that signed in.
    pub address: Option<String>,
    /// Its `User-Agent`.
    pub agent: Option<String>,
}
