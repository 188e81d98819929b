//! One file on its way into a sandbox: it is streamed to a temporary name and then renamed to a name that nothing has. A task of its own
//! does that, so that a client that goes away leaves either the whole file or nothing.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use cabana_guest_link::{Port, ToolCallError};
use cabana_types::error::chain;
use cabana_types::guest::tools::{
    Action, Change, EDIT_PATH, Edit, EditAnswer, Expect, Refusal, STAT_PATH, Stat, StatAnswer,
};
use cabana_types::limits::MAX_PATH_BYTES;
use cabana_types::routing::ACCESS_TOKEN_HEADER;
use cabana_types::tool::ToolErrorCode;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::Frame;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use url::form_urlencoded;

use super::names::numbered;
use crate::api::entering::Entered;
use crate::error::ApiError;

/// Where files go, below the working directory or the home directory.
const DIRECTORY: &str = "user-uploads";
/// Chunks between the client and the guest.
const QUEUE: usize = 4;
/// Files of one name in a directory.
const MAX_NUMBER: usize = 1000;
/// How often a rename is repeated because somebody else changed the same path.
const RENAME_ATTEMPTS: usize = 100;
/// How long the guest may take for a small request, and for the next bytes of a file.
const GUEST_TIME: Duration = Duration::from_secs(60);
/// How long it may take to write the end of a file and to rename it.
const FINISH_TIME: Duration = Duration::from_secs(300);
/// Bytes of an error of the guest.
const MAX_ERROR: usize = 4096;

/// Why a file was not uploaded. The text completes "the file was not uploaded:".
#[derive(Debug)]
pub(in crate::api) enum FileError {
    Name(&'static str),
    TooLarge(u64),
    DiskFull,
    /// The client stopped sending, or sent something else than a form.
    Broken(String),
    /// The guest refused it or does not respond.
    Guest(String),
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(why) => f.write_str(why),
            Self::TooLarge(most) => {
                write!(f, "it is larger than the {} MiB that are taken (tools.max_upload_mb)", most >> 20)
            }
            Self::DiskFull => f.write_str("the sandbox's disk is full"),
            Self::Broken(why) | Self::Guest(why) => f.write_str(why),
        }
    }
}

/// The directory of uploads in a running sandbox, which is not paused as long as this exists.
#[derive(Clone)]
pub(in crate::api) struct Target {
    entered: Arc<Entered>,
    pub(in crate::api) directory: Arc<str>,
    tasks: TaskTracker,
}

impl Target {
    /// Finds the usual directory. It is made with the first file.
    pub(in crate::api) async fn find(entered: Entered, tasks: TaskTracker) -> Result<Self, ApiError> {
        let stat = Stat { path: ".".into(), ..Stat::default() };
        let found = within(entered.route.link.tool::<_, StatAnswer>(STAT_PATH, &stat)).await;
        let base = match found {
            Ok(found) => found.path,
            // A working directory that does not exist is made too.
            Err(ToolCallError::Refused(Refusal { code: ToolErrorCode::FileNotFound, path: Some(path), .. })) => path,
            Err(error) => return Err(refused(error)),
        };
        Self::at(entered, tasks, format!("{}/{DIRECTORY}", base.trim_end_matches('/')))
    }

    /// A directory that the client names. Files are sent with more rights than the sandbox's user has, and only then moved to their places
    /// as that user: so the user must be able to write to it.
    pub(in crate::api) async fn named(entered: Entered, tasks: TaskTracker, directory: &str) -> Result<Self, ApiError> {
        let name = format!("{}/.upload-{:032x}", directory.trim_end_matches('/'), rand::random::<u128>());
        let change = |expect, action| Edit { user: None, changes: vec![Change { path: name.clone(), expect, action }] };
        let link = &entered.route.link;
        let probe = change(Expect::Absent, Action::Write { data: String::new(), executable: None });
        let made = within(link.tool::<_, EditAnswer>(EDIT_PATH, &probe)).await.map_err(unwritable)?;
        let at = made.changes.into_iter().next().and_then(|made| Some(made.path.rsplit_once('/')?.0.to_owned()));
        let removal = change(Expect::Anything, Action::Delete { recursive: false });
        within(link.tool::<_, EditAnswer>(EDIT_PATH, &removal)).await.map_err(unwritable)?;
        Self::at(entered, tasks, at.ok_or_else(unresponsive)?)
    }

