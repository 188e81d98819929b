//! Files of a sandbox, as a person looks at them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileList {
    /// The absolute path of the directory.
    pub path: String,
    /// Directories first, then by name.
    pub entries: Vec<FileEntry>,
    /// Whether there are more.
    pub truncated: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileEntry {
    /// What is not UTF-8 in it is replaced: such an entry cannot be asked for.
    pub name: String,
    /// Absolute.
    pub path: String,
    #[serde(rename = "type")]
    pub kind: FileKind,
    pub size: u64,
    /// Permission bits in octal, such as `0644`.
    pub mode: String,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub modified_at: Option<Timestamp>,
    /// Where a link leads, as it says.
    pub target: Option<String>,
}

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    /// A device, FIFO or socket.
    Other,
}

/// What is at a path, behind all links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileStat {
    #[serde(flatten)]
    pub entry: FileEntry,
    /// The SHA-256 of a file of up to 5 MiB that can be read, in quotes: for `If-Match`.
    pub etag: Option<String>,
    /// Whether it is a file that is not a text.
    pub binary: bool,
    /// Of a file that is not a text.
    pub media_type: Option<String>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WrittenFile {
    /// The SHA-256 of the content, in quotes.
    pub etag: String,
    pub size: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub modified_at: Option<Timestamp>,
}

/// Body of `POST /sandboxes/{sandboxID}/files/directories`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewDirectory {
    /// Missing parents are made.
    pub path: String,
}

/// A directory that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MadeDirectory {
    /// Absolute.
    pub path: String,
}

/// Body of `POST /sandboxes/{sandboxID}/files/move`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MoveFile {
    pub from: String,
    /// Nothing may be there. Missing parents are made.
    pub to: String,
}
