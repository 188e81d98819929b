//! What messages are made of.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{AttachmentId, CallId, ServiceId};

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Part {
    Text {
        text: String,
    },
    /// What the model thought before it answered.
    Reasoning {
        text: String,
    },
    Image {
        attachment_id: AttachmentId,
    },
    File {
        attachment_id: AttachmentId,
        #[serde(default)]
        name: String,
        /// Where it is in the sandbox, once it is there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// A picture of a part of a page that a service shows.
    Screenshot {
        attachment_id: AttachmentId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        service_id: Option<ServiceId>,
        /// The page's path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rect: Option<Rect>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        viewport: Option<Viewport>,
    },
    ToolCall {
        tool_call_id: CallId,
        name: String,
        /// An object; a text if the model wrote something that is no JSON.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        arguments: Value,
    },
}

/// A part of a page, in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// The size of a page's frame, in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Viewport {
    pub width: f64,
    pub height: f64,
    /// Device pixels per CSS pixel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpr: Option<f64>,
}
