//! Lifecycle policy of a sandbox: timeout, idleness, auto-resume and failure.

use serde::{Deserialize, Serialize};

use crate::limits::DEFAULT_TIMEOUT_SECONDS;

/// What to do at the timeout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// Kill it.
    #[default]
    Kill,
    /// Pause it and keep its memory.
    Pause,
    /// Pause it and keep only its disk.
    PauseDisk,
}

/// What to do when its guest dies or the host restarts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Keep its disk for some time, so that it can be recovered.
    #[default]
    Keep,
    /// Boot it again from its disk.
    Replace,
}

/// Lifecycle settings of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LifecyclePolicy {
    /// Seconds from a start or auto-resume to the timeout.
    pub timeout: u64,
    pub on_timeout: OnTimeout,
    /// Whether a request resumes it if it is paused.
    pub auto_resume: bool,
    /// Seconds of idleness until it is paused.
    pub idle: Option<u64>,
    pub on_failure: OnFailure,
    /// Additional paths that recycling keeps.
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
    /// Timeout after an auto-resume: that of the creation, with a minimum so that the request can be answered before
    /// the next pause.
    pub fn auto_resume_seconds(&self) -> u64 {
        self.timeout.max(DEFAULT_TIMEOUT_SECONDS)
    }

    /// Whether an idle pause keeps memory.
    pub fn keeps_memory(&self) -> bool {
        self.on_timeout != OnTimeout::PauseDisk
    }
}
