//! Further sandboxes of a chat.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::{Extension, Json};
use cabana_store::{ChatChange, ChatSandboxRow};
use cabana_types::chat::{MAIN_SANDBOX, MAX_SANDBOXES, SandboxRole};
use cabana_types::limits::MAX_API_BODY_BYTES;
use cabana_types::sandbox::EndCause;
use cabana_types::wire::{ChatSandbox, NewChatSandbox};
use cabana_types::{ErrorCode, SandboxId};
use http::request::Parts;
use http::{Request, StatusCode};
use serde_json::json;

use super::{App, ChatRef, computers};
use crate::api::body;
use crate::auth::Caller;
use crate::chats::event::NewEvent;
use crate::chats::toolset::{SandboxSpec, ToolSet};
use crate::error::{ApiError, short};

/// Characters of a name.
const MAX_NAME: usize = 40;

/// Add a sandbox to a chat. Tools reach it by its name.
#[utoipa::path(post, path = "/chats/{chatID}/sandboxes", tag = "chats", request_body = NewChatSandbox,
    params(("chatID" = String, Path, description = "The chat")),
    responses((status = 201, description = "The sandbox", body = ChatSandbox)))]
pub(in crate::api) async fn add_sandbox(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    request: Request<Body>,
) -> Result<(StatusCode, Json<ChatSandbox>), ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let new: NewChatSandbox = body::parse(&body::bytes(request, MAX_API_BODY_BYTES).await?)?;
    check_name(&new.name)?;
    if new.role != SandboxRole::Code {
        let text = "Sandboxes with a browser or a desktop are not available on this server yet; use role code";
        return Err(ApiError::new(ErrorCode::NotSupported, text));
    }
    free(&app.store.chat_sandboxes(&id).await?, &new.name)?;
    let tools = app.chats.tools(&chat).await?;
    let mut spec = ToolSet::new(&tools).sandbox().cloned().unwrap_or_default();
    let task = {
        let app = Arc::clone(&app);
        async move {
            let room = app.chats.room(&chat);
            let _alone = room.computers.lock().await;
            let rows = app.store.chat_sandboxes(&chat.id).await?;
            free(&rows, &new.name)?;
            let made = match new.from.as_deref() {
                None => {
                    spec = SandboxSpec { template: new.template.or(spec.template), ..spec };
                    app.new_chat_sandbox(&chat, &new.name, &spec, None).await?
                }
                Some("fork") => {
                    let main = rows.iter().find(|row| row.name == MAIN_SANDBOX).ok_or_else(|| {
                        let text = "The chat has no sandbox main to fork yet; it is made on first use";
                        ApiError::new(ErrorCode::ChatConflict, text)
                    })?;
                    app.copy_sandbox(&chat, &new.name, &main.sandbox).await?
                }
                Some(_) => return Err(ApiError::invalid("from must be fork, or left out")),
            };
            let row = computers::row(&chat.id, &new.name, new.role, &made.id);
            if let Err(error) = app.keep_sandbox(&room, row, "running").await {
                app.end_sandbox(&caller, &made.id).await;
                return Err(error.into());
            }
            app.chats.changed(&chat.id).await;
            let state = "running".to_owned();
            Ok(ChatSandbox { name: new.name, role: new.role, sandbox_id: made.id, state })
        }
    };
    let made = app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Remove a sandbox from a chat, and kill it.
#[utoipa::path(delete, path = "/chats/{chatID}/sandboxes/{name}", tag = "chats",
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("name" = String, Path, description = "The sandbox's name in the chat"),
    ),
    responses((status = 204, description = "It is gone")))]
pub(in crate::api) async fn remove_sandbox(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    SandboxName(name): SandboxName,
) -> Result<StatusCode, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let rows = app.store.chat_sandboxes(&id).await?;
    let row = rows.into_iter().find(|row| row.name == name).ok_or_else(|| {
        ApiError::new(ErrorCode::SandboxNotFound, format!("The chat has no sandbox {:?}", short(&name)))
    })?;
    let task = {
        let app = Arc::clone(&app);
        async move {
            app.end_sandbox(&caller, &row.sandbox).await;
            let room = app.chats.room(&chat);
            let data = json!({"name": row.name, "sandboxId": row.sandbox, "state": "ended", "role": row.role});
            let event = NewEvent::new("sandbox.updated", None, data);
            room.write().await.commit(vec![ChatChange::RemoveSandbox { name }], vec![event]).await?;
            app.chats.changed(&chat.id).await;
            Ok::<_, ApiError>(())
        }
    };
    app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
    Ok(StatusCode::NO_CONTENT)
}

impl App {
    /// Kills a sandbox of a chat. It may have ended already.
    pub(super) async fn end_sandbox(&self, caller: &Caller, id: &SandboxId) {
        let cause = EndCause::Killed { by: caller.actor.to_string() };
        if let Err(error) = self.lifecycle.kill(id, cause).await {
            tracing::debug!(sandbox = %id, error = cabana_types::error::chain(&error), "a sandbox of a chat was not killed");
        }
    }
}

/// Whether a chat can have another sandbox of this name.
fn free(rows: &[ChatSandboxRow], name: &str) -> Result<(), ApiError> {
    if rows.iter().any(|row| row.name == name) {
        let text = format!("The chat has a sandbox {name:?} already; delete it first, or choose another name");
        return Err(ApiError::new(ErrorCode::ChatConflict, text));
    }
    if rows.len() >= MAX_SANDBOXES {
        let text = format!("A chat has at most {MAX_SANDBOXES} sandboxes; delete one first");
        return Err(ApiError::new(ErrorCode::LimitReached, text));
    }
    Ok(())
}

/// The name of a sandbox in a path.
pub(in crate::api) struct SandboxName(String);

impl<S: Send + Sync> FromRequestParts<S> for SandboxName {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        super::path_part(parts, state, "name").await.map(Self)
    }
}

fn check_name(name: &str) -> Result<(), ApiError> {
    let fits = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    match fits && (1..=MAX_NAME).contains(&name.len()) {
        true => Ok(()),
        false => Err(ApiError::invalid(format!("name must have 1 to {MAX_NAME} characters of a-z, 0-9, - and _"))),
    }
}
