//! Bodies of the API for sandboxes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::network::{NetworkRequest, SandboxNetwork};
use super::upload::UploadedFile;
use crate::{SandboxId, Secret};

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
    /// Resume on a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<AutoResume>,
    /// `false` cuts the sandbox off from everything outside.
    #[serde(default, rename = "allow_internet_access", skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// Network policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRequest>,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// Environment of every command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// MCP servers that the SDK starts in the sandbox, and their options. Only checked.
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
    /// Isolation backend, instead of the template's or the server's default; `GET /status` lists them (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Whether set-uid programs such as `sudo` gain nothing inside. It cannot be taken back for this sandbox, its
    /// snapshots and forks (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_new_privileges: Option<bool>,
    /// Its project: an id, or `default`. Without it, the project of the API key, else the team's default project (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
}

/// Whether a request resumes the sandbox when it is paused.
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
    /// The files that were sent with the request (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploads: Option<Vec<UploadedFile>>,
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
    /// What it is exactly (Cabana): `running`, `pausing`, `paused`, `resuming`, `archiving`, `archived`, `recycled`, `failed`, `ending` or
    /// `ended`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Since when it is running, paused, failed or ended (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub since: Option<Timestamp>,
    /// Why it is not running (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a failed or ended one, the last lines of its log, if they are known: at most 20 (Cabana).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// Who asked for it (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<SandboxCreator>,
}

/// Who asked for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxCreator {
    pub kind: CreatorKind,
    /// Public id of the key or the user.
    pub id: Option<String>,
    /// Its name, if it still exists.
    pub name: Option<String>,
}

/// What asked for a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CreatorKind {
    /// An API key.
    Key,
    /// A person in the console.
    User,
    /// The server itself, or somebody who is not known.
    System,
}

/// What happens at the timeout, and when touched.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxLifecycle {
    /// `kill` or `pause`.
    pub on_timeout: String,
    /// Whether a request resumes it when it is paused.
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

/// A TCP port that a program in a sandbox listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxPort {
    pub port: u16,
    /// `0.0.0.0`, `127.0.0.1`, `::` …
    pub address: String,
    /// The process, if it is known.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<String>,
    /// How the port is reached from outside, if the server has a domain.
    pub url: Option<String>,
}

/// Body of connect. Beyond the timeout, clients may name options of a resumed sandbox; one that runs must have them already.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConnectRequest {
    /// Seconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// `false`: a paused sandbox boots from its disk, even if its memory is kept.
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
    pub network: Option<NetworkRequest>,
}

/// Body of `POST /sandboxes/{id}/timeout`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimeoutRequest {
    /// Seconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

/// Body of `POST /sandboxes/{id}/refreshes`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefreshRequest {
    /// Seconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<i64>,
}
