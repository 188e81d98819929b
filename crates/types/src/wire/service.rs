//! Bodies of the API for services.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::service::{Access, HostMode, OnWake, ServiceState};
use crate::{GrantId, SandboxId, Secret, ServiceId};

/// Body of `POST /sandboxes/{id}/services`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewService {
    /// `web` if omitted. A service of this name is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A script for a login shell.
    pub command: String,
    /// The port that it will listen on; if omitted, the first one that it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_wake: Option<OnWake>,
    /// The sandbox is neither paused when it is idle nor ended at its timeout while the service is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_on: Option<bool>,
    /// A replaced service keeps its access unless this is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Name below the domain, for a public service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_mode: Option<HostMode>,
    /// Whether pages in a frame of the console get the script that reports errors and takes screenshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<bool>,
}

/// Body of `PATCH /services/{id}`. What is omitted stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceUpdate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// An empty text removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_wake: Option<OnWake>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_on: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_mode: Option<HostMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<bool>,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Service {
    pub id: ServiceId,
    pub sandbox_id: SandboxId,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub chat_id: Option<String>,
    pub name: String,
    pub command: String,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub cwd: Option<String>,
    /// Names of its variables; values are not shown.
    pub env_keys: Vec<String>,
    /// The port that it was asked or found to use.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub port: Option<u16>,
    pub state: ServiceState,
    /// When it was last started or stopped, or ended.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub since: Timestamp,
    /// Exit code of the command, if it has ended by itself.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub exit_code: Option<i32>,
    /// Why it is in this state, if that is not obvious.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub reason: Option<String>,
    /// What it printed last, after it has ended or failed to open its port. Untrusted text.
    pub last_lines: Vec<String>,
    /// How often it was started again since it was made or replaced.
    pub restarts: u32,
    pub on_wake: OnWake,
    pub always_on: bool,
    pub access: Access,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub slug: Option<String>,
    pub host_mode: HostMode,
    pub bridge: bool,
    /// Where it is; a private one asks to sign in. `null` until its port is known.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub url: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// Body of `POST /services/{id}/open`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenService {
    /// Path and query to open; `/` if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether it is for a frame of the console instead of a tab.
    #[serde(default)]
    pub frame: bool,
}

/// Where to see a service.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenedService {
    /// For a person who is signed in: valid once, for a minute. With an API key: the service's own address.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub url: Secret,
    /// The origin that the page will have.
    pub origin: String,
}

/// Body of `POST /services/{id}/links`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewServiceLink {
    /// 3600 if omitted, at most 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<u64>,
}

/// A link by which anyone can see a service until it expires or is revoked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceLink {
    pub id: GrantId,
    pub service_id: ServiceId,
    /// The address; only in the answer that made it, since only its hash is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub url: Option<Secret>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
    /// How often a page was opened by it.
    pub opened: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime, required = true))]
    pub last_opened_at: Option<Timestamp>,
    /// When it was revoked.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime, required = true))]
    pub revoked_at: Option<Timestamp>,
}

/// Output of a service: the answer without `follow`, and the data of an event `lines` with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceLogLines {
    /// Untrusted text.
    pub lines: Vec<String>,
    /// Bytes that are no longer kept before these lines.
    pub dropped: u64,
}

/// Data of the event `end`, after which a followed log has no more: the service has ended, or its sandbox was paused.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServiceLogEnd {
    pub state: ServiceState,
    pub reason: Option<String>,
}
