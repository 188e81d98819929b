//! Output of commands on its way to people, and what is kept of results.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cabana_agent::call::Observer;
use cabana_agent::computer::OutputStream;
use cabana_types::tool::ToolResult;
use cabana_types::{CallId, TurnId};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use super::room::{Printed, Room};
use crate::tools::Decoder;

/// Bytes of a call's output that are sent in a second.
const RATE: usize = 64 << 10;
const SECOND: Duration = Duration::from_secs(1);
/// Output is joined over this time.
const JOIN: Duration = Duration::from_millis(40);
/// Bytes of a result's data that are kept.
const MAX_DATA: usize = 64 << 10;
/// Bytes of its images.
const MAX_IMAGES: usize = 8 << 20;

/// Sends what a call prints.
pub(super) struct LiveOutput {
    room: Arc<Room>,
    turn: TurnId,
    call: CallId,
    state: Mutex<State>,
    /// Notified when text waits to be sent.
    waits: Notify,
}

struct State {
    stdout: Decoder,
    stderr: Decoder,
    /// Text that waits to be sent, all of one stream.
    text: String,
    stream: OutputStream,
    due: Instant,
    second: Instant,
    sent: usize,
    dropped: u64,
    /// Whether what is sent next replaces all that was sent before: a command that is found again repeats its output.
    again: bool,
}

impl LiveOutput {
    pub(super) fn new(room: Arc<Room>, turn: TurnId, call: CallId, again: bool) -> Self {
        let now = Instant::now();
        let state = State {
            stdout: Decoder::default(),
            stderr: Decoder::default(),
            text: String::new(),
            stream: OutputStream::Stdout,
            due: now,
            second: now,
            sent: 0,
            dropped: 0,
            again,
        };
        Self { room, turn, call, state: Mutex::new(state), waits: Notify::new() }
    }

    /// Sends what waits when its time has come.
    pub(super) async fn keep_sending(&self) -> std::convert::Infallible {
        loop {
            let waits = self.waits.notified();
            waits.await;
            let due = self.state.lock().await.due;
            tokio::time::sleep_until(due).await;
            let mut state = self.state.lock().await;
            self.send(&mut state).await;
        }
    }

    /// Sends what is left.
    pub(super) async fn finish(&self) {
        let mut state = self.state.lock().await;
        self.send(&mut state).await;
    }

    async fn send(&self, state: &mut State) {
        state.due = Instant::now() + JOIN;
        if state.text.is_empty() && state.dropped == 0 {
            return;
        }
        let text = std::mem::take(&mut state.text);
        let dropped = std::mem::take(&mut state.dropped);
        let printed =
            Printed { stream: state.stream.as_str(), text: &text, dropped, again: std::mem::take(&mut state.again) };
        let sent = self.room.printed(&self.turn, &self.call, printed).await;
        if let Err(error) = sent {
            tracing::warn!(call = %self.call, error = cabana_types::error::chain(&error), "output of a call was not sent");
        }
    }
}

#[async_trait]
impl Observer for LiveOutput {
    async fn output(&self, stream: OutputStream, chunk: Bytes) {
        let mut state = self.state.lock().await;
        if state.stream != stream {
            self.send(&mut state).await;
            state.stream = stream;
        }
        let text = match stream {
            OutputStream::Stdout => state.stdout.decode(&chunk),
            OutputStream::Stderr => state.stderr.decode(&chunk),
        };
        if state.second.elapsed() >= SECOND {
            (state.second, state.sent) = (Instant::now(), 0);
        }
        if state.sent + text.len() > RATE {
            // All of it is in the result, or in the file that the result names.
            state.dropped += text.len() as u64;
            return;
        }
        state.sent += text.len();
        state.text.push_str(&text);
        if state.due <= Instant::now() {
            self.send(&mut state).await;
        } else {
            self.waits.notify_one();
        }
    }
}

/// Leaves out of a result what is too large to be kept.
pub(super) fn shrink(result: &mut ToolResult) {
    let size = |value: &Value| value.to_string().len();
    if size(&result.data) > MAX_DATA {
        result.data = json!({});
        result.truncated = true;
    }
    if result.images.iter().map(|image| image.data.len()).sum::<usize>() > MAX_IMAGES {
        result.images.clear();
        result.truncated = true;
    }
}
