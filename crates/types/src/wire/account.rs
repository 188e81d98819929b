//! Bodies of the API for people and their sessions.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Secret, SessionId, TeamId, UserId};

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
    /// An API key of this server.
    pub api_key: Secret,
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Person {
    pub id: UserId,
    pub name: String,
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
