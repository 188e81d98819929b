//! Errors of the server: why it could not start ([`Error`]), and errors of the API ([`ApiError`]) with the HTTP status of each.

mod changes;
mod quota;
mod refusal;

use std::net::SocketAddr;
use std::path::PathBuf;

use axum::Json;
use axum::response::{IntoResponse, Response};
use cabana_edge::rates::TooMany;
use cabana_types::wire::{ErrorBody, QuotaExceeded};
use cabana_types::{ErrorCode, SandboxId};
use http::{HeaderName, HeaderValue, StatusCode};

/// Why the server could not start or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// An operation on a file or directory failed.
    #[error("{action} {path}")]
    Path {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// Another server uses the data directory.
    #[error(
        "another Cabana server is using {path}: stop it first, or start this one with another data directory (CABANA_DATA_DIR)"
    )]
    InUse { path: PathBuf },
    /// Listening failed.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// The directories of builds could not be opened.
    #[error("open the directories of builds")]
    Builds(#[source] std::io::Error),
    /// TLS could not be set up.
    #[error("set up TLS for the listener")]
    Tls(#[from] cabana_edge::tls::TlsError),
    /// The pool or the isolation backend could not be opened, usually because the machine lacks a feature.
    #[error(transparent)]
    Machine(Box<dyn std::error::Error + Send + Sync>),
    /// The template `base` could not be built.
    #[error("the template base could not be built")]
    BaseTemplate(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A task failed that the server cannot run without.
    #[error(transparent)]
    Fatal(#[from] cabana_supervisor::Fatal),
    /// Values at rest cannot be sealed or opened.
    #[error(transparent)]
    Sealing(#[from] crate::vault::SealingError),
    /// The pool has to be mounted again: start the server anew.
    #[error("the pool has become read-only and has to be mounted again: start the server again")]
    Remount,
    /// The listener failed.
    #[error("the listener failed")]
    Serve(#[source] std::io::Error),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] cabana_store::Error),
    /// The isolation backend failed.
    #[error("the isolation backend failed")]
    Backend(#[from] cabana_runtime::Error),
    /// Cold storage cannot be used.
    #[error("cold storage cannot be used")]
    Storage(#[from] cabana_storage::Error),
}

/// An error response of the API: a code, and a message that says what to do next.
#[derive(Debug)]
pub struct ApiError {
    code: ErrorCode,
    message: String,
    /// Seconds after which the request may succeed.
    retry_after: Option<u64>,
    /// What the file has now that a precondition names.
    etag: Option<String>,
    /// Which quota is used up.
    quota: Option<Box<QuotaExceeded>>,
}

/// The header that E2B's clients read to decide whether to retry.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

impl ApiError {
    /// An error with a message that says what to do next.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, etag: None, quota: None }
    }

    /// Too many requests of `whose`.
    pub fn too_many(whose: &str, TooMany { retry_after }: TooMany) -> Self {
        let message = format!("Too many requests {whose}; try again in {retry_after} s");
        Self { retry_after: Some(retry_after), ..Self::new(ErrorCode::RateLimited, message) }
    }

    /// A file is not the one that the request names; `etag` is that of the present one.
    pub fn file_changed(message: impl Into<String>, etag: Option<String>) -> Self {
        Self { etag, ..Self::new(ErrorCode::FileChanged, message) }
    }

    /// A quota of the team is used up.
    pub fn quota(exceeded: Box<QuotaExceeded>) -> Self {
        Self { quota: Some(exceeded.clone()), ..Self::new(ErrorCode::QuotaExceeded, quota::explain(&exceeded)) }
    }

    /// The request is not well formed, or a value is out of its range.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// The sandbox does not exist, or belongs to another team.
    pub fn no_sandbox(id: &str) -> Self {
        Self::new(
            ErrorCode::SandboxNotFound,
            format!("Sandbox {} was not found; list yours with GET /v2/sandboxes", short(id)),
        )
    }

    /// The template has no such build.
    pub fn no_build(id: &str) -> Self {
        Self::new(
            ErrorCode::BuildNotFound,
            format!("Build {} was not found; GET /templates/{{id}} lists a template's builds", short(id)),
        )
    }

    /// The sandbox has failed.
    pub fn failed(id: &SandboxId, cause: &cabana_types::sandbox::EndCause) -> Self {
        Self::new(
            ErrorCode::SandboxNotFound,
            format!("Sandbox {id} {}; its disk is kept: POST /sandboxes/{id}/recover boots it again", cause.describe()),
        )
    }

    /// The sandbox has ended.
    pub fn ended(id: &SandboxId, cause: &cabana_types::sandbox::EndCause) -> Self {
        Self::new(ErrorCode::SandboxNotFound, format!("Sandbox {id} {}; create a new one", cause.describe()))
    }

    /// An internal error. The details are in the log, not in the response.
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = cabana_types::error::chain(error), "request failed");
        Self::new(
            ErrorCode::Internal,
            "The server failed; find the details in its log by the id in the header x-request-id",
        )
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The body of the response.
    pub fn body(&self) -> ErrorBody {
        let (code, message) = (status(self.code).as_u16(), self.message.clone());
        ErrorBody { code, message, error_code: Some(self.code), details: self.quota.clone() }
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }
}

/// The HTTP status of each code.
pub fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::Unauthorized | ErrorCode::InvalidCode => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden | ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorCode::InvalidRequest
        | ErrorCode::NotSupported
        | ErrorCode::TemplateInUse
        | ErrorCode::ModelNotFound
        | ErrorCode::NotAFile
        | ErrorCode::NotADirectory => StatusCode::BAD_REQUEST,
        ErrorCode::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::RouteNotFound
        | ErrorCode::SandboxNotFound
        | ErrorCode::TemplateNotFound
        | ErrorCode::BuildNotFound
        | ErrorCode::KeyNotFound
        | ErrorCode::SessionNotFound
        | ErrorCode::WebhookNotFound
        | ErrorCode::SecretNotFound
        | ErrorCode::CallNotFound
        | ErrorCode::ServiceNotFound
        | ErrorCode::ChatNotFound
        | ErrorCode::ProjectNotFound
        | ErrorCode::MessageNotFound
        | ErrorCode::CheckpointNotFound
        | ErrorCode::AttachmentNotFound
        | ErrorCode::AgentNotFound
        | ErrorCode::ProviderNotFound
        | ErrorCode::FileNotFound
        | ErrorCode::TeamNotFound
        | ErrorCode::PlanNotFound
        | ErrorCode::TerminalNotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ErrorCode::TemplateNotReady
        | ErrorCode::BuildStateConflict
        | ErrorCode::SandboxStateConflict
        | ErrorCode::ServiceConflict
        | ErrorCode::ChatConflict
        | ErrorCode::TurnRunning
        | ErrorCode::TurnNotRunning
        | ErrorCode::CallNotWaiting
        | ErrorCode::AgentConflict
        | ErrorCode::IdempotencyConflict
        | ErrorCode::LastKey
        | ErrorCode::PlanConflict
        | ErrorCode::SecretConflict
        | ErrorCode::AlreadyExists
        | ErrorCode::FileConflict => StatusCode::CONFLICT,
        ErrorCode::FileChanged => StatusCode::PRECONDITION_FAILED,
        ErrorCode::IdempotencyMismatch
        | ErrorCode::BuildFailed
        | ErrorCode::SqliteUnavailable
        | ErrorCode::SqliteError => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::SandboxCapacityUnavailable
        | ErrorCode::LimitReached
        | ErrorCode::QuotaExceeded
        | ErrorCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::SandboxUnresponsive => StatusCode::BAD_GATEWAY,
        ErrorCode::StorageFull | ErrorCode::SandboxDiskFull => StatusCode::INSUFFICIENT_STORAGE,
        ErrorCode::ServiceUnavailable | ErrorCode::GuestUnresponsive => StatusCode::SERVICE_UNAVAILABLE,
        // A status that clients do not retry on their own: the request would fail again.
        ErrorCode::SandboxChangeFailed
        | ErrorCode::SandboxCreateFailed
        | ErrorCode::SandboxNotReady
        | ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = status(self.code);
        let mut response = (status, Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
        }
        if let Some(etag) = self.etag.and_then(|etag| HeaderValue::try_from(etag).ok()) {
            response.headers_mut().insert(http::header::ETAG, etag);
        }
        match self.code {
            // Capacity does not become free within the seconds for which clients retry.
            ErrorCode::SandboxCapacityUnavailable
            | ErrorCode::LimitReached
            | ErrorCode::QuotaExceeded
            | ErrorCode::GuestUnresponsive => {
                response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
                if self.code == ErrorCode::SandboxCapacityUnavailable {
                    response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("30"));
                }
            }
            ErrorCode::ServiceUnavailable => {
                response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("true"));
                response.headers_mut().insert(http::header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            ErrorCode::Unauthorized => {
                response.headers_mut().insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

impl From<cabana_types::limits::OutOfRange> for ApiError {
    fn from(error: cabana_types::limits::OutOfRange) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<cabana_store::Error> for ApiError {
    fn from(error: cabana_store::Error) -> Self {
        match error {
            cabana_store::Error::NoSandbox(id) => Self::no_sandbox(id.as_str()),
            cabana_store::Error::NotRunning { id, state } => {
                Self::new(ErrorCode::SandboxStateConflict, format!("Sandbox {id} is {state}"))
            }
            cabana_store::Error::NoTemplate(id) => Self::new(
                ErrorCode::TemplateNotFound,
                format!("Template {id} was not found; list yours with GET /templates"),
            ),
            cabana_store::Error::NoTeam(id) => {
                Self::new(ErrorCode::TeamNotFound, format!("There is no team {id} on this server"))
            }
            cabana_store::Error::NoPlan(id) => Self::new(
                ErrorCode::PlanNotFound,
                format!("There is no plan {}; GET /admin/plans lists them", short(&id)),
            ),
            cabana_store::Error::NoBuild(id) => Self::no_build(id.as_str()),
            cabana_store::Error::BuildStatus { id, status } => Self::new(
                ErrorCode::BuildStateConflict,
                format!("Build {id} is {status}, so this is not possible; request a new build"),
            ),
            cabana_store::Error::TemplateInUse { id, sandboxes, snapshots } => Self::new(
                ErrorCode::TemplateInUse,
                format!(
                    "{sandboxes} sandboxes and {snapshots} snapshots use template {id}; kill and delete them first"
                ),
            ),
            cabana_store::Error::NameTaken { name } => Self::new(
                ErrorCode::SandboxStateConflict,
                format!("{name:?} is the name of a snapshot; choose another"),
            ),
            cabana_store::Error::Quota(exceeded) => Self::quota(exceeded),
            cabana_store::Error::TooMany { what, limit } => Self::new(
                ErrorCode::LimitReached,
                format!("The limit of {limit} {what} is reached; wait for some to end, or delete some"),
            ),
            cabana_store::Error::Full { .. } => {
                Self::new(ErrorCode::StorageFull, "The disk of the server's data directory is full; free some space")
            }
            cabana_store::Error::Closed => Self::new(ErrorCode::ServiceUnavailable, "The server is shutting down"),
            error => Self::internal(&error),
        }
    }
}

impl From<crate::builds::StartError> for ApiError {
    fn from(error: crate::builds::StartError) -> Self {
        use crate::builds::StartError as E;
        match error {
            E::Busy => Self::new(ErrorCode::ServiceUnavailable, "Too many builds are waiting to start; try again"),
            E::NotSupported(text) => Self::new(ErrorCode::NotSupported, text),
            E::Store(error) => error.into(),
        }
    }
}

/// Shortens a client's text so that a response can repeat it.
pub fn short(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !c.is_control()).take(64).collect();
    if kept.chars().count() < text.chars().count() { format!("{kept}…") } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_an_error_status() {
        for code in ErrorCode::ALL {
            let status = status(*code);
            assert!(status.is_client_error() || status.is_server_error(), "{code}");
        }
    }

    #[test]
    fn texts_of_clients_are_truncated() {
        assert_eq!(short("abc\r\n"), "abc…");
        assert_eq!(short(&"x".repeat(100)).chars().count(), 65);
    }
}
