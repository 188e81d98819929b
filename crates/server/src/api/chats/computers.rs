//! The sandboxes of a chat as its tools see them: made on first use, resumed when they are touched, replaced when they are gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cabana_agent::computer::{Computer, ComputerError, Computers, LifecycleDone};
use cabana_store::{ChatChange, ChatRow, ChatSandboxRow, Group, Order, Sandbox, SandboxQuery};
use cabana_types::chat::{AttachmentKind, MAIN_SANDBOX, MAX_SANDBOXES, SandboxRole, SyncState};
use cabana_types::sandbox::{PauseCause, State};
use cabana_types::tool::ToolErrorCode;
use cabana_types::wire::{AutoResume, NewSandbox};
use cabana_types::{ChatId, SandboxId};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::App;
use crate::api::new_sandbox::Version;
use crate::api::tools::SandboxComputers;
use crate::auth::Caller;
use crate::chats::event::NewEvent;
use crate::chats::toolset::SandboxSpec;
use crate::chats::{CHAT_LABEL, Room, Work, engine};
use crate::error::ApiError;
use crate::tools::unavailable;

const DEFAULT_TEMPLATE: &str = "base";
/// How often opening a sandbox is tried again, and how long it is waited: longer each time.
const ATTEMPTS: u32 = 8;
const RETRY: Duration = Duration::from_millis(250);
const NAME: &str = "name";

/// The sandboxes of one chat.
pub(crate) struct ChatComputers {
    app: Arc<App>,
    caller: Caller,
    room: Arc<Room>,
    spec: SandboxSpec,
    allowed: Vec<String>,
}

impl App {
    /// The sandboxes that a turn may use.
    pub(crate) fn chat_computers(self: &Arc<Self>, work: &Work) -> Arc<dyn Computers> {
        Arc::new(ChatComputers {
            app: Arc::clone(self),
            caller: work.caller.clone(),
            room: Arc::clone(&work.room),
            spec: work.tools.sandbox().cloned().unwrap_or_default(),
            allowed: work.tools.sandbox_names(),
        })
    }

    /// The address that links of tools begin with.
    pub(super) fn link_base(&self) -> String {
        let url = url::Url::parse(&self.console_url).ok();
        url.map(|url| url.origin().ascii_serialization()).unwrap_or_default()
    }

    /// Makes a sandbox of a chat. One that a crash left without a row is found by its metadata.
    pub(super) async fn new_chat_sandbox(
        self: &Arc<Self>,
        chat: &ChatRow,
        name: &str,
        spec: &SandboxSpec,
        template: Option<String>,
    ) -> Result<Sandbox, ApiError> {
        let query = SandboxQuery {
            team: chat.team.clone(),
            projects: Some(vec![chat.project.clone()]),
            groups: vec![Group::Running, Group::Paused],
            metadata: BTreeMap::from([(CHAT_LABEL.to_owned(), label(chat, name))]),
            text: None,
            template: None,
            started_after: None,
            order: Order::Descending,
            after: None,
            limit: 8,
        };
        let known = self.store.chat_sandboxes(&chat.id).await?;
        let left = self.store.sandboxes(&query).await?;
        // A fork or a restored one has the same label as the one that it replaces, which has a row.
        if template.is_none()
            && let Some(found) = left.into_iter().find(|found| known.iter().all(|row| row.sandbox != found.id))
        {
            return Ok(found);
        }
        let request = NewSandbox {
            template_id: template.or_else(|| spec.template.clone()).unwrap_or_else(|| DEFAULT_TEMPLATE.into()),
            timeout: Some(i64::try_from(self.limits.longest_timeout()).unwrap_or(3600)),
            auto_pause: Some(true),
            auto_resume: Some(AutoResume { enabled: true }),
            idle_timeout: Some(i64::try_from(self.chat_idle_seconds).unwrap_or(900)),
            metadata: Some(labels(chat, name)),
            cpu_count: spec.cpu_count,
            memory_mb: spec.memory_mb,
            network: Some(serde_json::from_value(json!({"allowPublicTraffic": false})).unwrap_or_default()),
            ..NewSandbox::default()
        };
        let caller = engine::caller(chat);
        let request = self.create_request(&caller, &HeaderMap::new(), request, Version::V2).await?;
        Ok(self.lifecycle.create(request).await?)
    }

    /// Writes that a sandbox belongs to a chat, and says so.
    pub(super) async fn keep_sandbox(
        &self,
        room: &Room,
        row: ChatSandboxRow,
        state: &str,
    ) -> Result<(), cabana_store::Error> {
        let data = json!({"name": row.name, "sandboxId": row.sandbox, "state": state, "role": row.role});
        let event = NewEvent::new("sandbox.updated", None, data);
        room.write().await.commit(vec![ChatChange::SetSandbox(row)], vec![event]).await
    }
}

fn label(chat: &ChatRow, name: &str) -> String {
    format!("{}/{name}", chat.id)
}

/// Metadata of a sandbox of a chat.
pub(super) fn labels(chat: &ChatRow, name: &str) -> BTreeMap<String, String> {
    let shown: String = format!("{}: {name}", chat.title).chars().take(100).collect();
    BTreeMap::from([(CHAT_LABEL.to_owned(), label(chat, name)), (NAME.to_owned(), shown)])
}

/// A row for a sandbox of a chat.
pub(super) fn row(chat: &ChatId, name: &str, role: SandboxRole, sandbox: &SandboxId) -> ChatSandboxRow {
    ChatSandboxRow {
        chat: chat.clone(),
        name: name.to_owned(),
        role,
        sandbox: sandbox.clone(),
        template: None,
        created_at: Timestamp::now(),
    }
}

