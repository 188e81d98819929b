//! A kernel that is a script of ours, for Node: lines of JSON over a Unix socket. What its process and their children write themselves is
//! output of the cell, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::process::Command;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;

use crate::event::{Event, Failure};
use crate::process::Process;

const START: Duration = Duration::from_secs(30);
/// Maximum length of a line.
const MAX_LINE: u64 = 128 << 20;

/// The connection to a script.
#[derive(Debug)]
pub(crate) struct Script {
    socket: OwnedWriteHalf,
    events: UnboundedSender<Event>,
    count: u64,
}

impl Script {
    /// Starts a script, which gets the path of its socket as its last argument.
    pub(crate) async fn start(
        command: &mut Command,
        place: &Path,
        events: &UnboundedSender<Event>,
    ) -> std::io::Result<(Self, Process)> {
        let path = place.with_extension("sock");
        let listener = UnixListener::bind(&path)?;
        command.arg(&path);
        for stderr in [false, true] {
            let (reader, writer) = std::io::pipe()?;
            let reader = pipe::Receiver::from_owned_fd(reader.into())?;
            tokio::spawn(copy(reader, stderr, events.clone()));
            if stderr {
                command.stderr(writer)
            } else {
                command.stdout(writer)
            };
        }
        let (process, _) = Process::spawn(command, Stdio::null(), events.clone())?;
        let accepted = timeout(START, listener.accept())
            .await
            .unwrap_or_else(|_| Err(std::io::Error::other("it did not connect in time")));
        let (read, socket) = match accepted {
            Ok((stream, _)) => stream.into_split(),
            Err(error) => {
                process.kill();
                return Err(error);
            }
        };
        tokio::spawn(follow(read, events.clone()));
        Ok((Self { socket, events: events.clone(), count: 0 }, process))
    }

    /// Runs a cell, after changes of the environment.
    pub(crate) async fn execute(
        &mut self,
        code: &str,
        environment: &BTreeMap<String, Option<String>>,
    ) -> std::io::Result<()> {
        self.count += 1;
        // The context holds the other end.
        let _ = self.events.send(Event::Started(self.count));
        self.send(&json!({ "type": "execute", "code": code, "env": environment })).await
    }

    /// Gives up waiting for what the cell awaits. A loop is not reached.
    pub(crate) async fn interrupt(&mut self) -> std::io::Result<()> {
        self.send(&json!({ "type": "interrupt" })).await
    }

    async fn send(&mut self, message: &Value) -> std::io::Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        self.socket.write_all(line.as_bytes()).await
    }
}

/// Reports what arrives on a pipe.
pub(crate) async fn copy(mut reader: pipe::Receiver, stderr: bool, events: UnboundedSender<Event>) {
    let mut text = Utf8::default();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = reader.read(&mut buffer).await {
        if let Some(text) = text.take(&buffer[..n])
            && events.send(Event::Stream { stderr, text }).is_err()
        {
            return;
        }
    }
}

async fn follow(socket: OwnedReadHalf, events: UnboundedSender<Event>) {
    let mut reader = BufReader::new(socket);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(1..) if line.ends_with(b"\n") => {}
            _ => return,
        }
        if let Some(event) = serde_json::from_slice(&line).ok().and_then(event)
            && events.send(event).is_err()
        {
            return;
        }
    }
}

/// A report of the script. User code can write any.
fn event(mut message: Value) -> Option<Event> {
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    Some(match message["type"].as_str()? {
        "stream" => Event::Stream { stderr: message["stderr"] == true, text: text("text") },
        "error" => Event::Error(Failure { name: text("name"), value: text("value"), traceback: text("traceback") }),
        "result" => {
            let main = message["main"] == true;
            let Value::Object(data) = message["data"].take() else { return None };
            Event::Result { main, data }
        }
        "idle" => Event::Idle,
        _ => return None,
    })
}

/// Bytes that arrive in pieces, as text: a character that is not complete waits for the next piece.
#[derive(Debug, Default)]
pub(crate) struct Utf8 {
    left: Vec<u8>,
}

impl Utf8 {
    /// The text of what has arrived; `None` if that is nothing.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<String> {
        self.left.extend_from_slice(bytes);
        let keep = incomplete(&self.left);
        let rest = self.left.split_off(self.left.len() - keep);
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.left, rest)).into_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// How many bytes at the end are the beginning of a character.
fn incomplete(bytes: &[u8]) -> usize {
    for n in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - n];
        let length = match byte {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => return 0,
        };
        return if n < length { n } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_split() {
        let text = "aü€😀b";
        for at in 0..text.len() {
            let mut utf8 = Utf8::default();
            let (first, second) = text.as_bytes().split_at(at);
            let read = [utf8.take(first), utf8.take(second)].into_iter().flatten().collect::<String>();
            assert_eq!(read, text);
        }
        assert_eq!(
            Utf8::default().take(b"\xff\x80\x80\x80\x80").as_deref(),
            Some("\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}")
        );
    }
}