    fn at(entered: Entered, tasks: TaskTracker, directory: String) -> Result<Self, ApiError> {
        if !directory.starts_with('/') && !directory.is_empty() || directory.len() > MAX_PATH_BYTES + DIRECTORY.len() {
            return Err(unresponsive());
        }
        Ok(Self { entered: Arc::new(entered), directory: directory.into(), tasks })
    }

    /// Begins to send a file with a checked name.
    pub(in crate::api) fn begin(&self, name: String) -> Sending {
        let (chunks, receiver) = mpsc::channel(QUEUE);
        let complete = Arc::new(OnceLock::new());
        let stored = self.tasks.spawn(store(self.clone(), name, receiver, Arc::clone(&complete)));
        Sending { chunks, complete, stored }
    }

    async fn edit(&self, path: &str, action: Action) -> Result<EditAnswer, ToolCallError> {
        let change = Change { path: path.to_owned(), expect: Expect::Anything, action };
        let edit = Edit { user: None, changes: vec![change] };
        within(self.entered.route.link.tool(EDIT_PATH, &edit)).await
    }
}

/// A file that is being sent. Dropping it before [`Sending::finish`] removes what was sent.
pub(in crate::api) struct Sending {
    chunks: mpsc::Sender<Bytes>,
    /// Set at the end of the file: whether it is wanted.
    complete: Arc<OnceLock<bool>>,
    stored: JoinHandle<Result<String, FileError>>,
}

impl Sending {
    /// Sends the next bytes; `false` if the guest takes no more, and [`Sending::finish`] says why.
    pub(in crate::api) async fn send(&self, bytes: Bytes) -> bool {
        let sent = timeout(GUEST_TIME, self.chunks.send(bytes)).await;
        if sent.is_err() {
            self.stored.abort();
        }
        sent.is_ok_and(|sent| sent.is_ok())
    }

    /// Ends the file, or removes it if it is not wanted. Returns where it is.
    pub(in crate::api) async fn finish(self, wanted: bool) -> Result<String, FileError> {
        let Self { chunks, complete, mut stored } = self;
        let _ = complete.set(wanted);
        drop(chunks);
        let ended = timeout(FINISH_TIME, &mut stored).await;
        stored.abort();
        match ended {
            Ok(Ok(result)) => result,
            Ok(Err(error)) if error.is_panic() => Err(FileError::Guest("the server failed; see its log".into())),
            _ => Err(FileError::Guest("the sandbox does not respond".into())),
        }
    }

    /// Breaks the file off, and waits until the guest's connection is closed.
    pub(in crate::api) async fn abort(self) {
        let Self { chunks, stored, .. } = self;
        drop(chunks);
        let _ = stored.await;
    }
}

async fn store(
    target: Target,
    name: String,
    chunks: mpsc::Receiver<Bytes>,
    complete: Arc<OnceLock<bool>>,
) -> Result<String, FileError> {
    let temporary = format!("{}/.upload-{:032x}", target.directory, rand::random::<u128>());
    let gone = target.entered.route.gone.clone();
    let sent = tokio::select! {
        biased;
        sent = send(&target, &temporary, chunks, Arc::clone(&complete)) => sent,
        () = gone.cancelled() => Err(FileError::Guest("the sandbox ended during the upload".into())),
    };
    sent?;
    let stored = match complete.get() {
        Some(true) => rename(&target, &temporary, &name).await,
        _ => Err(FileError::Broken("it is not wanted".into())),
    };
    if stored.is_err()
        && let Err(error) = target.edit(&temporary, Action::Delete { recursive: false }).await
    {
        tracing::debug!(sandbox = %target.entered.route.id, error = chain(&error), "could not remove a part of an upload");
    }
    stored
}

