//! Uploading files for a build: a signed link, and the upload with it, which needs no API key.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_types::limits::MAX_FILES_HASH_BYTES;
use cabana_types::wire::FileUpload;
use cabana_types::{ErrorCode, Secret, TemplateId};
use hmac::{Hmac, Mac};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode};
use jiff::Timestamp;
use sha2::Sha256;

use super::App;
use super::own_address::own_address;
use super::query::Query;
use super::template_ref::PathNames;
use crate::auth::Caller;
use crate::builds::ReceiveError;
use crate::error::{ApiError, short};

/// Validity of a link in seconds: the upload timeout of E2B's clients.
const LINK_SECONDS: i64 = 3600;

/// Get a link to upload an archive of files for a build, and whether it is already uploaded.
#[utoipa::path(get, path = "/templates/{templateID}/files/{hash}", tag = "builds",
    params(
        ("templateID" = String, Path, description = "The template's id or alias"),
        ("hash" = String, Path, description = "The client's name for the archive: a hash of what is in it"),
    ),
    responses((status = 201, description = "A link", body = FileUpload)))]
pub(super) async fn upload_link(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    PathNames(template, hash): PathNames,
    request: Request<Body>,
) -> Result<(StatusCode, Json<FileUpload>), ApiError> {
    check_hash(&hash)?;
    let template = app.find_own_template(&caller.reach, &template).await?;
    let base = own_address(&request)
        .ok_or_else(|| ApiError::invalid("The request does not say which host it is for; send a Host header"))?;
    let present = app.builds.files().has(&caller.team, &hash);
    let expires = Timestamp::now().as_second() + LINK_SECONDS;
    let token =
        URL_SAFE_NO_PAD.encode(link_signature(&app.upload_key, &template.id, &hash, expires).finalize().into_bytes());
    let url = format!("{base}/templates/{}/files/{hash}?expires={expires}&token={token}", template.id);
    Ok((StatusCode::CREATED, Json(FileUpload { present, url: Some(url) })))
}

/// Upload an archive with a link: a tar, plain or compressed with gzip or zstd.
#[utoipa::path(put, path = "/templates/{templateID}/files/{hash}", operation_id = "upload_build_files", tag = "builds",
    params(
        ("templateID" = String, Path, description = "As in the link"),
        ("hash" = String, Path, description = "As in the link"),
        ("expires" = i64, Query, description = "As in the link"),
        ("token" = String, Query, description = "As in the link"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "The archive is stored")),
    security(("uploadToken" = [])))]
pub(super) async fn upload(
    State(app): State<Arc<App>>,
    PathNames(template, hash): PathNames,
    query: Query,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode, ApiError> {
    let template = app.check_link(&template, &hash, &query)?;
    let row = app.store.template(&template).await?.ok_or(cabana_store::Error::NoTemplate(template))?;
    let length = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let body = body.into_data_stream();
    app.builds.files().receive(&row.team, &hash, length, body).await?;
    Ok(StatusCode::OK)
}

impl App {
    /// Checks a link, and returns its template.
    fn check_link(&self, template: &str, hash: &str, query: &Query) -> Result<TemplateId, ApiError> {
        let refused = |text: &str| ApiError::new(ErrorCode::Unauthorized, format!("{text}; ask for a new link"));
        let invalid = || refused("This link for an upload is not valid");
        let id: TemplateId = template.parse().map_err(|_| invalid())?;
        let expires: i64 = query.text("expires").and_then(|text| text.parse().ok()).ok_or_else(invalid)?;
        let token = query.text("token").and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or_else(invalid)?;
        link_signature(&self.upload_key, &id, hash, expires).verify_slice(&token).map_err(|_| invalid())?;
        if expires < Timestamp::now().as_second() {
            return Err(refused("This link for an upload has expired"));
        }
        Ok(id)
    }
}

/// The signature of a link. The parts are separated by NUL, which none of them contains.
fn link_signature(key: &Secret, template: &TemplateId, hash: &str, expires: i64) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key.expose().as_bytes()).unwrap_or_else(|_| unreachable!("any length"));
    mac.update(format!("upload\0{template}\0{hash}\0{expires}").as_bytes());
    mac
}

/// Checks the name of an archive: it must not need escaping in a link.
pub(super) fn check_hash(hash: &str) -> Result<(), ApiError> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let plain = hash.len() <= MAX_FILES_HASH_BYTES
        && hash.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && hash.bytes().all(fits);
    if plain {
        return Ok(());
    }
    let text = format!(
        "{:?} is not a hash of files: use 1 to {MAX_FILES_HASH_BYTES} letters, digits, -, _ and .",
        short(hash)
    );
    Err(ApiError::invalid(text))
}

fn disk_full() -> ApiError {
    ApiError::new(ErrorCode::StorageFull, "The disk of the server's data directory is full; free some space")
}

impl From<ReceiveError> for ApiError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::TooLarge(most) => Self::new(
                ErrorCode::BodyTooLarge,
                format!(
                    "The archive is larger than the {} MiB that are taken; leave files out, or raise builds.max_upload_mb",
                    most / 1024 / 1024
                ),
            ),
            ReceiveError::Full(most) => Self::new(
                ErrorCode::LimitReached,
                format!(
                    "The team's uploads of the last hour, with this one, have more than the {} MiB that are kept of them; wait, leave \
                     files out, or raise builds.max_team_uploads_mb",
                    most / 1024 / 1024
                ),
            ),
            ReceiveError::Broken(text) => Self::invalid(format!("The archive was not received: {text}; send it again")),
            ReceiveError::NotAnArchive => {
                Self::invalid("What was sent is not a tar archive, neither plain nor packed with gzip or zstd")
            }
            ReceiveError::Busy => Self::new(ErrorCode::ServiceUnavailable, "Too many uploads are under way; try again"),
            ReceiveError::NoSpace(_) => disk_full(),
            ReceiveError::Io(e)
                if matches!(e.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) =>
            {
                disk_full()
            }
            error @ ReceiveError::Io(_) => Self::internal(&error),
        }
    }
}
