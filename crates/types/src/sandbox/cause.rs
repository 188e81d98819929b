//! Causes of pauses, failures and ends.

use serde::{Deserialize, Serialize};

/// Cause of the end or the failure of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum EndCause {
    /// A client killed it.
    Killed {
        /// Public id of the client's API key.
        by: String,
    },
    /// It reached its timeout.
    Expired,
    /// It could not be started.
    CreateFailed {
        /// What went wrong.
        message: String,
    },
    /// It ran out of memory and its guest daemon was killed.
    OutOfMemory,
    /// Its guest daemon died.
    GuestDied,
    /// Its processes were gone when the server started again (the host was restarted).
    Lost,
    /// Its disk became read-only because the disk below was full; it was ended so that the disks could be used again.
    DiskLost,
    /// It had failed and was not recovered in time.
    Abandoned {
        /// Description of the failure.
        after: String,
    },
}

impl EndCause {
    /// Whether the sandbox failed, as opposed to being ended on purpose.
    pub fn is_failure(&self) -> bool {
        !matches!(self, EndCause::Killed { .. } | EndCause::Expired)
    }

    /// The cause in words that complete "the sandbox …".
    pub fn describe(&self) -> String {
        match self {
            EndCause::Killed { by } => format!("was killed by request of API key {by}"),
            EndCause::Expired => "reached its timeout and was killed".into(),
            EndCause::CreateFailed { message } => format!("could not be created: {message}"),
            EndCause::OutOfMemory => "ran out of memory and was killed".into(),
            EndCause::GuestDied => "ended because its guest daemon died".into(),
            EndCause::Lost => "was lost when the machine restarted".into(),
            EndCause::DiskLost => {
                "was ended because the server's disk had been full and all disks were read-only".into()
            }
            EndCause::Abandoned { after } => format!("{after}, and was removed because nobody recovered it"),
        }
    }
}

/// Cause of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PauseCause {
    /// A client requested it.
    Asked {
        /// Public id of the client's API key.
        by: String,
    },
    /// It reached its timeout.
    Timeout,
    /// It was idle for long enough.
    Idle,
    /// It had failed.
    Failed {
        /// What happened.
        reason: String,
    },
}

impl PauseCause {
    /// The cause in words that complete "the sandbox …".
    pub fn describe(&self) -> String {
        match self {
            PauseCause::Asked { by } => format!("was paused by request of API key {by}"),
            PauseCause::Timeout => "reached its timeout and was paused".into(),
            PauseCause::Idle => "was idle and was paused".into(),
            PauseCause::Failed { reason } => reason.clone(),
        }
    }
}
