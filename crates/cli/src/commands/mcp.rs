//! `cabana mcp`: MCP over standard input and output. A bridge: each message is posted to the server, which has the tools.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use cabana_client::Mcp;
use cabana_types::SandboxId;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::args::{ServerArgs, parse_id};
use crate::commands::Context;
use crate::connection;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana mcp                                    all tools, in a sandbox of its own
  cabana mcp --sandbox ID --tools read          only what reads, in this sandbox

Claude Code:
  claude mcp add cabana -- cabana mcp

Cursor, in ~/.cursor/mcp.json (many other programs have the same file):
  {\"mcpServers\": {\"cabana\": {\"command\": \"cabana\", \"args\": [\"mcp\"]}}}

For a server on another machine give its address and key, in `env` or as options:
  claude mcp add cabana -e CABANA_API_URL=URL -e CABANA_API_KEY=KEY -- cabana mcp
Programs that speak MCP over HTTP need no bridge: URL/mcp with the header `Authorization: Bearer KEY`.";

/// Bytes of one message.
const MAX_MESSAGE: usize = 16 << 20;
/// Requests at once.
const MAX_REQUESTS: usize = 256;
/// Answers that wait to be written.
const QUEUE: usize = 64;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
/// The server cannot be reached or has refused.
const SERVER_ERROR: i32 = -32000;

/// Speak MCP on standard input and output, for agents
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Sandbox of calls that name none [default: one that belongs to the API key]
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    sandbox: Option<SandboxId>,
    /// Sets (read, files, all, lifecycle) and names of tools, separated by commas [default: all,lifecycle]
    #[arg(long, value_name = "LIST")]
    tools: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let (answers, waiting) = mpsc::channel(QUEUE);
    let bridge = Arc::new(Bridge { args, server: context.server.clone(), answers, state: Mutex::default() });
    let reading = read(Arc::clone(&bridge), BufReader::with_capacity(64 << 10, tokio::io::stdin()));
    // The end of the input ends everything; so does a reader of the output that has gone.
    tokio::select! {
        read = reading => read?,
        written = write(waiting) => written?,
    }
    Ok(0)
}

/// The bridge between a program and the server.
struct Bridge {
    args: Args,
    server: ServerArgs,
    /// To be written to standard output.
    answers: mpsc::Sender<Value>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The revision of the protocol that was agreed on.
    version: Option<String>,
    /// How to reach the server, once it is known.
    mcp: Option<Mcp>,
    /// The requests in progress by their id.
    running: HashMap<String, AbortHandle>,
}

async fn read(bridge: Arc<Bridge>, mut input: impl AsyncBufRead + Unpin) -> io::Result<()> {
    loop {
        let message = match next_line(&mut input, MAX_MESSAGE).await? {
            None => return Ok(()),
            Some(Err(TooLong)) => {
                let text = format!("the message has more than {} MiB", MAX_MESSAGE >> 20);
                bridge.answer(error(&Value::Null, INVALID_REQUEST, &text)).await;
                continue;
            }
            Some(Ok(line)) if line.trim_ascii().is_empty() => continue,
            Some(Ok(line)) => serde_json::from_slice::<Value>(&line),
        };
        match message {
            Ok(message) => bridge.take(message).await,
            Err(problem) => {
                let text = format!("the line is not JSON: {problem}");
                bridge.answer(error(&Value::Null, PARSE_ERROR, &text)).await;
            }
        }
    }
}

async fn write(mut waiting: mpsc::Receiver<Value>) -> io::Result<()> {
    let mut out = tokio::io::stdout();
    while let Some(message) = waiting.recv().await {
        let mut line = message.to_string();
        line.push('\n');
        out.write_all(line.as_bytes()).await?;
        out.flush().await?;
    }
    Ok(())
}

impl Bridge {
    /// Handles a message of the program.
    async fn take(self: &Arc<Self>, message: Value) {
        let is_request = message.get("method").is_some() && message.get("id").is_some_and(|id| !id.is_null());
        if message["method"] == "notifications/cancelled" {
            // Dropping the request closes its connection, which ends the call.
            let running = self.state().running.remove(&message["params"]["requestId"].to_string());
            if let Some(running) = running {
                running.abort();
            }
            return;
        }
        if message.get("method").is_none() && message.is_object() {
            // An answer; the server never asks.
            return;
        }
        let name = message["id"].to_string();
        if let Some((id, text)) = self.start(name, message, is_request) {
            self.answer(error(&id, INVALID_REQUEST, text)).await;
        }
    }

