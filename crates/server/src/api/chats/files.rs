//! Files of a chat: uploads on their way into its sandbox, and artifacts on their way out.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use bytes::Bytes;
use cabana_store::{AttachmentRow, ChatChange, ChatRow};
use cabana_types::chat::{AttachmentKind, MAIN_SANDBOX, MAX_ATTACHMENTS, SyncState};
use cabana_types::guest::tools::{STAT_PATH, Stat, StatAnswer};
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::wire::{AttachmentPage, SyncRequest};
use cabana_types::{AttachmentId, ErrorCode, SandboxId};
use http::Request;
use serde_json::json;
use tokio::io::AsyncReadExt;

use super::post::lost_file;
use super::{App, ChatRef};
use crate::api::body;
use crate::api::uploads::{Target, is_form};
use crate::auth::Caller;
use crate::chats::engine;
use crate::chats::event::NewEvent;
use crate::chats::{Room, describe};
use crate::error::ApiError;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Where artifacts are restored to.
const ARTIFACTS: &str = "artifacts";

/// Add files to a chat: as a form, or by the ids of files that were uploaded before. They go to `user-uploads/` of its sandbox; before
/// there is one, they wait.
#[utoipa::path(post, path = "/chats/{chatID}/attachments", operation_id = "add_chat_files", tag = "chats",
    params(("chatID" = String, Path, description = "The chat")),
    request_body(content = SyncRequest, description = "Or multipart/form-data with 1 to 200 parts named `file`"),
    responses((status = 200, description = "The files and where they are", body = AttachmentPage)))]
pub(in crate::api) async fn add_files(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    request: Request<Body>,
) -> Result<Json<AttachmentPage>, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let ids = match is_form(request.headers()) {
        true => app.receive_attachments(&caller, request).await?.into_iter().map(|row| row.id).collect(),
        false => {
            let asked: SyncRequest = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
            asked.ids
        }
    };
    check_ids(&ids)?;
    app.store.attach(id.clone(), ids.clone(), caller.team.clone()).await.map_err(lost_file)?;
    let room = app.chats.room(&chat);
    if let Some(sandbox) = app.main_sandbox(&chat).await? {
        app.sync_files(&chat, &room, &sandbox, false).await;
    }
    app.chats.changed(&id).await;
    let rows = app.store.attachments_of(&id).await?;
    let shown = rows.iter().filter(|row| ids.contains(&row.id)).map(describe::attachment).collect();
    Ok(Json(AttachmentPage { attachments: shown }))
}

fn check_ids(ids: &[AttachmentId]) -> Result<(), ApiError> {
    match ids.len() {
        1..=MAX_ATTACHMENTS => Ok(()),
        _ => Err(ApiError::invalid(format!("Send 1 to {MAX_ATTACHMENTS} files"))),
    }
}

/// List the files of a chat: uploads, artifacts and screenshots.
#[utoipa::path(get, path = "/chats/{chatID}/attachments", operation_id = "list_chat_files", tag = "chats",
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 200, description = "The files", body = AttachmentPage)))]
pub(in crate::api) async fn list_files(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
) -> Result<Json<AttachmentPage>, ApiError> {
    app.find_chat(&caller, &id).await?;
    let rows = app.store.attachments_of(&id).await?;
    Ok(Json(AttachmentPage { attachments: rows.iter().map(describe::attachment).collect() }))
}

/// Bring all uploads and artifacts of a chat into its sandbox again.
#[utoipa::path(post, path = "/chats/{chatID}/attachments/sync", operation_id = "sync_chat_files", tag = "chats",
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 200, description = "The files and where they are", body = AttachmentPage)))]
pub(in crate::api) async fn sync_files(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
) -> Result<Json<AttachmentPage>, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let sandbox = app.main_sandbox(&chat).await?.ok_or_else(|| {
        let text = "The chat has no sandbox yet; its files are brought there when it is made";
        ApiError::new(ErrorCode::ChatConflict, text)
    })?;
    app.sync_files(&chat, &app.chats.room(&chat), &sandbox, true).await;
    let rows = app.store.attachments_of(&id).await?;
    Ok(Json(AttachmentPage { attachments: rows.iter().map(describe::attachment).collect() }))
}

impl App {
    /// The main sandbox of a chat, if it has not ended.
    pub(super) async fn main_sandbox(&self, chat: &ChatRow) -> Result<Option<SandboxId>, ApiError> {
        let rows = self.store.chat_sandboxes(&chat.id).await?;
        let Some(main) = rows.into_iter().find(|row| row.name == MAIN_SANDBOX) else { return Ok(None) };
        match self.find_usable(&engine::reach(chat), &main.sandbox).await {
            Ok(_) => Ok(Some(main.sandbox)),
            Err(error) if error.code() == ErrorCode::SandboxNotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Brings files into a sandbox: uploads that are not there yet, or everything. What fails is written beside the file.
    pub(super) async fn sync_files(&self, chat: &ChatRow, room: &Room, sandbox: &SandboxId, all: bool) {
        let _alone = room.files.lock().await;
        let rows = self.store.attachments_of(&chat.id).await.unwrap_or_default();
        for row in rows {
            let wanted = match row.kind {
                AttachmentKind::Upload => all || row.status != SyncState::Synced,
                AttachmentKind::Artifact => all,
                AttachmentKind::Screenshot => false,
            };
            if !wanted {
                continue;
            }
            let row = match self.bring(chat, sandbox, &row).await {
                Ok(path) => AttachmentRow { status: SyncState::Synced, path: Some(path), error: None, ..row },
                Err(error) => AttachmentRow { status: SyncState::Failed, error: Some(error), ..row },
            };
            let event = NewEvent::new("attachment.updated", None, json!({"attachment": describe::attachment(&row)}));
            if let Err(error) = room.write().await.commit(vec![ChatChange::SetAttachment(row)], vec![event]).await {
                tracing::warn!(chat = %chat.id, error = cabana_types::error::chain(&error), "where a file is was not written");
            }
        }
    }

    /// Writes a file into a sandbox, and returns where it is.
    async fn bring(&self, chat: &ChatRow, sandbox: &SandboxId, row: &AttachmentRow) -> Result<String, String> {
        let said = |error: ApiError| error.message().to_owned();
        let found = self.find_usable(&engine::reach(chat), sandbox).await.map_err(said)?;
        let entered = self.enter(&found).await.map_err(|error| said(error.into()))?;
        // One that is there stays as it is: it may have been changed since.
        if let Some(path) = &row.path {
            let stat = Stat { path: path.clone(), ..Stat::default() };
            if entered.route.link.tool::<_, StatAnswer>(STAT_PATH, &stat).await.is_ok() {
                return Ok(path.clone());
            }
        }
        let tasks = self.tasks.clone();
        let target = match row.kind {
            AttachmentKind::Artifact => Target::named(entered, tasks, ARTIFACTS).await,
            _ => Target::find(entered, tasks).await,
        };
        let sending = target.map_err(said)?.begin(row.name.clone());
        let unreadable = |_| "the server does not have the file any more".to_owned();
        let mut file = self.blobs.read(&row.team, &row.sha256).await.map_err(unreadable)?;
        loop {
            let mut chunk = vec![0; CHUNK];
            let count = file.read(&mut chunk).await.map_err(unreadable)?;
            chunk.truncate(count);
            if count == 0 || !sending.send(Bytes::from(chunk)).await {
                break;
            }
        }
        sending.finish(true).await.map_err(|error| error.to_string())
    }
}
