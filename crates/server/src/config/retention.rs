//! Settings of how long data is kept, and where archived disks are.

use cabana_types::Secret;
use serde::Deserialize;

/// Storage of archived disks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    /// A directory, or `s3://bucket/prefix`; empty for a directory in the data directory.
    pub location: String,
    /// URL of an S3-compatible service; empty for AWS.
    pub endpoint: String,
    /// The bucket's region.
    pub region: String,
    /// Access key id.
    pub key_id: String,
    /// Secret access key.
    pub secret: Secret,
    /// Whether the endpoint may be `http://`.
    pub allow_http: bool,
}

/// How long data is kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Days for which the row of an ended sandbox is kept.
    pub tombstone_days: u32,
    /// Days after which a paused sandbox is archived; 0 for never.
    pub archive_after_days: u32,
    /// Days after which a paused sandbox is recycled; 0 for never.
    pub recycle_after_days: u32,
    /// Hours for which the disk of a failed sandbox is kept.
    pub failed_hours: u32,
    /// Days for which the audit log is kept; 0 for ever.
    pub audit_days: u32,
}
