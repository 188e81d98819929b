//! A call as server-sent events: `tool.call`, `tool.output` while a command runs, `tool.message` with the result.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cabana_agent::call::Observer;
use cabana_agent::computer::OutputStream;
use cabana_types::CallId;
use cabana_types::tool::ToolResult;
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::api::App;
use crate::error::ApiError;
use crate::tools::{Decoder, Handle, NewCall};

/// Chunks on their way to a client. When it does not read, the command waits.
const QUEUE: usize = 16;
/// A client that waits for a silent command hears of it.
const PING: Duration = Duration::from_secs(15);

/// Starts a call and answers with its events. Dropping the answer cancels the call.
pub(super) async fn respond(app: &App, mut new: NewCall) -> Result<Response, ApiError> {
    let (send, chunks) = mpsc::channel(QUEUE);
    new.observer = Arc::new(Forward(send));
    let spec = new.tool.spec();
    let (arguments, sandbox) = (new.arguments.clone(), new.sandbox.clone());
    let handle = app.calls.start(new).await?;
    let first = json!({
        "type": "tool.call",
        "toolCall": {
            "id": handle.id, "name": spec.name, "title": spec.title, "arguments": arguments, "sandboxId": sandbox, "status": "running",
        },
    });
    let stages = futures_util::stream::unfold(Stage::Start { first, handle, chunks }, |stage| Box::pin(next(stage)));
    let mut response = Sse::new(stages).keep_alive(KeepAlive::new().interval(PING).text("ping")).into_response();
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Passes output on.
struct Forward(mpsc::Sender<(OutputStream, Bytes)>);

#[async_trait]
impl Observer for Forward {
    async fn output(&self, stream: OutputStream, chunk: Bytes) {
        // The client may be gone; the call is cancelled then.
        let _ = self.0.send((stream, chunk)).await;
    }
}

enum Stage {
    Start { first: Value, handle: Handle, chunks: mpsc::Receiver<(OutputStream, Bytes)> },
    Output(Output),
    Done,
}

struct Output {
    id: CallId,
    result: std::pin::Pin<Box<dyn Future<Output = Option<Arc<ToolResult>>> + Send>>,
    chunks: mpsc::Receiver<(OutputStream, Bytes)>,
    stdout: Decoder,
    stderr: Decoder,
}

async fn next(stage: Stage) -> Option<(Result<Event, Infallible>, Stage)> {
    let mut output = match stage {
        Stage::Start { first, handle, chunks } => {
            let (id, result) = (handle.id.clone(), Box::pin(handle.result()));
            let output = Output { id, result, chunks, stdout: Decoder::default(), stderr: Decoder::default() };
            return Some((Ok(event("tool.call", &first)), Stage::Output(output)));
        }
        Stage::Output(output) => output,
        Stage::Done => return None,
    };
    loop {
        // All output comes before the result: the sender of chunks is dropped with the call.
        let chunk = tokio::select! {
            biased;
            chunk = output.chunks.recv() => chunk,
            result = &mut output.result, if output.chunks.is_closed() => return Some((Ok(message(&output.id, result)), Stage::Done)),
        };
        let Some((stream, bytes)) = chunk else {
            let result = output.result.as_mut().await;
            return Some((Ok(message(&output.id, result)), Stage::Done));
        };
        let decoder = match stream {
            OutputStream::Stdout => &mut output.stdout,
            OutputStream::Stderr => &mut output.stderr,
        };
        let text = decoder.decode(&bytes);
        if !text.is_empty() {
            let data = json!({"type": "tool.output", "toolCallId": output.id, "stream": stream.as_str(), "text": text, "dropped": 0});
            return Some((Ok(event("tool.output", &data)), Stage::Output(output)));
        }
    }
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

/// The last event: the result in the form of REST, with the fields that chats use.
fn message(id: &CallId, result: Option<Arc<ToolResult>>) -> Event {
    let mut data = match result {
        Some(result) => serde_json::to_value(&*result).unwrap_or_default(),
        None => json!({"callId": id, "status": "error", "output": "the call failed; the server's log has the details"}),
    };
    if let Some(fields) = data.as_object_mut() {
        fields.insert("type".into(), "tool.message".into());
        fields.insert("toolCallId".into(), id.as_str().into());
        if let Some(name) = fields.get("tool").cloned() {
            fields.insert("name".into(), name);
        }
        fields.insert("attachments".into(), json!([]));
    }
    event("tool.message", &data)
}
