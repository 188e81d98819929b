//! Links by which anyone can read a chat.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::code_enum::code_enum;
use crate::{ChatId, GrantId, Secret};

/// Body of `POST /chats/{id}/shares`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewChatShare {
    /// Whether messages that come later are shown too; otherwise it ends with the last message that there is.
    pub live: bool,
    /// Whether arguments and output of tools are shown; otherwise only what they are called.
    pub tool_details: bool,
    /// 30 days if omitted, at most a year.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<u64>,
}

code_enum! {
    /// Where something is exposed.
    ExposedIn, "Where in a chat a text is.", {
        Title => "title",
        Message => "message",
        Tool => "tool",
    }
}

/// A text that looks like a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyLike {
    /// Its beginning.
    pub text: String,
    pub place: ExposedIn,
}

/// What a share would show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatExposure {
    pub messages: usize,
    /// Pictures in messages.
    pub pictures: usize,
    pub tool_calls: usize,
    /// Names of artifacts.
    pub artifacts: Vec<String>,
    /// Texts that look like keys; at most 20.
    pub key_like: Vec<KeyLike>,
}

/// A link by which anyone can read a chat until it expires or is revoked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChatShare {
    pub id: GrantId,
    pub chat_id: ChatId,
    /// The address; only in the answer that made it, since only its hash is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub url: Option<Secret>,
    pub live: bool,
    pub tool_details: bool,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// Id of who made it.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub created_by: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub expires_at: Timestamp,
    /// How often the page was opened.
    pub opened: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime, required = true))]
    pub last_opened_at: Option<Timestamp>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime, required = true))]
    pub revoked_at: Option<Timestamp>,
}
