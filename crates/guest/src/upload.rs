//! `POST /files`: one file as the raw body, or several as a form whose parts are named by their full paths.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use cabana_body_drain::TrackedBody;
use cabana_form::Form;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde::Serialize;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::error::Problem;
use crate::metadata::{self, Metadata};
use crate::reply::{self, Body};
use crate::sink::{self, Target};
use crate::users::Account;
use crate::{blocking, path};

type Pieces = cabana_form::Pieces<Problem>;

/// Idle timeout of an upload.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Limit on files per form.
const MAX_FILES: usize = 4096;

/// Parameters of an upload.
pub(crate) struct Upload {
    pub(crate) account: Account,
    /// Default for relative and empty paths.
    pub(crate) workdir: Option<String>,
    pub(crate) path: Option<String>,
}

/// Response entry for each file.
#[derive(Serialize)]
pub(crate) struct Written {
    name: String,
    path: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
}

impl Written {
    pub(crate) fn new(path: &Path, metadata: Metadata) -> Self {
        let (name, path) = (path::name(path), path.to_string_lossy().into_owned());
        Self { name, path, r#type: "file", metadata }
    }
}

impl Upload {
    /// Handles an upload.
    pub(crate) async fn receive(self, headers: &HeaderMap, body: TrackedBody) -> Result<Response<Body>, Problem> {
        let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default().trim().to_owned();
        let media = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let metadata = metadata::from_headers(headers)?;
        let length = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse::<u64>().ok());
        let pieces = decoded(headers, body)?;
        let written = if media == "application/octet-stream" {
            self.receive_raw(pieces, metadata, length).await?
        } else if media.starts_with("multipart/") {
            self.receive_form(Form::new(pieces, &kind)?, metadata).await?
        } else {
            return Err(Problem::bad_request(format!(
                "unsupported content type: {}, expected multipart/form-data or application/octet-stream",
                crate::auth::truncated(&kind)
            )));
        };
        Ok(reply::json(StatusCode::OK, &written))
    }

    async fn receive_raw(
        self,
        pieces: Pieces,
        metadata: Metadata,
        length: Option<u64>,
    ) -> Result<Vec<Written>, Problem> {
        let text = self.path.as_deref();
        let text = text.ok_or_else(|| Problem::bad_request("path query parameter is required for raw body upload"))?;
        let path = self.resolve(text)?;
        if let Some(length) = length {
            let directory = path.clone();
            blocking::run(move || check_space(&directory, length)).await?;
        }
        let target = Target { path: path.clone(), account: self.account, metadata: metadata.clone() };
        sink::receive(target, pieces).await?;
        Ok(vec![Written::new(&path, metadata)])
    }

    async fn receive_form(self, mut form: Form<Problem>, metadata: Metadata) -> Result<Vec<Written>, Problem> {
        let mut written: Vec<Written> = Vec::new();
        while let Some(part) = form.part().await? {
            if part.name.as_deref() != Some("file") {
                continue;
            }
            let text = self.path.clone().or(part.file_name);
            let text = text.ok_or_else(|| Problem::bad_request("a file of the form has no file name"))?;
            let path = self.resolve(&text)?;
            let shown = path.to_string_lossy();
            if written.iter().any(|w| w.path == shown) {
                return Err(Problem::bad_request(format!(
                    "you cannot upload multiple files to the same path '{shown}' in one upload request, \
                     only the first specified file was uploaded"
                )));
            }
            if written.len() == MAX_FILES {
                return Err(Problem::bad_request(format!("a form may have at most {MAX_FILES} files")));
            }
            let target = Target { path: path.clone(), account: self.account.clone(), metadata: metadata.clone() };
            let data = futures_util::stream::try_unfold(&mut form, |form| async move {
                Ok(form.data().await?.map(|data| (data, form)))
            });
            sink::receive(target, Box::pin(data)).await?;
            written.push(Written::new(&path, metadata.clone()));
        }
        Ok(written)
    }

    fn resolve(&self, text: &str) -> Result<PathBuf, Problem> {
        path::resolve(text, &self.account, self.workdir.as_deref()).map_err(|e| Problem::bad_request(e.to_string()))
    }
}

/// Decodes the body's `Content-Encoding`.
fn decoded(headers: &HeaderMap, body: TrackedBody) -> Result<Pieces, Problem> {
    let encoding = headers.get(CONTENT_ENCODING).map(|v| v.as_bytes().trim_ascii().to_ascii_lowercase());
    let pieces = pieces(body);
    match encoding.as_deref() {
        None | Some(b"" | b"identity") => Ok(pieces),
        Some(b"gzip") => {
            let mut decoder = GzipDecoder::new(StreamReader::new(pieces.map_err(std::io::Error::other)));
            decoder.multiple_members(true);
            let decoded = ReaderStream::with_capacity(decoder, 64 << 10);
            Ok(decoded
                .map_err(|cause| match cause.downcast::<Problem>() {
                    Ok(problem) => problem,
                    Err(cause) => Problem::bad_request(format!("error decompressing request body: {cause}")),
                })
                .boxed())
        }
        Some(_) => Err(Problem::bad_request("unsupported Content-Encoding: send identity or gzip")),
    }
}

fn pieces(body: TrackedBody) -> Pieces {
    futures_util::stream::try_unfold(body, |mut body| async move {
        loop {
            let frame = tokio::time::timeout(IDLE_TIMEOUT, body.frame()).await;
            let frame = frame.map_err(|_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the upload stalled"))?;
            match frame {
                None => return Ok(None),
                Some(Err(cause)) => return Err(Problem::bad_request(format!("the upload was interrupted: {cause}"))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some((data, body)));
                    }
                }
            }
        }
    })
    .boxed()
}

/// Refuses early what cannot fit. Quotas show only when writing.
fn check_space(path: &Path, length: u64) -> Result<(), Problem> {
    let existing = path.ancestors().skip(1).find_map(|directory| rustix::fs::statvfs(directory).ok());
    match existing {
        // Pseudo filesystems report no blocks at all.
        Some(fs) if fs.f_blocks > 0 && fs.f_bavail.saturating_mul(fs.f_frsize) < length => Err(Problem::new(
            StatusCode::INSUFFICIENT_STORAGE,
            format!("not enough disk space available: {length} bytes required"),
        )),
        _ => Ok(()),
    }
}
