//! Tags of templates, which name builds. To roll back, assign a tag to an earlier build.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::{Assignment, Template};
use cabana_types::limits::{MAX_TAG_BYTES, MAX_TAGS, PAGE};
use cabana_types::wire::{
    AssignTags, AssignedTags, RemoveTags, TagAssignment, TagAssignmentPage, TagCount, TagExists, TagGroup,
    TagGroupPage, TemplateTag,
};
use http::StatusCode;
use jiff::Timestamp;

use super::App;
use super::body::Body;
use super::query::Query;
use super::template_ref::{DEFAULT_TAG, PathName, PathNames, is_build_id, is_tag};
use crate::auth::Caller;
use crate::error::{ApiError, short};

const GROUP_ASSIGNMENTS: u32 = 6;
const GROUPS: u32 = 25;
const ASSIGNMENTS: u32 = 50;
pub(super) const SORTS: [&str; 4] = ["latest_desc", "latest_asc", "name_asc", "name_desc"];

/// Assign tags to a build. A tag of another build of the template moves to this one.
#[utoipa::path(post, path = "/templates/tags", tag = "templates", request_body = AssignTags,
    responses((status = 201, description = "The tags are assigned", body = AssignedTags)))]
pub(super) async fn assign_tags(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<AssignTags>,
) -> Result<(StatusCode, Json<AssignedTags>), ApiError> {
    let tags = normalize_tags(&request.tags)?;
    if tags.is_empty() {
        return Err(ApiError::invalid("tags is empty; name at least one"));
    }
    let template = app.find_own_template(&caller.reach, &request.target).await?;
    let build = app.finished_build(&template, &request.target).await?;
    app.store.assign_tags(build.id.clone(), tags.clone(), MAX_TAGS, Timestamp::now()).await?;
    Ok((StatusCode::CREATED, Json(AssignedTags { tags, build_id: build.id })))
}

/// Remove tags. Their builds are kept for a while.
#[utoipa::path(delete, path = "/templates/tags", tag = "templates", request_body = RemoveTags,
    responses((status = 204, description = "The tags are removed")))]
pub(super) async fn remove_tags(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<RemoveTags>,
) -> Result<StatusCode, ApiError> {
    let tags = normalize_tags(&request.tags)?;
    if tags.iter().any(|tag| tag == DEFAULT_TAG) {
        return Err(ApiError::invalid(
            "The tag default cannot be removed: it is what a template means without a tag. \
             Give it to another build, or delete the template",
        ));
    }
    let template = app.find_own_template(&caller.reach, &request.name).await?;
    app.store.remove_tags(template.id, tags, Timestamp::now()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the tags of a template.
#[utoipa::path(get, path = "/templates/{templateID}/tags", tag = "templates",
    params(("templateID" = String, Path, description = "Its id or alias")),
    responses((status = 200, description = "Tags, by name", body = Vec<TemplateTag>)))]
pub(super) async fn list_tags(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
) -> Result<Json<Vec<TemplateTag>>, ApiError> {
    let template = app.find_template(&caller.reach, &text).await?;
    let tags = app.store.tags(&template.id).await?.into_iter();
    let tags = tags.map(|t| TemplateTag { tag: t.tag, build_id: t.build, created_at: t.created_at });
    Ok(Json(tags.collect()))
}

/// Count the tags of a template.
#[utoipa::path(get, path = "/templates/{templateID}/tags/count", tag = "templates",
    params(("templateID" = String, Path, description = "Its id or alias")),
    responses((status = 200, description = "The count", body = TagCount)))]
pub(super) async fn count_tags(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
) -> Result<Json<TagCount>, ApiError> {
    let template = app.find_template(&caller.reach, &text).await?;
    Ok(Json(TagCount { total: app.store.tags(&template.id).await?.len() as u64 }))
}

/// Whether a template has a tag.
#[utoipa::path(get, path = "/templates/{templateID}/tags/exists", tag = "templates",
    params(
        ("templateID" = String, Path, description = "Its id or alias"),
        ("tag" = String, Query, description = "The tag"),
    ),
    responses((status = 200, description = "Whether it exists", body = TagExists)))]
pub(super) async fn tag_exists(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
    query: Query,
) -> Result<Json<TagExists>, ApiError> {
    let tag = query.text("tag").ok_or_else(|| ApiError::invalid("tag is missing; say which one"))?;
    let normalized_tag = normalize_tag(tag)?;
    let template = app.find_template(&caller.reach, &text).await?;
    let exists = app.store.tags(&template.id).await?.iter().any(|t| t.tag == normalized_tag);
    Ok(Json(TagExists { exists, normalized_tag }))
}

/// List the tags of a template, each with its assignments.
#[utoipa::path(get, path = "/templates/{templateID}/tags/groups", tag = "templates",
    params(
        ("templateID" = String, Path, description = "Its id or alias"),
        ("assignmentLimit" = Option<u32>, Query, description = "Assignments of each tag, 1 to 100, else 6"),
        ("tagsLimit" = Option<u32>, Query, description = "Tags of a page, 1 to 100, else 25"),
        ("tagsCursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
        ("search" = Option<String>, Query, description = "Only tags that contain this text"),
        ("sort" = Option<String>, Query, description = "By the latest assignment (`latest_desc`, the default) or by name"),
    ),
    responses((status = 200, description = "A page", body = TagGroupPage)))]
