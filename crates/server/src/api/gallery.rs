//! Curated templates: listing and building them, and what a creation says while one is being built.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use cabana_types::ErrorCode;
use cabana_types::wire::CuratedTemplate;
use http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::template_ref::{PathName, parse};
use crate::error::{ApiError, short};
use crate::gallery::{Curated, GalleryError, State as Found};

/// Seconds after which a client may ask again.
const RETRY_SECONDS: u64 = 10;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(list_curated)).routes(routes!(get_curated, build_curated))
}

/// List the curated templates, which the server can build.
#[utoipa::path(get, path = "/templates/gallery", tag = "templates",
    responses((status = 200, description = "Curated templates, by name", body = Vec<CuratedTemplate>)))]
pub(super) async fn list_curated(State(app): State<Arc<App>>) -> Result<Json<Vec<CuratedTemplate>>, ApiError> {
    Ok(Json(app.gallery.list().await?))
}

/// A curated template.
#[utoipa::path(get, path = "/templates/gallery/{name}", tag = "templates",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 200, description = "The template", body = CuratedTemplate)))]
pub(super) async fn get_curated(
    State(app): State<Arc<App>>,
    PathName(name): PathName,
) -> Result<Json<CuratedTemplate>, ApiError> {
    Ok(Json(app.gallery.get(named(&name)?).await?))
}

/// Build a curated template, if it is not there, has changed, or its build has failed. The server's first creation from it does the same.
#[utoipa::path(post, path = "/templates/gallery/{name}", tag = "templates",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 202, description = "It is being built, or is ready", body = CuratedTemplate)))]
pub(super) async fn build_curated(
    State(app): State<Arc<App>>,
    PathName(name): PathName,
) -> Result<(StatusCode, Json<CuratedTemplate>), ApiError> {
    let curated = named(&name)?;
    start(&app, curated).await?;
    Ok((StatusCode::ACCEPTED, Json(app.gallery.get(curated).await?)))
}

fn named(name: &str) -> Result<&'static Curated, ApiError> {
    Curated::named(name).ok_or_else(|| {
        let text = format!("There is no curated template {:?}; GET /templates/gallery lists them", short(name));
        ApiError::new(ErrorCode::TemplateNotFound, text)
    })
}

/// Starts a build to its end: a client that disconnects does not stop it half-way.
async fn start(app: &Arc<App>, curated: &'static Curated) -> Result<Found, ApiError> {
    let owned = Arc::clone(app);
    let started = app.run_to_end(async move { owned.gallery.build(curated).await }).await;
    Ok(started.ok_or_else(|| ApiError::new(ErrorCode::Internal, "The server failed"))??)
}

impl App {
    /// What a creation answers that names a template which cannot be used, if it is a curated one. The first one starts its build.
    pub(super) async fn curated_error(self: &Arc<Self>, text: &str, error: ApiError) -> ApiError {
        if !matches!(error.code(), ErrorCode::TemplateNotFound | ErrorCode::TemplateNotReady) {
            return error;
        }
        let lower = text.trim().to_ascii_lowercase();
        let name = parse(&lower).filter(|name| name.namespace.is_none() && name.tag.is_none());
        let Some(curated) = name.and_then(|name| Curated::named(name.alias)) else { return error };
        let found = match self.gallery.state(curated).await {
            // Also where a server ended between the request and the start of a build.
            Ok(Found::Absent | Found::Building(..)) => start(self, curated).await,
            found => found.map_err(ApiError::from),
        };
        let name = curated.name;
        match found {
            Ok(Found::Building(..) | Found::Absent) => {
                let text = format!(
                    "Template {name:?} is being built on this server for the first time, which takes some minutes; \
                     try again, or follow it with `cabana template get {name}`"
                );
                ApiError::new(ErrorCode::TemplateNotReady, text).retry_after(RETRY_SECONDS)
            }
            Ok(Found::Failed(_, build)) => {
                let why = build.error.unwrap_or_default();
                let text =
                    format!("The build of template {name:?} failed: {why}. `cabana template get {name}` tries again");
                ApiError::new(ErrorCode::BuildFailed, text)
            }
            Ok(Found::Ready(_) | Found::Outdated(_)) => {
                ApiError::new(ErrorCode::TemplateNotReady, format!("Template {name:?} is ready now; try again"))
                    .retry_after(1)
            }
            Ok(Found::Taken) => error,
            Err(failed) => failed,
        }
    }
}

impl From<GalleryError> for ApiError {
    fn from(error: GalleryError) -> Self {
        match error {
            GalleryError::Taken => Self::new(
                ErrorCode::BuildStateConflict,
                "There is another template with this name: delete or rename it, then get the curated one",
            ),
            GalleryError::NoInterpreter => Self::new(ErrorCode::NotSupported, error.to_string()),
            GalleryError::Start(error) => error.into(),
            GalleryError::Store(error) => error.into(),
            GalleryError::Pack(_) | GalleryError::Receive(_) => {
                tracing::error!(error = cabana_types::error::chain(&error), "a curated template could not be built");
                Self::new(ErrorCode::Internal, "The files of the template could not be kept; see the server's log")
            }
        }
    }
}
