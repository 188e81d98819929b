//! Unified diffs, as `git diff` and `diff -u` print them.

use super::source::{Source, is_binary};
use super::{Change, Hunk, Kind, Line, MAX_FILES, Op, PatchError, Range, header};

/// Reads all files of a diff. Lines between files that belong to none are ignored, as `git apply` does.
pub(super) fn parse(source: &mut Source<'_>) -> Result<Vec<Change>, PatchError> {
    let mut changes = Vec::new();
    while let Some(line) = source.peek(0) {
        let number = source.number();
        let change = if line.starts_with("diff --git ") {
            header::git(source)?
        } else if source.at_plain_header() {
            header::plain(source)?
        } else if line.starts_with("@@ -") {
            return Err(PatchError::malformed(number, line, "a hunk that belongs to no file:"));
        } else if line.starts_with("diff --cc ") || line.starts_with("diff --combined ") {
            return Err(PatchError::Unsupported { line: number, what: "the combined diff of a merge" });
        } else if is_binary(line) {
            return Err(PatchError::Unsupported { line: number, what: "a binary file" });
        } else {
            source.skip(1);
            continue;
        };
        let change = with_hunks(change, source)?;
        check(&change, number, line)?;
        changes.push(change);
        if changes.len() > MAX_FILES {
            return Err(PatchError::TooManyFiles);
        }
    }
    Ok(changes)
}

fn with_hunks(mut change: Change, source: &mut Source<'_>) -> Result<Change, PatchError> {
    while let Some(line) = source.peek(0).filter(|line| line.starts_with("@@")) {
        let number = source.number();
        if line.starts_with("@@@") {
            return Err(PatchError::Unsupported { line: number, what: "the combined diff of a merge" });
        }
        source.skip(1);
        let hunk = hunk(line, change.hunks.len() + 1, source)?;
        if hunk.lines.is_empty() {
            return Err(PatchError::malformed(number, line, "a hunk without lines:"));
        }
        change.hunks.push(hunk.close(number)?);
    }
    Ok(change)
}

/// Refuses what contradicts itself.
fn check(change: &Change, number: usize, line: &str) -> Result<(), PatchError> {
    let malformed = |reason: &str| Err(PatchError::malformed(number, line, reason));
    let has = |wanted: &[Op]| change.hunks.iter().flat_map(|hunk| &hunk.lines).any(|line| wanted.contains(&line.op));
    match change.kind {
        Kind::Create if change.hunks.len() > 1 || has(&[Op::Context, Op::Remove]) => {
            malformed("a new file must have one hunk in which every line begins with `+`:")
        }
        Kind::Delete if has(&[Op::Context, Op::Add]) => malformed("the hunk of a deleted file must remove every line:"),
        Kind::Modify if change.hunks.is_empty() && change.executable.is_none() => {
            malformed("the headers of a file without any change:")
        }
        _ => Ok(()),
    }
}

/// Reads the lines of a hunk whose header was `head`.
fn hunk(head: &str, number: usize, source: &mut Source<'_>) -> Result<Hunk, PatchError> {
    let counted = counts(head);
    let range = counted.map(|counts| Range { old: counts.old.0, new: counts.new.0 });
    let anchors = if range.is_some() { Vec::new() } else { anchor(head).into_iter().collect() };
    let lines = match counted.and_then(|counts| by_counts(counts, source)) {
        Some(lines) => lines,
        None => by_look(source)?,
    };
    Ok(Hunk { number, range, anchors, lines, at_end: false })
}

/// Beginnings and lengths in a hunk's header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) old: (usize, usize),
    pub(super) new: (usize, usize),
}

/// Reads `@@ -1,2 +3,4 @@`.
pub(super) fn counts(head: &str) -> Option<Counts> {
    let (ranges, _) = head.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| {
        let number = |digits: &str| digits.parse::<u32>().ok().and_then(|value| usize::try_from(value).ok());
        match text.split_once(',') {
            Some((start, count)) => Some((number(start)?, number(count)?)),
            None => Some((number(text)?, 1)),
        }
    };
    Some(Counts { old: range(old)?, new: range(new)? })
}

/// The text of an `@@` line without line numbers; none if it says nothing.
pub(super) fn anchor(head: &str) -> Option<String> {
    let text = head.strip_prefix("@@")?;
    let text = text.strip_prefix(' ').unwrap_or(text).trim_end();
    let text = text.strip_suffix("@@").map_or(text, str::trim_end);
    (!["", "...", "…"].contains(&text.trim())).then(|| text.to_owned())
}

/// The lines that the counts ask for; none if the counts are wrong.
fn by_counts(counts: Counts, source: &mut Source<'_>) -> Option<Vec<Line>> {
    let (mut old, mut new) = (counts.old.1, counts.new.1);
    let mut lines: Vec<Line> = Vec::new();
    let mut ahead = 0;
    while old > 0 || new > 0 {
        let text = source.peek(ahead)?;
        ahead += 1;
        if text.starts_with('\\') {
            lines.last_mut()?.newline = false;
            continue;
        }
        let line = line(text)?;
        let (takes_old, takes_new) = (usize::from(line.op != Op::Add), usize::from(line.op != Op::Remove));
        old = old.checked_sub(takes_old)?;
        new = new.checked_sub(takes_new)?;
        lines.push(line);
    }
    if source.peek(ahead).is_some_and(|text| text.starts_with('\\')) {
        lines.last_mut()?.newline = false;
        ahead += 1;
    }
    // More lines of a hunk follow: git would drop them without a word.
    if source.peek(ahead).is_some_and(|text| !text.is_empty()) && !source.ends_hunk(ahead) {
        return None;
    }
    source.skip(ahead);
    Some(lines)
}

/// All lines that look like lines of a hunk.
fn by_look(source: &mut Source<'_>) -> Result<Vec<Line>, PatchError> {
    let mut lines: Vec<Line> = Vec::new();
    let mut blanks = 0;
    while !source.ends_hunk(0) {
        let number = source.number();
        let text = source.next().unwrap_or_default();
        if text.starts_with('\\') {
            let Some(last) = lines.last_mut() else {
                return Err(PatchError::malformed(number, text, "no line precedes:"));
            };
            last.newline = false;
        } else if let Some(line) = line(text) {
            blanks = if text.is_empty() { blanks + 1 } else { 0 };
            lines.push(line);
        }
    }
    // Empty lines after a hunk separate it from what follows.
    lines.truncate(lines.len() - blanks);
    Ok(lines)
}

/// One line of a hunk. An empty one is an empty line of context whose blank got lost.
pub(super) fn line(text: &str) -> Option<Line> {
    let op = match text.as_bytes().first() {
        None | Some(b' ') => Op::Context,
        Some(b'-') => Op::Remove,
        Some(b'+') => Op::Add,
        Some(_) => return None,
    };
    Some(Line { op, text: text.get(1..).unwrap_or_default().to_owned(), newline: true })
}
