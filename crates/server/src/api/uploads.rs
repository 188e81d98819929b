//! Uploading files to a sandbox as a form, also together with its creation. Files are streamed to the guest, one after the other.

mod creation;
mod file;
pub(super) mod names;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::{Extension, Json};
use cabana_form::{Form, Malformed, Part};
use cabana_types::limits::MAX_PATH_BYTES;
use cabana_types::wire::{UploadManifest, UploadStatus, UploadedFile};
use futures_util::StreamExt;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request};
use sha2::{Digest, Sha256};

pub(super) use self::creation::SandboxForm;
pub(super) use self::file::Target;
use self::file::{FileError, Sending};
use super::App;
use super::query::Query;
use super::sandbox_ref::SandboxRef;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Files of one request.
const MAX_FILES: usize = 200;
/// How long a client may send nothing.
const IDLE: Duration = Duration::from_secs(60);

/// Files of an upload.
#[derive(utoipa::ToSchema)]
#[allow(dead_code, reason = "describes a form, which is parsed as a stream")]
pub(super) struct UploadForm {
    /// Their file names may be relative paths such as `dir/a.txt`.
    #[schema(inline, min_items = 1, max_items = 200)]
    file: Vec<Content>,
}

/// Content of a file.
#[derive(utoipa::ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "describes a form, which is parsed as a stream")]
pub(super) struct Content(Vec<u8>);

/// Upload files to a sandbox, which is resumed if it is paused.
///
/// They go to `user-uploads/` in its working directory, else in its home directory, or to the directory that is named, which is made if
/// it is missing. A name that is taken gets a number, such as `a (2).txt`. The answer is 200 also if some files failed: `status` tells for
/// each.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/uploads", tag = "tools",
    params(
        ("sandboxID" = String, Path, description = "The sandbox"),
        ("directory" = Option<String>, Query, description = "Where the files go; relative paths start at the working directory"),
    ),
    request_body(content = inline(UploadForm), content_type = "multipart/form-data"),
    responses((status = 200, description = "What became of each file", body = UploadManifest)))]
pub(super) async fn upload_files(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    query: Query,
    request: Request<Body>,
) -> Result<Json<UploadManifest>, ApiError> {
    let row = app.find_usable(&caller.reach, &id).await?;
    let directory = query.text("directory").map(directory).transpose()?;
    if !is_form(request.headers()) {
        return Err(ApiError::invalid("Send the files as multipart/form-data"));
    }
    let mut form = form(request)?;
    let Some(first) = form.part().await? else {
        return Err(ApiError::invalid("The form has no files; send 1 to 200"));
    };
    let (entered, tasks) = (app.enter(&row).await?, app.tasks.clone());
    let target = match directory {
        None => Target::find(entered, tasks).await?,
        Some(directory) => Target::named(entered, tasks, directory).await?,
    };
    let mut files = Files { form, target: &target, most: app.max_upload, next: Some(first), count: 0, ended: false };
    let directory = if target.directory.is_empty() { "/".to_owned() } else { target.directory.to_string() };
    let mut manifest = UploadManifest { directory, files: Vec::new() };
    while let Some((name, outcome)) = files.next().await {
        manifest.files.push(entry(name, outcome));
    }
    Ok(Json(manifest))
}

/// A directory for files that a client names.
fn directory(text: &str) -> Result<&str, ApiError> {
    match text.len() > MAX_PATH_BYTES {
        true => Err(ApiError::invalid(format!("directory is longer than {MAX_PATH_BYTES} bytes"))),
        false if text.contains('\0') => Err(ApiError::invalid("directory contains a NUL character")),
        false => Ok(text),
    }
}

/// Whether a request has a form as its body.
pub(super) fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("multipart/form-data")
}

/// Why a form could not be read on.
#[derive(Debug)]
pub(super) enum FormError {
    Malformed(Malformed),
    Stalled,
    Broken,
}

impl std::fmt::Display for FormError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(malformed) => write!(f, "{malformed}"),
            Self::Stalled => write!(f, "nothing was received for {} s", IDLE.as_secs()),
            Self::Broken => f.write_str("the connection broke"),
        }
    }
}

impl From<Malformed> for FormError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<FormError> for ApiError {
    fn from(error: FormError) -> Self {
        Self::invalid(format!("The form could not be read: {error}"))
    }
}

