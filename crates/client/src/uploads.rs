//! Uploading files as a form: to a sandbox, together with its creation, or for a chat.

use bytes::Bytes;
use cabana_types::SandboxId;
use cabana_types::wire::{AttachmentPage, NewSandbox, Sandbox, UploadManifest};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use http::{HeaderValue, Method, Request, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde::de::DeserializeOwned;

use crate::Client;
use crate::api::{to_json, within};
use crate::error::{Cause, Error, Result};
use crate::http::{SendBody, SourceFailed, collect};

/// Largest manifest that is read.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;

/// A file to upload.
pub struct UploadFile {
    /// A relative path.
    pub name: String,
    pub contents: BoxStream<'static, std::io::Result<Bytes>>,
}

impl std::fmt::Debug for UploadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UploadFile").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Client {
    /// Uploads files to `user-uploads/` of a sandbox. Has no timeout. Files that failed are in the manifest.
    pub async fn upload_files(&self, id: &SandboxId, files: Vec<UploadFile>) -> Result<UploadManifest> {
        self.send_form("upload the files", &format!("/sandboxes/{id}/uploads"), None, files).await
    }

    /// Creates a sandbox with files in `user-uploads/`. If one fails, or the request is dropped, there is no sandbox.
    pub async fn create_with_files(&self, new: &NewSandbox, files: Vec<UploadFile>) -> Result<Sandbox> {
        let action = "create a sandbox";
        self.send_form(action, "/v2/sandboxes", Some(to_json(action, new)?), files).await
    }

    /// Uploads files that belong to no chat yet. Has no timeout.
    pub async fn upload_attachments(&self, files: Vec<UploadFile>) -> Result<AttachmentPage> {
        self.send_form("upload the files", "/attachments", None, files).await
    }

    async fn send_form<T: DeserializeOwned>(
        &self,
        action: &'static str,
        path: &str,
        sandbox: Option<Vec<u8>>,
        files: Vec<UploadFile>,
    ) -> Result<T> {
        let (parts, ()) = self.request(Method::POST, path, None)?.map(drop).into_parts();
        let boundary = boundary();
        let mut request = Request::from_parts(parts, form(&boundary, sandbox, files));
        let kind = HeaderValue::from_str(&format!("multipart/form-data; boundary={boundary}"))
            .map_err(|e| Error::InvalidInput(e.to_string()))?;
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        let response = self.http().send(action, request).await?;
        let bytes = within(action, collect(action, response, MAX_ANSWER_BYTES)).await?;
        serde_json::from_slice(&bytes).map_err(|e| Error::Answer { action, reason: e.to_string() })
    }
}

/// A delimiter that no file contains: the state of a hasher is random.
fn boundary() -> String {
    use std::hash::{BuildHasher, RandomState};
    let word = || RandomState::new().hash_one(0);
    format!("cabana-{:016x}{:016x}", word(), word())
}

fn form(boundary: &str, sandbox: Option<Vec<u8>>, files: Vec<UploadFile>) -> SendBody {
    let head = |name: &str, more: &str| {
        Bytes::from(format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"{more}\r\n\r\n"))
    };
    let piece = |bytes: Bytes| futures_util::stream::iter([Ok(bytes)]);
    let end_of_part = || piece(Bytes::from_static(b"\r\n"));
    let mut parts: Vec<BoxStream<'static, std::io::Result<Bytes>>> = Vec::new();
    if let Some(sandbox) = sandbox {
        parts.push(piece(head("sandbox", "")).chain(piece(sandbox.into())).chain(end_of_part()).boxed());
    }
    for UploadFile { name, contents } in files {
        let head = head("file", &format!("; filename*=UTF-8''{}", encoded(&name)));
        parts.push(piece(head).chain(contents).chain(end_of_part()).boxed());
    }
    parts.push(piece(format!("--{boundary}--\r\n").into()).boxed());
    let pieces = futures_util::stream::iter(parts).flatten();
    let frames = pieces.map_ok(Frame::data).map_err(|e| Cause::from(SourceFailed(e)));
    StreamBody::new(frames).boxed_unsync()
}

/// Percent-encodes all but letters, digits and a few marks.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    name.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_form_has_the_description_first() {
        let contents =
            futures_util::stream::iter([Ok(Bytes::from_static(b"on")), Ok(Bytes::from_static(b"e"))]).boxed();
        let files = vec![UploadFile { name: "d/ü \"1\".txt".to_owned(), contents }];
        let body = form("B", Some(b"{}".to_vec()), files).collect().await.expect("body").to_bytes();
        assert_eq!(
            String::from_utf8_lossy(&body),
            "--B\r\ncontent-disposition: form-data; name=\"sandbox\"\r\n\r\n{}\r\n\
             --B\r\ncontent-disposition: form-data; name=\"file\"; filename*=UTF-8''d/%C3%BC%20%221%22.txt\r\n\r\none\r\n\
             --B--\r\n"
        );
        assert_ne!(boundary(), boundary());
    }
}
