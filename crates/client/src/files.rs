//! Files of a sandbox. Contents are streamed in both directions.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use cabana_http::ResponseBody;
use cabana_proto::filesystem as pb;
use futures_util::{Stream, StreamExt, TryStreamExt};
use http::{HeaderValue, Method, Request, header};
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, Empty, StreamBody};
use jiff::Timestamp;

use crate::api::within;
use crate::error::{Cause, Error, Result, root_cause};
use crate::http::{SendBody, SourceFailed, collect};
use crate::query;
use crate::sandbox::SandboxHandle;

/// Largest response to an upload that is read.
const MAX_ANSWER_BYTES: u64 = 1024 * 1024;

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A dangling symbolic link.
    Symlink,
    /// A device, socket or pipe.
    Other,
}

/// A file or directory of a sandbox. For a link, everything but `symlink_target` is about what it points to.
#[derive(Debug, Clone)]
pub struct FileEntry {
    pub name: String,
    pub path: String,
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    pub mode: u32,
    pub owner: String,
    pub group: String,
    /// When it was last written.
    pub modified: Option<Timestamp>,
    /// Target, if it is a symbolic link.
    pub symlink_target: Option<String>,
}

impl From<pb::EntryInfo> for FileEntry {
    fn from(info: pb::EntryInfo) -> Self {
        let kind = match info.r#type.as_known() {
            Some(pb::FileType::FILE_TYPE_FILE) => FileKind::File,
            Some(pb::FileType::FILE_TYPE_DIRECTORY) => FileKind::Directory,
            Some(pb::FileType::FILE_TYPE_SYMLINK) => FileKind::Symlink,
            _ => FileKind::Other,
        };
        let modified = info.modified_time.into_option().and_then(|t| Timestamp::new(t.seconds, t.nanos).ok());
        Self {
            name: info.name,
            path: info.path,
            kind,
            size: u64::try_from(info.size).unwrap_or(0),
            mode: info.mode & 0o7777,
            owner: info.owner,
            group: info.group,
            modified,
            symlink_target: info.symlink_target,
        }
    }
}

/// Contents of a file, as they arrive.
pub struct FileStream {
    body: BodyStream<ResponseBody>,
    length: Option<u64>,
}

impl std::fmt::Debug for FileStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStream").field("length", &self.length).finish_non_exhaustive()
    }
}

impl FileStream {
    pub(crate) fn of(response: http::Response<ResponseBody>) -> Self {
        let length = response.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
        Self { body: BodyStream::new(response.into_body()), length }
    }

    /// Length in bytes, if the guest announced it.
    pub fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Stream for FileStream {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return match futures_util::ready!(self.body.poll_next_unpin(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => Poll::Ready(Some(Ok(bytes))),
                    Err(_trailers) => continue,
                },
                Some(Err(e)) => {
                    let source = root_cause(&e).into();
                    Poll::Ready(Some(Err(Error::Connection { action: "read the file", source })))
                }
                None => Poll::Ready(None),
            };
        }
    }
}

impl SandboxHandle {
    /// Reads a file.
    pub async fn read_file(&self, path: &str) -> Result<FileStream> {
        let action = "read the file";
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = self.files_request(Method::GET, path, body)?;
        Ok(FileStream::of(within(action, self.http().send(action, request)).await?))
    }

    /// Writes a file from a stream and creates its parent directories. Has no timeout.
    pub async fn write_file<S>(&self, path: &str, contents: S, length: Option<u64>) -> Result<()>
    where
        S: Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    {
        let action = "write the file";
        let frames = contents.map_ok(Frame::data).map_err(|e| Cause::from(SourceFailed(e)));
        let body: SendBody = StreamBody::new(frames).boxed_unsync();
        let mut request = self.files_request(Method::POST, path, body)?;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        if let Some(length) = length {
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        let response = self.http().send(action, request).await?;
        within(action, collect(action, response, MAX_ANSWER_BYTES)).await.map(drop)
    }

    fn files_request(&self, method: Method, path: &str, body: SendBody) -> Result<Request<SendBody>> {
        let mut pairs = vec![("path", path.to_owned())];
        pairs.extend(self.user().map(|user| ("username", user.to_owned())));
        let mut request = Request::builder()
            .method(method)
            .uri(self.http().uri(&format!("/files{}", query::encode(&pairs)))?)
            .body(body)
            .map_err(|e| Error::InvalidInput(e.to_string()))?;
        *request.headers_mut() = self.headers().clone();
        Ok(request)
    }

    /// Metadata of a path.
    pub async fn stat(&self, path: &str) -> Result<FileEntry> {
        let action = "stat the path";
        let request = pb::StatRequest { path: path.to_owned(), ..Default::default() };
        let answer = self.filesystem().stat_with_options(request, Self::unary()).await;
        one_entry(action, answer.map_err(|e| self.error(action, e))?.into_owned().entry.into_option())
    }

    /// Lists a directory, `depth` levels deep (1 for the directory alone).
    pub async fn list_dir(&self, path: &str, depth: u32) -> Result<Vec<FileEntry>> {
        let request = pb::ListDirRequest { path: path.to_owned(), depth, ..Default::default() };
        let answer = self.filesystem().list_dir_with_options(request, Self::unary()).await;
        let entries = answer.map_err(|e| self.error("list the directory", e))?.into_owned().entries;
        Ok(entries.into_iter().map(FileEntry::from).collect())
    }

    /// Creates a directory and its parents.
    pub async fn make_dir(&self, path: &str) -> Result<FileEntry> {
        let action = "create the directory";
        let request = pb::MakeDirRequest { path: path.to_owned(), ..Default::default() };
        let answer = self.filesystem().make_dir_with_options(request, Self::unary()).await;
        one_entry(action, answer.map_err(|e| self.error(action, e))?.into_owned().entry.into_option())
    }

    /// Removes a file, or a directory with everything in it.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let request = pb::RemoveRequest { path: path.to_owned(), ..Default::default() };
        let answer = self.filesystem().remove_with_options(request, Self::unary()).await;
        answer.map(drop).map_err(|e| self.error("remove the path", e))
    }

    /// Moves a file or directory.
    pub async fn rename(&self, source: &str, destination: &str) -> Result<FileEntry> {
        let action = "move the path";
        let request =
            pb::MoveRequest { source: source.to_owned(), destination: destination.to_owned(), ..Default::default() };
        let answer = self.filesystem().r#move_with_options(request, Self::unary()).await;
        one_entry(action, answer.map_err(|e| self.error(action, e))?.into_owned().entry.into_option())
    }
}

fn one_entry(action: &'static str, entry: Option<pb::EntryInfo>) -> Result<FileEntry> {
    entry.map(FileEntry::from).ok_or_else(|| Error::Answer { action, reason: "it contains no entry".to_owned() })
}
