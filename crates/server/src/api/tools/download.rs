//! Signed links to files of a sandbox, and the downloads by them. They need no key: whoever has the link may have the file until it
//! expires.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_agent::computer::{Link, NewLink};
use cabana_types::{ErrorCode, Permissions, SandboxId, Secret};
use hmac::{Hmac, Mac};
use http::HeaderMap;
use jiff::Timestamp;
use sha2::Sha256;
use url::form_urlencoded;

use crate::api::App;
use crate::api::content::{self, FetchError};
use crate::api::query::Query;
use crate::api::sandbox_ref::SandboxRef;
use crate::auth::Reach;
use crate::error::ApiError;
use crate::tools::DownloadLinks;

/// Makes links with the address by which the caller reached this server.
pub(crate) struct Links {
    base: String,
    key: Secret,
}

impl Links {
    pub(super) fn new(base: String, key: Secret) -> Self {
        Self { base, key }
    }
}

impl DownloadLinks for Links {
    fn make(&self, sandbox: &SandboxId, link: &NewLink) -> Link {
        let seconds = i64::try_from(link.expires_in.as_secs()).unwrap_or(i64::MAX);
        let expires = Timestamp::now().as_second().saturating_add(seconds);
        let file = File { path: &link.path, archive: link.directory, name: &link.name, expires };
        let token = URL_SAFE_NO_PAD.encode(file.signature(&self.key, sandbox).finalize().into_bytes());
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("path", file.path)
            .append_pair("archive", if file.archive { "true" } else { "false" })
            .append_pair("name", file.name)
            .append_pair("expires", &expires.to_string())
            .append_pair("token", &token)
            .finish();
        let expires_at = Timestamp::from_second(expires).unwrap_or(Timestamp::MAX).to_string();
        Link { url: format!("{}/sandboxes/{sandbox}/download?{query}", self.base), expires_at }
    }
}

/// What a link is for.
struct File<'a> {
    path: &'a str,
    archive: bool,
    name: &'a str,
    expires: i64,
}

impl File<'_> {
    /// The parts are separated by NUL, which none of them contains.
    fn signature(&self, key: &Secret, sandbox: &SandboxId) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(key.expose().as_bytes()).unwrap_or_else(|_| unreachable!("any length"));
        let Self { path, archive, name, expires } = self;
        mac.update(format!("download\0{sandbox}\0{path}\0{archive}\0{name}\0{expires}").as_bytes());
        mac
    }
}

/// Download a file of a sandbox with a link from `sandbox_download_url`; a directory is sent as `.tar.gz`. A paused sandbox is resumed.
#[utoipa::path(get, path = "/sandboxes/{sandboxID}/download", tag = "tools",
    params(
        ("sandboxID" = String, Path, description = "As in the link"),
        ("path" = String, Query, description = "As in the link"),
        ("archive" = bool, Query, description = "As in the link"),
        ("name" = String, Query, description = "As in the link"),
        ("expires" = i64, Query, description = "As in the link"),
        ("token" = String, Query, description = "As in the link"),
    ),
    responses(
        (status = 200, description = "The file", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, description = "A range of it", body = Vec<u8>, content_type = "application/octet-stream"),
    ),
    security(("uploadToken" = [])))]
pub(crate) async fn download(
    State(app): State<Arc<App>>,
    SandboxRef(id): SandboxRef,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let file = check(&app.upload_key, &id, &query)?;
    let row = app.store.sandbox(&id).await?.ok_or_else(|| ApiError::no_sandbox(id.as_str()))?;
    let reach = Reach::project(row.team, row.project, Permissions::NONE);
    let row = app.find_usable(&reach, &id).await?;
    let entered = app.enter(&row).await?;
    let inner = form_urlencoded::Serializer::new(String::new())
        .append_pair("path", file.path)
        .append_pair("archive", if file.archive { "true" } else { "false" })
        .finish();
    let fetched = content::fetch(entered, &inner, &headers).await.map_err(|error| match error {
        FetchError::Refused(refusal) => {
            ApiError::new(ErrorCode::FileNotFound, format!("{}; ask for a new link", refusal.message))
        }
        FetchError::Unresponsive => content::unresponsive(),
    })?;
    Ok(fetched.answer(file.name, None))
}

fn check<'a>(key: &Secret, id: &SandboxId, query: &'a Query) -> Result<File<'a>, ApiError> {
    let refused = |text: &str| ApiError::new(ErrorCode::Unauthorized, format!("{text}; ask for a new link"));
    let invalid = || refused("This link is not valid");
    let file = File {
        path: query.text("path").ok_or_else(invalid)?,
        archive: query.text("archive") == Some("true"),
        name: query.text("name").ok_or_else(invalid)?,
        expires: query.text("expires").and_then(|text| text.parse().ok()).ok_or_else(invalid)?,
    };
    let token = query.text("token").and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or_else(invalid)?;
    file.signature(key, id).verify_slice(&token).map_err(|_| invalid())?;
    if file.expires < Timestamp::now().as_second() {
        return Err(refused("This link has expired"));
    }
    Ok(file)
}
