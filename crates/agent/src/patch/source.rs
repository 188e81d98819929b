//! The lines of a patch: without a code fence around them, and with the line ends of the patch itself removed.

use super::{Form, PatchError};

/// The lines of a patch and how far they were read.
#[derive(Debug)]
pub(super) struct Source<'a> {
    lines: Vec<&'a str>,
    at: usize,
    /// Lines of the text before the first of `lines`.
    skipped: usize,
    pub(super) form: Form,
}

impl<'a> Source<'a> {
    /// Finds the first header.
    pub(super) fn new(text: &'a str) -> Result<Self, PatchError> {
        let mut lines: Vec<&str> = text.split('\n').collect();
        if text.ends_with('\n') || text.is_empty() {
            lines.pop();
        }
        let skipped = remove_fence(&mut lines);
        let header = (0..lines.len()).find_map(|at| Some((at, form_of(&lines, at)?)));
        let Some((at, form)) = header else {
            return Err(without_header(&lines, skipped));
        };
        // A patch that was converted as a whole: its headers end with CRLF too. A diff of a file with CRLF has plain headers.
        if lines[at].ends_with('\r') {
            for line in &mut lines {
                *line = line.strip_suffix('\r').unwrap_or(line);
            }
        }
        Ok(Self { lines, at, skipped, form })
    }

    /// The line that `next` returns, or one after it.
    pub(super) fn peek(&self, ahead: usize) -> Option<&'a str> {
        self.lines.get(self.at + ahead).copied()
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        let line = self.peek(0)?;
        self.at += 1;
        Some(line)
    }

    pub(super) fn skip(&mut self, lines: usize) {
        self.at += lines;
    }

    /// The number of the line that `peek(0)` returns, within the text.
    pub(super) fn number(&self) -> usize {
        self.skipped + self.at + 1
    }

    /// Whether a header of a file without git's headers begins here.
    pub(super) fn at_plain_header(&self) -> bool {
        is_plain_header(&self.lines, self.at)
    }

    /// Whether the line `ahead` of the next one begins something that is not part of a hunk.
    pub(super) fn ends_hunk(&self, ahead: usize) -> bool {
        let Some(line) = self.peek(ahead) else { return true };
        let signature = line == "-- ";
        signature
            || !(line.is_empty() || line.starts_with([' ', '+', '-', '\\']))
            || is_plain_header(&self.lines, self.at + ahead)
    }

    /// Whether all that follows is blank.
    pub(super) fn only_blanks_follow(&self) -> bool {
        self.lines[self.at.min(self.lines.len())..].iter().all(|line| line.trim().is_empty())
    }
}

/// Removes a Markdown code fence around everything; returns how many lines it removed at the beginning.
fn remove_fence(lines: &mut Vec<&str>) -> usize {
    let is_blank = |line: &&str| line.trim().is_empty();
    let Some(first) = lines.iter().position(|line| !is_blank(line)) else { return 0 };
    let opening = lines[first].trim_start();
    let Some(fence) = ["```", "~~~"].into_iter().find(|fence| opening.starts_with(fence)) else { return 0 };
    if let Some(last) = lines.iter().rposition(|line| !is_blank(line))
        && last > first
        && lines[last].trim().starts_with(fence)
    {
        lines.truncate(last);
    }
    lines.drain(..=first);
    first + 1
}

fn form_of(lines: &[&str], at: usize) -> Option<Form> {
    let line = lines[at];
    if line.trim_end() == "*** Begin Patch" {
        Some(Form::Sections)
    } else if line.starts_with("diff --git ") || is_plain_header(lines, at) {
        Some(Form::Unified)
    } else {
        None
    }
}

fn is_plain_header(lines: &[&str], at: usize) -> bool {
    let begins = |ahead: usize, with: &str| lines.get(at + ahead).is_some_and(|line| line.starts_with(with));
    begins(0, "--- ") && begins(1, "+++ ") && begins(2, "@@")
}

/// Why there is no header.
fn without_header(lines: &[&str], skipped: usize) -> PatchError {
    for (index, line) in lines.iter().enumerate() {
        let number = skipped + index + 1;
        if ["*** Update File:", "*** Add File:", "*** Delete File:"].iter().any(|begin| line.starts_with(begin)) {
            return PatchError::malformed(number, line, "`*** Begin Patch` is missing before");
        }
        if line.starts_with("@@ -") {
            let reason = "a hunk without the lines `--- a/PATH` and `+++ b/PATH` that name its file:";
            return PatchError::malformed(number, line, reason);
        }
        if is_binary(line) {
            return PatchError::Unsupported { line: number, what: "a binary file" };
        }
    }
    PatchError::NotAPatch
}

/// Whether a line says that a difference is binary.
pub(super) fn is_binary(line: &str) -> bool {
    line == "GIT binary patch" || (line.starts_with("Binary files ") && line.trim_end().ends_with(" differ"))
}
