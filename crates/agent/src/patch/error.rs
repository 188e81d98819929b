//! Why a patch was refused, in words for a model.

use std::fmt;

use crate::text::shorten;

/// Lines of a file that an error shows at most.
pub(super) const SHOWN_LINES: usize = 12;
/// Bytes of a line that an error shows at most.
const SHOWN_BYTES: usize = 200;

/// A line of a file, as an error shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// From 1.
    pub number: usize,
    pub text: String,
}

impl Shown {
    pub(super) fn new(number: usize, text: &[u8]) -> Self {
        Self { number, text: shorten(&String::from_utf8_lossy(text), SHOWN_BYTES) }
    }
}

/// Why a patch was refused. Nothing is changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("the patch has {bytes} bytes; at most {} are read", super::MAX_BYTES)]
    TooLarge { bytes: usize },
    #[error("the patch changes more than {} files", super::MAX_FILES)]
    TooManyFiles,
    #[error("the text is not a patch: it has neither `*** Begin Patch` nor the headers of a unified diff")]
    NotAPatch,
    #[error("line {line} of the patch: {reason}{}", quoted(.text))]
    Malformed { line: usize, text: String, reason: String },
    #[error("line {line} of the patch: {what} cannot be applied")]
    Unsupported { line: usize, what: &'static str },
    #[error("line {line} of the patch: the path{} {reason}", quoted(.path))]
    Path { line: usize, path: String, reason: &'static str },
    #[error("the patch changes {path} more than once")]
    Duplicate { path: String },
    #[error("{path} does not exist")]
    Missing { path: String },
    #[error("{path} exists already")]
    Exists { path: String },
    #[error("the patch deletes {path}, but the file has lines that the patch does not remove{}", listed(.there))]
    LeavesContent { path: String, there: Vec<Shown> },
    #[error("{path}: hunk {hunk} does not fit: {}", missing(.looked_for, *.matched, *.line, .there))]
    NotFound {
        path: String,
        hunk: usize,
        /// The first line of the hunk that is not there; empty if the hunk must be at the beginning or the end and is not.
        looked_for: String,
        /// Lines of the hunk before it that are there.
        matched: usize,
        /// Where in the file it was looked for, from 1.
        line: usize,
        there: Vec<Shown>,
    },
    #[error("{path}: hunk {hunk} fits in {} places, at lines {}", places.len(), joined(.places))]
    Ambiguous {
        path: String,
        hunk: usize,
        /// First lines of the places, from 1; at most 20.
        places: Vec<usize>,
    },
    #[error("{path}: hunk {hunk} fits only at line {line}, before the end of the hunk that precedes it in the patch")]
    OutOfOrder { path: String, hunk: usize, line: usize },
    #[error("{path}: hunk {hunk} adds lines, but has no line of context that says where")]
    NoContext { path: String, hunk: usize },
    #[error("{path}: the line {anchor:?} after `@@` of hunk {hunk} is not in the file{}", similar(.there))]
    NoAnchor { path: String, hunk: usize, anchor: String, there: Vec<Shown> },
    #[error("{path}: finding the hunks takes too long")]
    TooComplex { path: String },
}

impl PatchError {
    pub(super) fn malformed(line: usize, text: &str, reason: impl Into<String>) -> Self {
        Self::Malformed { line, text: shorten(text, SHOWN_BYTES), reason: reason.into() }
    }

    pub(super) fn path_of(line: usize, path: &str, reason: &'static str) -> Self {
        Self::Path { line, path: shorten(path, SHOWN_BYTES), reason }
    }

    pub(super) fn not_found(
        path: &str,
        hunk: usize,
        looked_for: &[u8],
        matched: usize,
        line: usize,
        there: Vec<Shown>,
    ) -> Self {
        let looked_for = shorten(&String::from_utf8_lossy(looked_for), SHOWN_BYTES);
        Self::NotFound { path: path.to_owned(), hunk, looked_for, matched, line, there }
    }

    /// The file that the error is about, if it is about one.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Path { path, .. }
            | Self::Duplicate { path }
            | Self::Missing { path }
            | Self::Exists { path }
            | Self::LeavesContent { path, .. }
            | Self::NotFound { path, .. }
            | Self::Ambiguous { path, .. }
            | Self::OutOfOrder { path, .. }
            | Self::NoContext { path, .. }
            | Self::NoAnchor { path, .. }
            | Self::TooComplex { path } => Some(path),
            Self::TooLarge { .. }
            | Self::TooManyFiles
            | Self::NotAPatch
            | Self::Malformed { .. }
            | Self::Unsupported { .. } => None,
        }
    }

    /// What to try next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooManyFiles => "send several smaller patches",
            Self::NotAPatch => {
                "send the output of `git diff`, or `*** Begin Patch`, `*** Update File: PATH`, hunks, and `*** End Patch`"
            }
            Self::Malformed { .. } => "correct the line and send the whole patch again; no file was changed",
            Self::Unsupported { .. } => {
                "leave this file out of the patch and change it with a command, such as cp, ln or git"
            }
            Self::Path { .. } => "write the path of a file below the working directory, without `..`",
            Self::Duplicate { .. } => "put all changes of a file into one section, or send two patches",
            Self::Missing { .. } => "check the path by listing the directory, or create the file instead",
            Self::Exists { .. } => "modify the existing file instead, or choose another path",
            Self::LeavesContent { .. } => "read the file again; to delete it whatever it holds, use `*** Delete File`",
            Self::NotFound { .. } => {
                "the file differs from what the patch expects: read it again and copy the lines of context exactly"
            }
            Self::Ambiguous { .. } => {
                "add more lines of context before and after the change, or a `@@` line that names the function around it"
            }
            Self::OutOfOrder { .. } => "sort the hunks of a file by their place in the file",
            Self::NoContext { .. } => "put at least one unchanged line of the file before or after the new lines",
            Self::NoAnchor { .. } => "read the file again and copy the line exactly, or leave the text after `@@` out",
            Self::TooComplex { .. } => "split the patch, or give hunks line numbers as `git diff` does",
        }
    }
}

fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" {text:?}") }
}

fn joined(lines: &[usize]) -> String {
    lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn listed(lines: &[Shown]) -> String {
    lines.iter().fold(String::new(), |all, Shown { number, text }| all + &format!("\n{number}\t{text}"))
}

fn similar(lines: &[Shown]) -> String {
    if lines.is_empty() { String::new() } else { format!("; the most similar line:{}", listed(lines)) }
}

fn missing(looked_for: &str, matched: usize, line: usize, there: &[Shown]) -> impl fmt::Display {
    let before = match matched {
        0 => String::new(),
        1 => " after one line that fits".to_owned(),
        n => format!(" after {n} lines that fit"),
    };
    let there =
        if there.is_empty() { "; the file ends there".to_owned() } else { format!("; it has:{}", listed(there)) };
    if looked_for.is_empty() {
        format!("an empty line was looked for at line {line}{before}{there}")
    } else {
        format!("line {line} should be {looked_for:?}{before}{there}")
    }
}
