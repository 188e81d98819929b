//! What a turn does beside calling the model: before its first step, after a call, and at its end.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cabana_agent::computer::ComputerError;
use cabana_store::{AttachmentRow, CallRow, ChatChange, ChatRow};
use cabana_types::chat::{AttachmentKind, MAX_ATTACHMENT_BYTES, SyncState};
use cabana_types::guest::tools as guest;
use cabana_types::tool::ToolResult;
use cabana_types::{AttachmentId, SandboxId};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};
use url::form_urlencoded;

use super::App;
use crate::api::attachments::media;
use crate::api::content;
use crate::chats::engine;
use crate::chats::event::NewEvent;
use crate::chats::{Work, describe};

/// Where a model puts what people want to have.
const ARTIFACTS: &str = "artifacts";
/// Files that are taken from there at the end of a turn.
const MAX_ARTIFACTS: usize = 100;
/// How long a linked file may take to be kept, and all that a turn made.
const ARTIFACT_TIME: Duration = Duration::from_secs(30);
const ARTIFACTS_TIME: Duration = Duration::from_secs(60);
/// How deep they may be.
const DEPTH: u32 = 4;

impl App {
    /// Before the first step: files are brought to the sandbox, and it can be restored to what it is now.
    pub(crate) async fn prepare_turn(self: &Arc<Self>, work: &Work) -> Result<(), cabana_store::Error> {
        let chat = &work.chat;
        let Some(turn) = self.store.turn(&work.turn).await? else { return Ok(()) };
        self.checkpoint_turn(chat, &work.room, &turn).await;
        let files = self.store.attachments_of(&chat.id).await?;
        let waits = |file: &AttachmentRow| file.kind == AttachmentKind::Upload && file.status != SyncState::Synced;
        if work.tools.sandbox().is_none() || !files.iter().any(waits) {
            return Ok(());
        }
        // Opening it makes it, and brings the files.
        let opening = self.chat_computers(work);
        let opened = tokio::select! {
            () = work.cancel.cancelled() => return Ok(()),
            () = work.stopping.cancelled() => return Ok(()),
            opened = opening.open(None) => opened,
        };
        match opened {
            Ok(computer) => {
                if let Ok(sandbox) = computer.sandbox_id().parse() {
                    self.sync_files(chat, &work.room, &sandbox, false).await;
                }
            }
            Err(error) => self.not_brought(work, files.into_iter().filter(waits).collect(), &error).await?,
        }
        Ok(())
    }

    async fn not_brought(
        &self,
        work: &Work,
        files: Vec<AttachmentRow>,
        error: &ComputerError,
    ) -> Result<(), cabana_store::Error> {
        let _alone = work.room.files.lock().await;
        let (mut changes, mut events) = (Vec::new(), Vec::new());
        let now = self.store.attachments_of(&work.chat.id).await?;
        let is_there = |id: &AttachmentId| now.iter().any(|file| file.id == *id && file.status == SyncState::Synced);
        for file in files.into_iter().filter(|file| !is_there(&file.id)) {
            let file = AttachmentRow { status: SyncState::Failed, error: Some(error.to_string()), ..file };
            events.push(NewEvent::new("attachment.updated", None, json!({"attachment": describe::attachment(&file)})));
            changes.push(ChatChange::SetAttachment(file));
        }
        work.room.write().await.commit(changes, events).await
    }

    /// After a call: a linked file becomes an artifact, a service is told of.
    pub(crate) async fn after_call(
        self: &Arc<Self>,
        work: &Work,
        call: &CallRow,
        result: &ToolResult,
    ) -> (Vec<AttachmentRow>, Vec<NewEvent>) {
        if result.error.is_some() {
            return (Vec::new(), Vec::new());
        }
        match call.name.as_str() {
            "sandbox_download_url" => {
                let path = call.arguments.get("path").and_then(Value::as_str);
                let sandbox = result.sandbox_id.as_deref().and_then(|id| id.parse().ok());
                let (Some(path), Some(sandbox)) = (path, sandbox) else { return (Vec::new(), Vec::new()) };
                let keeping = Box::pin(self.keep_artifact(&work.chat, &sandbox, path, None));
                let kept = limited(work, ARTIFACT_TIME, keeping).await.flatten();
                (kept.into_iter().collect(), Vec::new())
            }
            "sandbox_start_service" | "sandbox_service" => {
                let service = result.data.get("service").or(Some(&result.data)).filter(|data| data.get("id").is_some());
                let event = service
                    .map(|service| NewEvent::new("service.updated", Some(&call.turn), json!({"service": service})));
                (Vec::new(), event.into_iter().collect())
            }
            _ => (Vec::new(), Vec::new()),
        }
    }

