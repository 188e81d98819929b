//! Events of a chat as server-sent events. Whoever leaves stops nothing, and finds everything again by the number of the last event.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bytes::Bytes;
use cabana_types::error::chain;
use cabana_types::{ChatId, TurnId};
use futures_util::{Stream, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Request};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{App, ChatRef};
use crate::api::query::Query;
use crate::auth::Caller;
use crate::chats::{Watcher, event::Published};
use crate::error::ApiError;
use crate::live::session_end::SessionEnd;

/// A client that waits hears of it.
const PING: Duration = Duration::from_secs(15);
/// Longest life of a stream that a client can ask for, in seconds.
pub(in crate::api) const MAX_AGE: i64 = 86_400;
const CHAT_ID: HeaderName = HeaderName::from_static("x-chat-id");

/// Follow the events of a chat: from `Last-Event-ID` or `after`, else from now on, after one `chat.updated`.
#[utoipa::path(get, path = "/chats/{chatID}/events", tag = "chats",
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("after" = Option<u64>, Query, description = "The number of the last event that the client has"),
        ("Last-Event-ID" = Option<String>, Header, description = "The same, as browsers send it"),
        ("maxAge" = Option<u32>, Query, description = "Seconds after which the stream ends with `stream.end`"),
    ),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream")))]
pub(in crate::api) async fn chat_events(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    chat: ChatRef,
    query: Query,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    follow(app, caller, chat, query, request).await
}

/// Go on with the events of a chat, as `/events` does.
#[utoipa::path(get, path = "/chats/{chatID}/resume", tag = "chats",
    params(
        ("chatID" = String, Path, description = "The chat"),
        ("after" = Option<u64>, Query, description = "The number of the last event that the client has"),
        ("Last-Event-ID" = Option<String>, Header, description = "The same, as browsers send it"),
        ("maxAge" = Option<u32>, Query, description = "Seconds after which the stream ends with `stream.end`"),
    ),
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream")))]
pub(in crate::api) async fn resume_chat(
    app: State<Arc<App>>,
    caller: Extension<Caller>,
    chat: ChatRef,
    query: Query,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    follow(app, caller, chat, query, request).await
}

async fn follow(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ChatRef(id): ChatRef,
    query: Query,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let chat = app.find_chat(&caller, &id).await?;
    let max_age = max_age(&app, &query)?;
    let sent = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    let after = query.text("after").or(sent).map(|text| {
        text.parse::<u64>().map_err(|_| ApiError::invalid("after and Last-Event-ID are numbers of events"))
    });
    let after = after.transpose()?;
    let watcher = app.chats.room(&chat).watch(after).await?;
    let mut first = String::new();
    if after.is_none() {
        let data = json!({
            "type": "chat.updated", "chatId": id, "turnId": null, "at": jiff::Timestamp::now(), "chat": app.chats.describe(&chat).await?,
        });
        first = format!("id: {}\nevent: chat.updated\ndata: {data}\n\n", watcher.cursor());
    }
    let ended = request.extensions().get::<SessionEnd>().cloned();
    Ok(respond(&app, &id, Streaming { watcher, first, turn: None, until: max_age, ended }))
}

/// The events of a turn, until it ends or waits.
pub(super) async fn of_turn(
    app: &Arc<App>,
    chat: &ChatId,
    turn: &TurnId,
    watcher: Option<Watcher>,
    max_age: Option<Instant>,
) -> Result<Response, ApiError> {
    let Some(watcher) = watcher else { return Ok(Json(json!({"chatId": chat})).into_response()) };
    let streaming = Streaming { watcher, first: String::new(), turn: Some(turn.clone()), until: max_age, ended: None };
    Ok(respond(app, chat, streaming))
}

/// When a stream ends by itself.
pub(super) fn max_age(app: &App, query: &Query) -> Result<Option<Instant>, ApiError> {
    let asked = query.number("maxAge", 1..=MAX_AGE)?.and_then(|seconds| u64::try_from(seconds).ok());
    let usual = Some(app.chat_stream_seconds).filter(|seconds| *seconds > 0);
    Ok(asked.or(usual).map(|seconds| Instant::now() + Duration::from_secs(seconds)))
}

struct Streaming {
    watcher: Watcher,
    first: String,
    /// The turn with which the stream ends.
    turn: Option<TurnId>,
    until: Option<Instant>,
    ended: Option<SessionEnd>,
}

fn respond(app: &Arc<App>, chat: &ChatId, streaming: Streaming) -> Response {
    let stopping = app.live.stopping().clone();
    let mut response = Response::new(Body::from_stream(events(streaming, stopping)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    if let Ok(value) = HeaderValue::from_str(chat.as_str()) {
        headers.insert(CHAT_ID, value);
    }
    response
}

/// Resolves when what the person may do has ended.
async fn ended(end: Option<&SessionEnd>) {
    match end {
        Some(end) => end.cancelled().await,
        None => std::future::pending().await,
    }
}

fn events(streaming: Streaming, stopping: CancellationToken) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    stream::unfold(Some((streaming, stopping)), |state| async move {
        let (mut streaming, stopping) = state?;
        if !streaming.first.is_empty() {
            let first = std::mem::take(&mut streaming.first);
            return Some((Ok(Bytes::from(first)), Some((streaming, stopping))));
        }
        let ping = Instant::now() + PING;
        let forever = ping + Duration::from_secs(86_400);
        let cursor = streaming.watcher.cursor();
        let chat = streaming.watcher.room().chat.clone();
        let next = tokio::select! {
            biased;
            () = ended(streaming.ended.as_ref()) => return None,
            () = stopping.cancelled() => return Some((Ok(end("shutdown", &chat, cursor)), None)),
            () = sleep_until(streaming.until.unwrap_or(forever)) => {
                return Some((Ok(end("max_age", &chat, cursor)), None));
            }
            next = timeout_at(ping, streaming.watcher.next()) => next,
        };
        match next {
            Err(_) => Some((Ok(Bytes::from_static(b"event: ping\ndata: {}\n\n")), Some((streaming, stopping)))),
            Ok(Err(error)) => {
                tracing::warn!(error = chain(&error), "events of a chat could not be read");
                Some((Ok(end("lagged", &chat, cursor)), None))
            }
            Ok(Ok(events)) => {
                let (text, over) = write(&events, streaming.turn.as_ref());
                Some((Ok(Bytes::from(text)), (!over).then_some((streaming, stopping))))
            }
        }
    })
}

/// Writes events, up to the end of a turn.
fn write(events: &[Arc<Published>], turn: Option<&TurnId>) -> (String, bool) {
    let mut text = String::new();
    for event in events {
        text.push_str(&event.sse());
        let ends = matches!(event.kind.as_str(), "turn.complete" | "turn.removed");
        if event.kind == "chat.removed" || turn.is_some() && event.turn.as_ref() == turn && ends {
            return (text, true);
        }
    }
    (text, false)
}

fn end(reason: &str, chat: &ChatId, last: u64) -> Bytes {
    let data = json!({
        "type": "stream.end", "chatId": chat, "turnId": null, "at": jiff::Timestamp::now(), "reason": reason,
        "resume": format!("/chats/{chat}/resume"), "lastEventId": last,
    });
    Bytes::from(format!("event: stream.end\ndata: {data}\n\n"))
}

/// Whether a client wants events instead of one answer.
pub(in crate::api) fn wants_events(headers: &HeaderMap) -> bool {
    super::super::tools::wants_events(headers)
}
