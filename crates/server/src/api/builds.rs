//! Requesting builds of templates, starting and cancelling them. Between the request and the start, the client uploads files.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::{Build, BuildLimits, BuildRequest, BuildStatus, BuildTarget, Template as Row};
use cabana_types::limits::{DISK_MB, MAX_BUILDS, MAX_TAGS, MAX_TEMPLATE_REF_BYTES};
use cabana_types::wire::{BuildStart, NewTemplate, RequestedBuild, Template};
use cabana_types::{BuildId, ErrorCode, TeamId, TemplateId};
use http::StatusCode;
use jiff::Timestamp;

use super::App;
use super::body::Body;
use super::tags::{normalize_tag, normalize_tags};
use super::template_ref::{DEFAULT_TAG, PathName, PathNames, base_template_error, is_base_template, parse};
use super::templates::{names, shown};
use crate::auth::Caller;
use crate::builds::CANCELLED;
use crate::error::{ApiError, short};

/// Request a build of a template. The template is created if there is none with this name.
#[utoipa::path(post, path = "/v3/templates", tag = "builds", request_body = NewTemplate,
    responses((status = 202, description = "The build can be started", body = RequestedBuild)))]
pub(super) async fn request_build(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<NewTemplate>,
) -> Result<(StatusCode, Json<RequestedBuild>), ApiError> {
    let (row, build_id, tags) = app.request_build(&caller, request, None).await?;
    let names = names(&row);
    let answer =
        RequestedBuild { template_id: row.id, build_id, public: row.public, names, tags, aliases: row.aliases };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// Request a build of a template, as older clients do.
#[utoipa::path(post, path = "/v2/templates", tag = "builds", request_body = NewTemplate,
    responses((status = 202, description = "The build can be started", body = Template)))]
pub(super) async fn request_build_v2(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<NewTemplate>,
) -> Result<(StatusCode, Json<Template>), ApiError> {
    let (row, build_id, _) = app.request_build(&caller, request, None).await?;
    Ok((StatusCode::ACCEPTED, Json(waiting(row, build_id))))
}

/// Request a build of a template, as the oldest clients do.
#[utoipa::path(post, path = "/templates", tag = "builds", request_body = NewTemplate,
    responses((status = 202, description = "The build can be started", body = Template)))]
pub(super) async fn request_build_v1(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    request: Body<NewTemplate>,
) -> Result<(StatusCode, Json<Template>), ApiError> {
    request_build_v2(app, caller, request).await
}

/// Request another build of a template, as the oldest clients do.
#[utoipa::path(post, path = "/templates/{templateID}", tag = "builds", request_body = NewTemplate,
    params(("templateID" = String, Path, description = "Its id or alias")),
    responses((status = 202, description = "The build can be started", body = Template)))]
pub(super) async fn request_rebuild(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
    Body(request): Body<NewTemplate>,
) -> Result<(StatusCode, Json<Template>), ApiError> {
    let template = app.find_changeable_template(&caller.team, &text).await?;
    let (row, build_id, _) = app.request_build(&caller, request, Some(template.id)).await?;
    Ok((StatusCode::ACCEPTED, Json(waiting(row, build_id))))
}

/// Start a requested build.
#[utoipa::path(post, path = "/v2/templates/{templateID}/builds/{buildID}", tag = "builds", request_body = BuildStart,
    params(
        ("templateID" = String, Path, description = "The template's id or alias"),
        ("buildID" = String, Path, description = "The build's id"),
    ),
    responses((status = 202, description = "The build has started")))]
pub(super) async fn start_build(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathNames(template, build): PathNames,
    Body(request): Body<BuildStart>,
) -> Result<StatusCode, ApiError> {
    let build = app.find_build(&caller.team, &template, &build).await?;
    if build.status != BuildStatus::Waiting {
        return Err(cabana_store::Error::BuildStatus { id: build.id, status: build.status.as_str() }.into());
    }
    let spec = app.build_spec(&caller.team, build, request).await?;
    app.builds.start(spec).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Cancel a build. The template does not change; the layers of finished steps are kept for the next build.
#[utoipa::path(delete, path = "/v2/templates/{templateID}/builds/{buildID}", tag = "builds",
    params(
        ("templateID" = String, Path, description = "The template's id or alias"),
        ("buildID" = String, Path, description = "The build's id"),
    ),
    responses((status = 204, description = "The build has ended")))]
pub(super) async fn cancel_build(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathNames(template, build): PathNames,
) -> Result<StatusCode, ApiError> {
    let build = app.find_build(&caller.team, &template, &build).await?;
    match build.status {
        BuildStatus::Waiting => {
            app.store.fail_build(build.id, None, CANCELLED.to_owned(), Timestamp::now()).await?;
        }
        BuildStatus::Building => {
            if !app.builds.cancel(&build.id).await {
                return Err(ApiError::build_not_ended(&build.id));
            }
        }
        BuildStatus::Ready | BuildStatus::Error => {}
    }
    Ok(StatusCode::NO_CONTENT)
}

