//! A message comes into a chat: a new turn, or a word to the running one.

use std::sync::Arc;

use bytes::Bytes;
use cabana_agent::title;
use cabana_store::{AttachmentRow, ChatChange, ChatCommitted, ChatRequest, ChatRow, MessageRow, TurnRow};
use cabana_types::chat::{ChatTool, MAX_ATTACHMENTS, MAX_QUEUED, MessageStatus, OnBusy, Role, Usage};
use cabana_types::turn::TurnState;
use cabana_types::wire::{NewChat, NewMessage, StartedTurn};
use cabana_types::{ActorId, AgentId, AttachmentId, ChatId, ErrorCode, MessageId, TurnId};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};
use sha2::{Digest, Sha256};

use super::new_message::{Checked, check};
use super::{App, checked_metadata, checked_title};
use crate::auth::Caller;
use crate::chats::event::NewEvent;
use crate::chats::tool_check::check_tools;
use crate::chats::{Chats, Watcher, describe};
use crate::error::ApiError;

/// How long an idempotency key stands for its first request.
const KEEP_KEY: SignedDuration = SignedDuration::from_hours(24);
/// Characters of a turn's message that are shown in lists.
const PROMPT: usize = 200;

/// What a request began.
pub(crate) struct Posted {
    pub(crate) chat: ChatId,
    pub(crate) turn: Option<TurnId>,
    /// Watches the events from before the turn.
    pub(crate) watcher: Option<Watcher>,
}

/// An idempotency key, and the body that it stands for.
pub(crate) type Key = Option<(String, Bytes)>;

impl App {
    /// Makes a chat, and its first turn if there is a message.
    pub(crate) async fn create_chat(
        self: &Arc<Self>,
        caller: &Caller,
        new: NewChat,
        key: Key,
    ) -> Result<Posted, ApiError> {
        let project = self.project_for(caller, new.project_id.as_deref()).await?;
        let request = key.map(|(key, body)| request(key, "create", &body));
        if let Some(earlier) = self.earlier(caller, request.as_ref()).await? {
            return Ok(earlier);
        }
        let attached = new.attachments.clone().unwrap_or_default();
        let mut message = check(new.prompt, new.content, new.attachments)?;
        let agent = match &new.agent_id {
            Some(id) => Some(self.agent_of(caller, id.as_str()).await?),
            None => None,
        };
        let model = new.model.or_else(|| agent.as_ref().and_then(|agent| agent.model.clone()));
        let model = match model {
            Some(model) => model,
            None => self.models.default_model().to_owned(),
        };
        self.check_model(caller, &model).await?;
        if let Some(tools) = &new.tools {
            check_tools(tools).map_err(ApiError::invalid)?;
        }
        let title = new.title.as_deref().map(checked_title).transpose()?;
        let first = message.as_ref().map_or("", |message| message.text.as_str());
        let now = Timestamp::now();
        let chat = ChatRow {
            id: ChatId::from_random(rand::random()),
            team: caller.team.clone(),
            project,
            titled: title.is_some(),
            title: title.unwrap_or_else(|| title::chat_title(first)),
            agent: agent.map(|agent| agent.id),
            model,
            tools: new.tools,
            metadata: new.metadata.map_or_else(|| Ok(Map::new()), checked_metadata)?,
            parent: None,
            usage: Usage { cost_micros: Some(0), ..Usage::default() },
            context_tokens: 0,
            context_window: 0,
            always: Vec::new(),
            summary: None,
            created_at: now,
            updated_at: now,
            created_by: Some(caller.actor.clone()),
        };
        let attachments = message.as_ref().map_or(attached, |message| message.attachments.clone());
        let files = self.files_of_message(caller, &chat.id, &attachments).await?;
        message.iter_mut().for_each(|message| message.name_files(&files));
        let turn = match &message {
            Some(message) => Some(self.new_turn(caller, &chat, message, None).await?),
            None => None,
        };
        let mut changes = vec![ChatChange::InsertChat(chat.clone())];
        changes.extend(
            turn.clone()
                .into_iter()
                .flat_map(|(turn, message)| [ChatChange::InsertTurn(turn), ChatChange::InsertMessage(message)]),
        );
        changes.extend(files.into_iter().map(ChatChange::SetAttachment));
        let turn = turn.map(|(turn, _)| turn.id);
        let room = self.chats.room(&chat);
        let watcher = room.watch(Some(0)).await?;
        let request = request.map(|request| ChatRequest { turn: turn.clone(), ..request });
        let committed = room.write().await.commit_request(changes, Vec::new(), request).await.map_err(lost_file)?;
        match committed {
            ChatCommitted::Done => {}
            earlier => return self.answer_again(caller, earlier).await,
        }
        Chats::wake(self, &chat.id);
        self.chats.changed(&chat.id).await;
        Ok(Posted { chat: chat.id, turn, watcher: Some(watcher) })
    }

