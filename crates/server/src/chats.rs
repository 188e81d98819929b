//! Chats: a model that uses sandboxes, turn by turn.
//!
//! Rows say what is to be done and what was done; `engine` brings a turn further, whoever asks: a request, an answer of a person, or the
//! next start of the server. `room` numbers and sends the events of a chat that somebody uses.

pub(crate) mod blobs;
pub(crate) mod calls;
mod compaction;
mod conversation;
pub(crate) mod describe;
pub(crate) mod engine;
pub(crate) mod event;
mod hub;
mod model_call;
pub(crate) mod models;
mod output;
mod places;
mod ring;
mod room;
mod settle;
pub(crate) mod tool_check;
pub(crate) mod toolset;

use std::sync::Arc;
use std::time::Duration;

use cabana_store::{ChatRow, Store, TurnRow};
use cabana_supervisor::TaskSet;
use cabana_types::chat::{ChatAccess, ChatStatus, ChatTool, MAIN_SANDBOX, SandboxRole, TurnLimits};
use cabana_types::error::chain;
use cabana_types::sandbox::State;
use cabana_types::turn::TurnState;
use cabana_types::wire::{Chat, ChatSandbox, Turn};
use cabana_types::{ChatId, TeamId, TurnId};
use serde_json::json;

pub(crate) use self::engine::Work;
use self::places::Places;
pub(crate) use self::room::{Room, Watcher};
use crate::live::Live;

/// How long turns may take to be left when the server stops.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// How long a stopped turn may take to end.
const CANCEL_WAIT: Duration = Duration::from_secs(20);
/// Metadata by which a sandbox of a chat is found: the chat and the sandbox's name in it.
pub(crate) const CHAT_LABEL: &str = "cabana.chat";

/// All chats.
#[derive(Debug)]
pub(crate) struct Chats {
    store: Store,
    live: Arc<Live>,
    hub: hub::Hub,
    tasks: TaskSet,
    /// Turns of each team that run at the same time.
    places: Arc<Places>,
}

impl Chats {
    pub(crate) fn new(store: Store, live: Arc<Live>) -> Self {
        let hub = hub::Hub::new(store.clone());
        Self { store, live, hub, tasks: TaskSet::new(), places: Arc::default() }
    }

    /// Leaves all turns for the next server.
    pub(crate) async fn stop(&self) {
        if !self.tasks.stop(STOP_WAIT).await {
            tracing::warn!("work on chats is left for the next start");
        }
    }

    /// Opens a chat.
    pub(crate) fn room(&self, chat: &ChatRow) -> Arc<Room> {
        self.hub.room(&chat.id, &chat.team)
    }

    /// The tools of a turn.
    pub(crate) async fn tools_of(&self, chat: &ChatRow, turn: &TurnRow) -> Result<Vec<ChatTool>, cabana_store::Error> {
        match &turn.tools {
            Some(tools) => Ok(tools.clone()),
            None => self.tools(chat).await,
        }
    }

    /// The tools of a chat: its own, its agent's, or the default ones.
    pub(crate) async fn tools(&self, chat: &ChatRow) -> Result<Vec<ChatTool>, cabana_store::Error> {
        if let Some(tools) = &chat.tools {
            return Ok(tools.clone());
        }
        let agent = match &chat.agent {
            Some(id) => self.store.agent(id).await?,
            None => None,
        };
        Ok(agent.map_or_else(toolset::default_tools, |agent| agent.tools))
    }

    /// The agent's instructions.
    async fn instructions(&self, chat: &ChatRow) -> Result<String, cabana_store::Error> {
        let Some(id) = &chat.agent else { return Ok(String::new()) };
        Ok(self.store.agent(id).await?.map(|agent| agent.system).unwrap_or_default())
    }

    /// The limits of a new turn.
    pub(crate) async fn limits(&self, chat: &ChatRow) -> Result<TurnLimits, cabana_store::Error> {
        let Some(id) = &chat.agent else { return Ok(TurnLimits::default()) };
        Ok(self.store.agent(id).await?.map(|agent| agent.limits).unwrap_or_default())
    }

