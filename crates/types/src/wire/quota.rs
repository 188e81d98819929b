//! Quotas and plans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ProjectId;
use crate::code_enum::code_enum;
use crate::quota::QuotaKind;

code_enum! {
    /// Where a limit comes from.
    LimitSource, "Where a limit comes from: the project's or team's own limits, its plan, or the server's. `none`: there is no limit.", {
        Project => "project",
        Team => "team",
        Plan => "plan",
        Server => "server",
        None => "none",
    }
}

/// Why a request was refused with `quota_exceeded` (Cabana).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaExceeded {
    pub kind: QuotaKind,
    /// What the team uses.
    pub used: u64,
    /// What the request would have added.
    pub wanted: u64,
    pub limit: u64,
    /// The project whose quota is used up; without it, that of the team is.
    #[serde(default, rename = "projectId", skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectId>,
    /// Who uses most of it; at most five.
    pub users: Vec<QuotaUser>,
}

/// Who uses some of a limited kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaUser {
    /// Id of the API key or user.
    pub id: String,
    /// Its name, if it still exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub used: u64,
}

/// What a team uses and may use.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TeamQuotas {
    #[serde(rename = "teamID")]
    pub team_id: String,
    /// Id of its plan.
    pub plan: String,
    /// Whether the caller may change limits and plans.
    pub operator: bool,
    /// One per kind.
    pub quotas: Vec<QuotaState>,
}

/// What a project uses and may use.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectQuotas {
    pub project_id: ProjectId,
    /// One per kind that a project can have a limit of. What the team may use holds besides.
    pub quotas: Vec<QuotaState>,
}

/// What a team uses and may use of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaState {
    pub kind: QuotaKind,
    /// What it uses; 0 for `lifetime_seconds`, which holds for each sandbox.
    pub used: u64,
    /// Null: there is no limit.
    pub limit: Option<u64>,
    pub source: LimitSource,
}

/// Limits to set. Kinds that are not named stay as they are; null removes a limit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LimitChanges {
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, Option<i64>>))]
    pub limits: BTreeMap<QuotaKind, Option<i64>>,
}

/// A plan: limits under a name, for any number of teams.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Plan {
    pub id: String,
    pub name: String,
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, u64>))]
    pub limits: BTreeMap<QuotaKind, u64>,
    /// How many teams have it.
    pub teams: u64,
}

/// What a plan is to be. Its limits are replaced: a kind that is not named has none.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanSettings {
    /// The plan's id if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, i64>))]
    pub limits: BTreeMap<QuotaKind, i64>,
}

/// The plan that a team is to have.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanChoice {
    pub plan: String,
}
