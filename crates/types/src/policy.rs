//! What happens to a sandbox at its timeout, when it is idle, when a request comes while it is paused, and when it fails.

use serde::{Deserialize, Serialize};

use crate::limits::DEFAULT_TIMEOUT_SECONDS;

/// What happens at the timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// It is killed.
    #[default]
    Kill,
    /// It is paused and its memory is kept.
    Pause,
    /// It is paused and only its disk is kept.
    PauseDisk,
}

/// What happens when its guest dies or the machine restarts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Its disk is kept for some time, so that it can be recovered.
    #[default]
    Keep,
    /// It is booted again from its disk.
    Replace,
}

/// Lifecycle settings of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LifecyclePolicy {
    /// Seconds from the start to the timeout, also after an auto-resume.
    pub timeout: u64,
    /// What happens at the timeout.
    pub on_timeout: OnTimeout,
    /// Whether a request resumes it when it is paused.
    pub auto_resume: bool,
    /// Seconds of idleness after which it is paused.
    pub idle: Option<u64>,
    /// What happens when it fails.
    pub on_failure: OnFailure,
    /// Paths that recycling keeps, in addition to the ones that are always kept.
    pub keep: Vec<String>,
}

impl Default for LifecyclePolicy {
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

impl LifecyclePolicy {
    /// Timeout after an auto-resume: that of the creation, but never so short that the sandbox pauses again before it answers.
    pub fn auto_resume_seconds(&self) -> u64 {
        self.timeout.max(DEFAULT_TIMEOUT_SECONDS)
    }

    /// Whether an idle pause keeps its memory.
    pub fn keeps_memory(&self) -> bool {
        self.on_timeout != OnTimeout::PauseDisk
    }
}
