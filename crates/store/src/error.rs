//! Errors of the store.

use std::path::PathBuf;
use std::sync::Arc;

use cabana_types::sandbox::Refused;
use cabana_types::wire::QuotaExceeded;
use cabana_types::{
    AttachmentId, BuildId, CallId, ChatId, InvalidId, MessageId, ProjectId, SandboxId, TeamId, TemplateId, TurnId,
    UserId,
};

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database could not be opened.
    #[error("open the database {path}")]
    Open {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A newer Cabana wrote the database.
    #[error(
        "the database {path} was written by a newer Cabana (schema {version}): start that version again, or restore a \
         backup from before the upgrade"
    )]
    NewerSchema {
        path: PathBuf,
        /// Version of its schema.
        version: i64,
    },
    /// A migration failed.
    #[error("bring the schema of the database {path} up to date")]
    Migrate {
        path: PathBuf,
        #[source]
        source: sqlx::migrate::MigrateError,
    },
    /// The file is damaged or is not a database.
    #[error("the database is damaged ({action}): restore a backup")]
    Corrupt {
        /// The operation.
        action: &'static str,
        /// SQLite's error.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The disk is full.
    #[error("the disk of the data directory is full ({action})")]
    Full {
        /// The operation.
        action: &'static str,
        /// SQLite's error.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// A statement failed.
    #[error("{action}")]
    Query {
        /// The operation.
        action: &'static str,
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// A stored value is invalid.
    #[error("the stored value of {column} is invalid: {message}")]
    Decode {
        column: &'static str,
        /// Description of the problem.
        message: String,
    },
    /// There is no such sandbox.
    #[error("there is no sandbox {0}")]
    NoSandbox(SandboxId),
    /// The sandbox's state does not allow the transition.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The sandbox is not running.
    #[error("the sandbox {id} is {state}")]
    NotRunning {
        id: SandboxId,
        /// Its current state.
        state: &'static str,
    },
    /// There is no such template.
    #[error("there is no template {0}")]
    NoTemplate(TemplateId),
    /// There is no such build.
    #[error("there is no build {0}")]
    NoBuild(BuildId),
    /// The build's status does not allow the operation.
    #[error("the build {id} is {status}")]
    BuildStatus {
        id: BuildId,
        /// Its current status.
        status: &'static str,
    },
    /// A sandbox or snapshot references a build of the template.
    #[error("{sandboxes} sandboxes and {snapshots} snapshots use the template {id}")]
    TemplateInUse {
        id: TemplateId,
        /// Sandboxes that have not ended.
        sandboxes: u64,
        /// Snapshots.
        snapshots: u64,
    },
    /// The name is in use.
    #[error("there is a snapshot {name}")]
    NameTaken { name: String },
    /// A limit is reached.
    #[error("there are {limit} {what}, and there may be no more")]
    TooMany {
        /// The limited objects.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// A quota of the team is used up.
    #[error("the team uses {} of {} {}", .0.used, .0.limit, .0.kind.noun())]
    Quota(Box<QuotaExceeded>),
    /// There is no such team.
    #[error("there is no team {0}")]
    NoTeam(TeamId),
    /// There is no such person.
    #[error("there is no user {0}")]
    NoUser(UserId),
    /// There is no such project.
    #[error("there is no project {0}")]
    NoProject(ProjectId),
    /// There is no such plan.
    #[error("there is no plan {0}")]
    NoPlan(String),
    /// There is no such chat.
    #[error("there is no chat {0}")]
    NoChat(ChatId),
    /// The chat has no such turn.
    #[error("there is no turn {0}")]
    NoTurn(TurnId),
    /// The turn has begun, so that it cannot be taken out of the queue.
    #[error("the turn {0} is not queued")]
    NotQueued(TurnId),
    /// The chat has no such message.
    #[error("there is no message {0}")]
    NoMessage(MessageId),
    /// The chat has no such call.
    #[error("there is no call {0}")]
    NoCall(CallId),
    /// There is no such file, or it belongs to another chat.
    #[error("there is no attachment {0}")]
    NoAttachment(AttachmentId),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// Wraps a database error with the operation that failed.
    pub(crate) fn query(action: &'static str, source: sqlx::Error) -> Self {
        Self::shared(action, Arc::new(source))
    }

    /// The same, for an error shared by several writes of one batch.
    pub(crate) fn shared(action: &'static str, source: Arc<sqlx::Error>) -> Self {
        match result_code(&source) {
            Some(CORRUPT | NOT_A_DATABASE) => Error::Corrupt { action, source },
            Some(FULL) => Error::Full { action, source },
            _ => Error::Query { action, source },
        }
    }

    /// A value of the database that cannot be read.
    pub fn decode(column: &'static str, error: impl std::fmt::Display) -> Self {
        Error::Decode { column, message: error.to_string() }
    }

    /// Whether a retry may succeed: the database was busy, the disk was full, or an IO error occurred.
    pub fn is_transient(&self) -> bool {
        self.database().is_some_and(|source| !is_local(source)) && !matches!(self, Error::Corrupt { .. })
    }

    /// The underlying database error, if there is one.
    pub(crate) fn database(&self) -> Option<&Arc<sqlx::Error>> {
        match self {
            Error::Corrupt { source, .. } | Error::Full { source, .. } | Error::Query { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<InvalidId> for Error {
    fn from(error: InvalidId) -> Self {
        Error::Decode { column: error.kind, message: error.to_string() }
    }
}

const ERROR: u32 = 1;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const TOO_BIG: u32 = 18;
const CONSTRAINT: u32 = 19;
const MISMATCH: u32 = 20;
const NOT_A_DATABASE: u32 = 26;

/// SQLite's primary result code.
fn result_code(error: &sqlx::Error) -> Option<u32> {
    let sqlx::Error::Database(error) = error else { return None };
    error.code()?.parse::<u32>().ok().map(|code| code & 0xff)
}

/// Whether an error affects only one statement, so that the surrounding transaction can continue. After other errors
/// SQLite may have rolled back the whole transaction.
pub(crate) fn is_local(error: &sqlx::Error) -> bool {
    matches!(result_code(error), Some(ERROR | TOO_BIG | CONSTRAINT | MISMATCH))
        || matches!(
            error,
            sqlx::Error::RowNotFound
                | sqlx::Error::ColumnDecode { .. }
                | sqlx::Error::Decode(_)
                | sqlx::Error::ColumnNotFound(_)
                | sqlx::Error::Encode(_)
        )
}
