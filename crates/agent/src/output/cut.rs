//! The beginning and the end of long text.

use crate::text::{head, tail};

/// Text that was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    pub text: String,
    /// Whether something was left out.
    pub truncated: bool,
    /// Lines and bytes that were left out.
    pub lines: u64,
    pub bytes: u64,
}

/// Cuts text to `limit` bytes, and a line that says what is missing and in which file all of it is: a fifth of the limit from the
/// beginning, the rest from the end, where errors stand. It cuts between lines if they are not too long.
pub fn cut(text: &str, limit: usize, full_output: Option<&str>) -> Cut {
    if text.len() <= limit {
        return Cut { text: text.to_owned(), truncated: false, lines: 0, bytes: 0 };
    }
    let first = beginning(text, limit / 5);
    let last = end(&text[first.len()..], limit - first.len());
    let gap = &text[first.len()..text.len() - last.len()];
    joined(first, (count_lines(gap), gap.len() as u64), last, full_output)
}

/// What is missing in the middle of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) newlines: u64,
    pub(super) bytes: u64,
    /// Whether its last byte ends a line.
    pub(super) ends_line: bool,
}

/// Cuts text whose middle is missing already.
pub(super) fn cut_parts(first: &str, gap: Gap, last: &str, limit: usize, full_output: Option<&str>) -> Cut {
    // What one part does not need is for the other.
    let for_first = (limit / 5).max(limit.saturating_sub(last.len()));
    let shown_first = beginning(first, for_first);
    let shown_last = end(last, limit - shown_first.len());
    let (rest_first, rest_last) = (&first[shown_first.len()..], &last[..last.len() - shown_last.len()]);
    let ends_line = if rest_last.is_empty() { gap.ends_line } else { rest_last.ends_with('\n') };
    let lines = gap.newlines + newlines(rest_first) + newlines(rest_last) + u64::from(!ends_line);
    let bytes = gap.bytes + (rest_first.len() + rest_last.len()) as u64;
    joined(shown_first, (lines, bytes), shown_last, full_output)
}

fn joined(first: &str, (lines, bytes): (u64, u64), last: &str, full_output: Option<&str>) -> Cut {
    let line_end = if first.is_empty() || first.ends_with('\n') { "" } else { "\n" };
    let all = full_output.map_or_else(String::new, |path| format!("; all of it: {path}"));
    let text = format!("{first}{line_end}[… {lines} lines, {bytes} bytes left out{all} …]\n{last}");
    Cut { text, truncated: true, lines, bytes }
}

/// The beginning of a text, up to the end of a line unless that loses more than half of it.
fn beginning(text: &str, bytes: usize) -> &str {
    let part = head(text, bytes);
    if part.len() == text.len() {
        return part;
    }
    match part.rfind('\n') {
        Some(end) if end + 1 >= part.len() / 2 => &part[..=end],
        _ => part,
    }
}

/// The end of a text, from the beginning of a line unless that loses more than half of it.
fn end(text: &str, bytes: usize) -> &str {
    let part = tail(text, bytes);
    let before = &text[..text.len() - part.len()];
    if before.is_empty() || before.ends_with('\n') {
        return part;
    }
    match part.find('\n') {
        Some(end) if end < part.len() / 2 => &part[end + 1..],
        _ => part,
    }
}

/// Lines that a text that is not empty begins or continues.
fn count_lines(text: &str) -> u64 {
    newlines(text) + u64::from(!text.ends_with('\n'))
}

fn newlines(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}
