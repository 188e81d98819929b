//! Changing and deleting templates.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_types::wire::{TemplateNames, TemplateUpdate};
use http::StatusCode;
use jiff::Timestamp;

use super::App;
use super::body::OptionalBody;
use super::egress_policy::preset;
use super::template_ref::{DEFAULT_TAG, PathName, no_template, parse};
use super::templates::names;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Change a template: make it public or private, or change the defaults of its sandboxes.
#[utoipa::path(patch, path = "/v2/templates/{templateID}", tag = "templates", request_body = Option<TemplateUpdate>,
    params(("templateID" = String, Path, description = "Its id or alias")),
    responses((status = 200, description = "The template is changed", body = TemplateNames)))]
pub(super) async fn update_template(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
    OptionalBody(update): OptionalBody<TemplateUpdate>,
) -> Result<Json<TemplateNames>, ApiError> {
    let template = app.find_own_template(&caller.reach, &text).await?;
    let network = match update.network.as_deref() {
        None => None,
        Some("") => Some(None),
        Some(name) => Some(Some(preset(name)?)),
    };
    if let Some(public) = update.public {
        app.store.set_public(template.id.clone(), public, Timestamp::now()).await?;
    }
    if let Some(name) = update.isolation {
        let isolation = if name.is_empty() { None } else { Some(app.isolation(Some(&name))?) };
        app.store.set_isolation(template.id.clone(), isolation, Timestamp::now()).await?;
    }
    if let Some(network) = network {
        app.store.set_network(template.id.clone(), network, Timestamp::now()).await?;
    }
    if let Some(on) = update.no_new_privileges {
        app.store.set_no_new_privileges(template.id.clone(), on, Timestamp::now()).await?;
    }
    Ok(Json(TemplateNames { names: names(&template) }))
}

/// Change a template, as older clients do.
#[utoipa::path(patch, path = "/templates/{templateID}", tag = "templates", request_body = Option<TemplateUpdate>,
    params(("templateID" = String, Path, description = "Its id or alias")),
    responses((status = 200, description = "The template is changed", body = TemplateNames)))]
pub(super) async fn update_template_v1(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    name: PathName,
    update: OptionalBody<TemplateUpdate>,
) -> Result<Json<TemplateNames>, ApiError> {
    update_template(app, caller, name, update).await
}

/// Delete a template with all its builds, or a snapshot.
#[utoipa::path(delete, path = "/templates/{templateID}", tag = "templates",
    params(("templateID" = String, Path, description = "The template's id or alias, or the snapshot's id or name")),
    responses((status = 204, description = "It is deleted")))]
pub(super) async fn delete_template(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathName(text): PathName,
) -> Result<StatusCode, ApiError> {
    if let Some(snapshot) = app.find_snapshot(&caller.reach, &text).await? {
        let refused = caller.reach.check(&snapshot.team, &snapshot.project);
        refused.map_err(|refused| refused.or(|| no_template(&text)))?;
        if app.lifecycle.delete_snapshot(&snapshot.id).await? {
            app.builds.forget_disk(&snapshot.id).await;
            return Ok(StatusCode::NO_CONTENT);
        }
    }
    let template = app.find_changeable_template(&caller.reach, &text).await?;
    if parse(&text.to_ascii_lowercase()).and_then(|name| name.tag.map(|tag| tag != DEFAULT_TAG)) == Some(true) {
        let text = format!(
            "{:?} names a tag, and this would delete the whole template: name it without a tag, or DELETE /templates/tags",
            short(&text)
        );
        return Err(ApiError::invalid(text));
    }
    // Checked here too, so that a rejected request cancels no build.
    app.store.check_template_unused(&template.id).await?;
    for build in app.store.running_builds(&template.id).await? {
        if !app.builds.cancel(&build).await {
            return Err(ApiError::build_not_ended(&build));
        }
    }
    let builds = app.store.delete_template(template.id).await?;
    app.builds.remove_trees(&builds).await;
    Ok(StatusCode::NO_CONTENT)
}
