//! Results of agent tools: one form for REST, MCP and chats.

use serde::{Deserialize, Serialize};

use crate::CallId;
use crate::code_enum::code_enum;

/// What a call of a tool returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolResult {
    pub call_id: CallId,
    pub tool: String,
    /// The sandbox that the call used; absent if it used none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    pub status: ToolStatus,
    /// Text for the model.
    pub output: String,
    /// The result for programs; its fields depend on the tool.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub data: serde_json::Value,
    /// Images for models that see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ToolImage>,
    /// Why the call failed.
    pub error: Option<ToolError>,
    /// Whether something was left out of `output`.
    pub truncated: bool,
    pub duration_ms: u64,
}

/// Whether a call succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ToolStatus {
    /// The call did what it was asked to do.
    Success,
    /// It did not: `error` says why.
    Error,
}

/// An image in a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolImage {
    pub media_type: String,
    /// Base64.
    pub data: String,
}

/// Why a call failed, in words for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolError {
    pub code: ToolErrorCode,
    /// What happened.
    pub message: String,
    /// What to try next.
    pub hint: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

code_enum! {
    /// Machine-readable cause of a failed call.
    ToolErrorCode, "Why a call of a tool failed.", {
        /// The arguments do not fit the tool's schema.
        InvalidArguments => "invalid_arguments",
        /// The operation took too long.
        Timeout => "timeout",
        /// There is no such file or directory.
        FileNotFound => "file_not_found",
        /// The path is a directory or a special file.
        NotAFile => "not_a_file",
        /// The path is not a directory.
        NotADirectory => "not_a_directory",
        /// Something exists at the path.
        AlreadyExists => "already_exists",
        /// The sandbox's user may not do this, or the path is protected.
        PermissionDenied => "permission_denied",
        /// The file is not a text.
        BinaryFile => "binary_file",
        /// A file or an argument is too large.
        TooLarge => "too_large",
        /// The text was not found.
        NoMatch => "no_match",
        /// The text occurs more than once.
        NotUnique => "not_unique",
        /// The patch does not apply; nothing was changed.
        PatchFailed => "patch_failed",
        /// The command exited with a code other than 0.
        CommandFailed => "command_failed",
        /// The command did not end in time and was ended.
        CommandTimeout => "command_timeout",
        /// The caller cancelled the call.
        Cancelled => "cancelled",
        /// The call was cut short, or a file changed meanwhile.
        Interrupted => "interrupted",
        /// A person controls the sandbox.
        UserInControl => "user_in_control",
        /// The sandbox does not exist, has ended or does not respond.
        SandboxUnavailable => "sandbox_unavailable",
        /// Too many calls run in the sandbox, or the server is full.
        NoRoom => "no_room",
        /// The sandbox's disk is full.
        DiskFull => "disk_full",
        /// A limit of the team is reached.
        QuotaExceeded => "quota_exceeded",
        /// The team's wallet is empty.
        InsufficientFunds => "insufficient_funds",
    }
}