impl ChatComputers {
    /// The id of the sandbox that a call names, which is made if it does not exist.
    async fn sandbox(&self, asked: Option<&str>) -> Result<SandboxId, ComputerError> {
        let failed = crate::api::tools::failed;
        let store_failed = |error: cabana_store::Error| failed(error.into());
        // Several calls of an answer may come at once.
        let _alone = self.room.computers.lock().await;
        let rows = self.app.store.chat_sandboxes(&self.room.chat).await.map_err(store_failed)?;
        let asked = asked.unwrap_or(MAIN_SANDBOX);
        let known = rows.iter().find(|row| row.name == asked || row.sandbox.as_str() == asked);
        let Some(known) = known else {
            if !self.allowed.iter().any(|name| name == asked) && asked != MAIN_SANDBOX {
                let text = format!("this chat has no sandbox {asked:?}; it has: {}", self.allowed.join(", "));
                return Err(unavailable(text));
            }
            if rows.len() >= MAX_SANDBOXES {
                return Err(unavailable(format!("this chat has {MAX_SANDBOXES} sandboxes, which is the most")));
            }
            return self.make(asked, SandboxRole::Code).await.map_err(failed);
        };
        let sandbox = self.app.store.sandbox(&known.sandbox).await.map_err(store_failed)?;
        match sandbox.map(|sandbox| sandbox.state) {
            Some(State::Failed { .. }) => {
                let recovered = self.app.lifecycle.recover_sandbox(&known.sandbox, PauseCause::Idle).await;
                match recovered {
                    Ok(_) => Ok(known.sandbox.clone()),
                    Err(_) => self.replace(&known.name, known.role).await,
                }
            }
            None | Some(State::Ending { .. } | State::Ended { .. }) => self.replace(&known.name, known.role).await,
            Some(_) => Ok(known.sandbox.clone()),
        }
    }

    async fn make(&self, name: &str, role: SandboxRole) -> Result<SandboxId, ApiError> {
        let (app, caller, room) = (Arc::clone(&self.app), self.caller.clone(), Arc::clone(&self.room));
        let (name, spec) = (name.to_owned(), self.spec.clone());
        // To its end: a call that is stopped must not leave a sandbox that no row names.
        let task = async move {
            let chat = app.find_chat(&caller, &room.chat).await?;
            let sandbox = app.new_chat_sandbox(&chat, &name, &spec, None).await?;
            app.keep_sandbox(&room, row(&chat.id, &name, role, &sandbox.id), "running").await?;
            app.chats.changed(&chat.id).await;
            Ok(sandbox.id)
        };
        self.app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))
    }

    /// Brings uploads that wait for the main sandbox.
    async fn bring_files(&self, id: &SandboxId) -> Result<(), ComputerError> {
        let failed = |error: cabana_store::Error| crate::api::tools::failed(error.into());
        let rows = self.app.store.chat_sandboxes(&self.room.chat).await.map_err(failed)?;
        if !rows.iter().any(|row| row.name == MAIN_SANDBOX && row.sandbox == *id) {
            return Ok(());
        }
        let files = self.app.store.attachments_of(&self.room.chat).await.map_err(failed)?;
        if files.iter().any(|file| file.kind == AttachmentKind::Upload && file.status == SyncState::Pending) {
            let chat = self.app.find_chat(&self.caller, &self.room.chat).await.map_err(crate::api::tools::failed)?;
            self.app.sync_files(&chat, &self.room, id, false).await;
        }
        Ok(())
    }

    /// Makes a new sandbox instead of one that is gone. The model is told, because its files are gone too.
    async fn replace(&self, name: &str, role: SandboxRole) -> Result<SandboxId, ComputerError> {
        let made = self.make(name, role).await.map_err(crate::api::tools::failed)?;
        if name == MAIN_SANDBOX {
            let chat = self.app.find_chat(&self.caller, &self.room.chat).await.map_err(crate::api::tools::failed)?;
            self.app.sync_files(&chat, &self.room, &made, true).await;
        }
        Err(ComputerError::Failed {
            code: ToolErrorCode::SandboxUnavailable,
            message: "the sandbox was gone and has been replaced by a new one: uploads and artifacts were restored, everything else is \
                      lost; the call did not run"
                .into(),
            hint: "look at what is there, make again what is missing, then repeat the call".into(),
        })
    }
}

#[async_trait]
impl Computers for ChatComputers {
    async fn open(&self, sandbox: Option<&str>) -> Result<Arc<dyn Computer>, ComputerError> {
        let mut attempt = 0;
        loop {
            let id = self.sandbox(sandbox).await?;
            self.bring_files(&id).await?;
            let base = self.app.link_base();
            let one = SandboxComputers::new(Arc::clone(&self.app), self.caller.clone(), base, Some(id));
            match one.open(None).await {
                // One that just failed is recovered, or replaced, as soon as that is known.
                Err(ComputerError::Unavailable { .. }) if attempt < ATTEMPTS => {
                    attempt += 1;
                    tokio::time::sleep(RETRY * attempt).await;
                }
                opened => return opened,
            }
        }
    }

    async fn lifecycle(&self, tool: &'static str, _: Value) -> Result<LifecycleDone, ComputerError> {
        Err(unavailable(format!("{tool} is not a tool of chats")))
    }

    async fn service(
        &self,
        sandbox: &str,
        tool: &'static str,
        arguments: Value,
    ) -> Result<LifecycleDone, ComputerError> {
        let base = self.app.link_base();
        let one = SandboxComputers::new(Arc::clone(&self.app), self.caller.clone(), base, sandbox.parse().ok());
        one.service(sandbox, tool, arguments).await
    }
}
