//! What the host asks the guest of a sandbox directly, over its socket: whether it answers, whether it is ready, what it is doing, and to stop
//! everything. Its answers are hostile: bounded in size and time.

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use cabana_types::guest::{
    ACTIVITY_PATH, Activity, JOURNAL_PATH, MAX_READY_LINE, MAX_READY_LINES, READY_PATH, Readiness, STOP_PATH,
    STOP_SECONDS,
};
use http::header::HOST;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// A guest that serves answers within this.
const PROMPT: Duration = Duration::from_secs(3);
/// What an answer may have, where nothing longer is expected.
const MOST: usize = 64 * 1024;
/// The same for its readiness: every byte may be escaped.
const MOST_READY: usize = (MAX_READY_LINES + 1) * (6 * MAX_READY_LINE + 8) + 256;

/// Whether the guest answers.
pub(super) async fn is_healthy(socket: &Path) -> bool {
    matches!(call(socket, Method::GET, "/health", PROMPT, MOST).await, Ok((StatusCode::NO_CONTENT, _)))
}

/// What the guest is doing.
pub(super) async fn activity(socket: &Path) -> io::Result<Activity> {
    let (_, body) = call(socket, Method::GET, ACTIVITY_PATH, PROMPT, MOST).await?;
    serde_json::from_slice(&body).map_err(io::Error::other)
}

/// Whether the sandbox is ready, decided within so much time.
pub(super) async fn readiness(socket: &Path, limit: Duration) -> io::Result<Readiness> {
    let path = format!("{READY_PATH}?seconds={}", limit.as_secs());
    match call(socket, Method::GET, &path, limit + PROMPT, MOST_READY).await? {
        (StatusCode::OK, body) => serde_json::from_slice(&body).map_err(io::Error::other),
        (status, _) => Err(io::Error::other(format!("status {status}"))),
    }
}

/// Has the guest end everything in order, and waits for it.
pub(super) async fn stop(socket: &Path) -> io::Result<()> {
    let patience = Duration::from_secs(STOP_SECONDS) + PROMPT;
    call(socket, Method::POST, STOP_PATH, patience, MOST).await.map(drop)
}

/// What the guest noted, unread.
pub(super) async fn journal(socket: &Path, most: usize) -> io::Result<Bytes> {
    match call(socket, Method::GET, JOURNAL_PATH, PROMPT, most).await? {
        (StatusCode::OK, body) => Ok(body),
        (status, _) => Err(io::Error::other(format!("status {status}"))),
    }
}

async fn call(
    socket: &Path,
    method: Method,
    path: &str,
    patience: Duration,
    most: usize,
) -> io::Result<(StatusCode, Bytes)> {
    let asked = async {
        let stream = UnixStream::connect(socket).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // A guest that never answers must not keep it: it ends with this call.
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let request = Request::builder().method(method).uri(path).header(HOST, "guest").body(Empty::<Bytes>::new());
        let response = sender.send_request(request.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), most).collect().await.map_err(io::Error::other)?;
        Ok((status, body.to_bytes()))
    };
    timeout(patience, asked).await?
}
