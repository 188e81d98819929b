//! Files that clients upload to a sandbox.

use serde::{Deserialize, Serialize};

/// What became of the files of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadManifest {
    /// The absolute path of the directory that they are in.
    pub directory: String,
    /// One entry for each file, in the order in which they were sent.
    pub files: Vec<UploadedFile>,
}

/// What became of one file of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadedFile {
    /// As it was sent.
    pub name: String,
    /// Where it is: an absolute path. Its name has a number if it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Bytes; of a file that failed, those that were received.
    pub size: u64,
    /// Digest of the content in lower-case hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    pub status: UploadStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether a file was uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum UploadStatus {
    /// It is complete.
    Uploaded,
    /// Nothing of it is there.
    Failed,
}
