//! `sandbox_download_url`.

use std::time::Duration;

use async_trait::async_trait;
use cabana_types::guest::tools::{EntryKind, Stat};
use cabana_types::tool::ToolErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Spec, Tool, parse, size, specs};
use crate::call::{Context, Failure, Success};
use crate::computer::NewLink;

pub(super) struct DownloadUrl;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    expires_in_seconds: u64,
    filename: Option<String>,
}

#[async_trait]
impl Tool for DownloadUrl {
    fn spec(&self) -> &'static Spec {
        &specs::DOWNLOAD_URL
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { path, expires_in_seconds, filename } = parse(arguments)?;
        let computer = context.computer()?;
        let listed = computer.stat(Stat { path: path.clone(), ..Stat::default() }).await?;
        let (directory, bytes) = match listed.kind {
            EntryKind::Directory => (true, None),
            EntryKind::File => (false, Some(listed.size)),
            EntryKind::Link | EntryKind::Other => {
                let text = format!("{path} is a device, pipe or socket");
                return Err(Failure::new(ToolErrorCode::NotAFile, text));
            }
        };
        let name = filename.filter(|name| !name.is_empty()).unwrap_or_else(|| file_name(&listed.path, directory));
        if name.contains(['/', '\0']) || name.chars().any(char::is_control) {
            let text = "filename must be a plain name, without slashes and control characters";
            return Err(Failure::new(ToolErrorCode::InvalidArguments, text));
        }
        let expires_in = Duration::from_secs(expires_in_seconds);
        let link = NewLink { path: listed.path, directory, name: name.clone(), expires_in };
        let link = computer.download_link(link).await?;
        let what = match bytes {
            Some(bytes) => size(bytes),
            None => "directory as .tar.gz".into(),
        };
        let output = format!("{}\n[{name}, {what}; valid until {}]", link.url, link.expires_at);
        let data = json!({"url": link.url, "expiresAt": link.expires_at, "name": name, "size": bytes});
        Ok(Success { output, data, ..Success::default() })
    }
}

fn file_name(path: &str, directory: bool) -> String {
    let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("files");
    if directory { format!("{name}.tar.gz") } else { name.to_owned() }
}
