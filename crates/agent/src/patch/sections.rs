//! The `*** Begin Patch` form: sections for files, hunks without line numbers.

use super::source::Source;
use super::unified::{anchor, counts, line};
use super::{Change, Form, Hunk, Kind, MAX_FILES, Op, PatchError, Range, name};

/// Lines with `@@` before one hunk.
const MAX_ANCHORS: usize = 8;

/// Reads all sections up to `*** End Patch`.
pub(super) fn parse(source: &mut Source<'_>) -> Result<Vec<Change>, PatchError> {
    source.skip(1);
    let mut changes = Vec::new();
    loop {
        let number = source.number();
        let Some(head) = source.next() else {
            return Err(PatchError::malformed(number, "", "`*** End Patch` is missing: the patch was cut off"));
        };
        let head = head.trim_end();
        let path = |prefix: &str| head.strip_prefix(prefix).map(|path| name::path(path.trim(), number));
        let change = if head.is_empty() {
            continue;
        } else if head == "*** End Patch" {
            break;
        } else if let Some(path) = path("*** Add File:") {
            add(path?, source)?
        } else if let Some(path) = path("*** Delete File:") {
            new_change(path?, Kind::Delete)
        } else if let Some(path) = path("*** Update File:") {
            update(path?, number, source)?
        } else {
            let reason = "expected `*** Add File:`, `*** Update File:`, `*** Delete File:` or `*** End Patch`, not";
            return Err(PatchError::malformed(number, head, reason));
        };
        changes.push(change);
        if changes.len() > MAX_FILES {
            return Err(PatchError::TooManyFiles);
        }
    }
    if !source.only_blanks_follow() {
        return Err(PatchError::malformed(source.number(), "", "text follows `*** End Patch`"));
    }
    if changes.is_empty() {
        return Err(PatchError::NotAPatch);
    }
    Ok(changes)
}

fn new_change(path: String, kind: Kind) -> Change {
    Change { path, kind, hunks: Vec::new(), executable: None, form: Form::Sections }
}

fn add(path: String, source: &mut Source<'_>) -> Result<Change, PatchError> {
    let mut hunk = new_hunk(1);
    while let Some(text) = source.peek(0).filter(|text| !ends_section(text)) {
        let number = source.number();
        source.skip(1);
        match line(text) {
            Some(line) if line.op == Op::Add => hunk.lines.push(line),
            _ if text.trim().is_empty()
                && source.peek(0).is_none_or(|next| next.trim().is_empty() || ends_section(next)) => {}
            _ => return Err(PatchError::malformed(number, text, "every line of a new file must begin with `+`:")),
        }
    }
    let mut change = new_change(path, Kind::Create);
    change.hunks.push(hunk);
    Ok(change)
}

fn update(path: String, number: usize, source: &mut Source<'_>) -> Result<Change, PatchError> {
    let mut kind = Kind::Modify;
    if let Some(to) = source.peek(0).and_then(|line| line.strip_prefix("*** Move to:")) {
        let to = name::path(to.trim(), source.number())?;
        source.skip(1);
        if to != path {
            kind = Kind::Rename { to };
        }
    }
    let mut change = new_change(path, kind);
    while let Some(text) = source.peek(0).filter(|text| !ends_section(text)) {
        if text.trim().is_empty() && next_is_apart(source) {
            source.skip(1);
            continue;
        }
        let at = source.number();
        let hunk = hunk(change.hunks.len() + 1, source)?;
        if hunk.lines.is_empty() {
            return Err(PatchError::malformed(at, text, "a hunk without lines:"));
        }
        change.hunks.push(hunk.close(at)?);
    }
    if change.hunks.is_empty() && change.kind == Kind::Modify {
        return Err(PatchError::malformed(number, &change.path, "an update without any change of"));
    }
    Ok(change)
}

/// Reads a hunk with the `@@` lines before it.
fn hunk(number: usize, source: &mut Source<'_>) -> Result<Hunk, PatchError> {
    let mut hunk = new_hunk(number);
    while let Some(head) = source.peek(0).filter(|text| text.starts_with("@@")) {
        match counts(head) {
            Some(counts) => hunk.range = Some(Range { old: counts.old.0, new: counts.new.0 }),
            None => hunk.anchors.extend(anchor(head)),
        }
        if hunk.anchors.len() > MAX_ANCHORS {
            return Err(PatchError::malformed(source.number(), head, "too many `@@` lines before one hunk:"));
        }
        source.skip(1);
    }
    let mut blanks = 0;
    while let Some(text) = source.peek(0).filter(|text| !text.starts_with("@@") && !ends_section(text)) {
        let at = source.number();
        source.skip(1);
        if text.trim_end() == "*** End of File" {
            hunk.at_end = true;
            blanks = 0;
            break;
        }
        if text.starts_with("\\ ") {
            continue;
        }
        let Some(line) = line(text) else {
            let reason = "a line of a hunk must begin with a blank, `-` or `+`:";
            return Err(PatchError::malformed(at, text, reason));
        };
        blanks = if text.is_empty() { blanks + 1 } else { 0 };
        hunk.lines.push(line);
    }
    // Empty lines after a hunk separate it from what follows.
    hunk.lines.truncate(hunk.lines.len() - blanks);
    Ok(hunk)
}

fn new_hunk(number: usize) -> Hunk {
    Hunk { number, range: None, anchors: Vec::new(), lines: Vec::new(), at_end: false }
}

/// Whether only blank lines precede the next hunk or section.
fn next_is_apart(source: &Source<'_>) -> bool {
    let mut lines = (0..).map_while(|ahead| source.peek(ahead));
    lines.find(|text| !text.trim().is_empty()).is_none_or(|text| text.starts_with("@@") || ends_section(text))
}

/// Whether a line ends the section of a file.
fn ends_section(text: &str) -> bool {
    text.starts_with("*** ") && text.trim_end() != "*** End of File"
}
