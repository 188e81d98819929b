//! Patches that models write: what they say ([`Patch::parse`]) and what they make of a file ([`apply`]). No file is touched here.
//!
//! Two forms are read, told apart by the first header:
//!
//! - unified diffs as `git diff` and `diff -u` print them. Where `git apply` accepts one, the result is the same, or the patch is
//!   refused because more than one place fits, or because it denies a newline at the end that the file has. Beyond git, these are
//!   accepted: lines that differ only in trailing blanks, line ends or an unmentioned missing newline at the end; counts in `@@` that
//!   are wrong or missing; hunks with no context on one side that fit at their line or in exactly one place of the file;
//! - `*** Begin Patch`, with sections for files and hunks without line numbers.
//!
//! No place is guessed: a hunk that fits in several places is refused unless its line number, its `@@` line or the end of the file
//! says which.

mod anchor;
mod apply;
mod error;
mod header;
mod name;
mod place;
mod refusal;
mod sections;
mod source;
mod unified;
mod whole;

#[cfg(test)]
mod tests;

pub use apply::apply;
pub use error::{PatchError, Shown};
pub use whole::{Applied, FileChange};

use source::Source;

/// Longest patch, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// Most files in one patch.
pub const MAX_FILES: usize = 500;
/// Longest path, in bytes.
pub const MAX_PATH: usize = 4096;

/// A patch: what is to be done with each file, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    pub changes: Vec<Change>,
}

/// What is to be done with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Relative, or absolute as the patch has it; without `.`, `..` and empty components.
    pub path: String,
    pub kind: Kind,
    pub hunks: Vec<Hunk>,
    /// The execute bit that the file gets, if the patch says so.
    pub executable: Option<bool>,
    form: Form,
}

/// The kind of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Create,
    Modify,
    Delete,
    /// The file moves; its hunks may change it too.
    Rename {
        to: String,
    },
}

/// The form in which a change was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Unified,
    Sections,
}

/// Lines that are found together and changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Within its file, from 1.
    pub number: usize,
    range: Option<Range>,
    /// Lines that stand before the hunk, in this order, not necessarily next to it.
    anchors: Vec<String>,
    lines: Vec<Line>,
    /// The hunk's last line is the file's last line.
    at_end: bool,
}

/// Where a hunk begins, from 1; 0 if it has no lines there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    old: usize,
    new: usize,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    op: Op,
    /// Without `\n`; a `\r` before it is part of the text.
    text: String,
    /// Whether a `\n` follows.
    newline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Context,
    Remove,
    Add,
}

impl Patch {
    /// Reads a patch in either form. A Markdown code fence around it and text before its first header are ignored.
    ///
    /// # Errors
    /// If the text is no patch, says something that is not supported, or exceeds a limit. Nothing of it counts then.
    pub fn parse(text: &str) -> Result<Self, PatchError> {
        if text.len() > MAX_BYTES {
            return Err(PatchError::TooLarge { bytes: text.len() });
        }
        let mut source = Source::new(text)?;
        let changes =
            if source.form == Form::Sections { sections::parse(&mut source)? } else { unified::parse(&mut source)? };
        let patch = Self { changes };
        patch.check_paths()?;
        Ok(patch)
    }

    /// The paths that the patch reads or writes, each once, in the order of the patch.
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for change in &self.changes {
            for path in std::iter::once(change.path.as_str()).chain(change.target()) {
                if seen.insert(path) {
                    paths.push(path);
                }
            }
        }
        paths
    }

    /// A path is changed once; only modifications of the same file may follow each other.
    fn check_paths(&self) -> Result<(), PatchError> {
        let mut seen = std::collections::HashMap::new();
        for change in &self.changes {
            let modifies = change.kind == Kind::Modify;
            for path in std::iter::once(change.path.as_str()).chain(change.target()) {
                if let Some(earlier) = seen.insert(path, modifies)
                    && !(earlier && modifies)
                {
                    return Err(PatchError::Duplicate { path: path.to_owned() });
                }
            }
        }
        Ok(())
    }
}

impl Change {
    /// Lines that the patch adds.
    pub fn added(&self) -> usize {
        self.count(Op::Add)
    }

    /// Lines that the patch says it removes. A `*** Delete File` says nothing of them.
    pub fn removed(&self) -> usize {
        self.count(Op::Remove)
    }

    /// Where the file is after a rename.
    pub fn target(&self) -> Option<&str> {
        match &self.kind {
            Kind::Rename { to } => Some(to),
            _ => None,
        }
    }

    /// Whether a modification may also make the file: a diff without git's headers cannot say that a file is new.
    pub fn may_create(&self) -> bool {
        let from_nothing = |hunk: &Hunk| {
            hunk.range.is_some_and(|range| range.old == 0) && hunk.lines.iter().all(|line| line.op == Op::Add)
        };
        self.kind == Kind::Modify && self.hunks.len() == 1 && self.hunks.iter().all(from_nothing)
    }

    fn count(&self, op: Op) -> usize {
        self.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.op == op).count()
    }
}

impl Hunk {
    /// The lines that must be in the file.
    fn old_lines(&self) -> Vec<&Line> {
        self.lines.iter().filter(|line| line.op != Op::Add).collect()
    }

    /// Checks what no file can satisfy, and finds out whether the hunk can only be at the end.
    fn close(mut self, line: usize) -> Result<Self, PatchError> {
        for side in [Op::Remove, Op::Add] {
            let mut of_side = self.lines.iter().filter(|line| line.op == Op::Context || line.op == side).rev();
            of_side.next();
            if of_side.any(|line| !line.newline) {
                let reason = "`\\ No newline at end of file` may only follow the last line of a file";
                return Err(PatchError::malformed(line, "", reason));
            }
        }
        self.at_end |= self.lines.iter().any(|line| !line.newline);
        Ok(self)
    }
}
