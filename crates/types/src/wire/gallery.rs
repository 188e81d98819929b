//! Bodies of the API for curated templates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{BuildId, TemplateId};

/// A curated template, and what there is of it on this server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CuratedTemplate {
    /// Its name, which sandboxes are created with.
    pub name: String,
    /// Its title.
    pub title: String,
    /// `Agents`, `Data` or `Languages`.
    pub category: String,
    /// What is in it.
    pub description: String,
    /// Licences of what is in it.
    pub licence: String,
    /// What it adds to `base`, MiB, about.
    #[serde(rename = "sizeMB")]
    pub size_mb: u32,
    /// Ports that its start command serves.
    pub ports: Vec<u16>,
    /// Virtual CPUs of its sandboxes.
    pub cpu_count: u32,
    /// Memory of its sandboxes, MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Pinned versions, by package.
    pub versions: BTreeMap<String, String>,
    /// Its Dockerfile.
    pub dockerfile: String,
    /// `absent` (the first use builds it), `building`, `ready`, `outdated` (usable; another build has changes), `failed`, or `taken`
    /// (another template has its name).
    pub state: String,
    /// The template, if there is one.
    #[serde(rename = "templateID", default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<TemplateId>,
    /// Its newest build.
    #[serde(rename = "buildID", default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<BuildId>,
    /// Why the newest build failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
