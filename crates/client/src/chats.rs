//! Chats, one method for each call.

use std::time::Duration;

use cabana_types::chat::ChatStatus;
use cabana_types::wire::{
    Approval, CancelRequest, Chat, ChatPage, Message, MessagePage, NewChat, NewMessage, StartedTurn, ToolAnswers,
    ToolCall, Turn,
};
use cabana_types::{CallId, ChatId, MessageId};
use http::{HeaderValue, Method, Request, header};
use serde::Deserialize;
use serde_json::Value;

use crate::api::{Client, MAX_PAGES, to_json};
use crate::error::{Error, Result};
use crate::http::SendBody;
use crate::query;
use crate::sse::Events;

/// Largest event that is read: a message with all its calls.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;
const FOLLOW: &str = "follow the chat";
/// Messages of a page.
const PAGE: u32 = 200;
/// How long a turn may take to stop.
const STOP: Duration = Duration::from_secs(30);

/// Which chats to list.
#[derive(Debug, Clone, Default)]
pub struct ChatList {
    pub status: Option<ChatStatus>,
    /// Only with this text in the title or in a message.
    pub text: Option<String>,
    /// At most this many.
    pub limit: usize,
}

/// Something that happened in a chat.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatEvent {
    /// Grows within a chat. Events that only keep the connection alive have none.
    pub id: Option<u64>,
    pub kind: String,
    /// The event as JSON, with `type`.
    pub data: Value,
}

impl ChatEvent {
    /// A text of the event; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.data.get(name).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The events of a chat.
pub struct ChatStream(Events);

impl std::fmt::Debug for ChatStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatStream").finish_non_exhaustive()
    }
}

impl Client {
    /// Makes a chat. Repeated with the same idempotency key, it returns the same one.
    pub async fn create_chat(&self, new: &NewChat, key: &str) -> Result<StartedTurn> {
        let action = "start a chat";
        let request = self.request(Method::POST, "/chats", Some(to_json(action, new)?))?;
        self.call(action, keyed(request, key)?).await
    }

    /// Sends a message. Repeated with the same idempotency key, it returns the same turn.
    pub async fn send_message(&self, chat: &ChatId, new: &NewMessage, key: &str) -> Result<StartedTurn> {
        let action = "send the message";
        let request = self.request(Method::POST, &format!("/chats/{chat}/messages"), Some(to_json(action, new)?))?;
        self.call(action, keyed(request, key)?).await
    }

    /// A chat.
    pub async fn chat(&self, id: &ChatId) -> Result<Chat> {
        self.fetch("get the chat", &format!("/chats/{id}")).await
    }

    /// Chats, the last changed first.
    pub async fn chats(&self, list: &ChatList) -> Result<Vec<Chat>> {
        let (mut all, mut cursor): (Vec<Chat>, Option<String>) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let mut pairs = vec![("limit", list.limit.saturating_sub(all.len()).clamp(1, 100).to_string())];
            pairs.extend(list.status.map(|status| ("status", status.as_str().to_owned())));
            pairs.extend(list.text.iter().map(|text| ("q", text.clone())));
            pairs.extend(cursor.take().map(|cursor| ("cursor", cursor)));
            let page: ChatPage = self.fetch("list the chats", &format!("/chats{}", query::encode(&pairs))).await?;
            all.extend(page.chats);
            match page.next_cursor {
                Some(next) if all.len() < list.limit => cursor = Some(next),
                _ => break,
            }
        }
        all.truncate(list.limit);
        Ok(all)
    }

    /// Deletes a chat, and its sandboxes unless they are to be kept.
    pub async fn delete_chat(&self, id: &ChatId, keep_sandbox: bool) -> Result<()> {
        let query = if keep_sandbox { "?keepSandbox=true" } else { "" };
        self.call_empty("delete the chat", self.request(Method::DELETE, &format!("/chats/{id}{query}"), None)?).await
    }

    /// The newest messages of a chat, the newest last, or those before one of them.
    pub async fn chat_messages(&self, id: &ChatId, before: Option<&MessageId>) -> Result<MessagePage> {
        let mut pairs = vec![("limit", PAGE.to_string())];
        pairs.extend(before.map(|id| ("before", id.to_string())));
        self.fetch("read the chat", &format!("/chats/{id}/messages{}", query::encode(&pairs))).await
    }

    /// All messages of a chat, the newest last.
    pub async fn all_chat_messages(&self, id: &ChatId) -> Result<Vec<Message>> {
        let mut all: Vec<Message> = Vec::new();
        for _ in 0..MAX_PAGES {
            let mut page = self.chat_messages(id, all.first().map(|message| &message.id)).await?;
            let more = page.more && !page.messages.is_empty();
            page.messages.append(&mut all);
            all = page.messages;
            if !more {
                break;
            }
        }
        Ok(all)
    }

    /// What happens in a chat after an event.
    pub async fn chat_events(&self, id: &ChatId, after: u64) -> Result<ChatStream> {
        let mut request = self.request(Method::GET, &format!("/chats/{id}/events"), None)?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        request.headers_mut().insert("last-event-id", HeaderValue::from(after));
        let response = self.http().send(FOLLOW, request).await?;
        Ok(ChatStream(Events::new(FOLLOW, response, MAX_EVENT_BYTES)))
    }

    /// Stops the running turn, or the one that is named; returns when everything has stopped.
    pub async fn cancel_turn(&self, id: &ChatId, cancel: &CancelRequest) -> Result<Turn> {
        let action = "stop the turn";
        let request = self.request(Method::POST, &format!("/chats/{id}/cancel"), Some(to_json(action, cancel)?))?;
        self.call_waiting(action, request, STOP).await
    }

    /// Says whether a call may run.
    pub async fn approve_call(&self, id: &ChatId, call: &CallId, approval: &Approval) -> Result<ToolCall> {
        let action = "answer the request";
        let path = format!("/chats/{id}/approvals/{call}");
        self.call(action, self.request(Method::POST, &path, Some(to_json(action, approval)?))?).await
    }

    /// Gives the results of calls that the client runs, and answers to questions.
    pub async fn answer_calls(&self, id: &ChatId, answers: &ToolAnswers) -> Result<Vec<ToolCall>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answered {
            tool_calls: Vec<ToolCall>,
        }
        let action = "answer the question";
        let path = format!("/chats/{id}/tool-results");
        let request = self.request(Method::POST, &path, Some(to_json(action, answers)?))?;
        Ok(self.call::<Answered>(action, request).await?.tool_calls)
    }
}

impl ChatStream {
    /// The next event; `None` if the connection has ended.
    pub async fn next(&mut self) -> Result<Option<ChatEvent>> {
        while let Some(event) = self.0.next_numbered().await? {
            // A comment that keeps the connection alive.
            if event.data.is_empty() {
                continue;
            }
            let data = serde_json::from_str(&event.data).map_err(|e| self.0.malformed(e))?;
            return Ok(Some(ChatEvent { id: event.id.parse().ok(), kind: event.name, data }));
        }
        Ok(None)
    }
}

fn keyed(mut request: Request<SendBody>, key: &str) -> Result<Request<SendBody>> {
    let value = HeaderValue::from_str(key).map_err(|e| Error::InvalidInput(e.to_string()))?;
    request.headers_mut().insert("idempotency-key", value);
    Ok(request)
}