/// The body of a request as a form.
pub(super) fn form(request: Request<Body>) -> Result<Form<FormError>, ApiError> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let pieces = futures_util::stream::try_unfold(request.into_body().into_data_stream(), |mut body| async move {
        match tokio::time::timeout(IDLE, body.next()).await {
            Err(_) => Err(FormError::Stalled),
            Ok(None) => Ok(None),
            Ok(Some(Ok(bytes))) => Ok(Some((bytes, body))),
            Ok(Some(Err(_))) => Err(FormError::Broken),
        }
    });
    Ok(Form::new(pieces.boxed(), &kind)?)
}

/// A file that is in the sandbox.
struct Stored {
    path: String,
    size: u64,
    sha256: String,
}

/// A file that failed after this many bytes.
struct Failed {
    size: u64,
    error: FileError,
}

/// The files of a form, which are uploaded one after the other.
struct Files<'a> {
    form: Form<FormError>,
    target: &'a Target,
    /// Bytes of one file.
    most: u64,
    /// A part whose head was read already.
    next: Option<Part>,
    count: usize,
    ended: bool,
}

impl Files<'_> {
    /// Uploads the next file: its name as it was sent, and what became of it.
    async fn next(&mut self) -> Option<(String, Result<Stored, Failed>)> {
        if self.ended {
            return None;
        }
        let part = match self.next.take() {
            Some(part) => part,
            None => match self.form.part().await {
                Ok(part) => part?,
                Err(error) => {
                    self.ended = true;
                    let error =
                        FileError::Broken(format!("the form could not be read on: {error}; send the rest again"));
                    return Some((String::new(), Err(Failed { size: 0, error })));
                }
            },
        };
        self.count += 1;
        let name = part.file_name.unwrap_or_default();
        if self.count > MAX_FILES {
            self.ended = true;
            let error =
                FileError::Name("at most 200 files are taken at once; send it and those after it in another request");
            return Some((name, Err(Failed { size: 0, error })));
        }
        let outcome = self.upload(&name).await;
        Some((name, outcome))
    }

    async fn upload(&mut self, name: &str) -> Result<Stored, Failed> {
        let (mut sending, mut refused) = match names::check(name) {
            Ok(name) => (Some(self.target.begin(name)), None),
            Err(why) => (None, Some(FileError::Name(why))),
        };
        let (mut size, mut digest) = (0, Sha256::new());
        loop {
            let bytes = match self.form.data().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(error) => {
                    self.ended = true;
                    if let Some(sending) = sending {
                        sending.abort().await;
                    }
                    return Err(Failed { size, error: FileError::Broken(format!("{error}; send it again")) });
                }
            };
            size += bytes.len() as u64;
            let Some(current) = &sending else {
                // The rest of the file is skipped to get to the next one, within bounds.
                if size > self.most.saturating_mul(2) {
                    self.ended = true;
                    break;
                }
                continue;
            };
            if size > self.most {
                refused = Some(FileError::TooLarge(self.most));
                remove(sending.take()).await;
                continue;
            }
            digest.update(&bytes);
            if !current.send(bytes).await
                && let Some(current) = sending.take()
            {
                refused = Some(current.finish(false).await.err().unwrap_or(FileError::DiskFull));
            }
        }
        match (sending, refused) {
            (Some(sending), _) => match sending.finish(true).await {
                Ok(path) => Ok(Stored { path, size, sha256: hexadecimal(&digest.finalize()) }),
                Err(error) => Err(Failed { size, error }),
            },
            (None, Some(error)) => Err(Failed { size, error }),
            (None, None) => Err(Failed { size, error: FileError::Broken("it was not received".into()) }),
        }
    }
}

/// Removes what was sent of a file that is not wanted any more.
async fn remove(sending: Option<Sending>) {
    if let Some(sending) = sending {
        // It fails: the file is not wanted.
        let _ = sending.finish(false).await;
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The entry of a file in a manifest.
fn entry(name: String, outcome: Result<Stored, Failed>) -> UploadedFile {
    match outcome {
        Ok(Stored { path, size, sha256 }) => UploadedFile {
            name,
            path: Some(path),
            size,
            sha256: Some(sha256),
            status: UploadStatus::Uploaded,
            error: None,
        },
        Err(Failed { size, error }) => UploadedFile {
            name,
            path: None,
            size,
            sha256: None,
            status: UploadStatus::Failed,
            error: Some(error.to_string()),
        },
    }
}

/// A file's name in a message.
pub(super) fn quoted(name: &str) -> String {
    format!("{:?}", short(name))
}
