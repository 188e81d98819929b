//! Bodies of the API for builds of templates.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{BuildId, Secret, TemplateId};

/// An optional text that must be a string if present: `null` is refused.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    String::deserialize(deserializer).map(Some)
}

/// Body of `POST /v3/templates`, and of the older routes for the same.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewTemplate {
    /// `alias` or `alias:tag`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What older clients call the name.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Tags that the build gets when it is ready; `default` if neither this nor the name has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Virtual CPUs of its sandboxes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_count: Option<i64>,
    /// Their memory, MiB.
    #[serde(rename = "memoryMB", default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<i64>,
    /// Their disk beyond the template, MiB; 0 is as good as none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_free_disk_mb: Option<i64>,
    /// Accepted for older clients; the key says which team.
    #[serde(rename = "teamID", default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    /// Not taken here: a Dockerfile is sent when the build is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<String>,
    /// Project of the template if it is created: an id, or `default`. Without it, that of the API key, else the default one (Cabana).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
}

/// Response of `POST /v3/templates`: a build that waits for its steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequestedBuild {
    /// The template's id.
    #[serde(rename = "templateID")]
    pub template_id: TemplateId,
    /// The build's id.
    #[serde(rename = "buildID")]
    pub build_id: BuildId,
    /// Whether every team may use the template.
    pub public: bool,
    /// Names with namespace.
    pub names: Vec<String>,
    /// Tags that the build gets when it is ready.
    pub tags: Vec<String>,
    /// Aliases.
    pub aliases: Vec<String>,
}

/// Answer of `GET /templates/{id}/files/{hash}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileUpload {
    /// Whether the archive is there already.
    pub present: bool,
    /// Where it may be put, without a key, within an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Body of `POST /v2/templates/{id}/builds/{buildID}`: what to build. At most one of `fromImage`, `fromTemplate` and `dockerfile` is given;
/// with none it is `fromImage` with E2B's base image.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildStart {
    /// The image to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_image: Option<String>,
    /// The template to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_template: Option<String>,
    /// Credentials for the image's registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_image_registry: Option<RegistryCredentials>,
    /// What to do, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<TemplateStep>>,
    /// A command that runs as long as a sandbox does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_cmd: Option<String>,
    /// A command that succeeds when a sandbox is ready to be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_cmd: Option<String>,
    /// Nothing is taken from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
    /// Cabana: the text of a Dockerfile, instead of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dockerfile: Option<String>,
    /// Cabana: the uploaded archive that is the Dockerfile's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Cabana: the stage of the Dockerfile to build; the last one where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Cabana: the Dockerfile's `ARG`s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_args: Option<BTreeMap<String, String>>,
    /// Cabana: images that were uploaded, as `docker save` or an OCI layout has them, by the names that the build has for them. No
    /// registry is asked for those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<BTreeMap<String, String>>,
}

/// Credentials for a registry; which members they have depends on the type.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistryCredentials {
    /// `registry`, `aws` or `gcp`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `registry`: the user's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// `registry`: the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// `aws`: the key's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_access_key_id: Option<String>,
    /// `aws`: the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_secret_access_key: Option<Secret>,
    /// `aws`: where the registry is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_region: Option<String>,
    /// `gcp`: the key file of a service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_json: Option<Secret>,
}

/// One of E2B's build steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateStep {
    /// `COPY`, `RUN`, `ENV`, `WORKDIR` or `USER`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it works on; what they mean depends on the kind.
    #[serde(default)]
    pub args: Vec<String>,
    /// It is done even if it was done before.
    #[serde(default)]
    pub force: bool,
    /// The uploaded archive that a `COPY` takes its files from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_hash: Option<String>,
    /// The archive is uploaded again even if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_upload: Option<bool>,
}

/// Answer of `GET /templates/{id}/builds/{buildID}/status`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildInfo {
    /// The template's id.
    #[serde(rename = "templateID")]
    pub template_id: TemplateId,
    /// The build's id.
    #[serde(rename = "buildID")]
    pub build_id: BuildId,
    /// `waiting`, `building`, `ready` or `error`.
    pub status: String,
    /// Always empty; older clients want it.
    pub logs: Vec<String>,
    /// A page of the log. An empty one is the end of what is there.
    pub log_entries: Vec<BuildLogEntry>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<BuildReason>,
}

/// A line of a build's log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildLogEntry {
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub timestamp: Timestamp,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// What it says.
    pub message: String,
    /// Of which step: `base`, `finalize` or its number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// Why a build failed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildReason {
    /// In words.
    pub message: String,
    /// At which step: `base`, `finalize` or its number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The last lines of the log.
    #[serde(default)]
    pub log_entries: Vec<BuildLogEntry>,
}

/// Answer of `GET /templates/{id}/builds/{buildID}/logs`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildLogPage {
    /// Lines.
    pub logs: Vec<BuildLogEntry>,
}
