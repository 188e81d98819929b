//! Checks of the server's machine.

use serde::{Deserialize, Serialize};

/// What `GET /status/doctor` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DoctorReport {
    /// How well sandboxes are kept apart, in words.
    pub level: String,
    /// What would raise it, the most important first.
    pub raise: Vec<String>,
    pub checks: Vec<DoctorCheck>,
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DoctorCheck {
    /// `machine`, `protection`, `hardening` or `server`.
    pub group: String,
    pub name: String,
    pub state: DoctorState,
    /// What was found.
    pub message: String,
    /// How to fix it, as a command if there is one.
    pub hint: Option<String>,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum DoctorState {
    Ok,
    /// Not ideal, but the server can run.
    Warning,
    /// A server cannot run without it.
    Failed,
}
