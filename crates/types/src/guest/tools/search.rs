//! Searching the content and the names of files.

use serde::{Deserialize, Serialize};

/// Searches the content of files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grep {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub pattern: String,
    /// A directory or a file.
    pub path: String,
    /// Globs, as in ignore files; none for all.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    /// Whether the pattern is a text instead of a regular expression.
    pub literal: bool,
    pub case: Case,
    /// Lines before and after a match.
    pub context: u32,
    pub output: GrepOutput,
    /// Lines or files to return.
    pub limit: usize,
    /// Matching lines to return of one file.
    pub per_file: usize,
    /// Characters of a returned line.
    pub max_line: usize,
    /// Whether ignored and hidden files are searched.
    pub ignored: bool,
}

/// Whether letters match their other case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// They do, unless the pattern has an upper-case letter.
    #[default]
    Smart,
    Sensitive,
    Insensitive,
}

/// What a search returns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrepOutput {
    #[default]
    Lines,
    Files,
    Count,
}

/// What a search has found. Files are sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepAnswer {
    pub files: Vec<GrepFile>,
    /// Matching lines in all files, also those that are not returned.
    pub total_matches: u64,
    /// Files with a match.
    pub total_files: u64,
    /// Whether something was left out.
    pub truncated: bool,
}

/// A file with matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepFile {
    /// Relative to the searched directory, or the file's name.
    pub path: String,
    /// Matching lines.
    pub count: u64,
    /// Matching and context lines, in order; empty unless they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<GrepLine>,
}

/// A line of a file with matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrepLine {
    pub number: u64,
    pub text: String,
    /// Whether it matches; else it is context.
    pub matched: bool,
}

/// Finds files by a fuzzy match on their path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub query: String,
    pub path: String,
    pub kind: FindKind,
    pub limit: usize,
    pub ignored: bool,
}

/// Which entries are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindKind {
    #[default]
    File,
    Directory,
    Any,
}

/// Found paths, best first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindAnswer {
    /// Relative to the searched directory; directories end with `/`.
    pub paths: Vec<String>,
    /// Entries that match.
    pub total: u64,
    pub truncated: bool,
}