    /// Posts a message to a chat.
    pub(crate) async fn post_message(
        self: &Arc<Self>,
        caller: &Caller,
        id: &ChatId,
        new: NewMessage,
        key: Key,
    ) -> Result<Posted, ApiError> {
        let request = key.map(|(key, body)| request(key, id.as_str(), &body));
        if let Some(earlier) = self.earlier(caller, request.as_ref()).await? {
            return Ok(earlier);
        }
        let mut message = check(new.prompt, new.content, new.attachments)?
            .ok_or_else(|| ApiError::invalid("Send a message: prompt or content"))?;
        if let Some(tools) = &new.tools {
            check_tools(tools).map_err(ApiError::invalid)?;
        }
        if let Some(model) = &new.model {
            self.check_model(caller, model).await?;
        }
        let found = self.find_chat(caller, id).await?;
        let files = self.files_of_message(caller, id, &message.attachments).await?;
        message.name_files(&files);
        let room = self.chats.room(&found);
        let watcher = room.watch(None).await?;
        let mut writing = room.write().await;
        let mut chat = self.find_chat(caller, id).await?;
        let open = self.store.open_turns_of(id).await?;
        let running = open.iter().find(|turn| turn.state != TurnState::Queued);
        let busy = new.on_busy;
        if busy == OnBusy::Reject && !open.is_empty() {
            let text = "A turn runs in this chat; wait for its end, or send onBusy queue or steer";
            return Err(ApiError::new(ErrorCode::TurnRunning, text));
        }
        if let Some(model) = new.model {
            chat.model = model;
        }
        if !chat.titled && chat.title == title::chat_title("") {
            chat.title = title::chat_title(&message.text);
        }
        let mut changes = vec![ChatChange::SetChat(chat.clone())];
        let mut events = Vec::new();
        let steered = running.filter(|turn| busy == OnBusy::Steer && !turn.cancel);
        let turn = match steered {
            Some(turn) => {
                let row = row(caller, &chat.id, &turn.id, &message);
                let wire = describe::message(&row, &[], &Default::default());
                events.push(NewEvent::new("message.created", Some(&turn.id), json!({"message": wire})));
                changes.push(ChatChange::InsertMessage(row));
                turn.clone()
            }
            None => {
                let waiting = open.iter().filter(|turn| turn.state == TurnState::Queued).count();
                if waiting >= MAX_QUEUED as usize {
                    let text =
                        format!("{MAX_QUEUED} messages wait in this chat already; wait for the turn, or stop it");
                    return Err(ApiError::new(ErrorCode::LimitReached, text));
                }
                let (turn, row) = self.new_turn(caller, &chat, &message, new.tools).await?;
                if !open.is_empty() {
                    let data = json!({"turn": describe::turn(&turn)});
                    events.push(NewEvent::new("turn.queued", Some(&turn.id), data));
                }
                changes.extend([ChatChange::InsertTurn(turn.clone()), ChatChange::InsertMessage(row)]);
                turn
            }
        };
        changes.extend(files.into_iter().map(ChatChange::SetAttachment));
        let request = request.map(|request| ChatRequest { turn: Some(turn.id.clone()), ..request });
        match writing.commit_request(changes, events, request).await.map_err(lost_file)? {
            ChatCommitted::Done => drop(writing),
            earlier => {
                drop(writing);
                return self.answer_again(caller, earlier).await;
            }
        }
        Chats::wake(self, &chat.id);
        self.chats.changed(&chat.id).await;
        Ok(Posted { chat: chat.id, turn: Some(turn.id), watcher: Some(watcher) })
    }

    /// The answer to a request, if it was made before.
    async fn earlier(&self, caller: &Caller, request: Option<&ChatRequest>) -> Result<Option<Posted>, ApiError> {
        let Some(request) = request else { return Ok(None) };
        match self.store.earlier_chat_request(&caller.team, request).await? {
            Some(earlier) => self.answer_again(caller, earlier).await.map(Some),
            None => Ok(None),
        }
    }

    async fn answer_again(&self, caller: &Caller, committed: ChatCommitted) -> Result<Posted, ApiError> {
        let ChatCommitted::Earlier { chat, turn } = committed else {
            let text = "The idempotency key was used for another request; use a new key for each request";
            return Err(ApiError::new(ErrorCode::IdempotencyMismatch, text));
        };
        let row = self.find_chat(caller, &chat).await?;
        let watcher = self.chats.room(&row).watch(Some(0)).await?;
        Ok(Posted { chat, turn, watcher: Some(watcher) })
    }

