//! Bodies of the API for tags of templates.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::BuildId;

/// A tag of a template.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateTag {
    /// The tag.
    pub tag: String,
    /// The build that it names.
    #[serde(rename = "buildID")]
    pub build_id: BuildId,
    /// Since when.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// Body of `POST /templates/tags`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssignTags {
    /// The build to tag: `alias`, `alias:tag` or `alias:<build id>`.
    pub target: String,
    /// The tags that it gets.
    pub tags: Vec<String>,
}

/// Answer of `POST /templates/tags`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AssignedTags {
    /// The tags.
    pub tags: Vec<String>,
    /// The build that has them now.
    #[serde(rename = "buildID")]
    pub build_id: BuildId,
}

/// Body of `DELETE /templates/tags`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemoveTags {
    /// The template.
    pub name: String,
    /// The tags that it loses.
    pub tags: Vec<String>,
}

/// Answer of `GET /templates/{id}/tags/count`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagCount {
    /// How many tags there are.
    pub total: u64,
}

/// Answer of `GET /templates/{id}/tags/exists`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagExists {
    /// Whether the template has the tag.
    pub exists: bool,
    /// The tag as it is written here.
    pub normalized_tag: String,
}

/// That a tag came to name a build.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagAssignment {
    /// Its id, a UUID.
    pub assignment_id: String,
    /// The build.
    pub build_id: BuildId,
    /// When.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub assigned_at: Timestamp,
    /// When the build was asked for.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub build_created_at: Timestamp,
    /// When the build ended.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub build_finished_at: Option<Timestamp>,
}

/// Answer of `GET /templates/{id}/tags/{tag}/assignments`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagAssignmentPage {
    /// What the tag has stood for, newest first.
    pub data: Vec<TagAssignment>,
    /// Where the next page goes on; null on the last.
    pub next_cursor: Option<String>,
}

/// A tag with what it has stood for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagGroup {
    /// The tag.
    pub tag: String,
    /// What it has stood for, newest first.
    pub assignments: Vec<TagAssignment>,
    /// Whether there is more of that.
    pub has_more: bool,
}

/// Answer of `GET /templates/{id}/tags/groups`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagGroupPage {
    /// Tags.
    pub tags: Vec<TagGroup>,
    /// Where the next page goes on; null on the last.
    pub next_cursor: Option<String>,
}
