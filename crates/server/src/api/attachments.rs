//! Files for chats. They are uploaded before a chat or a sandbox exists, and are hostile: no browser takes one for a page of this origin.

pub(super) mod content;
pub(super) mod media;
mod receive;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::Response;
use axum::{Extension, Json};
use cabana_store::AttachmentRow;
use cabana_types::wire::{Attachment, AttachmentPage};
use cabana_types::{AttachmentId, ErrorCode};
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use self::receive::AttachmentForm;
use super::App;
use super::query::Query;
use crate::auth::Caller;
use crate::chats::blobs::BlobError;
use crate::chats::describe;
use crate::error::{ApiError, short};

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(upload)).routes(routes!(get, delete)).routes(routes!(content))
}

/// Upload files for chats: all of them, or none.
#[utoipa::path(post, path = "/attachments", operation_id = "upload_attachments", tag = "chats",
    request_body(content = inline(AttachmentForm), content_type = "multipart/form-data"),
    responses((status = 201, description = "The files, in their order", body = AttachmentPage)))]
pub(super) async fn upload(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request<Body>,
) -> Result<(StatusCode, Json<AttachmentPage>), ApiError> {
    let rows = app.receive_attachments(&caller, request).await?;
    Ok((StatusCode::CREATED, Json(AttachmentPage { attachments: rows.iter().map(describe::attachment).collect() })))
}

/// Get what is known of a file.
#[utoipa::path(get, path = "/attachments/{attachmentID}", operation_id = "get_attachment", tag = "chats",
    params(("attachmentID" = String, Path, description = "The file")),
    responses((status = 200, description = "The file, without its content", body = Attachment)))]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    AttachmentRef(id): AttachmentRef,
) -> Result<Json<Attachment>, ApiError> {
    Ok(Json(describe::attachment(&app.find_attachment(&caller, &id).await?)))
}

/// Get the content of a file, or a range of it, as a download; with `inline`, a PNG, JPEG, GIF or WebP is shown in place.
#[utoipa::path(get, path = "/attachments/{attachmentID}/content", operation_id = "attachment_content", tag = "chats",
    params(
        ("attachmentID" = String, Path, description = "The file"),
        ("inline" = Option<bool>, Query, description = "Whether a browser may show it, if it is an image"),
    ),
    responses(
        (status = 200, description = "The content", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, description = "The range that `Range` names", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "It is what `If-None-Match` names"),
        (status = 416, description = "It has no such range"),
    ))]
pub(super) async fn content(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    AttachmentRef(id): AttachmentRef,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let inline = query.flag("inline")?;
    let row = app.find_attachment(&caller, &id).await?;
    let file = app.blobs.read(&row.team, &row.sha256).await.map_err(|error| {
        tracing::error!(attachment = %row.id, %error, "the content of a file cannot be read");
        ApiError::new(ErrorCode::AttachmentNotFound, format!("The content of file {} is gone; upload it again", row.id))
    })?;
    content::answer(&row, file, inline, &headers).await
}

/// Delete a file that is in no chat.
#[utoipa::path(delete, path = "/attachments/{attachmentID}", operation_id = "delete_attachment", tag = "chats",
    params(("attachmentID" = String, Path, description = "The file")),
    responses((status = 204, description = "It is gone")))]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    AttachmentRef(id): AttachmentRef,
) -> Result<StatusCode, ApiError> {
    let row = app.find_attachment(&caller, &id).await?;
    let task = {
        let app = Arc::clone(&app);
        async move {
            let gone = app.store.delete_attachment(row.id.clone()).await?;
            if gone {
                app.blobs.remove_unused(&row.team, &row.sha256).await?;
            }
            Ok::<_, BlobError>(gone)
        }
    };
    // To its end, or the content would stay for a day.
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))? {
        true => Ok(StatusCode::NO_CONTENT),
        false => {
            let text = format!("File {id} is part of a chat; delete the chat to delete it");
            Err(ApiError::new(ErrorCode::ChatConflict, text))
        }
    }
}

impl App {
    /// A file of the caller's team.
    pub(crate) async fn find_attachment(&self, caller: &Caller, id: &AttachmentId) -> Result<AttachmentRow, ApiError> {
        let row = self.store.attachment(id).await?.filter(|row| row.team == caller.team);
        let row = row.ok_or_else(|| no_attachment(id.as_str()))?;
        // One of a chat is seen by those who see the chat.
        if let Some(chat) = &row.chat {
            self.find_chat(caller, chat).await.map_err(|_| no_attachment(id.as_str()))?;
        }
        Ok(row)
    }
}

/// There is no such file for the caller.
pub(crate) fn no_attachment(id: &str) -> ApiError {
    let text = format!("File {} was not found; upload it with POST /attachments", short(id));
    ApiError::new(ErrorCode::AttachmentNotFound, text)
}

/// The id in the path.
#[derive(Debug)]
pub(super) struct AttachmentRef(AttachmentId);

impl<S: Send + Sync> FromRequestParts<S> for AttachmentRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("The path is not well formed"))?;
        text.parse().map(Self).map_err(|_| no_attachment(&text))
    }
}

impl From<BlobError> for ApiError {
    fn from(error: BlobError) -> Self {
        let full =
            || Self::new(ErrorCode::StorageFull, "The disk of the server's data directory is full; free some space");
        match error {
            BlobError::TooLarge(most) => Self::new(
                ErrorCode::BodyTooLarge,
                format!("A file is larger than the {} MiB that are taken", most >> 20),
            ),
            BlobError::Full(most) => Self::new(
                ErrorCode::LimitReached,
                format!(
                    "The team's files of chats would have more than {} MiB; delete chats, or raise chat.max_blob_mb",
                    most >> 20
                ),
            ),
            BlobError::Busy => Self::new(ErrorCode::ServiceUnavailable, "Too many files are being received; try again"),
            BlobError::NoSpace(_) => full(),
            BlobError::Io(error)
                if matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) =>
            {
                full()
            }
            BlobError::Store(error) => error.into(),
            error @ BlobError::Io(_) => Self::internal(&error),
        }
    }
}
