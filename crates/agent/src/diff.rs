//! Unified diffs for models: bounded in length and time.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp};

use crate::text::shorten;

/// Lines of a diff that are shown at most.
pub const MAX_LINES: usize = 200;
/// Bytes of a diff that are shown at most.
pub const MAX_BYTES: usize = 16 << 10;
/// Bytes of one line that are shown at most.
const MAX_LINE: usize = 1000;
/// Lines of context around a change.
const CONTEXT: usize = 3;
/// After this time the rest counts as replaced.
const TIME: Duration = Duration::from_millis(300);

/// The difference of two contents of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// A unified diff; empty if nothing changed. If it is not `truncated` and has no overlong line, it can be applied.
    pub text: String,
    /// All lines that were added, also those not shown.
    pub added: usize,
    pub removed: usize,
    pub truncated: bool,
}

/// Compares two contents of a file. Bytes that are not UTF-8 are shown as `U+FFFD`, control characters are left out.
pub fn diff(old: &[u8], new: &[u8], path: &str) -> Diff {
    let lines = |content: &'_ [u8]| -> usize { content.split_inclusive(|byte| *byte == b'\n').count() };
    if old == new {
        return Diff { text: String::new(), added: 0, removed: 0, truncated: false };
    }
    if is_binary(old) || is_binary(new) {
        let text = format!("binary file {path} changed: {} bytes before, {} bytes now\n", old.len(), new.len());
        return Diff { text, added: lines(new), removed: lines(old), truncated: false };
    }
    let old: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
    let new: Vec<&[u8]> = new.split_inclusive(|byte| *byte == b'\n').collect();
    let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(Instant::now() + TIME));
    let (mut added, mut removed) = (0, 0);
    for op in ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. })) {
        added += op.new_range().len();
        removed += op.old_range().len();
    }
    let mut shown = Text { text: format!("--- a/{path}\n+++ b/{path}\n"), lines: 2, left_out: 0 };
    for group in similar::group_diff_ops(ops, CONTEXT) {
        shown.hunk(&group, &old, &new);
    }
    let truncated = shown.left_out > 0;
    if truncated {
        let _ = writeln!(shown.text, "[… {} more lines of this diff left out …]", shown.left_out);
    }
    Diff { text: shown.text, added, removed, truncated }
}

/// Whether a file is not text: it has a zero byte near its beginning.
fn is_binary(content: &[u8]) -> bool {
    memchr::memchr(0, &content[..content.len().min(8000)]).is_some()
}

/// The text of a diff as far as it is shown.
#[derive(Debug)]
struct Text {
    text: String,
    lines: usize,
    left_out: usize,
}

impl Text {
    fn hunk(&mut self, group: &[DiffOp], old: &[&[u8]], new: &[&[u8]]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let old_range = range(first.old_range().start, last.old_range().end);
        let new_range = range(first.new_range().start, last.new_range().end);
        self.push(&format!("@@ -{old_range} +{new_range} @@"));
        for op in group {
            if let DiffOp::Equal { .. } = op {
                op.old_range().for_each(|at| self.line(' ', old[at]));
            } else {
                op.old_range().for_each(|at| self.line('-', old[at]));
                op.new_range().for_each(|at| self.line('+', new[at]));
            }
        }
    }

    fn line(&mut self, sign: char, line: &[u8]) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        let text = line.strip_suffix(b"\n");
        let shown = text.unwrap_or(line);
        let shown = shown.strip_suffix(b"\r").unwrap_or(shown);
        // Two bytes more than are shown, so that a cut is noticed.
        let shown = shorten(&String::from_utf8_lossy(&shown[..shown.len().min(MAX_LINE + 4)]), MAX_LINE);
        self.push(&format!("{sign}{shown}"));
        if text.is_none() {
            self.push("\\ No newline at end of file");
        }
    }

    fn push(&mut self, line: &str) {
        if self.is_full() || self.text.len() + line.len() + 1 > MAX_BYTES {
            self.left_out += 1;
            return;
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.lines += 1;
    }

    /// Once something was left out, nothing follows it.
    fn is_full(&self) -> bool {
        self.left_out > 0 || self.lines >= MAX_LINES
    }
}

/// A range in a hunk's header.
fn range(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_changed_with_its_context() {
        let diff = diff(b"1\n2\n3\n4\n5\n6\n7\n8\n9\n", b"1\n2\n3\n4\nfive\n6\n7\n8\n9", "dir/x");
        assert_eq!(
            diff.text,
            "--- a/dir/x\n+++ b/dir/x\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n+9\n\\ No newline at end of file\n"
        );
        assert_eq!((diff.added, diff.removed, diff.truncated), (2, 2, false));
    }

    #[test]
    fn equal_empty_and_binary_contents() {
        assert_eq!(diff(b"x", b"x", "x").text, "");
        assert_eq!(diff(b"", b"x\n", "x").text, "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+x\n");
        assert!(diff(b"\0", b"x\n", "x").text.starts_with("binary file x changed"));
    }

    #[test]
    fn a_large_diff_is_bounded_and_its_counts_are_right() {
        let numbers = |from: usize| (from..from + 300_000).fold(String::new(), |all, n| all + &n.to_string() + "\n");
        let (old, new) = (numbers(0), numbers(1_000_000));
        let begin = Instant::now();
        let diff = diff(old.as_bytes(), new.as_bytes(), "x");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        assert!(diff.truncated && diff.text.lines().count() <= MAX_LINES + 1);
        assert_eq!((diff.added, diff.removed), (300_000, 300_000));
        let long = "é".repeat(1 << 20);
        let long = super::diff(b"", long.as_bytes(), "x");
        assert!(long.text.len() < 2 * MAX_LINE, "{}", long.text.len());
    }
}
