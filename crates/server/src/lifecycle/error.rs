//! Errors of lifecycle.

use cabana_types::SandboxId;
use cabana_types::sandbox::EndCause;

use super::paused_memory::OverBudget;
use super::registry::Shortage;

/// Why a sandbox was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The server runs as many sandboxes as it may.
    #[error(transparent)]
    Capacity(#[from] Shortage),
    /// The idempotency key was used with another request.
    #[error("the idempotency key {key} was used with another request")]
    Conflict { key: String },
    /// The idempotency key belongs to a sandbox that is gone.
    #[error("the sandbox {id} of the idempotency key {key} {cause}")]
    Spent { key: String, id: SandboxId, cause: String },
    /// It was ended while it started.
    #[error("the sandbox {id} was ended while it came up")]
    Ended { id: SandboxId, cause: EndCause },
    /// The backend could not start it.
    #[error("launch {id}")]
    Launch {
        id: SandboxId,
        #[source]
        source: cabana_runtime::Error,
    },
    /// The backend did not start it in time.
    #[error("the sandbox {id} was not up within {seconds} s")]
    TooSlow { id: SandboxId, seconds: u64 },
    /// Its start command failed, or its ready command did not succeed in time. `why` has the last output.
    #[error("{why}")]
    NotReady { id: SandboxId, why: String },
    /// The creation panicked.
    #[error("the creation of the sandbox {id} panicked")]
    Panicked { id: SandboxId },
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("the store")]
    Store(#[from] cabana_store::Error),
}

/// Why an operation on a sandbox was not done.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The sandbox is ending or has ended.
    #[error("the sandbox {id} {}", cause.describe())]
    Ended { id: SandboxId, cause: EndCause },
    /// Its state does not allow the operation.
    #[error("the sandbox {id} is {state}")]
    Conflict { id: SandboxId, state: &'static str },
    /// The server runs as many sandboxes as it may.
    #[error(transparent)]
    Capacity(#[from] Shortage),
    /// The pool cannot take another running sandbox.
    #[error("the sandbox {id} cannot be resumed")]
    Storage {
        id: SandboxId,
        #[source]
        source: cabana_storage::Error,
    },
    /// The memory budget does not allow to pause it with its memory; it keeps running.
    #[error("the sandbox {id} cannot be paused with its memory")]
    OverBudget {
        id: SandboxId,
        #[source]
        why: OverBudget,
    },
    /// The operation failed and was rolled back.
    #[error("the sandbox {id} could not be {operation}: {failure}")]
    Failed { id: SandboxId, operation: Operation, failure: Failure },
    /// Another operation on the sandbox interrupted this one.
    #[error("work on the sandbox {0} was interrupted")]
    Interrupted(SandboxId),
    /// It uses more memory (MiB) than it would get.
    #[error("the sandbox {id} uses {used} MiB of memory")]
    InUse { id: SandboxId, used: u64 },
    /// Its guest does not answer.
    #[error("the guest of the sandbox {0} does not answer")]
    Unresponsive(SandboxId),
    /// The backend does not offer the operation.
    #[error("{0}")]
    Unsupported(String),
    /// The operation takes longer than a client should wait, and continues.
    #[error("the sandbox {0} is still changing")]
    Slow(SandboxId),
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("the store")]
    Store(#[from] cabana_store::Error),
}

/// An operation that can fail and be rolled back. It is displayed as a participle: "the sandbox could not be …".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Pause,
    Resume,
    Archive,
    Restore,
    Resize,
    Snapshot,
    /// Any of them, where a panic hides which.
    Change,
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Operation::Pause => "paused",
            Operation::Resume => "resumed",
            Operation::Archive => "archived",
            Operation::Restore => "restored from cold storage",
            Operation::Resize => "resized",
            Operation::Snapshot => "copied",
            Operation::Change => "changed",
        })
    }
}

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{}", cabana_types::error::chain(.0))]
    Backend(#[from] cabana_runtime::Error),
    #[error("{}", cabana_types::error::chain(.0))]
    Storage(#[from] cabana_storage::Error),
    /// The backend panicked.
    #[error("the backend panicked")]
    Panicked,
    #[error("its disk is missing")]
    DiskMissing,
    #[error("this server cannot write or restore checkpoints")]
    NoCheckpoints,
}
