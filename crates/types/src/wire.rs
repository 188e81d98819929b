//! Bodies of the REST API, in E2B's wire form. What Cabana adds are optional fields.

mod webhooks;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BuildId, ErrorCode, KeyId, SandboxId, Secret, TemplateId};
pub use webhooks::{DeliveryStatus, NewWebhook, Webhook, WebhookDelivery, WebhookUpdate};

/// Body of every error answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The HTTP status.
    pub code: u16,
    /// What went wrong and what to do next.
    pub message: String,
    /// The machine-readable cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<ErrorCode>,
}

/// Body of `POST /v2/sandboxes` and `POST /sandboxes`. Numbers are wide so that an absurd one gets an answer that names its
/// range; unknown fields are ignored, as newer clients send more.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewSandbox {
    /// Template: id, or `[namespace/]alias[:tag]`.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Seconds until it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Whether the guest wants an access token (older path only; the newer one always does).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Pause instead of ending at the timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// Keep memory when pausing at the timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause_memory: Option<bool>,
    /// Wake when touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<AutoResume>,
    /// `false` cuts the sandbox off from everything outside.
    #[serde(default, rename = "allow_internet_access", skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// Network policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub network: Option<serde_json::Value>,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Environment of every command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// MCP servers to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub mcp: Option<serde_json::Value>,
    /// Workload identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub iam: Option<serde_json::Value>,
    /// Secrets to put into the environment (Novita).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub secrets: Option<serde_json::Value>,
    /// Volumes to mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub volume_mounts: Option<Vec<serde_json::Value>>,
    /// Seconds without anything happening after which it pauses (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<i64>,
    /// `keep` (default) or `replace`: what happens when its guest dies or the machine restarts (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<String>,
    /// Paths that outlive its recycling, absolute or below its working directory (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Vec<String>>,
    /// Virtual CPUs, instead of the template's (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_count: Option<i64>,
    /// Memory in MiB, instead of the template's (Cabana).
    #[serde(default, rename = "memoryMB", skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
    /// Disk in MiB, instead of the template's (Cabana).
    #[serde(default, rename = "diskSizeMB", skip_serializing_if = "Option::is_none")]
    pub disk_size_mb: Option<i64>,
}

/// Whether a paused sandbox wakes when touched.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AutoResume {
    /// Whether it does.
    pub enabled: bool,
}

/// A sandbox as create and connect answer it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Sandbox {
    /// Its template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Its id.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: SandboxId,
    /// Always `cabana`; older clients want the field.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Version of the guest contract.
    pub envd_version: String,
    /// The template's first alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Token for the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<Secret>,
    /// Token for other ports, where they are private.
    #[serde(default)]
    pub traffic_access_token: Option<Secret>,
    /// Domain of the sandbox's hosts, where one is set.
    #[serde(default)]
    pub domain: Option<String>,
}

/// State of a sandbox as clients know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SandboxState {
    /// Up.
    Running,
    /// Asleep.
    Paused,
}

/// A sandbox as listings show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListedSandbox {
    /// Its template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// The template's first alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Its id.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: SandboxId,
    /// Always `cabana`.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// When it came up.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub started_at: Timestamp,
    /// When it expires.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub end_at: Timestamp,
    /// Virtual CPUs.
    pub cpu_count: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk, MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Labels.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Running or paused.
    pub state: SandboxState,
    /// Version of the guest contract.
    pub envd_version: String,
    /// What it is exactly (Cabana): `running`, `pausing`, `paused`, `resuming`, `archiving`, `archived`, `recycled` or `failed`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Since when it is running, asleep or failed (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub since: Option<Timestamp>,
    /// Why it is not running (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What happens at the timeout, and when touched.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxLifecycle {
    /// `kill` or `pause`.
    pub on_timeout: String,
    /// Whether it wakes when touched.
    pub auto_resume: bool,
    /// Seconds without anything happening after which it pauses (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<u64>,
    /// `keep` or `replace` (Cabana).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub on_failure: String,
    /// Paths that outlive recycling (Cabana).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
}

/// Network options of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxNetwork {
    /// Whether requests to its ports need no token.
    pub allow_public_traffic: bool,
    /// What it sees as `Host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_request_host: Option<String>,
    /// Ports that speak TLS inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub https_ports: Vec<u16>,
    /// What it may not reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny_out: Vec<String>,
}

/// Everything about one sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxDetail {
    /// What listings show.
    #[serde(flatten)]
    pub listed: ListedSandbox,
    /// Token for the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<Secret>,
    /// Domain of the sandbox's hosts, where one is set.
    #[serde(default)]
    pub domain: Option<String>,
    /// Whether it may reach the outside.
    #[serde(default)]
    pub allow_internet_access: Option<bool>,
    /// Its network options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<SandboxNetwork>,
    /// What happens at the timeout.
    pub lifecycle: SandboxLifecycle,
    /// What a paused one has kept: `full` or `filesystem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_mode: Option<String>,
}

/// Body of connect. Beyond the timeout, clients may name options of a resumed sandbox; one that runs must have them already.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConnectRequest {
    /// Seconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// `false`: a paused one boots afresh from its disk, even if its memory is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// Whether it pauses at the timeout from now on (older resume only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// Whether the guest wants an access token (Novita).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Whether ports need no token (Novita).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_public_traffic: Option<bool>,
    /// Network policy (Novita).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub network: Option<serde_json::Value>,
}

