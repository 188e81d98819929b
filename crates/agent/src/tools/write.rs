//! `sandbox_write_file`.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabana_types::guest::tools::{Action, Change, Content, Edit, Expect, Read, ReadWhat};
use cabana_types::tool::ToolErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::patch::off_the_runtime;
use super::read::unexpected;
use super::{Spec, Tool, counted, parse, size, specs, unknown_end};
use crate::call::{Context, Failure, Success};
use crate::computer::{Computer, ComputerError};
use crate::diff::diff;

/// Bytes of a file that tools read or write as a whole.
pub(super) const MAX_FILE: u64 = 5 << 20;

pub(super) struct WriteFile;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    content: String,
    create_only: bool,
    executable: bool,
}

#[async_trait]
impl Tool for WriteFile {
    fn spec(&self) -> &'static Spec {
        &specs::WRITE_FILE
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { path, content, create_only, executable } = parse(arguments)?;
        let computer = context.computer()?;
        // What is there now is only needed to count lines.
        let old = if create_only { None } else { whole(computer, &path).await.ok() };
        let bytes = content.len() as u64;
        let expect = if create_only { Expect::Absent } else { Expect::Anything };
        let action = Action::Write { data: STANDARD.encode(&content), executable: executable.then_some(true) };
        let change = Change { path, expect, action };
        let done = computer.edit(Edit { user: None, changes: vec![change] }).await?;
        let changed = done.changes.into_iter().next().ok_or_else(unexpected)?;
        let old = old.map(|file| file.content).unwrap_or_default();
        let path = changed.path.clone();
        let compared = off_the_runtime(move || diff(&old, content.as_bytes(), &path)).await?;
        let (added, removed) = (compared.added, compared.removed);
        let verb = if changed.created { "created" } else { "replaced" };
        let output = format!("{verb} {} ({}, {})", changed.path, size(bytes), lines(added, removed, changed.created));
        let data = json!({
            "path": changed.path, "bytes": bytes, "created": changed.created, "added": added, "removed": removed,
        });
        Ok(Success { output, data, ..Success::default() })
    }

    async fn resume(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { path, content, executable, .. } = parse(arguments)?;
        let now = match whole(context.computer()?, &path).await {
            Ok(now) => now,
            // Not there, or larger than anything that is written: it was not done.
            Err(ComputerError::Refused(_)) => return Err(unknown_end(self.spec())),
            Err(error) => return Err(error.into()),
        };
        let sha256: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        if now.sha256 != sha256 || (executable && now.mode & 0o111 == 0) {
            return Err(unknown_end(self.spec()));
        }
        let bytes = content.len() as u64;
        let output = format!("wrote {} ({})", now.path, size(bytes));
        Ok(Success { output, data: json!({"path": now.path, "bytes": bytes}), ..Success::default() })
    }
}

fn lines(added: usize, removed: usize, created: bool) -> String {
    if created { counted(added as u64, "line") } else { format!("+{added} -{removed} lines") }
}

/// A whole file.
pub(super) struct File {
    /// Absolute.
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    pub(super) sha256: String,
    /// Permission bits.
    pub(super) mode: u32,
}

/// Reads a whole file.
pub(super) async fn whole(computer: &dyn Computer, path: &str) -> Result<File, ComputerError> {
    let request = Read { user: None, path: path.to_owned(), what: ReadWhat::Bytes { max: MAX_FILE } };
    let answer = computer.read(request).await?;
    let invalid = || ComputerError::unavailable("the sandbox gave an answer that does not fit the request");
    match answer.content {
        Content::Bytes { data, sha256, mode } => {
            let content = STANDARD.decode(data).map_err(|_| invalid())?;
            Ok(File { path: answer.path, content, sha256, mode })
        }
        _ => Err(invalid()),
    }
}

/// Refuses content that is no text, for tools that change text.
pub(super) fn check_text(file: &File) -> Result<(), Failure> {
    if file.content.contains(&0) {
        return Err(Failure::new(ToolErrorCode::BinaryFile, format!("{} is not a text file", file.path)));
    }
    Ok(())
}
