//! Bodies of the API for chats.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chat::{
    Author, CallStatus, ChatAccess, ChatStatus, ChatTool, MessageStatus, OnBusy, Part, Role, SandboxRole, StopReason,
    Usage,
};
use crate::tool::ToolError;
use crate::turn::TurnState;
use crate::wire::Attachment;
use crate::{AgentId, AttachmentId, CallId, ChatId, MessageId, SandboxId, TurnId};

/// Body of `POST /chats`. With `prompt` or `content`, the first turn begins.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewChat {
    /// A message that is a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The parts of a message, instead of `prompt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<Part>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// `PROVIDER/MODEL`; the agent's or the server's default if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's if omitted, else a sandbox, services and questions. An empty list: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ChatTool>>,
    /// Files that were uploaded before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<AttachmentId>>,
    /// An id, or `default`. Without it, the project of the API key, else the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Taken from the first message if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Map<String, Value>>,
}

/// Body of `PATCH /chats/{id}`. What is omitted stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// An empty text: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ChatTool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Map<String, Value>>,
}

/// A chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Chat {
    pub id: ChatId,
    pub title: String,
    pub project_id: String,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub agent_id: Option<AgentId>,
    pub model: String,
    pub status: ChatStatus,
    /// The chat that this one was forked from.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub parent_id: Option<ChatId>,
    /// The sandbox `main`, once it exists.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub sandbox_id: Option<SandboxId>,
    /// The first sandbox with a browser, once it exists.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub browser_sandbox_id: Option<SandboxId>,
    pub sandboxes: Vec<ChatSandbox>,
    pub tools: Vec<ChatTool>,
    pub access: ChatAccess,
    pub usage: Usage,
    /// Tokens of the last call of the model, and how many fit.
    pub context_tokens: u64,
    pub context_window: u64,
    /// The turn that runs or waits.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub turn_id: Option<TurnId>,
    /// Turns that wait for it.
    pub queued: Vec<Turn>,
    pub last_event_id: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Map<String, Value>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub updated_at: Timestamp,
}

/// A sandbox of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatSandbox {
    pub name: String,
    pub role: SandboxRole,
    pub sandbox_id: SandboxId,
    /// As in listings of sandboxes: `running`, `paused`, or `ended`.
    pub state: String,
}

/// Body of `POST /chats/{id}/sandboxes`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewChatSandbox {
    pub name: String,
    #[serde(default)]
    pub role: SandboxRole,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// `fork`: a copy of the sandbox `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// Chats, the newest first.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatPage {
    pub chats: Vec<Chat>,
    /// For the next page; `null` on the last one.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub next_cursor: Option<String>,
}

/// Body of `POST /chats/{id}/messages`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewMessage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Vec<Part>>,
    /// For this turn only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<ChatTool>>,
    /// From this turn on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<AttachmentId>>,
    pub on_busy: OnBusy,
}

/// A turn: a message of a person, and everything the model does until it has answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Turn {
    pub id: TurnId,
    pub chat_id: ChatId,
    /// The message that it began with.
    pub message_id: MessageId,
    pub status: TurnState,
    /// Why it failed or waits.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub reason: Option<String>,
    pub steps: u32,
    pub usage: Usage,
    /// The beginning of its message.
    pub prompt: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime, required = true))]
    pub ended_at: Option<Timestamp>,
}

/// What a request began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartedTurn {
    pub chat: Chat,
    /// `null` if the chat has no message yet.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub turn: Option<Turn>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Message {
    pub id: MessageId,
    pub chat_id: ChatId,
    pub turn_id: TurnId,
    pub role: Role,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub author: Option<Author>,
    pub status: MessageStatus,
    pub content: Vec<Part>,
    /// The calls of tools in `content`, with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<StopReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCall {
    pub id: CallId,
    pub message_id: MessageId,
    pub name: String,
    /// For people, such as `Run npm test`.
    pub title: String,
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub arguments: Value,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub sandbox_id: Option<SandboxId>,
    pub status: CallStatus,
    /// Why a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What the model sees; of a running command, the newest output so far.
    #[serde(default)]
    pub output: String,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub data: Value,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub error: Option<ToolError>,
    #[serde(default)]
    pub truncated: bool,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub duration_ms: Option<u64>,
    /// Files that it made.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}

/// Messages, the newest last.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessagePage {
    pub messages: Vec<Message>,
    /// The turns that they belong to: how they ended, and why.
    #[serde(default)]
    pub turns: Vec<Turn>,
    /// Whether there are older ones.
    pub more: bool,
    /// Events up to this one are contained in the messages.
    pub last_event_id: u64,
}

/// Body of `POST /chats/{id}/cancel`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelRequest {
    /// The running turn if omitted; a queued one is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
}

word! {
    /// What a person decides.
    ApprovalDecision {
        /// The call runs.
        #[default]
        Allow => "allow",
        /// It does not.
        Deny => "deny",
        /// It runs, and so do later calls of this tool in this chat.
        Always => "always",
    }
}

/// Body of `POST /chats/{id}/approvals/{callId}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Approval {
    pub decision: ApprovalDecision,
    /// For the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Body of `POST /chats/{id}/tool-results`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolAnswers {
    pub results: Vec<ToolAnswer>,
}

/// The result of a call that the client ran, or that a person answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolAnswer {
    pub tool_call_id: CallId,
    /// Text for the model.
    pub output: String,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
}

/// The files of a chat as they were before a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Checkpoint {
    /// The turn that it was taken before, or at whose restoring.
    pub turn_id: TurnId,
    /// The first message that restoring takes back.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub message_id: Option<MessageId>,
    /// `turn`: before a turn; `restore`: what was there when files were restored.
    pub kind: String,
    /// The beginning of the turn's message.
    pub label: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// What restoring did.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Restored {
    pub chat: Chat,
    /// Messages that are not part of the conversation any more.
    pub removed_messages: u64,
}

/// Body of `POST /chats/{id}/fork`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForkChat {
    /// The last message of the new chat; all if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Whether the new chat gets a copy of the sandbox (default).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_sandbox: Option<bool>,
}

/// The new chat.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForkedChat {
    pub chat: Chat,
}
