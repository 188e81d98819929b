//! Machine-readable error codes of the API (`error_code` beside the numeric `code`).

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident => $text:literal,)*) => {
        /// Machine-readable cause of an error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[doc = $doc])* #[serde(rename = $text)] $name,)*
        }

        impl ErrorCode {
            /// Every code, in the order of this file.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),*];

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// The API key is missing or invalid.
    Unauthorized => "unauthorized",
    /// The key is valid, but not permitted to do this.
    Forbidden => "forbidden",
    /// The request is malformed, or a value is out of range.
    InvalidRequest => "invalid_request",
    /// The body is too large.
    BodyTooLarge => "body_too_large",
    /// The server or its isolation backend does not support this.
    NotSupported => "not_supported",
    /// There is no such route.
    RouteNotFound => "route_not_found",
    /// The route exists, but not with this method.
    MethodNotAllowed => "method_not_allowed",
    /// The sandbox does not exist or belongs to another team.
    SandboxNotFound => "sandbox_not_found",
    /// The template does not exist or belongs to another team.
    TemplateNotFound => "template_not_found",
    /// The template has no finished build yet.
    TemplateNotReady => "template_not_ready",
    /// A sandbox or snapshot uses the template.
    TemplateInUse => "template_in_use",
    /// The template has no such build.
    BuildNotFound => "build_not_found",
    /// The build's status does not allow this.
    BuildStateConflict => "build_state_conflict",
    /// The build failed; the message says why.
    BuildFailed => "build_failed",
    /// A limit of the team is reached.
    LimitReached => "limit_reached",
    /// Too many requests with one key or from one address; `Retry-After` says when to try again.
    RateLimited => "rate_limited",
    /// The API key does not exist or belongs to another team.
    KeyNotFound => "key_not_found",
    /// The team's last API key cannot be deleted.
    LastKey => "last_key",
    /// The webhook does not exist or belongs to another team.
    WebhookNotFound => "webhook_not_found",
    /// The secret does not exist or belongs to another team.
    SecretNotFound => "secret_not_found",
    /// A secret of this name exists, or the team has as many as it may have.
    SecretConflict => "secret_conflict",
    /// The sandbox's state does not allow this.
    SandboxStateConflict => "sandbox_state_conflict",
    /// The idempotency key was used with a different request.
    IdempotencyMismatch => "idempotency_mismatch",
    /// The sandbox of the idempotency key has ended or is still being created.
    IdempotencyConflict => "idempotency_conflict",
    /// The server or team limit of sandboxes, snapshots or paused memory is reached.
    SandboxCapacityUnavailable => "sandbox_capacity_unavailable",
    /// The sandbox could not be created and was removed.
    SandboxCreateFailed => "sandbox_create_failed",
    /// The sandbox's start command failed or its ready command did not succeed in time; the sandbox was removed.
    SandboxNotReady => "sandbox_not_ready",
    /// The guest of a sandbox that is to be paused does not respond.
    GuestUnresponsive => "sandbox_snapshot_guest_agent_unresponsive",
    /// The sandbox could not be paused, resumed, snapshotted or resized; it is unchanged.
    SandboxChangeFailed => "sandbox_change_failed",
    /// The guest daemon of a sandbox does not respond.
    SandboxUnresponsive => "sandbox_unresponsive",
    /// The server's disk is full.
    StorageFull => "storage_full",
    /// The server is starting or shutting down; retry.
    ServiceUnavailable => "service_unavailable",
    /// An internal error; the server's log has details under the request id.
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
