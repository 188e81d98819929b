//! Settings of what sandboxes read from and write to the disk.

use std::ops::RangeInclusive;

use cabana_runtime::host::IoLimits;
use serde::Deserialize;

/// Limits of reads and writes, where the machine offers them; 0 for none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Io {
    /// Share of all sandboxes together.
    pub weight: u32,
    /// MiB that one sandbox reads per second.
    pub read_mb: u32,
    /// MiB that one sandbox writes per second.
    pub write_mb: u32,
    /// Reads of one sandbox per second.
    pub read_operations: u32,
    /// Writes of one sandbox per second.
    pub write_operations: u32,
}

impl Io {
    /// Settings with their ranges; 0 is allowed for each.
    pub(super) fn ranges(&self) -> [(&'static str, u32, RangeInclusive<u32>); 5] {
        [
            ("io.weight", self.weight, 0..=1000),
            ("io.read_mb", self.read_mb, 0..=1_048_576),
            ("io.write_mb", self.write_mb, 0..=1_048_576),
            ("io.read_operations", self.read_operations, 0..=100_000_000),
            ("io.write_operations", self.write_operations, 0..=100_000_000),
        ]
    }

    /// For the backend.
    pub fn limits(&self) -> IoLimits {
        IoLimits {
            weight: self.weight,
            read_bytes: u64::from(self.read_mb) << 20,
            write_bytes: u64::from(self.write_mb) << 20,
            read_operations: self.read_operations.into(),
            write_operations: self.write_operations.into(),
        }
    }
}