    /// What a request began, as the API shows it.
    pub(crate) async fn started(&self, posted: &Posted) -> Result<StartedTurn, ApiError> {
        let row = self.store.chat(&posted.chat).await?.ok_or_else(|| super::no_chat(posted.chat.as_str()))?;
        let turn = match &posted.turn {
            Some(id) => self.store.turn(id).await?.as_ref().map(describe::turn),
            None => None,
        };
        Ok(StartedTurn { chat: self.chats.describe(&row).await?, turn })
    }

    async fn new_turn(
        &self,
        caller: &Caller,
        chat: &ChatRow,
        message: &Checked,
        tools: Option<Vec<ChatTool>>,
    ) -> Result<(TurnRow, MessageRow), ApiError> {
        let id = TurnId::from_random(rand::random());
        let row = row(caller, &chat.id, &id, message);
        let turn = TurnRow {
            id,
            chat: chat.id.clone(),
            seq: 0,
            message: row.id.clone(),
            state: TurnState::Queued,
            reason: None,
            cancel: false,
            model: chat.model.clone(),
            tools,
            limits: self.chats.limits(chat).await?,
            steps: 0,
            interruptions: 0,
            usage: Usage { cost_micros: Some(0), ..Usage::default() },
            busy_ms: 0,
            prompt: message.text.chars().take(PROMPT).collect(),
            created_at: Timestamp::now(),
            started_at: None,
            ended_at: None,
        };
        Ok((turn, row))
    }

    /// The files of a message as the chat's own. They exist, and are in no other chat.
    async fn files_of_message(
        &self,
        caller: &Caller,
        chat: &ChatId,
        ids: &[AttachmentId],
    ) -> Result<Vec<AttachmentRow>, ApiError> {
        if ids.len() > MAX_ATTACHMENTS {
            return Err(ApiError::invalid(format!("A message has at most {MAX_ATTACHMENTS} files")));
        }
        let mut found = self.store.attachments_by_id(ids).await?;
        found.retain(|row| row.team == caller.team && row.chat.as_ref().is_none_or(|of| of == chat));
        if let Some(id) = ids.iter().find(|id| found.iter().all(|row| row.id != **id)) {
            return Err(no_file(id));
        }
        Ok(found.into_iter().map(|row| AttachmentRow { chat: Some(chat.clone()), ..row }).collect())
    }

    /// An agent of the caller's team, by its id.
    pub(crate) async fn agent_of(&self, caller: &Caller, id: &str) -> Result<cabana_store::AgentRow, ApiError> {
        let found = match id.parse::<AgentId>() {
            Ok(id) => self.store.agent(&id).await?,
            Err(_) => None,
        };
        found.filter(|row| row.team == caller.team).ok_or_else(|| {
            ApiError::new(ErrorCode::AgentNotFound, format!("Agent {} was not found", crate::error::short(id)))
        })
    }

    /// Refuses a model that does not exist.
    pub(crate) async fn check_model(&self, caller: &Caller, model: &str) -> Result<(), ApiError> {
        match self.models.resolve(&caller.team, model).await {
            Ok(_) => Ok(()),
            Err(unknown) => {
                Err(ApiError::new(ErrorCode::ModelNotFound, format!("{}. {}", unknown.message, unknown.hint)))
            }
        }
    }
}

fn row(caller: &Caller, chat: &ChatId, turn: &TurnId, message: &Checked) -> MessageRow {
    let author = match &caller.actor {
        ActorId::User(id) => Some(id.clone()),
        ActorId::Key(_) => None,
    };
    MessageRow {
        id: MessageId::from_random(rand::random()),
        chat: chat.clone(),
        turn: turn.clone(),
        position: 0,
        role: Role::User,
        author,
        status: MessageStatus::Complete,
        content: message.content.clone(),
        stop: None,
        usage: None,
        model: None,
        raw: None,
        created_at: Timestamp::now(),
    }
}

fn no_file(id: &AttachmentId) -> ApiError {
    let text = format!("Attachment {id} was not found, or belongs to another chat");
    ApiError::new(ErrorCode::AttachmentNotFound, text)
}

/// A file may have been deleted, or taken by another chat, in the meantime.
pub(super) fn lost_file(error: cabana_store::Error) -> ApiError {
    match error {
        cabana_store::Error::NoAttachment(id) => no_file(&id),
        error => error.into(),
    }
}

fn request(key: String, place: &str, body: &[u8]) -> ChatRequest {
    let mut digest = Sha256::new();
    digest.update(place.as_bytes());
    digest.update([0]);
    digest.update(body);
    ChatRequest { key, digest: digest.finalize().into(), turn: None, expires_at: Timestamp::now() + KEEP_KEY }
}
