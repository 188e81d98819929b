//! Bodies of the API for teams and their keys.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{KeyId, Permission, ProjectId, Secret};

/// A team, as `GET /teams` shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Team {
    /// Its id.
    #[serde(rename = "teamID")]
    pub team_id: String,
    /// Its name.
    pub name: String,
    /// The key that was sent with the request: others are not kept.
    pub api_key: Secret,
    /// Always true: a key belongs to one team.
    pub is_default: bool,
}

/// Answer of `GET /sandboxes/quota` (Novita).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Quota {
    /// What there may be.
    pub limit: QuotaLimit,
    /// What there is.
    pub usage: QuotaUsage,
}

/// What there may be.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaLimit {
    /// Sandboxes at once, of all teams.
    pub concurrent_instances: u64,
    /// Virtual CPUs of all of them.
    pub concurrent_vcpu: u64,
    /// Memory of all of them, MiB.
    pub concurrent_ram_mb: u64,
    /// Longest life from now, hours.
    pub max_length_hours: u32,
    /// Largest disk of one, MiB.
    pub disk_mb: u32,
    /// Most virtual CPUs of one.
    pub max_vcpu: u32,
    /// Most memory of one, MiB.
    pub max_ram_mb: u32,
}

/// What there is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaUsage {
    /// The team's running sandboxes.
    pub concurrent_instances: u64,
    /// Their virtual CPUs.
    pub concurrent_vcpu: u64,
    /// Their memory, MiB.
    pub concurrent_ram_mb: u64,
}

/// Body of `POST /api-keys`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyRequest {
    /// What to call the key.
    pub name: String,
    /// What it may do: at most what its maker may. Without them, everything but `members` and `admin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<Permission>>,
    /// From then on it is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// Networks that it can be used from, such as `10.0.0.0/8`; without them, from anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidrs: Option<Vec<String>>,
    /// The only project that it is for: an id, or `default`. Without it, that of its maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
}

/// Body of `PATCH /api-keys/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyName {
    /// What to call the key.
    pub name: String,
}

/// How a key is shown to those who know it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyMask {
    /// What every key begins with.
    pub prefix: String,
    /// Characters after the prefix.
    pub value_length: u32,
    /// The first of them.
    pub masked_value_prefix: String,
    /// The last of them.
    pub masked_value_suffix: String,
}

/// An API key, without the key itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// What its owner calls it.
    pub name: String,
    /// How to recognise it.
    pub mask: KeyMask,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Always null: keys belong to teams.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub created_by: Option<serde_json::Value>,
    /// When it was last used.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_used: Option<Timestamp>,
    /// What it may do.
    #[serde(default)]
    pub scopes: Vec<Permission>,
    /// From then on it is invalid; null: never.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// Networks that it can be used from; empty: from anywhere.
    #[serde(default)]
    pub cidrs: Vec<String>,
    /// Id of the user or the API key that made it.
    #[serde(default, rename = "creatorID")]
    pub creator_id: Option<String>,
    /// The only project that it is for; null: all of the team.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
}

/// A new API key: the one time that the key itself is shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewApiKey {
    /// What listings show.
    #[serde(flatten)]
    pub shown: ApiKey,
    /// The key.
    pub key: Secret,
}
