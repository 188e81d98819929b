//! What a client says to a terminal: bytes that are typed, and sizes. Bytes wait in a bounded queue while the program does not read
//! them; then the client waits, too.

use axum::extract::ws::Message;
use axum::extract::ws::WebSocket;
use bytes::BytesMut;
use cabana_guest_link::GuestLink;
use cabana_types::error::chain;
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::shell::{self, Size};
use crate::live::{Goodbye, MAX_SILENCE};

/// Messages that wait.
const QUEUE: usize = 8;
/// Bytes that are typed at once, if they have waited.
const MAX_WRITE: usize = 64 << 10;
/// A side of a terminal.
const SIDE: std::ops::RangeInclusive<u32> = 1..=1000;

/// Something for the terminal.
enum Stroke {
    Bytes(bytes::Bytes),
    Resize(Size),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    resize: WireSize,
}

#[derive(Deserialize)]
struct WireSize {
    cols: u32,
    rows: u32,
}

/// Passes on what the client says until it leaves or is silent for too long.
pub(super) async fn serve(stream: &mut SplitStream<WebSocket>, link: &GuestLink, pid: u32) -> Goodbye {
    let (queue, waiting) = mpsc::channel(QUEUE);
    tokio::select! {
        goodbye = hear(stream, queue) => goodbye,
        // Cannot end first: the queue is open as long as the client is heard.
        () = type_in(waiting, link, pid) => Goodbye::Gone,
    }
}

async fn hear(stream: &mut SplitStream<WebSocket>, queue: mpsc::Sender<Stroke>) -> Goodbye {
    loop {
        let Ok(message) = timeout(MAX_SILENCE, stream.next()).await else { return Goodbye::SILENT };
        let stroke = match message {
            Some(Ok(Message::Binary(bytes))) => Stroke::Bytes(bytes),
            Some(Ok(Message::Text(text))) => match resize(text.as_str()) {
                Some(size) => Stroke::Resize(size),
                // Nothing that a newer client says harms the terminal.
                None => continue,
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Close(_))) | None => return Goodbye::Gone,
            Some(Err(error)) => {
                tracing::debug!(error = chain(&error), "the socket of a terminal failed");
                return Goodbye::TOO_LARGE;
            }
        };
        if queue.send(stroke).await.is_err() {
            return Goodbye::Gone;
        }
    }
}

/// Types what waits, together if it is much.
async fn type_in(mut waiting: mpsc::Receiver<Stroke>, link: &GuestLink, pid: u32) {
    let mut next = None;
    loop {
        let stroke = match next.take() {
            Some(stroke) => stroke,
            None => match waiting.recv().await {
                Some(stroke) => stroke,
                None => return,
            },
        };
        let done = match stroke {
            Stroke::Resize(mut size) => {
                // Of several sizes in a row the last counts.
                while let Ok(stroke) = waiting.try_recv() {
                    match stroke {
                        Stroke::Resize(newer) => size = newer,
                        Stroke::Bytes(_) => {
                            next = Some(stroke);
                            break;
                        }
                    }
                }
                shell::resize(link, pid, size).await
            }
            Stroke::Bytes(first) => {
                let mut bytes = BytesMut::from(first);
                while bytes.len() < MAX_WRITE {
                    match waiting.try_recv() {
                        Ok(Stroke::Bytes(more)) => bytes.extend_from_slice(&more),
                        Ok(stroke @ Stroke::Resize(_)) => {
                            next = Some(stroke);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                shell::write(link, pid, &bytes).await
            }
        };
        // The shell may have ended, which its output tells.
        if let Err(error) = done {
            tracing::debug!(error = error.message.as_deref().unwrap_or_default(), "a terminal took no input");
        }
    }
}

fn resize(text: &str) -> Option<Size> {
    let Wire { resize: WireSize { cols, rows } } = serde_json::from_str(text).ok()?;
    (SIDE.contains(&cols) && SIDE.contains(&rows)).then_some(Size { cols, rows })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_or_ignored() {
        assert_eq!(resize(r#"{"resize":{"cols":120,"rows":40}}"#), Some(Size { cols: 120, rows: 40 }));
        for wrong in ["", "{}", "1", r#"{"resize":{"cols":0,"rows":1}}"#, r#"{"resize":{"cols":80,"rows":1001}}"#] {
            assert_eq!(resize(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = resize(&text);
        }
    }
}