impl ApiError {
    /// A cancelled build that takes long to end.
    pub(super) fn build_not_ended(build: &BuildId) -> Self {
        let text = format!("The build {build} was cancelled, but has not ended yet; try again in a minute");
        Self::new(ErrorCode::BuildStateConflict, text)
    }
}

impl App {
    /// A build of a team's own template.
    pub(super) async fn find_build(&self, team: &TeamId, template: &str, build: &str) -> Result<Build, ApiError> {
        let template = self.find_own_template(team, template).await?;
        let Ok(id) = build.to_ascii_lowercase().parse::<BuildId>() else { return Err(ApiError::no_build(build)) };
        let found = self.store.build(&id).await?.filter(|b| b.template == template.id);
        found.ok_or_else(|| ApiError::no_build(build))
    }

    /// Records the request for a build, of template `known` or of the template named in the request.
    pub(super) async fn request_build(
        &self,
        caller: &Caller,
        request: NewTemplate,
        known: Option<TemplateId>,
    ) -> Result<(Row, BuildId, Vec<String>), ApiError> {
        if request.dockerfile.as_ref().is_some_and(|text| !text.is_empty()) {
            return Err(ApiError::new(
                ErrorCode::NotSupported,
                "dockerfile is not taken here: send it with POST /v2/templates/{id}/builds/{buildID}, which starts the build",
            ));
        }
        let project = self.project_for(caller, request.project_id.as_deref()).await?;
        let mut tags = normalize_tags(request.tags.as_deref().unwrap_or_default())?;
        let wanted = match known {
            Some(id) => BuildTarget::Template(id),
            None => {
                let (wanted, tag) = self.named(&caller.team, &request).await?;
                tags.extend(tag.filter(|tag| !tags.contains(tag)));
                wanted
            }
        };
        if tags.is_empty() {
            tags.push(DEFAULT_TAG.to_owned());
        }
        // A minimum: a value below the smallest disk means the smallest disk.
        let least = i64::from(*DISK_MB.start());
        let disk = request.min_free_disk_mb.filter(|mb| *mb != 0).map(|mb| if mb > 0 { mb.max(least) } else { mb });
        let defaults = self.limits.defaults();
        let resources = self.limits.resources(defaults, request.cpu_count, request.memory_mb, disk)?;
        let build = BuildId::from_random(rand::random());
        let request = BuildRequest {
            team: caller.team.clone(),
            project,
            wanted,
            template: TemplateId::from_random(rand::random()),
            build: build.clone(),
            tags: tags.clone(),
            resources,
            at: Timestamp::now(),
        };
        let limits = BuildLimits { server: self.quotas, builds: MAX_BUILDS, tags: MAX_TAGS };
        let id = self.store.request_build(request, limits).await?;
        let row = self.store.template(&id).await?.ok_or(cabana_store::Error::NoTemplate(id))?;
        Ok((row, build, tags))
    }

    /// The team's template that a request names, and the tag in the name.
    async fn named(&self, team: &TeamId, request: &NewTemplate) -> Result<(BuildTarget, Option<String>), ApiError> {
        let mut given = request.name.iter().chain(&request.alias);
        let name = given.next().ok_or_else(|| ApiError::invalid("name is missing; say what to call the template"))?;
        let named = self.wanted(team, name).await?;
        if let Some(alias) = given.next() {
            self.wanted(team, alias).await?;
        }
        Ok(named)
    }

    /// The team's template that a name refers to, and the tag in it.
    async fn wanted(&self, team: &TeamId, text: &str) -> Result<(BuildTarget, Option<String>), ApiError> {
        let lower = text.trim().to_ascii_lowercase();
        let Some(name) = parse(&lower).filter(|_| lower.len() <= MAX_TEMPLATE_REF_BYTES) else {
            let text = format!(
                "{:?} is not a name for a template: write alias or alias:tag with a-z, 0-9, - and _",
                short(text)
            );
            return Err(ApiError::invalid(text));
        };
        if let Some(namespace) = name.namespace {
            let teams = self.store.teams().await?;
            let own = teams.iter().find(|t| t.id == *team).map(|t| t.name.as_str());
            if own != Some(namespace) {
                let text = format!(
                    "The namespace {:?} is not yours: your templates are in {:?}",
                    short(namespace),
                    own.unwrap_or_default()
                );
                return Err(ApiError::new(ErrorCode::Forbidden, text));
            }
        }
        if is_base_template(team, name.alias) {
            return Err(base_template_error());
        }
        let tag = name.tag.map(normalize_tag).transpose()?;
        let Ok(id) = name.alias.parse::<TemplateId>() else {
            return Ok((BuildTarget::Alias(name.alias.to_owned()), tag));
        };
        // A name that looks like an id must be one, or it would be ambiguous.
        match self.store.template(&id).await?.filter(|t| t.team == *team) {
            Some(_) => Ok((BuildTarget::Template(id), tag)),
            None => Err(ApiError::invalid("A template's name must not look like an id; choose another")),
        }
    }
}

/// The response to older clients: the template with the requested build.
fn waiting(row: Row, build_id: BuildId) -> Template {
    Template { build_id, build_status: "waiting".to_owned(), ..shown(row) }
}
