//! Bodies of the API for records of sandboxes: logs, events, metrics.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BuildId, SandboxId};

/// One line of a sandbox's log: a lifecycle event or an entry of its guest, in the form that E2B's CLI reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogEntry {
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// What.
    pub message: String,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// More.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

/// A line of the older log form: JSON text with a `level`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// JSON text.
    pub line: String,
}

/// Answer of `GET /sandboxes/{id}/logs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxLogs {
    /// Older form.
    pub logs: Vec<LogLine>,
    /// Newer form.
    pub log_entries: Vec<LogEntry>,
}

/// Answer of `GET /v2/sandboxes/{id}/logs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxLogPage {
    /// The lines.
    pub logs: Vec<LogEntry>,
}

/// One thing that happened to a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    /// Always `v1`.
    pub version: String,
    /// Its id.
    pub id: String,
    /// `sandbox.lifecycle.created` and the like.
    #[serde(rename = "type")]
    pub kind: String,
    /// Details; `reason` says why.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub event_data: Option<serde_json::Value>,
    /// The sandbox.
    pub sandbox_id: SandboxId,
    /// Its template.
    pub sandbox_template_id: String,
    /// Its build.
    pub sandbox_build_id: BuildId,
    /// The execution; the sandbox's id, as it runs once.
    pub sandbox_execution_id: String,
    /// Its team.
    pub sandbox_team_id: String,
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
}

/// What a sandbox used at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxMetric {
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// The same, in seconds since 1970.
    pub timestamp_unix: i64,
    /// Virtual CPUs.
    pub cpu_count: u32,
    /// Share of them in use, percent.
    pub cpu_used_pct: f64,
    /// Memory in use, bytes.
    pub mem_used: u64,
    /// Memory there is, bytes.
    pub mem_total: u64,
    /// Page cache, bytes.
    pub mem_cache: u64,
    /// Disk in use, bytes.
    pub disk_used: u64,
    /// Disk there is, bytes.
    pub disk_total: u64,
}

/// Answer of `GET /sandboxes/metrics`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxesMetrics {
    /// By sandbox id; those that are not up are left out.
    pub sandboxes: BTreeMap<String, SandboxMetric>,
}

/// What a team ran at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TeamMetric {
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// The same, in seconds since 1970.
    pub timestamp_unix: i64,
    /// Sandboxes that were up.
    pub concurrent_sandboxes: u32,
    /// Sandboxes started per second.
    pub sandbox_start_rate: f64,
}

/// The largest value of a team's metric.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MaxTeamMetric {
    /// When it was reached.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// The same, in seconds since 1970.
    pub timestamp_unix: i64,
    /// The value.
    pub value: f64,
}

/// Answer of `GET /sandboxes/events` (Novita).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityPage {
    /// The page.
    pub items: Vec<ActivityItem>,
    /// How many there are in all, as far as 10000.
    pub total: u64,
    /// Whether there is another page.
    pub has_more: bool,
}

/// Something that was done with a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityItem {
    /// Its id.
    #[serde(rename = "eventID")]
    pub event_id: String,
    /// When, seconds since 1970.
    pub record_at: i64,
    /// The sandbox's template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// The template's alias.
    pub template_name: String,
    /// The sandbox.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: SandboxId,
    /// `create`, `update`, `timeout` or `delete`.
    pub event_name: String,
    /// `success` or `failed`.
    pub state: String,
    /// Why it failed.
    pub error_msg: String,
    /// As an HTTP status.
    pub status_code: u16,
}
