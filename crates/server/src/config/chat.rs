//! Settings of chats.

use std::ops::RangeInclusive;

use serde::Deserialize;

/// Chats.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chat {
    /// Seconds after which a stream of events ends; 0 for never.
    pub stream_seconds: u32,
    /// Seconds without use after which the sandbox of a chat is paused.
    pub idle_seconds: u32,
    /// MiB of files that one team keeps.
    pub max_blob_mb: u32,
}

impl Chat {
    pub(super) fn ranges(&self) -> [(&'static str, u32, RangeInclusive<u32>); 3] {
        [
            ("chat.stream_seconds", self.stream_seconds, 0..=86_400),
            ("chat.idle_seconds", self.idle_seconds, 30..=86_400),
            ("chat.max_blob_mb", self.max_blob_mb, 1..=67_108_864),
        ]
    }
}