    /// Begins to pass a message on, or returns why not.
    fn start(self: &Arc<Self>, name: String, message: Value, is_request: bool) -> Option<(Value, &'static str)> {
        // Locked until the task is known, so that its end is noticed after its beginning.
        let mut state = self.state();
        if is_request && state.running.contains_key(&name) {
            return Some((message["id"].clone(), "a request with this id is in progress"));
        }
        if state.running.len() >= MAX_REQUESTS {
            return Some((message["id"].clone(), "too many requests are in progress; wait for their answers"));
        }
        let task = tokio::spawn(Arc::clone(self).pass_on(message, is_request));
        if is_request {
            state.running.insert(name, task.abort_handle());
        }
        None
    }

    /// Posts a message and writes the answers to it.
    async fn pass_on(self: Arc<Self>, message: Value, is_request: bool) {
        let answered = self.exchange(&message).await;
        if !is_request && message.is_object() {
            return;
        }
        let id = &message["id"];
        self.state().running.remove(&id.to_string());
        match answered {
            Ok(true) => {}
            Ok(false) => {
                let text = "the server ended the connection without an answer; it may have been restarted: try again";
                self.answer(error(id, SERVER_ERROR, text)).await;
            }
            Err(failure) => self.answer(error(id, SERVER_ERROR, &described(&failure))).await,
        }
    }

    /// Whether the answer to the message itself was among the messages that came.
    async fn exchange(&self, message: &Value) -> Result<bool, Failure> {
        let opens = message["method"] == "initialize";
        let version = if opens { None } else { self.state().version.clone() };
        let mut answers = self.mcp()?.send(message, version.as_deref()).await?;
        let mut answered = false;
        while let Some(answer) = answers.next().await? {
            let is_answer = answer.get("method").is_none();
            if let (true, Some(version)) = (opens && is_answer, answer["result"]["protocolVersion"].as_str()) {
                self.state().version = Some(version.to_owned());
            }
            answered |= is_answer;
            self.answer(answer).await;
        }
        Ok(answered)
    }

    /// How to reach the server. A server that is started later is found then.
    fn mcp(&self) -> Result<Mcp, Failure> {
        if let Some(mcp) = &self.state().mcp {
            return Ok(mcp.clone());
        }
        let client = connection::client(&self.server)?;
        let mcp = client.mcp(self.args.sandbox.as_ref(), self.args.tools.as_deref());
        self.state().mcp = Some(mcp.clone());
        Ok(mcp)
    }

    async fn answer(&self, message: Value) {
        // The writer ends only together with the program.
        let _ = self.answers.send(message).await;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn error(id: &Value, code: i32, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
}

/// A failure in one line: the causes, and what to do.
fn described(failure: &Failure) -> String {
    let text = failure.chain().collect::<Vec<_>>().join(": ");
    match failure.hint_text() {
        Some(hint) => format!("{text}. {hint}"),
        None => text,
    }
}

#[derive(Debug)]
struct TooLong;

/// The next line; `None` at the end. What is longer than `most` is read and dropped.
async fn next_line(
    input: &mut (impl AsyncBufRead + Unpin),
    most: usize,
) -> io::Result<Option<Result<Vec<u8>, TooLong>>> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let buffer = input.fill_buf().await?;
        if buffer.is_empty() {
            // A line without an end is not a message.
            return Ok(None);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        too_long |= line.len() + part.len() > most;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(part);
        }
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(if too_long { Err(TooLong) } else { Ok(line) }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_lines_are_dropped_and_the_next_is_read() {
        let text = format!("{{}}\n{}\nnext\r\nunfinished", "x".repeat(100));
        for capacity in [1, 7, 64, 1000] {
            let mut input = BufReader::with_capacity(capacity, text.as_bytes());
            let mut read = vec![];
            while let Some(line) = next_line(&mut input, 20).await.expect("read") {
                read.push(line.ok().map(|line| String::from_utf8(line).expect("text")));
            }
            assert_eq!(read, [Some("{}".to_owned()), None, Some("next\r".to_owned())], "{capacity}");
        }
    }
}
