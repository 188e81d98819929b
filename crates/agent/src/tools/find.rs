//! `sandbox_find_files`.

use async_trait::async_trait;
use cabana_types::guest::tools::{Find, FindKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Spec, Tool, parse, specs};
use crate::call::{Context, Failure, Success};

pub(super) struct FindFiles;

#[derive(Deserialize)]
struct Arguments {
    query: String,
    path: String,
    kind: FindKind,
    limit: usize,
    ignored: bool,
}

#[async_trait]
impl Tool for FindFiles {
    fn spec(&self) -> &'static Spec {
        &specs::FIND_FILES
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { query, path, kind, limit, ignored } = parse(arguments)?;
        let found = context.computer()?.find(Find { user: None, query, path, kind, limit, ignored }).await?;
        let mut output = found.paths.join("\n");
        if found.paths.is_empty() {
            output = "[nothing found]".into();
        } else if found.truncated {
            output.push_str(&format!("\n[the best {} of {}]", found.paths.len(), found.total));
        }
        let data = json!({"paths": found.paths, "total": found.total, "truncated": found.truncated});
        Ok(Success { output, data, images: Vec::new(), truncated: found.truncated })
    }
}
