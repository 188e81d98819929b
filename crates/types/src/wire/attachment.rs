//! Bodies of the API for files of chats.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::chat::{AttachmentKind, SyncState};
use crate::{AttachmentId, ChatId};

/// A file of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attachment {
    pub id: AttachmentId,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub chat_id: Option<ChatId>,
    pub kind: AttachmentKind,
    pub name: String,
    pub media_type: String,
    pub size: u64,
    pub sha256: String,
    /// Whether it is in the sandbox, and where.
    pub status: SyncState,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub path: Option<String>,
    /// Why it is not.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub error: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// Files, in the order in which they came.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttachmentPage {
    pub attachments: Vec<Attachment>,
}

/// Body of `POST /chats/{id}/attachments`, if it is JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SyncRequest {
    pub ids: Vec<AttachmentId>,
}
