//! A whole patch: all files or none.

use std::collections::HashMap;

use super::{Change, Kind, Patch, PatchError, apply};

/// What a patch makes of all its files. Nothing is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// In the order of the patch; each path once.
    pub files: Vec<FileChange>,
}

/// What becomes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    pub kind: Kind,
    /// The content before, `None` if the file is new.
    pub old: Option<Vec<u8>>,
    /// The content after; empty if the file is deleted.
    pub new: Vec<u8>,
    pub executable: Option<bool>,
    pub added: usize,
    pub removed: usize,
}

impl Patch {
    /// Applies all changes to the files that `read` returns, `None` for one that does not exist. `read` is called at most once for
    /// each path.
    ///
    /// # Errors
    /// The first error of `read`, or why the patch does not apply.
    pub fn apply<E: From<PatchError>>(
        &self,
        mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Applied, E> {
        let mut files: Vec<FileChange> = Vec::new();
        let mut index: HashMap<&str, usize> = HashMap::new();
        for change in &self.changes {
            if let Some(earlier) = index.get(change.path.as_str()) {
                let file = &mut files[*earlier];
                file.new = apply(change, Some(&file.new))?;
                file.added += change.added();
                file.removed += change.removed();
                file.executable = change.executable.or(file.executable);
                continue;
            }
            let old = read(&change.path)?;
            if let Some(to) = change.target()
                && read(to)?.is_some()
            {
                return Err(PatchError::Exists { path: to.to_owned() }.into());
            }
            index.insert(&change.path, files.len());
            files.push(file_change(change, old)?);
        }
        Ok(Applied { files })
    }
}

fn file_change(change: &Change, old: Option<Vec<u8>>) -> Result<FileChange, PatchError> {
    let new = apply(change, old.as_deref())?;
    let kind = if old.is_none() { Kind::Create } else { change.kind.clone() };
    let removed = match (&kind, &old) {
        (Kind::Delete, Some(old)) => old.split_inclusive(|byte| *byte == b'\n').count(),
        _ => change.removed(),
    };
    Ok(FileChange {
        path: change.path.clone(),
        kind,
        new,
        executable: change.executable,
        added: change.added(),
        removed,
        old,
    })
}
