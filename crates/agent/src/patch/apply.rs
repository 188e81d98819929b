//! What a change makes of the content of a file.

use super::error::SHOWN_LINES;
use super::place::{FileLine, Finder, Level, Place, split, without_return};
use super::refusal::describe;
use super::{Change, Form, Hunk, Kind, Line, Op, PatchError, Shown};

/// Applies a change to the content that the file has now, `None` if there is none, and returns its new content: bytes that no hunk
/// names stay as they are, also if they are not UTF-8. The result of a deletion is empty.
///
/// # Errors
/// If the file must exist and does not, or the other way round, or if a hunk has no place or more than one.
pub fn apply(change: &Change, old: Option<&[u8]>) -> Result<Vec<u8>, PatchError> {
    let path = || change.path.clone();
    match (&change.kind, old) {
        (Kind::Create, Some(_)) => Err(PatchError::Exists { path: path() }),
        (Kind::Create, None) => Ok(created(change)),
        (Kind::Modify, None) if change.may_create() => Ok(created(change)),
        (_, None) => Err(PatchError::Missing { path: path() }),
        (Kind::Delete, Some(_)) if change.form == Form::Sections => Ok(Vec::new()),
        (Kind::Delete, Some(old)) => {
            let left = patched(change, old)?;
            if left.is_empty() {
                return Ok(left);
            }
            let lines = split(&left);
            let shown = lines.iter().take(SHOWN_LINES).enumerate();
            let there = shown.map(|(index, line)| Shown::new(index + 1, line.text)).collect();
            Err(PatchError::LeavesContent { path: path(), there })
        }
        (Kind::Modify | Kind::Rename { .. }, Some(old)) => patched(change, old),
    }
}

fn created(change: &Change) -> Vec<u8> {
    let mut content = Vec::new();
    for line in change.hunks.iter().flat_map(|hunk| &hunk.lines) {
        content.extend_from_slice(line.text.as_bytes());
        content.extend(line.newline.then_some(b'\n'));
    }
    content
}

fn patched(change: &Change, old: &[u8]) -> Result<Vec<u8>, PatchError> {
    let lines = split(old);
    let mut finder = Finder::new(&lines, change.form);
    let mut writer = Writer { lines: &lines, form: change.form, next: 0, content: Vec::with_capacity(old.len()) };
    for hunk in &change.hunks {
        let place = finder.place(hunk).map_err(|nowhere| describe(&change.path, hunk, &mut finder, nowhere))?;
        writer.write(hunk, place);
    }
    writer.copy_to(lines.len());
    Ok(writer.content)
}

/// Writes the new content.
#[derive(Debug)]
struct Writer<'a> {
    lines: &'a [FileLine<'a>],
    form: Form,
    /// Index of the first line of the file that is not yet written or removed.
    next: usize,
    content: Vec<u8>,
}

impl Writer<'_> {
    fn write(&mut self, hunk: &Hunk, place: Place) {
        self.copy_to(place.at);
        // Exact hunks of diffs say themselves how their lines end, unless no line shows how the file does it.
        let adds_only = self.next == self.lines.len() && hunk.lines.iter().all(|line| line.op == Op::Add);
        let literal = self.form == Form::Unified && place.level == Level::Exact && !(adds_only && self.next > 0);
        for line in &hunk.lines {
            match line.op {
                Op::Context => self.copy_to(self.next + 1),
                Op::Remove => self.next += 1,
                Op::Add if literal => {
                    self.content.extend_from_slice(line.text.as_bytes());
                    self.content.extend(line.newline.then_some(b'\n'));
                }
                Op::Add => self.add(line),
            }
        }
        if !literal {
            self.end_file(hunk);
        }
    }

    /// Copies lines of the file up to an index.
    fn copy_to(&mut self, end: usize) {
        for line in self.lines.get(self.next..end).unwrap_or_default() {
            self.content.extend_from_slice(line.text);
            self.content.extend(line.newline.then_some(b'\n'));
        }
        self.next = end;
    }

    /// Adds a line that ends as the lines around it do.
    fn add(&mut self, line: &Line) {
        let ending = self.ending();
        if self.content.last().is_some_and(|last| *last != b'\n') {
            self.content.extend_from_slice(ending);
        }
        self.content.extend_from_slice(without_return(line.text.as_bytes()));
        self.content.extend_from_slice(ending);
    }

    /// How the lines around the next one end.
    fn ending(&self) -> &'static [u8] {
        let before = self.lines[..self.next].iter().rev().take(2);
        let around = before.chain(&self.lines[self.next..]).find(|line| line.newline);
        if around.is_some_and(|line| line.text.ends_with(b"\r")) { b"\r\n" } else { b"\n" }
    }

    /// After a hunk at the end of the file that added its last line: ends it as the patch says, or else as the file did.
    fn end_file(&mut self, hunk: &Hunk) {
        let last_new = hunk.lines.iter().rev().find(|line| line.op != Op::Remove);
        let Some(last_new) = last_new.filter(|line| line.op == Op::Add) else { return };
        let Some(last_old) = self.lines.last().filter(|_| self.next == self.lines.len()) else { return };
        let says = hunk.lines.iter().any(|line| !line.newline);
        let newline = if says { last_new.newline } else { last_old.newline };
        // An empty line is its newline.
        if !newline && !without_return(last_new.text.as_bytes()).is_empty() {
            let ending = if self.content.ends_with(b"\r\n") { 2 } else { usize::from(self.content.ends_with(b"\n")) };
            self.content.truncate(self.content.len() - ending);
        }
    }
}
