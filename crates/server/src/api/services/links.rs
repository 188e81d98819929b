//! How people see a service: tickets for those who are signed in, and links for others.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::{Extension, Json};
use cabana_accounts::Session;
use cabana_edge::preview::Preview;
use cabana_store::{Grant, Service as Row};
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::service::{Access, LINK_SECONDS, MAX_LINK_SECONDS};
use cabana_types::wire::{NewServiceLink, OpenService, OpenedService, ServiceLink};
use cabana_types::{ErrorCode, GrantId, Secret, ServiceId};
use http::request::Parts;
use http::{Request, StatusCode};
use url::form_urlencoded;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::acts::put;
use super::{ServiceRef, no_service};
use crate::api::own_address::own_address;
use crate::api::{App, body};
use crate::auth::{Caller, OwnOrigin};
use crate::error::{ApiError, short};
use crate::services::{LinkError, Ticket};

const MAX_PATH: usize = 2048;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(open)).routes(routes!(make_link, list_links)).routes(routes!(revoke_link))
}

/// Get an address by which the person who is signed in sees a service, in a tab or in a frame of the console.
#[utoipa::path(post, path = "/services/{serviceID}/open", operation_id = "open_service", tag = "services", request_body = OpenService,
    params(("serviceID" = String, Path, description = "The service")),
    responses((status = 200, description = "The address", body = OpenedService)))]
pub(super) async fn open(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
    request: Request<Body>,
) -> Result<Json<OpenedService>, ApiError> {
    let console = OwnOrigin::of(&request, app.console_origin.as_deref()).map(|own| own.as_str().to_owned());
    let base = app.service_base(own_address(&request).as_deref());
    let (row, _) = app.find_live_service(&caller, &id).await?;
    let OpenService { path, frame } = optional(request).await?;
    let path = checked_path(path)?;
    let (base, preview) = (base.ok_or_else(no_names)?, app.preview_of(&row)?);
    let own = base.port(&preview.sandbox, preview.port);
    let Some(session) = &caller.session else {
        if frame {
            return Err(ApiError::invalid("frame is for people who are signed in to the console"));
        }
        return Ok(Json(OpenedService { url: Secret::new(format!("{own}{path}")), origin: own }));
    };
    // Cookies in frames of another site need TLS; without it, the frame has a name that nobody can guess.
    if frame && !base.secure {
        let label = app.frame_of(&preview, session, console.unwrap_or_default()).await?;
        let origin = base.origin(label.expose());
        return Ok(Json(OpenedService { url: Secret::new(format!("{origin}{path}")), origin }));
    }
    let ticket = app.tickets.make(Ticket {
        sandbox: preview.sandbox.clone(),
        port: preview.port,
        session: session.id.clone(),
        framed_by: console.filter(|_| frame),
        is_fallback: false,
    });
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("ticket", ticket.expose())
        .append_pair("to", &path)
        .finish();
    Ok(Json(OpenedService { url: Secret::new(format!("{own}/.cabana/enter?{query}")), origin: own }))
}

/// Make a link by which anyone can see a service until it expires or is revoked. A private service is opened to links.
#[utoipa::path(post, path = "/services/{serviceID}/links", tag = "services", request_body = NewServiceLink,
    params(("serviceID" = String, Path, description = "The service")),
    responses((status = 201, description = "The link, whose address is shown only once", body = ServiceLink)))]
pub(super) async fn make_link(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
    request: Request<Body>,
) -> Result<(StatusCode, Json<ServiceLink>), ApiError> {
    let (row, _) = app.find_live_service(&caller, &id).await?;
    let base = app.service_base(own_address(&request).as_deref()).ok_or_else(no_names)?;
    let NewServiceLink { expires_in_seconds } = optional(request).await?;
    let seconds = expires_in_seconds.unwrap_or(LINK_SECONDS);
    if !(1..=MAX_LINK_SECONDS).contains(&seconds) {
        return Err(ApiError::invalid(format!("expiresInSeconds must be a number from 1 to {MAX_LINK_SECONDS}")));
    }
    let task = {
        let app = Arc::clone(&app);
        async move {
            if row.settings.access == Access::Private {
                let mut settings = row.settings.clone();
                settings.access = Access::Link;
                put(app.services.set(&row.id, settings).await?)?;
            }
            Ok::<_, ApiError>(app.grants.make_link(&row.id, &caller.actor, seconds).await?)
        }
    };
    // To its end, or the store could have a link that is not valid until the next start.
    let (grant, label) = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    let url = Secret::new(base.origin(label.expose()) + "/");
    Ok((StatusCode::CREATED, Json(ServiceLink { url: Some(url), ..shown(&app, grant) })))
}