    /// At the end of a turn: new files in `artifacts/` are kept.
    pub(crate) async fn keep_artifacts(self: &Arc<Self>, work: &Work) {
        let kept = async {
            if !self.used_sandbox(work).await? {
                return Ok(());
            }
            let Some(sandbox) = self.main_sandbox(&work.chat).await.ok().flatten() else { return Ok(()) };
            // One that is paused did nothing since.
            if self.directory.get(&sandbox).is_none() {
                return Ok(());
            }
            let known = self.store.attachments_of(&work.chat.id).await?;
            let known: HashSet<(String, u64)> = known
                .into_iter()
                .filter(|file| file.kind == AttachmentKind::Artifact)
                .filter_map(|file| Some((file.path?, file.size)))
                .collect();
            for (path, size) in self.artifacts_in(work, &sandbox).await {
                if known.contains(&(path.clone(), size)) {
                    continue;
                }
                if let Some(row) = Box::pin(self.keep_artifact(&work.chat, &sandbox, &path, Some(&path))).await {
                    let data = json!({"attachment": describe::attachment(&row)});
                    let event = NewEvent::new("artifact.created", Some(&work.turn), data);
                    work.room.write().await.commit(Vec::new(), vec![event]).await?;
                }
            }
            Ok::<_, cabana_store::Error>(())
        };
        match limited(work, ARTIFACTS_TIME, kept).await {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::warn!(chat = %work.chat.id, error = cabana_types::error::chain(&error), "artifacts were not kept");
            }
            None => {
                tracing::warn!(chat = %work.chat.id, "not all artifacts were kept: the sandbox is too slow, or the turn was stopped")
            }
        }
    }

    async fn used_sandbox(&self, work: &Work) -> Result<bool, cabana_store::Error> {
        let calls = self.store.calls_of_turn(&work.turn).await?;
        Ok(calls.iter().any(|call| call.sandbox.is_some()))
    }

    /// Paths and sizes of the files in `artifacts/`.
    async fn artifacts_in(self: &Arc<Self>, work: &Work, sandbox: &SandboxId) -> Vec<(String, u64)> {
        let Ok(computer) = self.chat_computers(work).open(Some(sandbox.as_str())).await else { return Vec::new() };
        let request =
            guest::List { path: ARTIFACTS.to_owned(), depth: DEPTH, limit: MAX_ARTIFACTS, ..guest::List::default() };
        // There is none in most chats.
        let Ok(listed) = computer.list(request).await else { return Vec::new() };
        let root = listed.path.trim_end_matches('/').to_owned();
        let files = listed.entries.into_iter().filter(|entry| entry.kind == guest::EntryKind::File);
        files.map(|entry| (format!("{root}/{}", entry.path), entry.size)).collect()
    }

    /// Copies a file of a sandbox to where it stays. One that is too large, or gone, is left out.
    async fn keep_artifact(
        self: &Arc<Self>,
        chat: &ChatRow,
        sandbox: &SandboxId,
        path: &str,
        place: Option<&str>,
    ) -> Option<AttachmentRow> {
        let row = self.find_usable(&engine::reach(chat), sandbox).await.ok()?;
        let entered = self.enter(&row).await.ok()?;
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("path", path).finish();
        let fetched = content::fetch(entered, &query, &HeaderMap::new()).await.ok()?;
        let mut draft = self.blobs.begin(&chat.team, MAX_ATTACHMENT_BYTES).await.ok()?;
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or("file").to_owned();
        let name = if fetched.is_archive() { format!("{name}.tar.gz") } else { name };
        let mut body = fetched.into_body().into_data_stream();
        while let Some(chunk) = futures_util::StreamExt::next(&mut body).await {
            draft.write(&chunk.ok()?).await.ok()?;
        }
        let blob = self.blobs.finish(draft).await.ok()?;
        let row = AttachmentRow {
            id: AttachmentId::from_random(rand::random()),
            team: chat.team.clone(),
            chat: Some(chat.id.clone()),
            kind: AttachmentKind::Artifact,
            media_type: media::of(&blob.head, &name).to_owned(),
            name: name.chars().filter(|c| !c.is_control()).take(200).collect(),
            size: blob.size,
            sha256: blob.sha256.clone(),
            status: SyncState::Synced,
            path: Some(place.unwrap_or(path).to_owned()),
            error: None,
            created_at: Timestamp::now(),
            created_by: None,
        };
        self.store.insert_attachments(vec![row.clone()]).await.ok()?;
        Some(row)
    }
}

/// What sandboxes send is taken for a bounded time, and not when the turn is stopped.
async fn limited<T>(work: &Work, time: Duration, keeping: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        kept = keeping => Some(kept),
        () = work.cancel.cancelled() => None,
        () = work.stopping.cancelled() => None,
        () = tokio::time::sleep(time) => None,
    }
}
