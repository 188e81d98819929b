//! Chats: a model that uses sandboxes. What a chat, its messages and its tools are made of.

mod part;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::UserId;

pub use part::{Part, Rect, Viewport};

/// Characters of a message of a person.
pub const MAX_TEXT: usize = 262_144;
/// Characters of a title.
pub const MAX_TITLE: usize = 200;
/// Characters of an agent's instructions.
pub const MAX_SYSTEM: usize = 65_536;
/// Parts of a message of a person.
pub const MAX_PARTS: usize = 250;
/// Turns of one chat that wait for the running one.
pub const MAX_QUEUED: u32 = 20;
/// Turns of one team that run at the same time, unless its quota says otherwise.
pub const MAX_RUNNING: u64 = 8;
/// Checkpoints of one chat that are kept.
pub const MAX_CHECKPOINTS: u32 = 20;
/// Files of one upload, and of one message.
pub const MAX_ATTACHMENTS: usize = 200;
/// Bytes of one of them.
pub const MAX_ATTACHMENT_BYTES: u64 = 100 << 20;
/// Sandboxes of one chat.
pub const MAX_SANDBOXES: usize = 8;
/// Tools of one chat that its client runs.
pub const MAX_FUNCTIONS: usize = 64;
/// Bytes of a chat's metadata, as JSON.
pub const MAX_METADATA: usize = 16_384;
/// The sandbox that tools use unless they name another one.
pub const MAIN_SANDBOX: &str = "main";
/// The model of the demo.
pub const DEMO_MODEL: &str = "demo/demo";
/// The tool with which a model asks a person.
pub const ASK_USER: &str = "ask_user";

word! {
    /// What a chat does.
    ChatStatus {
        /// No turn runs.
        #[default]
        Idle => "idle",
        /// A turn runs.
        Running => "running",
        /// A turn waits for a person or for the client.
        Waiting => "waiting",
        /// The last turn failed.
        Failed => "failed",
    }
}

word! {
    /// Who may see a chat.
    ChatAccess {
        /// The team.
        #[default]
        Private => "private",
        /// Also whoever has a link to it.
        Shared => "shared",
        /// Also people who were invited to take part.
        Collaboration => "collaboration",
    }
}

word! {
    /// Who wrote a message.
    Role {
        /// A person, or a program in their place.
        #[default]
        User => "user",
        /// The model.
        Assistant => "assistant",
    }
}

word! {
    /// How far a message is.
    MessageStatus {
        /// The model still writes it.
        Streaming => "streaming",
        /// It is whole.
        #[default]
        Complete => "complete",
        /// The server ended while the model wrote it, or the provider's answer broke off; the model was called again.
        Interrupted => "interrupted",
        /// A person stopped it.
        Cancelled => "cancelled",
        /// The provider failed.
        Failed => "failed",
    }
}

word! {
    /// Why a model stopped writing.
    StopReason {
        /// It had said everything.
        #[default]
        End => "end",
        /// It calls tools.
        Tools => "tools",
        /// It reached the limit of an answer.
        Length => "length",
        /// It refused to answer.
        Refused => "refused",
    }
}

word! {
    /// What becomes of a message that comes while a turn runs.
    OnBusy {
        /// It is a turn of its own, after the running one.
        #[default]
        Queue => "queue",
        /// The running turn gets it before its next call of the model.
        Steer => "steer",
        /// It is refused.
        Reject => "reject",
    }
}

word! {
    /// How far a call of a tool is.
    CallStatus {
        /// It has not begun.
        #[default]
        Pending => "pending",
        /// A person must allow it.
        Approval => "approval",
        /// The client runs it, or a person answers it.
        Client => "client",
        /// It runs.
        Running => "running",
        /// It succeeded.
        Success => "success",
        /// It failed.
        Error => "error",
    }
}

impl CallStatus {
    /// Whether its result is there.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Success | Self::Error)
    }
}

word! {
    /// Whether a call of a tool needs a person.
    Approve {
        /// It runs.
        #[default]
        Auto => "auto",
        /// A person is asked.
        Ask => "ask",
        /// It is refused.
        Never => "never",
    }
}

word! {
    /// What a sandbox of a chat is for.
    SandboxRole {
        /// Files and commands.
        #[default]
        Code => "code",
        /// A browser.
        Browser => "browser",
        /// A desktop.
        Desktop => "desktop",
    }
}

word! {
    /// Where a file of a chat comes from.
    AttachmentKind {
        /// A person uploaded it.
        #[default]
        Upload => "upload",
        /// The model made it in a sandbox.
        Artifact => "artifact",
        /// A picture of a part of a page.
        Screenshot => "screenshot",
    }
}

word! {
    /// Whether an upload is in the chat's sandbox.
    SyncState {
        /// Not yet.
        #[default]
        Pending => "pending",
        /// It is there.
        Synced => "synced",
        /// It could not be written.
        Failed => "failed",
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Author {
    pub user_id: UserId,
}

/// Tools that a chat has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ChatTool {
    /// The tools of a sandbox.
    Sandbox {
        /// `base` if omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu_count: Option<i64>,
        #[serde(default, rename = "memoryMB", skip_serializing_if = "Option::is_none")]
        memory_mb: Option<i64>,
        /// Names of sandboxes that the model may use; `main` if empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<String>,
        /// Names of tools, where `*` stands for any text; all ten and `sandbox_command` if empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow: Vec<String>,
        /// What happens before a call, by the tool's name, where `*` stands for any text.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        approve: BTreeMap<String, Approve>,
    },
    /// The tools of services.
    Services {},
    /// A question to the person.
    Ask {},
    /// A tool that the client runs.
    Function {
        name: String,
        #[serde(default)]
        description: String,
        /// A JSON schema of an object.
        #[serde(default)]
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        parameters: Value,
    },
}

/// Tokens and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// All that the model read, cached tokens included.
    pub input_tokens: u64,
    /// Those of them that the provider had cached.
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// Millionths of the currency; `null` if a model without a known price was used.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub cost_micros: Option<u64>,
}

impl Usage {
    /// Adds another amount. The sum has a price if both have one.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros: self.cost_micros.zip(other.cost_micros).map(|(one, two)| one.saturating_add(two)),
        }
    }
}

/// Where a turn ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TurnLimits {
    /// Calls of the model.
    pub max_steps: u32,
    /// Minutes, without those in which the turn waits for a person.
    pub max_minutes: u32,
    /// Millionths of the currency; no limit if `null`.
    pub max_cost_micros: Option<u64>,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self { max_steps: 50, max_minutes: 60, max_cost_micros: None }
    }
}

/// Whether a name fits a pattern in which `*` stands for any text.
pub fn fits(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(first) = pieces.next() else { return false };
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("sandbox_*", "sandbox_read_file", true),
            ("*", "", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn tools_and_parts_have_the_documented_form() {
        let tools = r#"[{"type":"sandbox","approve":{"sandbox_run_command":"ask"}},{"type":"services"},{"type":"function","name":"f"}]"#;
        let read: Vec<ChatTool> = serde_json::from_str(tools).unwrap();
        assert_eq!(read.len(), 3);
        assert!(serde_json::from_str::<ChatTool>(r#"{"type":"sandbox","cpus":1}"#).is_err());
        let part = r#"{"type":"file","attachmentId":"att_aaaaaaaaaaaaaaaaaaaa","name":"a"}"#;
        assert_eq!(serde_json::to_string(&serde_json::from_str::<Part>(part).unwrap()).unwrap(), part);
    }
}
