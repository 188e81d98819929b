//! Reading templates.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::{BuildStatus, Template as Row};
use cabana_types::limits::PAGE;
use cabana_types::routing::ENVD_VERSION;
use cabana_types::wire::{Template, TemplateAlias, TemplateBuild, TemplatePage, TemplateWithBuilds};
use cabana_types::{BuildId, ErrorCode, TeamId, TemplateId};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::App;
use super::novita::is_novita;
use super::query::{MAX_PAGE, Query};
use super::template_ref::{PathName, parse};
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Maximum number of builds in the details of a template.
const MAX_BUILDS: u32 = 100;
const NOVITA_LIMIT: u32 = 20;
const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");

/// List templates.
#[utoipa::path(get, path = "/templates", tag = "templates",
    params(("teamID" = Option<String>, Query, description = "Accepted for older clients; the key says which team")),
    responses((status = 200, description = "Templates", body = Vec<Template>)))]
pub(super) async fn list_templates(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Template>>, ApiError> {
    let rows = app.templates(&caller.reach).await?;
    Ok(Json(rows.into_iter().map(shown).collect()))
}

/// List the public templates.
#[utoipa::path(get, path = "/default-templates", tag = "templates",
    responses((status = 200, description = "Templates", body = Vec<Template>)))]
pub(super) async fn default_templates(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Vec<Template>>, ApiError> {
    let rows = app.templates(&caller.reach).await?;
    Ok(Json(rows.into_iter().filter(|row| row.public).map(shown).collect()))
}

/// List templates, page by page.
#[utoipa::path(get, path = "/v2/templates", tag = "templates",
    params(
        ("limit" = Option<u32>, Query, description = "Rows of a page, 1 to 100 (default)"),
        ("nextToken" = Option<String>, Query, description = "`x-next-token` of the page before"),
        ("page" = Option<u32>, Query, description = "Asks for Novita's form of a page, from 1"),
        ("template_type" = Option<String>, Query, description = "Novita's kinds: `template_build` or `snapshot_template`"),
    ),
    responses((status = 200, description = "A page; an object `TemplatePage` for Novita's clients", body = TemplateListing, headers(
        ("x-next-token" = String, description = "Where the next page goes on; absent on the last"),
    ))))]
pub(super) async fn list_templates_v2(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    sent: HeaderMap,
    query: Query,
) -> Result<(HeaderMap, Json<TemplateListing>), ApiError> {
    let novita = query.text("page").is_some() || query.text("template_type").is_some() || is_novita(&sent);
    let all: Vec<Template> = app.templates(&caller.reach).await?.into_iter().map(shown).collect();
    if novita {
        return Ok((HeaderMap::new(), Json(TemplateListing::Page(page(&query, all)?))));
    }
    let limit = query.limit(*PAGE.end(), *PAGE.end())? as usize;
    let start = match query.text("nextToken") {
        None => 0,
        Some(token) => match all.iter().position(|t| t.template_id.as_str() == token) {
            Some(last) => last + 1,
            None => return Err(ApiError::invalid("nextToken is not one of this server's; begin again without it")),
        },
    };
    let mut headers = HeaderMap::new();
    let page: Vec<Template> = all.iter().skip(start).take(limit).cloned().collect();
    if start + page.len() < all.len()
        && let Some(last) = page.last().and_then(|t| HeaderValue::from_str(t.template_id.as_str()).ok())
    {
        headers.insert(NEXT_TOKEN, last);
    }
    Ok((headers, Json(TemplateListing::List(page))))
}

/// The response, which depends on the client.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(super) enum TemplateListing {
    /// E2B's form.
    List(Vec<Template>),
    /// Novita's.
    Page(TemplatePage),
}

/// Novita's form of a page.
fn page(query: &Query, mut all: Vec<Template>) -> Result<TemplatePage, ApiError> {
    let limit = query.limit(NOVITA_LIMIT, *PAGE.end())?;
    let page = query.number("page", 1..=MAX_PAGE)?.and_then(|page| u64::try_from(page).ok()).unwrap_or(1);
    match query.text("template_type") {
        None | Some("template_build") => {}
        // Snapshots are listed by `GET /snapshots`.
        Some("snapshot_template") => all.clear(),
        Some(other) => {
            let text = format!("template_type must be template_build or snapshot_template, not {:?}", short(other));
            return Err(ApiError::invalid(text));
        }
    }
    let total = all.len() as u64;
    let skip = usize::try_from((page - 1) * u64::from(limit)).unwrap_or(usize::MAX);
    let templates = all.into_iter().skip(skip).take(limit as usize).collect();
    Ok(TemplatePage { templates, total, page, limit, total_pages: total.div_ceil(u64::from(limit)) })
}

