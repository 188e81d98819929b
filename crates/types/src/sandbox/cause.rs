//! Why a sandbox sleeps, failed or ended.

use serde::{Deserialize, Serialize};

/// Why a sandbox ended, or failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum EndCause {
    /// Somebody asked for it, with the API key of this name.
    Killed {
        /// The key's public id.
        by: String,
    },
    /// Its time was over.
    Expired,
    /// It could not be brought up.
    CreateFailed {
        /// What went wrong.
        message: String,
    },
    /// It ran out of memory and its guest daemon was killed.
    OutOfMemory,
    /// Its guest daemon died.
    GuestDied,
    /// It was not there any more when the server came back (the machine was restarted).
    Lost,
    /// It had failed, and nobody recovered it in time.
    Abandoned {
        /// How it had failed.
        after: String,
    },
}

impl EndCause {
    /// Whether the sandbox failed, rather than being ended on purpose.
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
            EndCause::Abandoned { after } => format!("{after}, and was removed because nobody recovered it"),
        }
    }
}

/// Why a sandbox sleeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PauseCause {
    /// Somebody asked for it, with the API key of this name.
    Asked {
        /// The key's public id.
        by: String,
    },
    /// Its time was over.
    Timeout,
    /// Nothing happened in it for long enough.
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