/// Body of `POST /sandboxes/{id}/timeout`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimeoutRequest {
    /// Seconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

/// Body of `POST /sandboxes/{id}/pause`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PauseRequest {
    /// Whether processes and memory are kept (default), or the disk alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// Whether it shall stay up if its guest does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_healthy_guest: Option<bool>,
}

/// Body of `POST /sandboxes/{id}/archive` (Cabana).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ArchiveRequest {
    /// Whether only the marked paths are kept, and the rest is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recycle: Option<bool>,
}

/// Body of `POST /sandboxes/{id}/resize` (Cabana). What is not named stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResizeRequest {
    /// Virtual CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_count: Option<i64>,
    /// Memory, MiB.
    #[serde(default, rename = "memoryMB", skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
    /// Disk, MiB; it only grows.
    #[serde(default, rename = "diskSizeMB", skip_serializing_if = "Option::is_none")]
    pub disk_size_mb: Option<i64>,
}

/// Body of `POST /sandboxes/{id}/hotplug-memory` (Novita).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HotplugRequest {
    /// Memory, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_size_mib: Option<i64>,
}

/// Body of `POST /sandboxes/{id}/fork`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForkRequest {
    /// Seconds until the new sandboxes expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

/// What became of one fork: a sandbox or an error.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForkResult {
    /// The new sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorBody>,
}

/// Body of `POST /sandboxes/{id}/clone` (Novita).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CloneRequest {
    /// Seconds until the new sandboxes expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// Whether all must be made, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
}

/// Clones of a sandbox (Novita).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Clones {
    /// They.
    pub sandboxes: Vec<Sandbox>,
    /// The template they were made from.
    pub snapshot_template_id: String,
}

/// Body of `POST /sandboxes/{id}/snapshots`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotRequest {
    /// A name for it; one that has it already gives it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether memory shall be in it; this backend keeps disks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// A snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotInfo {
    /// What creations name as their template: `namespace/name:default`, or `id:default`.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// Its names.
    pub names: Vec<String>,
    /// Whether processes and memory are in it (Cabana).
    #[serde(default)]
    pub memory: bool,
    /// The sandbox it is of (Cabana).
    #[serde(rename = "sandboxID", default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<SandboxId>,
    /// When it was made (Cabana).
    #[serde(rename = "createdAt", default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub created_at: Option<Timestamp>,
}

/// Body of `POST /sandboxes/{id}/refreshes`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefreshRequest {
    /// Seconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<i64>,
}

/// A template as listings show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Template {
    /// Its id.
    #[serde(rename = "templateID")]
    pub template_id: TemplateId,
    /// The build that new sandboxes start from.
    #[serde(rename = "buildID")]
    pub build_id: BuildId,
    /// Virtual CPUs.
    pub cpu_count: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk, MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Whether every team may use it.
    pub public: bool,
    /// Aliases.
    pub aliases: Vec<String>,
    /// Names with namespace.
    pub names: Vec<String>,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
    /// Who made it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub created_by: Option<serde_json::Value>,
    /// When a sandbox was last started from it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_spawned_at: Option<Timestamp>,
    /// Sandboxes started from it.
    pub spawn_count: u64,
    /// Builds of it.
    pub build_count: u64,
    /// Version of the guest contract.
    pub envd_version: String,
    /// `ready`, `building`, `waiting` or `error`.
    pub build_status: String,
}

/// One line of a sandbox's log: lifecycle events and what its guest noted, told as E2B's CLI reads them.
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

/// Answer of `GET /status` (Cabana): what this server is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerStatus {
    /// Version of the program.
    pub version: String,
    /// The isolation backend.
    pub backend: String,
    /// Sandboxes that are up.
    pub running: u64,
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

/// Answer of `GET /v2/sandboxes/{id}/logs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxLogPage {
    /// The lines.
    pub logs: Vec<LogEntry>,
}

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

/// A page of templates, as Novita's clients want it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplatePage {
    /// The page.
    pub templates: Vec<Template>,
    /// How many there are in all.
    pub total: u64,
    /// Which page this is, from 1.
    pub page: u64,
    /// Rows of a page.
    pub limit: u32,
    /// Pages.
    pub total_pages: u64,
}

/// Body of `POST /api-keys` and `PATCH /api-keys/{id}`.
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

/// Answer of `GET /templates/aliases/{alias}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateAlias {
    /// The template's id.
    #[serde(rename = "templateID")]
    pub template_id: TemplateId,
    /// Whether every team may use it.
    pub public: bool,
}

/// One build of a template.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateBuild {
    /// Its id.
    #[serde(rename = "buildID")]
    pub build_id: BuildId,
    /// `ready`, `building`, `waiting` or `error`.
    pub status: String,
    /// When it was begun.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it was last changed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<Timestamp>,
    /// Virtual CPUs.
    pub cpu_count: u32,
    /// Memory, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk, MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Version of the guest contract.
    pub envd_version: String,
}

/// Answer of `GET /templates/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateWithBuilds {
    /// What listings show.
    #[serde(flatten)]
    pub template: Template,
    /// Its builds, newest first.
    pub builds: Vec<TemplateBuild>,
}

/// What differs between the world and what the server remembers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    /// In words; empty where nothing does.
    pub differences: Vec<String>,
}
