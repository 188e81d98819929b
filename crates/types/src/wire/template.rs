//! Bodies of the API for templates.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BuildId, TemplateId};

/// A template as listings show it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Template {
    /// Its id.
    #[serde(rename = "templateID")]
    pub template_id: TemplateId,
    /// The build that new sandboxes start from; the newest one while there is none.
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
    /// Where sandboxes may connect that ask for nothing: `none`, `registries` or `internet`; absent for the server's default
    /// (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Whether set-uid programs such as `sudo` gain nothing in its sandboxes, whatever their creation says (Cabana).
    #[serde(default)]
    pub no_new_privileges: bool,
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

/// Body of `PATCH /v2/templates/{id}`: what is to be different.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateUpdate {
    /// Whether every team may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<bool>,
    /// The isolation backend of sandboxes that ask for none; empty for the server's default (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Where sandboxes may connect that ask for nothing: `none`, `registries` or `internet`; empty for the server's default
    /// (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Whether set-uid programs such as `sudo` gain nothing in new sandboxes. A creation can ask for it where the template
    /// does not, but not the other way round; builds are not affected (Cabana).
    #[serde(default, rename = "noNewPrivileges", skip_serializing_if = "Option::is_none")]
    pub no_new_privileges: Option<bool>,
}

/// Answer of `PATCH /v2/templates/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateNames {
    /// Names with namespace.
    pub names: Vec<String>,
}
