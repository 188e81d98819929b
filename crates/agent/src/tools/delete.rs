//! `sandbox_delete_file`.

use async_trait::async_trait;
use cabana_types::guest::tools::{Action, Change, Edit, Expect, Stat};
use cabana_types::tool::ToolErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read::unexpected;
use super::{Spec, Tool, parse, specs, unknown_end};
use crate::call::{Context, Failure, Success};
use crate::computer::ComputerError;

pub(super) struct DeleteFile;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    recursive: bool,
}

#[async_trait]
impl Tool for DeleteFile {
    fn spec(&self) -> &'static Spec {
        &specs::DELETE_FILE
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { path, recursive } = parse(arguments)?;
        let change = Change { path, expect: Expect::Anything, action: Action::Delete { recursive } };
        let done = context.computer()?.edit(Edit { user: None, changes: vec![change] }).await?;
        let changed = done.changes.into_iter().next().ok_or_else(unexpected)?;
        let output = match changed.removed {
            0 | 1 => format!("deleted {}", changed.path),
            removed => format!("deleted {} with everything in it: {removed} files and directories", changed.path),
        };
        Ok(Success { output, data: json!({"removed": changed.removed}), ..Success::default() })
    }

    async fn resume(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { path, .. } = parse(arguments)?;
        let output = format!("deleted {path}");
        match context.computer()?.stat(Stat { path, ..Stat::default() }).await {
            Err(ComputerError::Refused(refusal)) if refusal.code == ToolErrorCode::FileNotFound => {
                Ok(Success { output, ..Success::default() })
            }
            Ok(_) | Err(ComputerError::Refused(_)) => Err(unknown_end(self.spec())),
            Err(error) => Err(error.into()),
        }
    }
}
