//! Headers of files in unified diffs: which file, and what becomes of it.

use super::name::{self, Name};
use super::source::{Source, is_binary};
use super::{Change, Form, Kind, PatchError};

/// What the headers of one file say.
#[derive(Debug, Default)]
struct Header {
    /// Whether `diff --git` begins it.
    git: bool,
    /// The name in `diff --git`, if both are the same.
    common: Option<String>,
    names: Option<(Name, Name)>,
    created: bool,
    deleted: bool,
    rename_from: Option<String>,
    rename_to: Option<String>,
    executable: Option<bool>,
}

/// Reads the headers of a file that begin with `diff --git`.
pub(super) fn git(source: &mut Source<'_>) -> Result<Change, PatchError> {
    let number = source.number();
    let first = source.next().unwrap_or_default();
    let names = first.strip_prefix("diff --git ").unwrap_or_default();
    let mut header = Header { git: true, common: name::of_git_header(names, number)?, ..Header::default() };
    while let Some(line) = source.peek(0) {
        let at = source.number();
        if let Some(old) = line.strip_prefix("--- ") {
            header.names = Some((Name::parse(old, at)?, new_name(source)?));
            break;
        } else if is_binary(line) {
            return Err(PatchError::Unsupported { line: at, what: "a binary file" });
        } else if !header.extended(line, at)? {
            break;
        }
        source.skip(1);
    }
    header.change(number, first)
}

/// Reads a header without git's: `---` and `+++`.
pub(super) fn plain(source: &mut Source<'_>) -> Result<Change, PatchError> {
    let number = source.number();
    let first = source.peek(0).unwrap_or_default();
    let old = Name::parse(first.strip_prefix("--- ").unwrap_or_default(), number)?;
    let new = new_name(source)?;
    Header { names: Some((old, new)), ..Header::default() }.change(number, first)
}

/// The name after `+++`, which follows `---`; both lines are read then.
fn new_name(source: &mut Source<'_>) -> Result<Name, PatchError> {
    let at = source.number() + 1;
    let Some(new) = source.peek(1).and_then(|line| line.strip_prefix("+++ ")) else {
        return Err(PatchError::malformed(at, source.peek(1).unwrap_or_default(), "`+++ PATH` must follow `---`:"));
    };
    source.skip(2);
    Name::parse(new, at)
}

impl Header {
    /// Takes one of git's header lines; whether it is one.
    fn extended(&mut self, line: &str, at: usize) -> Result<bool, PatchError> {
        let line = line.trim_end_matches('\r');
        let Some((key, value)) = KEYS.iter().find_map(|key| Some((*key, line.strip_prefix(key)?))) else {
            return Ok(false);
        };
        match key {
            "old mode " => drop(mode(value, line, at)?),
            "new mode " => self.executable = Some(mode(value, line, at)?),
            "new file mode " => {
                self.created = true;
                self.executable = Some(mode(value, line, at)?);
            }
            "deleted file mode " => {
                self.deleted = true;
                mode(value, line, at)?;
            }
            "rename from " => self.rename_from = Some(name::whole(value, at)?),
            "rename to " => self.rename_to = Some(name::whole(value, at)?),
            "copy from " | "copy to " => return Err(PatchError::Unsupported { line: at, what: "a copy of a file" }),
            "index " => {
                if let Some((_, value)) = value.split_once(' ') {
                    mode(value, line, at)?;
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// What the headers mean together.
    fn change(self, number: usize, first: &str) -> Result<Change, PatchError> {
        let malformed = |reason: &str| PatchError::malformed(number, first, reason);
        let has_rename = self.rename_from.is_some() || self.rename_to.is_some();
        let (old, new) = self.stripped_names();
        let (kind, path) = if has_rename {
            let (Some(from), Some(to)) = (&self.rename_from, &self.rename_to) else {
                return Err(malformed("`rename from` and `rename to` must come together:"));
            };
            let (from, to) = (name::path(from, number)?, name::path(to, number)?);
            if from == to { (Kind::Modify, from) } else { (Kind::Rename { to }, from) }
        } else {
            let kind = match &self.names {
                _ if self.created && self.deleted => return Err(malformed("a file cannot be new and deleted:")),
                Some((old, new)) if old.is_null() && new.is_null() => {
                    return Err(malformed("neither `---` nor `+++` names a file:"));
                }
                Some((old, _)) if self.created && !old.is_null() => {
                    return Err(malformed("`---` of a new file must be /dev/null:"));
                }
                Some((_, new)) if self.deleted && !new.is_null() => {
                    return Err(malformed("`+++` of a deleted file must be /dev/null:"));
                }
                Some((old, _)) if old.never => Kind::Create,
                Some((_, new)) if new.never => Kind::Delete,
                _ if self.created => Kind::Create,
                _ if self.deleted => Kind::Delete,
                _ => Kind::Modify,
            };
            let path =
                self.path(&kind, old, new).ok_or_else(|| malformed("the names of the file differ or are missing:"))?;
            (kind, name::path(&path, number)?)
        };
        Ok(Change { path, kind, hunks: Vec::new(), executable: self.executable, form: Form::Unified })
    }

    /// The names after `---` and `+++` without prefixes; absent for `/dev/null`.
    fn stripped_names(&self) -> (Option<String>, Option<String>) {
        let Some((old, new)) = &self.names else { return (None, None) };
        match (old.is_null(), new.is_null()) {
            (false, false) => {
                let (old, new) = name::without_prefixes(&old.text, &new.text);
                (Some(old.to_owned()), Some(new.to_owned()))
            }
            (true, false) => (None, Some(name::without_prefix(&new.text).to_owned())),
            (false, true) => (Some(name::without_prefix(&old.text).to_owned()), None),
            (true, true) => (None, None),
        }
    }

    /// The path of a file that is not renamed.
    fn path(&self, kind: &Kind, old: Option<String>, new: Option<String>) -> Option<String> {
        let path = match (kind, old, new) {
            (_, None, None) => return self.common.clone(),
            (Kind::Delete, Some(old), _) => old,
            (_, Some(old), Some(new)) if self.git => (old == new).then_some(new)?,
            // As git: `x.orig` and `x~` are older versions of `x`.
            (_, Some(old), Some(new)) => {
                if new.starts_with(&old) {
                    old
                } else {
                    new
                }
            }
            (_, Some(path), None) | (_, None, Some(path)) => path,
        };
        match &self.common {
            Some(common) if *common != path => None,
            _ => Some(path),
        }
    }
}

/// Git's header lines.
const KEYS: [&str; 13] = [
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
    "rename old ",
    "rename new ",
    "similarity index ",
    "dissimilarity index ",
    "index ",
];

/// Whether a mode has the execute bit.
fn mode(text: &str, line: &str, at: usize) -> Result<bool, PatchError> {
    let mode = u32::from_str_radix(text.trim(), 8).map_err(|_| PatchError::malformed(at, line, "a bad mode:"))?;
    match mode & 0o170_000 {
        0o100_000 | 0 => Ok(mode & 0o111 != 0),
        0o120_000 => Err(PatchError::Unsupported { line: at, what: "a symbolic link" }),
        0o160_000 => Err(PatchError::Unsupported { line: at, what: "a submodule" }),
        _ => Err(PatchError::malformed(at, line, "a bad mode:")),
    }
}
