//! What becomes of a sandbox when its time is over, when nothing happens in it, when it is touched asleep, and when it fails.

use serde::{Deserialize, Serialize};

use crate::limits::DEFAULT_TIMEOUT_SECONDS;

/// What happens at the timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It is ended.
    #[default]
    Kill,
    /// It sleeps with its memory.
    Pause,
    /// It sleeps with its disk alone.
    PauseDisk,
}

/// What happens when its guest dies or the machine restarts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Its disk is kept until somebody recovers it, for a while.
    #[default]
    Keep,
    /// It boots afresh from its disk, by itself.
    Replace,
}

/// The wishes of a sandbox's owner about its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LifePolicy {
    /// Seconds from coming up to the timeout; also what waking by a touch gives.
    pub timeout: u64,
    /// What happens then.
    pub on_timeout: OnTimeout,
    /// Whether a touch wakes it.
    pub auto_resume: bool,
    /// Seconds without anything happening after which it sleeps.
    pub idle: Option<u64>,
    /// What happens when it fails.
    pub on_failure: OnFailure,
    /// Paths that outlive its recycling, beside the ones that always do.
    pub keep: Vec<String>,
}

impl Default for LifePolicy {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT_SECONDS,
            on_timeout: OnTimeout::default(),
            auto_resume: false,
            idle: None,
            on_failure: OnFailure::default(),
            keep: vec![],
        }
    }
}

impl LifePolicy {
    /// Seconds that a touch gives: as many as at first, but never so few that it would sleep again before the touch is answered.
    pub fn wake_seconds(&self) -> u64 {
        self.timeout.max(DEFAULT_TIMEOUT_SECONDS)
    }

    /// Whether it sleeps with its memory where nobody said how.
    pub fn keeps_memory(&self) -> bool {
        self.on_timeout != OnTimeout::PauseDisk
    }
}