pub(super) async fn tag_groups(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
    query: Query,
) -> Result<Json<TagGroupPage>, ApiError> {
    let each = query.limit_of("assignmentLimit", GROUP_ASSIGNMENTS, *PAGE.end())? as usize;
    let limit = query.limit_of("tagsLimit", GROUPS, *PAGE.end())? as usize;
    let search = query.text("search").unwrap_or_default();
    if search.chars().count() > MAX_TAG_BYTES {
        return Err(ApiError::invalid(format!("search has at most {MAX_TAG_BYTES} characters")));
    }
    let search = search.to_ascii_lowercase();
    let sort = query.text("sort").unwrap_or(SORTS[0]);
    if !SORTS.contains(&sort) {
        return Err(ApiError::invalid(format!("sort must be one of {}, not {:?}", SORTS.join(", "), short(sort))));
    }
    let template = app.find_template(&caller.reach, &text).await?;
    let mut groups: Vec<(String, Vec<Assignment>)> =
        app.assignments(&template).await?.into_iter().filter(|(tag, _)| tag.contains(&search)).collect();
    let latest = |assignments: &[Assignment]| assignments.first().map(|a| a.at);
    match sort {
        "name_asc" => {}
        "name_desc" => groups.reverse(),
        "latest_asc" => groups.sort_by_key(|(_, assignments)| latest(assignments)),
        _ => groups.sort_by_key(|(_, assignments)| std::cmp::Reverse(latest(assignments))),
    }
    let start = page_start(query.text("tagsCursor"), "tagsCursor", groups.iter().map(|(tag, _)| tag.as_str()))?;
    let more = groups.len() > start + limit;
    let tags = groups.into_iter().skip(start).take(limit).map(|(tag, all)| TagGroup {
        tag,
        has_more: all.len() > each,
        assignments: all.into_iter().take(each).map(shown).collect(),
    });
    let tags: Vec<TagGroup> = tags.collect();
    let next_cursor = tags.last().filter(|_| more).map(|group| group.tag.clone());
    Ok(Json(TagGroupPage { tags, next_cursor }))
}

/// List the assignments of a tag, newest first.
#[utoipa::path(get, path = "/templates/{templateID}/tags/{tag}/assignments", tag = "templates",
    params(
        ("templateID" = String, Path, description = "Its id or alias"),
        ("tag" = String, Path, description = "The tag"),
        ("limit" = Option<u32>, Query, description = "Rows of a page, 1 to 100, else 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the page before"),
    ),
    responses((status = 200, description = "A page", body = TagAssignmentPage)))]
pub(super) async fn tag_assignments(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathNames(text, tag): PathNames,
    query: Query,
) -> Result<Json<TagAssignmentPage>, ApiError> {
    let limit = query.limit(ASSIGNMENTS, *PAGE.end())? as usize;
    let tag = normalize_tag(&tag)?;
    let template = app.find_template(&caller.reach, &text).await?;
    let all = app.assignments(&template).await?.remove(&tag).unwrap_or_default();
    let start = page_start(query.text("cursor"), "cursor", all.iter().map(|a| a.id.as_str()))?;
    let more = all.len() > start + limit;
    let data: Vec<TagAssignment> = all.into_iter().skip(start).take(limit).map(shown).collect();
    let next_cursor = data.last().filter(|_| more).map(|a| a.assignment_id.clone());
    Ok(Json(TagAssignmentPage { data, next_cursor }))
}

impl App {
    /// The assignments of each current tag of a template, newest first.
    async fn assignments(&self, template: &Template) -> Result<BTreeMap<String, Vec<Assignment>>, ApiError> {
        let tags = self.store.tags(&template.id).await?.into_iter();
        let mut groups: BTreeMap<String, Vec<Assignment>> = tags.map(|tag| (tag.tag, vec![])).collect();
        for assignment in self.store.assignments(&template.id).await? {
            if let Some(group) = groups.get_mut(&assignment.tag) {
                group.push(assignment);
            }
        }
        Ok(groups)
    }
}

/// The index at which a page begins.
fn page_start<'a>(cursor: Option<&str>, name: &str, mut all: impl Iterator<Item = &'a str>) -> Result<usize, ApiError> {
    let Some(cursor) = cursor else { return Ok(0) };
    let last = all.position(|key| key == cursor).map(|last| last + 1);
    last.ok_or_else(|| ApiError::invalid(format!("{name} is not one of this server's; begin again without it")))
}

fn shown(assignment: Assignment) -> TagAssignment {
    TagAssignment {
        assignment_id: assignment.id,
        build_id: assignment.build,
        assigned_at: assignment.at,
        build_created_at: assignment.build_created_at,
        build_finished_at: assignment.build_finished_at,
    }
}

/// Normalises and deduplicates tags.
pub(super) fn normalize_tags(tags: &[String]) -> Result<Vec<String>, ApiError> {
    if tags.len() > MAX_TAGS as usize {
        return Err(ApiError::invalid(format!("There are {} tags; at most {MAX_TAGS} are taken", tags.len())));
    }
    let mut all: Vec<String> = vec![];
    for tag in tags {
        let tag = normalize_tag(tag)?;
        if !all.contains(&tag) {
            all.push(tag);
        }
    }
    Ok(all)
}

/// Checks a tag and converts it to lower case.
pub(super) fn normalize_tag(text: &str) -> Result<String, ApiError> {
    let tag = text.to_ascii_lowercase();
    if !is_tag(&tag) || tag.len() > MAX_TAG_BYTES {
        let text = format!("{:?} is not a tag: use at most {MAX_TAG_BYTES} of a-z, 0-9, -, _ and .", short(text));
        return Err(ApiError::invalid(text));
    }
    if is_build_id(&tag) {
        return Err(ApiError::invalid("A tag must not look like the id of a build"));
    }
    Ok(tag)
}