/// A template with its builds.
#[utoipa::path(get, path = "/templates/{templateID}", tag = "templates",
    params(("templateID" = String, Path, description = "Its id, or `[namespace/]alias[:tag]`, percent-encoded")),
    responses((status = 200, description = "The template", body = TemplateWithBuilds)))]
pub(super) async fn get_template(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
) -> Result<Json<TemplateWithBuilds>, ApiError> {
    let row = app.find_template(&caller.reach, &text).await?;
    let builds = app.store.builds(&row.id, MAX_BUILDS).await?.into_iter().map(|build| TemplateBuild {
        build_id: build.id,
        status: build.status.as_str().into(),
        created_at: build.created_at,
        updated_at: build.updated_at,
        finished_at: build.finished_at,
        cpu_count: build.resources.cpu_count,
        memory_mb: build.resources.memory_mb,
        disk_size_mb: build.resources.disk_mb,
        envd_version: ENVD_VERSION.into(),
    });
    let builds = builds.collect();
    Ok(Json(TemplateWithBuilds { template: shown(row), builds }))
}

/// Find a template by its alias.
#[utoipa::path(get, path = "/templates/aliases/{alias}", tag = "templates",
    params(("alias" = String, Path, description = "`[namespace/]alias`, percent-encoded")),
    responses((status = 200, description = "The template", body = TemplateAlias)))]
pub(super) async fn get_alias(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
) -> Result<Json<TemplateAlias>, ApiError> {
    match app.find_template(&caller.reach, &text).await {
        Ok(row) => Ok(Json(TemplateAlias { template_id: row.id, public: row.public })),
        Err(error)
            if error.code() == ErrorCode::TemplateNotFound && app.is_of_another_team(&caller.team, &text).await? =>
        {
            let text = format!("{:?} is the name of another team's template", short(&text));
            Err(ApiError::new(ErrorCode::Forbidden, text))
        }
        Err(error) => Err(error),
    }
}

impl App {
    /// Whether a reference names a private template of another team.
    async fn is_of_another_team(&self, team: &TeamId, text: &str) -> Result<bool, ApiError> {
        let lower = text.trim().to_ascii_lowercase();
        let Some(name) = parse(&lower) else { return Ok(false) };
        match name.namespace {
            Some(namespace) => Ok(self.store.is_alias_taken(team, namespace, name.alias).await?),
            None => match name.alias.parse::<TemplateId>() {
                Ok(id) => Ok(self.store.template(&id).await?.is_some_and(|t| t.team != *team)),
                Err(_) => Ok(false),
            },
        }
    }
}

/// Aliases with namespace.
pub(super) fn names(row: &Row) -> Vec<String> {
    row.aliases.iter().map(|alias| format!("{}/{alias}", row.namespace)).collect()
}

/// A template in its wire form. Until a build is ready, it shows the newest build.
pub(super) fn shown(row: Row) -> Template {
    let names = names(&row);
    let build = row.build.as_ref().map(|build| (build.id.clone(), build.status));
    let (build_id, status) = build.or(row.newest).unwrap_or_else(|| (no_build(), BuildStatus::Waiting));
    Template {
        template_id: row.id,
        build_id,
        cpu_count: row.resources.cpu_count,
        memory_mb: row.resources.memory_mb,
        disk_size_mb: row.resources.disk_mb,
        public: row.public,
        aliases: row.aliases,
        names,
        created_at: row.created_at,
        updated_at: row.updated_at,
        created_by: None,
        last_spawned_at: row.last_spawned_at,
        spawn_count: row.spawn_count,
        build_count: row.build_count,
        envd_version: ENVD_VERSION.into(),
        build_status: status.as_str().into(),
        network: row.network.map(|preset| preset.as_str().to_owned()),
        no_new_privileges: row.no_new_privileges,
    }
}

/// The build id of a template without builds: clients require one.
fn no_build() -> BuildId {
    BuildId::from_random([0; 16])
}
