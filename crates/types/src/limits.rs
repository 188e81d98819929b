//! Limits of all external input, and the resources of a sandbox.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Virtual CPUs of one sandbox.
pub const CPU_COUNT: RangeInclusive<u32> = 1..=64;
/// Memory of one sandbox, MiB.
pub const MEMORY_MB: RangeInclusive<u32> = 128..=1_048_576;
/// Disk of one sandbox, MiB.
pub const DISK_MB: RangeInclusive<u32> = 64..=4_194_304;
/// Processes and threads in one sandbox.
pub const PIDS: u32 = 4096;
/// Concurrent outbound connections of a sandbox: all share the kernel's table.
pub const FLOWS_AT_ONCE: u32 = 4096;
/// Longest timeout of a sandbox from now, seconds (30 days).
pub const MAX_TIMEOUT_SECONDS: u64 = 30 * 24 * 3600;
/// Default timeout of `/v2/sandboxes`, seconds.
pub const DEFAULT_TIMEOUT_SECONDS: u64 = 300;
/// Default timeout of the older `/sandboxes`, seconds.
pub const DEFAULT_TIMEOUT_V1_SECONDS: u64 = 15;
/// Longest extension by `refreshes`, seconds.
pub const MAX_REFRESH_SECONDS: u64 = 3600;
/// `idleTimeout`, seconds.
pub const IDLE_SECONDS: RangeInclusive<i64> = 1..=30 * 24 * 3600;
/// Forks per request.
pub const FORKS: RangeInclusive<i64> = 1..=20;
/// Entries of `keep`.
pub const MAX_KEPT: usize = 64;
/// Length of a path in `keep`, bytes.
pub const MAX_PATH_BYTES: usize = 1024;
/// Entries in `metadata` and in `envVars`.
pub const MAX_MAP_ENTRIES: usize = 256;
/// Length of a metadata or environment name, bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Length of a metadata or environment value, bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;
/// Total size of the names and values of one map, bytes.
pub const MAX_MAP_BYTES: usize = 512 * 1024;
/// Body of one API request, bytes.
pub const MAX_API_BODY_BYTES: usize = 2 * 1024 * 1024;
/// Rows per page of a listing.
pub const PAGE: RangeInclusive<u32> = 1..=100;
/// A template reference (`[namespace/]alias[:tag]` or id), bytes.
pub const MAX_TEMPLATE_REF_BYTES: usize = 256;
/// A tag of a template, bytes.
pub const MAX_TAG_BYTES: usize = 128;
/// Tags of one template.
pub const MAX_TAGS: u32 = 100;
/// Templates of one team.
pub const MAX_TEMPLATES: u32 = 1000;
/// Builds of one team that are waiting or in progress.
pub const MAX_BUILDS: u32 = 20;
/// Steps of one build.
pub const MAX_STEPS: usize = 500;
/// One argument of a step, a start command or a ready check, bytes.
pub const MAX_STEP_BYTES: usize = 64 * 1024;
/// Arguments of one step.
pub const MAX_STEP_ARGS: usize = 512;
/// A Dockerfile, bytes.
pub const MAX_DOCKERFILE_BYTES: usize = 1024 * 1024;
/// Client-supplied hash of an uploaded archive, bytes.
pub const MAX_FILES_HASH_BYTES: usize = 128;
/// An idempotency key, bytes.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;
/// `maskRequestHost` with its port substituted, bytes.
pub const MAX_HOST_BYTES: usize = 255;
/// A webhook's signing secret, bytes.
pub const MAX_SIGNATURE_SECRET_BYTES: usize = 512;
/// Webhooks of one team.
pub const MAX_WEBHOOKS: u32 = 20;
/// Secrets of one team.
pub const MAX_SECRETS: u32 = 1000;
/// A secret's value, bytes.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;
/// Entries of a secret's metadata, bytes of a key and a value, and bytes of all of them.
pub const MAX_SECRET_METADATA: (usize, usize, usize, usize) = (32, 128, 1024, 8192);
/// Hosts that one secret is for.
pub const MAX_SECRET_HOSTS: usize = 64;
/// Secrets of one sandbox that have a placeholder in its environment.
pub const MAX_PLACEHOLDERS: usize = 32;
/// A secret's description, bytes.
pub const MAX_SECRET_DESCRIPTION: usize = 1024;
/// Workload identity tokens of one sandbox.
pub const MAX_IDENTITY_TOKENS: usize = 5;
/// The name of one, bytes.
pub const MAX_TOKEN_NAME_BYTES: usize = 128;
/// Its audience, bytes.
pub const MAX_AUDIENCE_BYTES: usize = 1024;
/// Entries of `httpsPorts`.
pub const MAX_HTTPS_PORTS: usize = 64;

/// Resources of one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    pub cpu_count: u32,
    /// Memory, MiB.
    pub memory_mb: u32,
    /// Disk beyond the template, MiB.
    pub disk_mb: u32,
    pub pids: u32,
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpu_count: 2, memory_mb: 1024, disk_mb: 10_240, pids: PIDS }
    }
}

/// A number that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be between {min} and {max}, not {value}")]
pub struct OutOfRange {
    /// The field's name on the wire.
    pub field: &'static str,
    pub value: i64,
    pub min: i64,
    pub max: i64,
}

/// Checks a number against its range.
pub fn within(field: &'static str, value: i64, range: RangeInclusive<i64>) -> Result<i64, OutOfRange> {
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(OutOfRange { field, value, min: *range.start(), max: *range.end() })
    }
}

/// Checks a number against a 32-bit range.
pub fn within_u32(field: &'static str, value: i64, range: RangeInclusive<u32>) -> Result<u32, OutOfRange> {
    let (min, max) = (i64::from(*range.start()), i64::from(*range.end()));
    within(field, value, min..=max)?;
    u32::try_from(value).map_err(|_| OutOfRange { field, value, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_errors_name_them() {
        assert_eq!(within_u32("cpuCount", 1, CPU_COUNT), Ok(1));
        assert_eq!(within_u32("cpuCount", 64, CPU_COUNT), Ok(64));
        let error = within_u32("cpuCount", -1, CPU_COUNT).expect_err("negative");
        assert_eq!(error.to_string(), "cpuCount must be between 1 and 64, not -1");
        assert!(within_u32("memoryMB", i64::MAX, MEMORY_MB).is_err());
    }
}
