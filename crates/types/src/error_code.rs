//! Machine-readable error codes of the API (`error_code` beside the numeric `code`).

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident => $text:literal,)*) => {
        /// Why a request was refused or failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[doc = $doc])* #[serde(rename = $text)] $name,)*
        }

        impl ErrorCode {
            /// Every code, in the order of this file.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),*];

            /// The code as it stands on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// No API key was sent, or it is not (any more) a valid one.
    Unauthorized => "unauthorized",
    /// The key is valid, but not for this.
    Forbidden => "forbidden",
    /// The request is not well formed, or a value is out of its range.
    InvalidRequest => "invalid_request",
    /// The body is larger than the API takes.
    BodyTooLarge => "body_too_large",
    /// The request asks for something that this server or its backend cannot do.
    NotSupported => "not_supported",
    /// There is no such route.
    RouteNotFound => "route_not_found",
    /// The route exists, but not with this method.
    MethodNotAllowed => "method_not_allowed",
    /// There is no such sandbox, or it is not yours.
    SandboxNotFound => "sandbox_not_found",
    /// There is no such template, or it is not yours.
    TemplateNotFound => "template_not_found",
    /// The template exists, but has no finished build yet.
    TemplateNotReady => "template_not_ready",
    /// A sandbox or a snapshot needs the template, which cannot be deleted.
    TemplateInUse => "template_in_use",
    /// The template has no such build.
    BuildNotFound => "build_not_found",
    /// The build is not in a state in which this can be done.
    BuildStateConflict => "build_state_conflict",
    /// A template could not be made of what it was asked to be made of; the message says why.
    BuildFailed => "build_failed",
    /// The team has as many of something as it may have.
    LimitReached => "limit_reached",
    /// There is no such API key, or it is not your team's.
    KeyNotFound => "key_not_found",
    /// It is the team's last API key, which cannot be deleted.
    LastKey => "last_key",
    /// There is no such webhook, or it is not your team's.
    WebhookNotFound => "webhook_not_found",
    /// The sandbox is in a state, or on its way to one, in which this cannot be done.
    SandboxStateConflict => "sandbox_state_conflict",
    /// An idempotency key was used again with another request.
    IdempotencyMismatch => "idempotency_mismatch",
    /// The sandbox that an idempotency key stands for is gone, or still coming up.
    IdempotencyConflict => "idempotency_conflict",
    /// The server or the team has no room for another sandbox or snapshot, or for the memory of one that shall sleep with it.
    SandboxCapacityUnavailable => "sandbox_capacity_unavailable",
    /// The sandbox could not be brought up; nothing of it is left.
    SandboxCreateFailed => "sandbox_create_failed",
    /// The sandbox came up, but its start command failed or its ready command did not succeed in time; nothing of it is left.
    SandboxNotReady => "sandbox_not_ready",
    /// The guest of a sandbox that shall be paused does not answer.
    GuestUnresponsive => "sandbox_snapshot_guest_agent_unresponsive",
    /// The sandbox could not be paused, resumed, copied or resized; it is as before.
    SandboxChangeFailed => "sandbox_change_failed",
    /// The guest daemon of a sandbox did not answer.
    SandboxUnresponsive => "sandbox_unresponsive",
    /// The server's disk is full.
    StorageFull => "storage_full",
    /// The server is shutting down or not ready yet; try again.
    ServiceUnavailable => "service_unavailable",
    /// A fault of the server; its log says more under the request id.
    Internal => "internal_server_error",
}

// By hand: the derive does not see a name that comes from a macro.
#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for ErrorCode {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::Type::String)
            .description(Some("Why a request was refused or failed."))
            .enum_values(Some(Self::ALL.iter().map(|code| code.as_str())))
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for ErrorCode {}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