    /// A chat as the API shows it.
    pub(crate) async fn describe(&self, row: &ChatRow) -> Result<Chat, cabana_store::Error> {
        let (status, turns) = self.status(&row.id).await?;
        let queued = turns.iter().filter(|turn| turn.state == TurnState::Queued).map(describe::turn).collect();
        let begun = turns.iter().find(|turn| turn.state != TurnState::Queued);
        let sandboxes = self.sandboxes(&row.id).await?;
        let named = |chosen: &dyn Fn(&ChatSandbox) -> bool| {
            sandboxes.iter().find(|sandbox| chosen(sandbox)).map(|sandbox| sandbox.sandbox_id.clone())
        };
        Ok(Chat {
            id: row.id.clone(),
            title: row.title.clone(),
            project_id: row.project.to_string(),
            agent_id: row.agent.clone(),
            model: row.model.clone(),
            status,
            parent_id: row.parent.clone(),
            sandbox_id: named(&|sandbox| sandbox.name == MAIN_SANDBOX),
            browser_sandbox_id: named(&|sandbox| sandbox.role == SandboxRole::Browser),
            tools: self.tools(row).await?,
            access: ChatAccess::Private,
            usage: row.usage,
            context_tokens: row.context_tokens,
            context_window: row.context_window,
            turn_id: begun.map(|turn| turn.id.clone()),
            queued,
            last_event_id: self.store.last_chat_event(&row.id).await?,
            metadata: row.metadata.clone(),
            created_at: row.created_at,
            updated_at: row.updated_at,
            sandboxes,
        })
    }

    /// What a chat does, and its turns that have not ended. Both fit together, although a turn may begin or end between two reads.
    async fn status(&self, id: &ChatId) -> Result<(ChatStatus, Vec<TurnRow>), cabana_store::Error> {
        loop {
            let turns = self.store.open_turns_of(id).await?;
            let begun = turns.iter().find(|turn| turn.state != TurnState::Queued).or_else(|| turns.first());
            let status = match begun.map(|turn| turn.state) {
                Some(TurnState::Waiting) => ChatStatus::Waiting,
                Some(_) => ChatStatus::Running,
                None => self.store.chat_status(id).await?,
            };
            // One has begun since.
            if turns.is_empty() && matches!(status, ChatStatus::Running | ChatStatus::Waiting) {
                continue;
            }
            return Ok((status, turns));
        }
    }

    /// The sandboxes of a chat that have not ended.
    async fn sandboxes(&self, chat: &ChatId) -> Result<Vec<ChatSandbox>, cabana_store::Error> {
        let rows = self.store.chat_sandboxes(chat).await?;
        let found = self.store.sandboxes_by_id(rows.iter().map(|row| &row.sandbox)).await?;
        let shown = rows.into_iter().filter_map(|row| {
            let sandbox = found.iter().find(|sandbox| sandbox.id == row.sandbox)?;
            let state = match sandbox.state {
                State::Ending { .. } | State::Ended { .. } => return None,
                State::Failed { .. } => "failed",
                State::Running => "running",
                State::Creating => "creating",
                _ => "paused",
            };
            Some(ChatSandbox { name: row.name, role: row.role, sandbox_id: row.sandbox, state: state.to_owned() })
        });
        Ok(shown.collect())
    }

    /// Tells everyone who watches the chat, or the list of chats, how it is now.
    pub(crate) async fn changed(&self, id: &ChatId) {
        let told = async {
            let Some(row) = self.store.chat(id).await? else { return Ok(()) };
            let room = self.room(&row);
            // In the order of what happened: an older state must not be told last.
            let mut writing = room.write().await;
            let Some(row) = self.store.chat(id).await? else { return Ok(()) };
            let chat = self.describe(&row).await?;
            let data = json!({"chat": chat});
            let turn = chat.turn_id.clone();
            writing.publish(event::NewEvent::new("chat.updated", turn.as_ref(), data)).await?;
            self.live.chat_changed(&row.team, &chat);
            Ok::<_, cabana_store::Error>(())
        };
        if let Err(error) = told.await {
            tracing::warn!(chat = %id, error = chain(&error), "could not tell how a chat is");
        }
    }

    /// A chat is gone.
    pub(crate) fn removed(&self, team: &TeamId, id: &ChatId) {
        self.live.chat_removed(team, id);
    }

    /// Ends the work on a turn that was written as cancelled, and waits until it has ended.
    pub(crate) async fn end_turn(&self, room: &Room, id: &TurnId) -> Result<Option<Turn>, cabana_store::Error> {
        self.hub.stop(&room.chat, id);
        let until = tokio::time::Instant::now() + CANCEL_WAIT;
        loop {
            let settled = room.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            let turn = self.store.turn(id).await?;
            match turn {
                Some(turn) if !turn.state.is_ended() => {
                    if tokio::time::timeout_at(until, settled).await.is_err() {
                        return Ok(Some(describe::turn(&turn)));
                    }
                    // It may have begun after it was stopped the first time.
                    self.hub.stop(&room.chat, id);
                }
                turn => return Ok(turn.as_ref().map(describe::turn)),
            }
        }
    }
}
