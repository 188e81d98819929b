//! `sandbox_list_directory`.

use async_trait::async_trait;
use cabana_types::guest::tools::{EntryKind, List, ListEntry};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Spec, Tool, parse, size, specs};
use crate::call::{Context, Failure, Success};

pub(super) struct ListDirectory;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    depth: u32,
    hidden: bool,
    limit: usize,
}

#[async_trait]
impl Tool for ListDirectory {
    fn spec(&self) -> &'static Spec {
        &specs::LIST_DIRECTORY
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { path, depth, hidden, limit } = parse(arguments)?;
        let listed = context.computer()?.list(List { user: None, path, depth, hidden, limit }).await?;
        let mut output = format!("{}:\n", listed.path);
        for entry in &listed.entries {
            output.push_str(&line(entry));
        }
        if listed.entries.is_empty() {
            output.push_str(if hidden { "[empty]" } else { "[empty, or only hidden files]" });
        }
        if listed.truncated {
            output.push_str(&format!("[the first {}; there are more]", listed.entries.len()));
        }
        let entries: Vec<Value> = listed.entries.iter().map(entry).collect();
        let data = json!({"path": listed.path, "entries": entries, "truncated": listed.truncated});
        Ok(Success { output, data, images: Vec::new(), truncated: listed.truncated })
    }
}

fn line(entry: &ListEntry) -> String {
    let ListEntry { path, mode, .. } = entry;
    match (entry.kind, &entry.target) {
        (EntryKind::Directory, _) => format!("{mode:04o} {path}/\n"),
        (EntryKind::Link, Some(target)) => format!("link {path} -> {target}\n"),
        (EntryKind::Link, None) => format!("link {path}\n"),
        (EntryKind::File, _) => format!("{mode:04o} {path} ({})\n", size(entry.size)),
        (EntryKind::Other, _) => format!("{mode:04o} {path} (device, pipe or socket)\n"),
    }
}

fn entry(entry: &ListEntry) -> Value {
    let mut value = json!({
        "path": entry.path,
        "kind": entry.kind,
        "size": entry.size,
        "mode": format!("{:04o}", entry.mode),
        "modified": entry.modified,
    });
    if let (Some(target), Some(fields)) = (&entry.target, value.as_object_mut()) {
        fields.insert("target".into(), target.as_str().into());
    }
    value
}
