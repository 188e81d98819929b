//! Requests of the host for agent tools, on the guest's control socket. Each acts with the permissions of one account of the image. A
//! request that cannot be carried out is answered with status 422 and a [`Refusal`].

mod search;

use serde::{Deserialize, Serialize};

use crate::tool::ToolErrorCode;

pub use search::{Case, Find, FindAnswer, FindKind, Grep, GrepAnswer, GrepFile, GrepLine, GrepOutput};

/// `POST /read` with a [`Read`]: answers a [`ReadAnswer`].
pub const READ_PATH: &str = "/read";
/// `POST /stat` with a [`Stat`]: answers a [`StatAnswer`].
pub const STAT_PATH: &str = "/stat";
/// `POST /list` with a [`List`]: answers a [`ListAnswer`].
pub const LIST_PATH: &str = "/list";
/// `POST /edit` with an [`Edit`]: answers an [`EditAnswer`]. All changes are made, or none.
pub const EDIT_PATH: &str = "/edit";
/// `POST /grep` with a [`Grep`]: answers a [`GrepAnswer`].
pub const GREP_PATH: &str = "/grep";
/// `POST /find` with a [`Find`]: answers a [`FindAnswer`].
pub const FIND_PATH: &str = "/find";
/// `POST /move` with a [`Move`]: answers a [`Placed`].
pub const MOVE_PATH: &str = "/move";
/// `POST /directory` with a [`NewDirectory`]: answers a [`Placed`].
pub const DIRECTORY_PATH: &str = "/directory";
/// `GET /download?path=P`: the file at path P (ranges work), or with `&archive=true` the directory as `.tar.gz`; with the permissions
/// of the default user. With `&digest=N`, a file of up to N bytes has its SHA-256 as `ETag`, and [`MEDIA_TYPE_HEADER`] names images.
pub const DOWNLOAD_PATH: &str = "/download";
/// Header of a download: the type of an image that browsers can show, by its first bytes.
pub const MEDIA_TYPE_HEADER: &str = "cabana-media-type";
/// `GET /ports`: answers a list of [`ListeningPort`].
pub const PORTS_PATH: &str = "/ports";
/// Header of `process.Process/Start` on the control socket: the name of a file below [`OUTPUT_DIR`] that gets all output of the command.
pub const OUTPUT_FILE_HEADER: &str = "cabana-output-file";
/// Header beside it: the file is made once the command has printed more bytes than this.
pub const OUTPUT_AFTER_HEADER: &str = "cabana-output-after";
/// Where the output of commands is kept inside the sandbox.
pub const OUTPUT_DIR: &str = "/tmp/cabana/outputs";
/// Bytes of output that such a file holds at most.
pub const MAX_OUTPUT_FILE: u64 = 256 << 20;

/// Why a request was not carried out. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: ToolErrorCode,
    /// What happened, in words for a model; names the path.
    pub message: String,
    /// The path concerned, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Size of that file, if it was refused for it or for its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Media type of a binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// Reads one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// Account; the default user if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Relative to the template's working directory, or to the home directory.
    pub path: String,
    pub what: ReadWhat,
}

/// What to read of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum ReadWhat {
    /// Lines of a text; the content of an image up to `max_image` bytes; [`ToolErrorCode::BinaryFile`] for other files with a NUL byte
    /// in the first 8 KiB.
    Lines {
        /// The first line, from 1.
        start: u64,
        /// The last line; the end of the file if unset.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        end: Option<u64>,
        max_lines: u64,
        max_bytes: u64,
        /// Characters of one line; the rest of it is left out.
        max_line: u64,
        max_image: u64,
    },
    /// All bytes; [`ToolErrorCode::TooLarge`] beyond `max`.
    Bytes { max: u64 },
}

