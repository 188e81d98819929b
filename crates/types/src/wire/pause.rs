//! Bodies of the API for pause, archive, resize, fork, commit and snapshots.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ErrorBody, Sandbox};
use crate::SandboxId;

/// Body of `POST /sandboxes/{id}/pause`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PauseRequest {
    /// Whether processes and memory are kept (default), or the disk alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// Whether it keeps running if its guest does not answer.
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

/// Body of `POST /sandboxes/{id}/commit`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CommitRequest {
    /// What to call the template: `alias` or `alias:tag`. Default: `sandbox-` and the sandbox's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Tags for the build. Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
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
    /// Whether to include memory; this backend keeps disks only.
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
