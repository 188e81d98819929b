//! `sandbox_find_replace`.

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabana_types::guest::tools::{Action, Change, Edit, Expect};
use cabana_types::tool::ToolErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::patch::off_the_runtime;
use super::write::{MAX_FILE, check_text, whole};
use super::{Spec, Tool, counted, parse, size, specs};
use crate::call::{Context, Failure, Success};
use crate::replace::{ReplaceError, Request, find_replace};

pub(super) struct FindReplace;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    find: String,
    replace: String,
    all: bool,
    regex: bool,
    expected_count: Option<u64>,
}

#[async_trait]
impl Tool for FindReplace {
    fn spec(&self) -> &'static Spec {
        &specs::FIND_REPLACE
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let given: Arguments = parse(arguments)?;
        let computer = context.computer()?;
        let file = whole(computer, &given.path).await?;
        check_text(&file)?;
        let (path, sha256) = (file.path.clone(), file.sha256);
        let replaced = off_the_runtime(move || {
            let Arguments { find, replace, all, regex, expected_count, .. } = &given;
            let expected_count = *expected_count;
            let request = Request { path: &file.path, find, replace, all: *all, regex: *regex, expected_count };
            find_replace(&file.content, &request)
        })
        .await??;
        let bytes = replaced.content.len() as u64;
        if bytes > MAX_FILE {
            let text = format!("{path} would have {}; at most {} are possible", size(bytes), size(MAX_FILE));
            return Err(Failure::new(ToolErrorCode::TooLarge, text));
        }
        let action = Action::Write { data: STANDARD.encode(&replaced.content), executable: None };
        let change = Change { path: path.clone(), expect: Expect::Content { sha256 }, action };
        computer.edit(Edit { user: None, changes: vec![change] }).await?;
        let times = counted(replaced.count, "occurrence");
        let diff = replaced.diff;
        Ok(Success {
            output: format!("replaced {times} in {path}\n{}", diff.text),
            data: json!({
                "path": path, "count": replaced.count, "diff": diff.text, "added": diff.added, "removed": diff.removed,
            }),
            images: Vec::new(),
            truncated: diff.truncated,
        })
    }
}

impl From<ReplaceError> for Failure {
    fn from(error: ReplaceError) -> Self {
        let code = match error {
            ReplaceError::NotUnique { .. } | ReplaceError::WrongCount { .. } => ToolErrorCode::NotUnique,
            ReplaceError::NoMatch { .. } => ToolErrorCode::NoMatch,
            ReplaceError::TooComplex { .. } => ToolErrorCode::Timeout,
            ReplaceError::TooLarge { .. } => ToolErrorCode::TooLarge,
            ReplaceError::Empty | ReplaceError::Regex { .. } | ReplaceError::NoGroup { .. } => {
                ToolErrorCode::InvalidArguments
            }
        };
        Self::new(code, error.to_string()).hint(error.hint())
    }
}