impl Default for ReadWhat {
    fn default() -> Self {
        Self::Bytes { max: 0 }
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadAnswer {
    /// Absolute, without `.` and `..`.
    pub path: String,
    pub size: u64,
    pub content: Content,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Content {
    Lines {
        /// Invalid UTF-8 is replaced. Without line ends.
        lines: Vec<Line>,
        /// Lines of the whole file.
        total: u64,
        /// Whether the limits cut the range short.
        truncated: bool,
    },
    Image {
        media_type: String,
        /// Base64.
        data: String,
    },
    Bytes {
        /// Base64.
        data: String,
        /// Lower-case hexadecimal digest of the content.
        sha256: String,
        /// Permission bits.
        mode: u32,
    },
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub text: String,
    /// Characters that were left out at its end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Describes what is at a path. Links are followed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub path: String,
    /// Looks at the content of a file too; one of up to this many bytes gets a digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<u64>,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatAnswer {
    /// Absolute, without `.`, `..` and links.
    pub path: String,
    pub kind: EntryKind,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The path as it was asked for, absolute and without `.` and `..`.
    #[serde(default)]
    pub asked: String,
    /// Seconds since 1970.
    #[serde(default)]
    pub modified: i64,
    /// If the path is a link: where it leads, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Of a file that the account may read, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Inspected>,
}

/// What a look at the content of a file has found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspected {
    /// Whether it is not a text.
    pub binary: bool,
    /// Of a file that is not a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Lower-case hexadecimal digest; unset for a larger file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// Moves a file, link or directory to a path where nothing is. Missing parents are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub from: String,
    pub to: String,
}

/// Makes a directory where nothing is, with its parents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewDirectory {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub path: String,
}

/// Where something is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Absolute.
    pub path: String,
}

/// Lists a directory, directories first, then by name. Links are not followed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub path: String,
    /// 1 for the directory's own entries.
    pub depth: u32,
    /// Whether names that begin with a dot are listed.
    pub hidden: bool,
    pub limit: usize,
}

/// Entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAnswer {
    pub path: String,
    /// Parents before children.
    pub entries: Vec<ListEntry>,
    /// Whether there are more.
    pub truncated: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListEntry {
    /// Relative to the listed directory.
    pub path: String,
    pub kind: EntryKind,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Seconds since 1970.
    pub modified: i64,
    /// Where a link leads, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Directory,
    Link,
    /// A device, FIFO or socket.
    Other,
}

/// Changes to files: all of them or none. Paths must differ from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub changes: Vec<Change>,
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: String,
    /// What must be there now.
    pub expect: Expect,
    pub action: Action,
}

/// What must be at a path for a change to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Expect {
    /// Whatever is there, or nothing.
    Anything,
    /// Nothing; else [`ToolErrorCode::AlreadyExists`].
    Absent,
    /// A file with this SHA-256 in lower-case hexadecimal; else [`ToolErrorCode::FileNotFound`] or [`ToolErrorCode::Interrupted`].
    Content { sha256: String },
}

/// What a change does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Action {
    /// Replaces the file by a rename, or makes it with its parents. A link is followed: its target is replaced. Owner and mode stay.
    Write {
        /// Base64.
        data: String,
        /// Sets or clears the execute bits; unset: they stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executable: Option<bool>,
    },
    /// Removes a file or link, or a directory if it is empty or `recursive`. Refuses `/`, mount points and the home directory.
    Delete { recursive: bool },
    /// Moves a file to a path where nothing is, optionally with new content.
    Rename {
        to: String,
        /// Base64.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executable: Option<bool>,
    },
}

/// What an [`Edit`] has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditAnswer {
    /// One for each change, in their order.
    pub changes: Vec<Changed>,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Absolute; of a renamed file, the new one.
    pub path: String,
    /// Whether the file is new.
    pub created: bool,
    /// Files and directories that were removed.
    pub removed: u64,
}

/// A socket that listens inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListeningPort {
    pub port: u16,
    /// `0.0.0.0`, `127.0.0.1`, `::` …
    pub address: String,
    /// The process, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Tag of the service that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}
