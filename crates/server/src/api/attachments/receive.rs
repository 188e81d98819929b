//! Receiving files as a form. They get rows together, when all of them have arrived; what a broken form leaves is removed.

use std::sync::Arc;

use axum::body::Body;
use cabana_form::Form;
use cabana_store::AttachmentRow;
use cabana_types::chat::{AttachmentKind, MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS, SyncState};
use cabana_types::{AttachmentId, ErrorCode, TeamId};
use http::Request;
use jiff::Timestamp;

use super::media;
use crate::api::App;
use crate::api::content::SHOWN;
use crate::api::uploads::{Content, FormError, form, is_form, names, quoted};
use crate::auth::Caller;
use crate::chats::blobs::{Blob, BlobError};
use crate::error::ApiError;

/// Bytes of a field that is no file.
const MAX_FIELD: usize = 64;
/// The field that says what the files are.
const KIND: &str = "kind";

/// Files for chats.
#[derive(utoipa::ToSchema)]
#[allow(dead_code, reason = "describes a form, which is parsed as a stream")]
pub(crate) struct AttachmentForm {
    /// Each has up to 100 MiB. Their file names may be relative paths such as `dir/a.txt`.
    #[schema(inline, min_items = 1, max_items = 200)]
    file: Vec<Content>,
    /// `upload`, or `screenshot` for pictures of a page.
    #[schema(pattern = "^(upload|screenshot)$")]
    kind: Option<String>,
}

/// A file that has arrived.
struct File {
    name: String,
    media_type: String,
    blob: Blob,
}

/// Files that have no rows yet. Without any, their content is removed.
struct Received {
    app: Arc<App>,
    team: TeamId,
    kind: AttachmentKind,
    files: Vec<File>,
}

impl App {
    /// Receives the files of a form: all of them, or none.
    pub(crate) async fn receive_attachments(
        self: &Arc<Self>,
        caller: &Caller,
        request: Request<Body>,
    ) -> Result<Vec<AttachmentRow>, ApiError> {
        if !is_form(request.headers()) {
            return Err(ApiError::invalid("Send the files as multipart/form-data"));
        }
        let mut form = form(request)?;
        let (team, files) = (caller.team.clone(), Vec::new());
        let mut received = Received { app: Arc::clone(self), team, kind: AttachmentKind::Upload, files };
        received.read(&mut form).await?;
        let by = caller.actor.clone();
        let task = async move {
            let rows = received.rows(by);
            received.app.store.insert_attachments(rows.clone()).await?;
            received.files.clear();
            Ok::<_, ApiError>(rows)
        };
        // To its end, or content could be removed whose rows are about to be written.
        self.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))
    }
}

impl Received {
    async fn read(&mut self, form: &mut Form<FormError>) -> Result<(), ApiError> {
        while let Some(part) = form.part().await? {
            match (part.file_name, part.name.as_deref()) {
                (None, Some(KIND)) => self.kind = kind(form).await?,
                (name, _) => {
                    let name = name.unwrap_or_default();
                    if self.files.len() == MAX_ATTACHMENTS {
                        return Err(ApiError::invalid(format!("At most {MAX_ATTACHMENTS} files are taken at once")));
                    }
                    let checked = names::check(&name);
                    let name = checked.map_err(|why| refused(&name, why))?;
                    let file = self.file(form, name).await?;
                    self.files.push(file);
                }
            }
        }
        if self.files.is_empty() {
            return Err(ApiError::invalid(format!("The form has no files; send 1 to {MAX_ATTACHMENTS}")));
        }
        let strange = self.files.iter().find(|file| !SHOWN.contains(&file.media_type.as_str()));
        match strange.filter(|_| self.kind == AttachmentKind::Screenshot) {
            Some(file) => Err(refused(&file.name, "a screenshot is a PNG, JPEG, GIF or WebP image")),
            None => Ok(()),
        }
    }

    async fn file(&self, form: &mut Form<FormError>, name: String) -> Result<File, ApiError> {
        let failed = |error: BlobError| match error {
            BlobError::TooLarge(most) => {
                let text = format!("File {} is larger than the {} MiB that are taken", quoted(&name), most >> 20);
                ApiError::new(ErrorCode::BodyTooLarge, text)
            }
            error => error.into(),
        };
        let mut draft = self.app.blobs.begin(&self.team, MAX_ATTACHMENT_BYTES).await.map_err(failed)?;
        while let Some(bytes) = form.data().await? {
            draft.write(&bytes).await.map_err(failed)?;
        }
        let blob = self.app.blobs.finish(draft).await.map_err(failed)?;
        let media_type = media::of(&blob.head, &name).to_owned();
        Ok(File { name, media_type, blob })
    }

    fn rows(&self, by: cabana_types::ActorId) -> Vec<AttachmentRow> {
        // As precise as the store, so that a later read gives the same.
        let now = Timestamp::now();
        let created_at = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        let row = |file: &File| AttachmentRow {
            id: AttachmentId::from_random(rand::random()),
            team: self.team.clone(),
            chat: None,
            kind: self.kind,
            name: file.name.clone(),
            media_type: file.media_type.clone(),
            size: file.blob.size,
            sha256: file.blob.sha256.clone(),
            status: SyncState::Pending,
            path: None,
            error: None,
            created_at,
            created_by: Some(by.clone()),
        };
        self.files.iter().map(row).collect()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let names: Vec<String> = self.files.drain(..).map(|file| file.blob.sha256.clone()).collect();
        if names.is_empty() {
            return;
        }
        let (app, team) = (Arc::clone(&self.app), self.team.clone());
        // The client may have gone, and nothing waits for this.
        self.app.tasks.spawn(async move {
            for name in names {
                if let Err(error) = app.blobs.remove_unused(&team, &name).await {
                    let error = cabana_types::error::chain(&error);
                    tracing::warn!(error, "what was received of an upload could not be removed");
                }
            }
        });
    }
}

async fn kind(form: &mut Form<FormError>) -> Result<AttachmentKind, ApiError> {
    let mut text = Vec::new();
    while let Some(bytes) = form.data().await? {
        text.extend_from_slice(&bytes);
        if text.len() > MAX_FIELD {
            break;
        }
    }
    match text.as_slice() {
        b"upload" => Ok(AttachmentKind::Upload),
        b"screenshot" => Ok(AttachmentKind::Screenshot),
        _ => Err(ApiError::invalid("kind must be upload or screenshot")),
    }
}

fn refused(name: &str, why: &str) -> ApiError {
    ApiError::invalid(format!("File {} is not taken: {why}", quoted(name)))
}
