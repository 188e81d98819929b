//! `sandbox_apply_patch`.

use std::collections::HashMap;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabana_types::guest::tools::{Action, Change, Edit, Expect};
use cabana_types::tool::ToolErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::write::{File, check_text, whole};
use super::{Spec, Tool, parse, size, specs};
use crate::call::{Context, Failure, Success};
use crate::computer::ComputerError;
use crate::patch::{Applied, FileChange, Kind, Patch, PatchError};

/// Bytes of all files that one patch reads, and of all that it writes.
const MAX_READ: usize = 32 << 20;
const MAX_WRITTEN: usize = 10 << 20;

pub(super) struct ApplyPatch;

#[derive(Deserialize)]
struct Arguments {
    patch: String,
    cwd: Option<String>,
    dry_run: bool,
}

#[async_trait]
impl Tool for ApplyPatch {
    fn spec(&self) -> &'static Spec {
        &specs::APPLY_PATCH
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { patch, cwd, dry_run } = parse(arguments)?;
        let computer = context.computer()?;
        let patch = Patch::parse(&patch)?;
        let at = |path: &str| match &cwd {
            Some(cwd) if !path.starts_with('/') => format!("{}/{path}", cwd.trim_end_matches('/')),
            _ => path.to_owned(),
        };
        let mut files: HashMap<String, Option<File>> = HashMap::new();
        let mut bytes = 0;
        for path in patch.paths() {
            let file = match whole(computer, &at(path)).await {
                Ok(file) => Some(file),
                Err(ComputerError::Refused(refusal)) if refusal.code == ToolErrorCode::FileNotFound => None,
                Err(error) => return Err(error.into()),
            };
            bytes += file.as_ref().map_or(0, |file| file.content.len());
            if bytes > MAX_READ {
                let text = format!("the files of the patch have more than {} together", size(MAX_READ as u64));
                return Err(Failure::new(ToolErrorCode::TooLarge, text).hint("send several smaller patches"));
            }
            if let Some(file) = &file {
                check_text(file)?;
            }
            files.insert(path.to_owned(), file);
        }
        let (applied, files) = off_the_runtime(move || {
            let read =
                |path: &str| Ok::<_, PatchError>(files.get(path).and_then(Option::as_ref).map(|f| f.content.clone()));
            patch.apply(read).map(|applied| (applied, files))
        })
        .await??;
        check_size(&applied)?;
        if !dry_run {
            let changes = applied.files.iter().map(|file| change(file, &files, &at)).collect();
            computer.edit(Edit { user: None, changes }).await.map_err(not_applied)?;
        }
        Ok(done(&applied, dry_run))
    }
}

/// Runs what may take some time where it does not hold up others.
pub(super) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Failure::new(ToolErrorCode::Interrupted, "the server failed while it worked on the text"))
}

fn check_size(applied: &Applied) -> Result<(), Failure> {
    let written: usize = applied.files.iter().map(|file| file.new.len()).sum();
    if written > MAX_WRITTEN {
        let text = format!("the patched files have more than {} together", size(MAX_WRITTEN as u64));
        return Err(Failure::new(ToolErrorCode::TooLarge, text).hint("send several smaller patches"));
    }
    Ok(())
}

fn change(file: &FileChange, files: &HashMap<String, Option<File>>, at: &impl Fn(&str) -> String) -> Change {
    let expect = match files.get(&file.path) {
        Some(Some(old)) => Expect::Content { sha256: old.sha256.clone() },
        _ => Expect::Absent,
    };
    let data = || STANDARD.encode(&file.new);
    let action = match &file.kind {
        Kind::Delete => Action::Delete { recursive: false },
        Kind::Rename { to } => {
            let changed = file.old.as_ref() != Some(&file.new);
            Action::Rename { to: at(to), data: changed.then(data), executable: file.executable }
        }
        Kind::Create | Kind::Modify => Action::Write { data: data(), executable: file.executable },
    };
    Change { path: at(&file.path), expect, action }
}

/// A file that changed since it was read is an error of the patch.
fn not_applied(error: ComputerError) -> Failure {
    let failure = Failure::from(error);
    match failure.code {
        ToolErrorCode::Interrupted => {
            let failure = Failure::new(ToolErrorCode::PatchFailed, failure.message);
            Failure { retryable: Some(true), ..failure }
        }
        _ => failure,
    }
}

fn done(applied: &Applied, dry_run: bool) -> Success {
    let mut output = String::from(if dry_run { "the patch applies; nothing was changed:\n" } else { "applied:\n" });
    let mut files = Vec::new();
    for file in &applied.files {
        let (verb, path) = match &file.kind {
            Kind::Create => ("create", file.path.clone()),
            Kind::Modify => ("modify", file.path.clone()),
            Kind::Delete => ("delete", file.path.clone()),
            Kind::Rename { to } => ("rename", format!("{} -> {to}", file.path)),
        };
        output.push_str(&format!("{verb} {path} (+{} -{})\n", file.added, file.removed));
        let mut entry = json!({"path": file.path, "change": verb, "added": file.added, "removed": file.removed});
        if let (Kind::Rename { to }, Some(fields)) = (&file.kind, entry.as_object_mut()) {
            fields.insert("to".into(), to.as_str().into());
        }
        files.push(entry);
    }
    Success { output, data: json!({"files": files, "dryRun": dry_run}), ..Success::default() }
}

impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        Self::new(ToolErrorCode::PatchFailed, error.to_string()).hint(error.hint())
    }
}