/// Streams a file to the guest, which removes it if the stream breaks off.
async fn send(
    target: &Target,
    path: &str,
    chunks: mpsc::Receiver<Bytes>,
    complete: Arc<OnceLock<bool>>,
) -> Result<(), FileError> {
    let frames = futures_util::stream::unfold(Some((chunks, complete)), |state| async move {
        let (mut chunks, complete) = state?;
        match chunks.recv().await {
            Some(bytes) => Some((Ok(Frame::data(bytes)), Some((chunks, complete)))),
            None if complete.get().is_some() => None,
            None => Some((Err(io::Error::from(io::ErrorKind::ConnectionAborted)), None)),
        }
    });
    let route = &target.entered.route;
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("path", path).finish();
    let mut request =
        Request::post(format!("/files?{query}")).header(HOST, "guest").header(CONTENT_TYPE, "application/octet-stream");
    if let Some(token) = &route.access_token {
        request = request.header(ACCESS_TOKEN_HEADER, token.expose());
    }
    let unsent = |error: &(dyn std::error::Error + 'static)| FileError::Guest(silent(&chain(error)));
    let request = request.body(StreamBody::new(frames)).map_err(|error| unsent(&error))?;
    let response = route.link.request(Port::Traffic, request).await.map_err(|error| unsent(&error))?;
    let status = response.status();
    if status == StatusCode::OK {
        return Ok(());
    }
    let said = timeout(GUEST_TIME, Limited::new(response.into_body(), MAX_ERROR).collect()).await;
    let said = said.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    Err(match status {
        StatusCode::INSUFFICIENT_STORAGE => FileError::DiskFull,
        _ => FileError::Guest(message(&said).unwrap_or_else(|| silent(&format!("status {status}")))),
    })
}

/// Gives a file its name, or the next one that nothing has.
async fn rename(target: &Target, temporary: &str, name: &str) -> Result<String, FileError> {
    let (mut number, mut interrupted) = (1, 0);
    while number <= MAX_NUMBER && interrupted < RENAME_ATTEMPTS {
        let to = format!("{}/{}", target.directory, numbered(name, number));
        match target.edit(temporary, Action::Rename { to: to.clone(), data: None, executable: None }).await {
            Ok(_) => return Ok(to),
            Err(ToolCallError::Refused(refusal)) => match refusal.code {
                ToolErrorCode::AlreadyExists => number += 1,
                // Another upload took the name, or removed a directory that it had made.
                ToolErrorCode::Interrupted => interrupted += 1,
                ToolErrorCode::DiskFull => return Err(FileError::DiskFull),
                _ => return Err(FileError::Guest(cut(&refusal.message))),
            },
            Err(error) => return Err(FileError::Guest(silent(&chain(&error)))),
        }
    }
    Err(FileError::Guest(format!("{MAX_NUMBER} files have its name; choose another")))
}

async fn within<T>(asking: impl Future<Output = Result<T, ToolCallError>>) -> Result<T, ToolCallError> {
    timeout(GUEST_TIME, asking).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

/// The message of an error of the guest.
fn message(said: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Said {
        message: String,
    }
    serde_json::from_slice::<Said>(said).ok().map(|said| cut(&said.message))
}

/// Words of the guest are untrusted.
fn cut(words: &str) -> String {
    words.chars().filter(|c| !c.is_control()).take(400).collect()
}

fn silent(words: &str) -> String {
    format!("the sandbox does not respond: {}", cut(words))
}

/// Why files cannot go to the directory that the client names.
fn unwritable(error: ToolCallError) -> ApiError {
    match error {
        ToolCallError::Refused(refusal) => crate::api::files::refused(&refusal),
        error => refused(error),
    }
}

fn refused(error: ToolCallError) -> ApiError {
    use cabana_types::ErrorCode;
    match error {
        ToolCallError::Refused(refusal) => ApiError::new(ErrorCode::SandboxUnresponsive, cut(&refusal.message)),
        ToolCallError::TooOld => ApiError::new(
            ErrorCode::NotSupported,
            "The sandbox was started by an earlier version of the server, which takes no uploads; pause it with memory: false and \
             resume it, or create a new one",
        ),
        ToolCallError::Io(_) => unresponsive(),
    }
}

fn unresponsive() -> ApiError {
    ApiError::new(cabana_types::ErrorCode::SandboxUnresponsive, "The sandbox does not respond; try again")
}