/// List the links to a service. Their addresses are not stored.
#[utoipa::path(get, path = "/services/{serviceID}/links", tag = "services",
    params(("serviceID" = String, Path, description = "The service")),
    responses((status = 200, description = "Newest first, also those that have ended lately", body = Vec<ServiceLink>)))]
pub(super) async fn list_links(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ServiceRef(id): ServiceRef,
) -> Result<Json<Vec<ServiceLink>>, ApiError> {
    app.find_service(&caller, &id).await?;
    let links = app.store.links_of(&id).await?;
    Ok(Json(links.into_iter().map(|grant| shown(&app, grant)).collect()))
}

/// Revoke a link. What was opened by it is cut.
#[utoipa::path(delete, path = "/services/{serviceID}/links/{linkID}", tag = "services",
    params(
        ("serviceID" = String, Path, description = "The service"),
        ("linkID" = String, Path, description = "The link"),
    ),
    responses((status = 204, description = "It is not valid any more")))]
pub(super) async fn revoke_link(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    LinkRef { service, link }: LinkRef,
) -> Result<StatusCode, ApiError> {
    app.find_service(&caller, &service).await?;
    let id: GrantId = link.parse().map_err(|_| no_link(&link))?;
    let task = {
        let (app, id) = (Arc::clone(&app), id.clone());
        async move { app.grants.revoke(&service, &id).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(no_link(&link)),
    }
}

impl App {
    /// The name of the frame in which a person sees a service.
    pub(crate) async fn frame_of(
        &self,
        preview: &Preview,
        session: &Session,
        console: String,
    ) -> Result<Secret, LinkError> {
        let secret = self.tickets.frame_secret(&session.id, preview.service.as_str());
        self.grants.frame(&preview.service, &session.id, console, &secret).await
    }

    fn preview_of(&self, row: &Row) -> Result<Arc<Preview>, ApiError> {
        self.services.preview(&row.id).ok_or_else(|| {
            let text = format!(
                "The port of service {} is not known yet; wait until it runs, or say which port it uses",
                row.name
            );
            ApiError::new(ErrorCode::ServiceConflict, text)
        })
    }
}

/// A service and a link in a path.
#[derive(Debug)]
pub(super) struct LinkRef {
    service: ServiceId,
    link: String,
}

impl<S: Send + Sync> FromRequestParts<S> for LinkRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path((service, link)) = Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("The path is not well formed"))?;
        let service = service.parse().map_err(|_| no_service(&service))?;
        Ok(Self { service, link })
    }
}

async fn optional<T: serde::de::DeserializeOwned + Default>(request: Request<Body>) -> Result<T, ApiError> {
    let bytes = body::bytes(request, MAX_API_BODY_BYTES).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) { Ok(T::default()) } else { body::parse(&bytes) }
}

/// A path on the service's host, with its query.
fn checked_path(path: Option<String>) -> Result<String, ApiError> {
    let path = path.unwrap_or_else(|| "/".to_owned());
    let is_local = path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/\\");
    let is_plain = path.len() <= MAX_PATH && path.bytes().all(|b| (0x21..0x7f).contains(&b));
    match is_local && is_plain {
        true => Ok(path),
        false => Err(ApiError::invalid(format!(
            "path must begin with one / and have at most {MAX_PATH} characters of a URL"
        ))),
    }
}

fn shown(app: &App, grant: Grant) -> ServiceLink {
    let (more, last) = app.grants.unrecorded(&grant.id);
    ServiceLink {
        id: grant.id,
        service_id: grant.service,
        url: None,
        created_at: grant.created_at,
        expires_at: grant.expires_at,
        opened: grant.opened + more,
        last_opened_at: last.or(grant.last_opened_at),
        revoked_at: grant.revoked_at,
    }
}

fn no_link(id: &str) -> ApiError {
    let text = format!("Link {} was not found; list those of a service with GET /services/ID/links", short(id));
    ApiError::new(ErrorCode::ServiceNotFound, text)
}

fn no_names() -> ApiError {
    let text = "Services need names of their own: set a domain (CABANA_DOMAIN), or open the console as http://localhost, whose names \
                every browser resolves to its own machine";
    ApiError::new(ErrorCode::NotSupported, text)
}

impl From<LinkError> for ApiError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::TooMany => {
                Self::new(ErrorCode::LimitReached, format!("{}; revoke some first", capitalised(&error)))
            }
            LinkError::Store(error) => error.into(),
        }
    }
}

fn capitalised(error: &LinkError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_on_the_host() {
        for path in ["/", "/a?b=c", "/a//b"] {
            assert_eq!(checked_path(Some(path.to_owned())).expect("path"), path);
        }
        for path in ["", "a", "//evil.test", "/\\evil.test", "/a b", "/a\r\nb", "http://evil.test", "/ä"] {
            assert!(checked_path(Some(path.to_owned())).is_err(), "{path}");
        }
        assert_eq!(checked_path(None).expect("path"), "/");
    }
}
