//! Creations and changes of sandboxes that failed, as answers of the API.

use cabana_types::ErrorCode;

use super::ApiError;
use super::refusal::{refuse_launch, sentence, storage_refusal};
use crate::lifecycle;

impl From<lifecycle::CreateError> for ApiError {
    fn from(error: lifecycle::CreateError) -> Self {
        use lifecycle::CreateError as E;
        match error {
            E::Capacity(shortage) => Self::new(ErrorCode::SandboxCapacityUnavailable, sentence(&shortage.to_string())),
            E::Conflict { key } => Self::new(
                ErrorCode::IdempotencyMismatch,
                format!("The idempotency key {key} was used before with another request; choose another one"),
            ),
            E::Spent { key, id, cause } => Self::new(
                ErrorCode::IdempotencyConflict,
                format!("The sandbox {id} that was created with the idempotency key {key} {cause}; choose another key"),
            ),
            E::Ended { id, cause } => Self::ended(&id, &cause),
            E::ShuttingDown => Self::new(ErrorCode::ServiceUnavailable, "The server is shutting down; try again"),
            E::Launch { id, source } => refuse_launch(&id, &source),
            E::TooSlow { id, seconds } => Self::new(
                ErrorCode::SandboxCreateFailed,
                format!(
                    "Sandbox {id} was not up within {seconds} s; try again, and see the server's log if it happens again"
                ),
            ),
            E::NotReady { id, why } => Self::new(
                ErrorCode::SandboxNotReady,
                format!("Sandbox {id} did not become ready and was removed: {why}"),
            ),
            E::Store(error) => error.into(),
            error @ E::Panicked { .. } => Self::internal(&error),
        }
    }
}

impl From<lifecycle::ChangeError> for ApiError {
    fn from(error: lifecycle::ChangeError) -> Self {
        use lifecycle::ChangeError as E;
        let text = error.to_string();
        match error {
            E::Ended { id, cause } => Self::ended(&id, &cause),
            E::Conflict { id, state } => Self::new(
                ErrorCode::SandboxStateConflict,
                format!("Sandbox {id} is {state}, so this is not possible now; see GET /sandboxes/{id}"),
            ),
            E::Capacity(shortage) => lifecycle::CreateError::Capacity(shortage).into(),
            E::Storage { id, source } => storage_refusal(&source).unwrap_or_else(|| {
                let text = cabana_types::error::chain(&source);
                Self::new(ErrorCode::SandboxChangeFailed, format!("Sandbox {id} could not be resumed: {text}"))
            }),
            E::OverBudget { id, why } => Self::new(
                ErrorCode::SandboxCapacityUnavailable,
                format!(
                    "Sandbox {id} cannot be paused with its memory and keeps running: {why}. Pause its filesystem only \
                     (memory: false), or kill or resume others"
                ),
            ),
            E::Failed { id, operation, failure } => Self::new(
                ErrorCode::SandboxChangeFailed,
                format!("Sandbox {id} could not be {operation} and is unchanged: {failure}"),
            ),
            E::Interrupted(id) => Self::new(
                ErrorCode::SandboxStateConflict,
                format!("Another request changed sandbox {id} first; try again"),
            ),
            E::InUse { id, used } => Self::new(
                ErrorCode::SandboxStateConflict,
                format!(
                    "Sandbox {id} uses {used} MiB of memory, more than the new limit; stop some of its processes first"
                ),
            ),
            E::Unresponsive(id) => Self::new(
                ErrorCode::GuestUnresponsive,
                format!(
                    "The guest of sandbox {id} does not answer; it keeps running. POST /sandboxes/{id}/recover boots it again"
                ),
            ),
            E::Unsupported(text) => Self::new(ErrorCode::NotSupported, text),
            E::Slow(_) => Self::new(ErrorCode::ServiceUnavailable, format!("{text}; try again later")),
            E::ShuttingDown => Self::new(ErrorCode::ServiceUnavailable, "The server is shutting down; try again"),
            E::Store(error) => error.into(),
        }
    }
}
