//! How people sign in.

use serde::Deserialize;

/// How people sign in, and what they may make.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounts {
    /// Whether with email and password.
    pub password: bool,
    /// Whether everybody can make teams.
    pub open_teams: bool,
}
