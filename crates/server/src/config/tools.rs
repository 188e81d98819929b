//! Settings of agent tools.

use std::ops::RangeInclusive;

use serde::Deserialize;

/// Agent tools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// KiB of a call's output that a model sees.
    pub max_output_kb: u16,
    /// MiB of one file that is uploaded to a sandbox.
    pub max_upload_mb: u32,
}

impl Tools {
    pub(super) fn ranges(&self) -> [(&'static str, u32, RangeInclusive<u32>); 2] {
        [
            ("tools.max_output_kb", self.max_output_kb.into(), 4..=1024),
            ("tools.max_upload_mb", self.max_upload_mb, 1..=1_048_576),
        ]
    }
}
