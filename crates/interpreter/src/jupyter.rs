//! A Jupyter kernel: messages over ZeroMQ, whose sockets are in a directory that only root can enter, unsigned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep, timeout};

use crate::clock;
use crate::event::{Event, Failure};
use crate::process::Process;
use crate::zmtp::{self, Receiver, Sender};

/// Until when a kernel must answer.
const START: Duration = Duration::from_secs(30);
/// How often a starting kernel is tried.
const TRY: Duration = Duration::from_millis(5);
/// After this time without an answer it is asked again: the first answers of a kernel come before it knows of the subscription.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How long the last report of a cell may come after its reply: a kernel drops reports that it cannot send.
const LATE: Duration = Duration::from_secs(2);
const DELIMITER: &[u8] = b"<IDS|MSG>";

/// The connections to a kernel.
#[derive(Debug)]
pub(crate) struct Jupyter {
    shell: Sender<OwnedWriteHalf>,
    /// Connected because kernels expect it.
    _control: Sender<OwnedWriteHalf>,
    _iopub: Sender<OwnedWriteHalf>,
    current: Current,
    session: String,
    sent: u64,
}

/// The id of the newest request: reports about earlier ones are dropped.
#[derive(Debug, Clone, Default)]
struct Current(Arc<Mutex<String>>);

impl Current {
    fn set(&self, id: &str) {
        id.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn is(&self, id: &str) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == id
    }
}

impl Jupyter {
    /// Starts a kernel. `command` makes its command from the path of the connection file.
    pub(crate) async fn start(
        command: impl FnOnce(&Path) -> Command,
        place: PathBuf,
        events: &UnboundedSender<Event>,
        reports: &mut UnboundedReceiver<Event>,
    ) -> std::io::Result<(Self, Process)> {
        let file = place.with_extension("json");
        let ports = json!({
            "transport": "ipc", "ip": place, "key": "", "signature_scheme": "hmac-sha256",
            "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5,
        });
        tokio::fs::write(&file, ports.to_string()).await?;
        let mut command = command(&file);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let (process, _) = Process::spawn(&mut command, Stdio::null(), events.clone())?;
        let starting = Self::connect(&place, &process, events, reports);
        match timeout(START, starting).await.unwrap_or_else(|_| Err(std::io::Error::other("it did not answer in time")))
        {
            Ok(connected) => Ok((connected, process)),
            Err(error) => {
                process.kill();
                Err(error)
            }
        }
    }

    async fn connect(
        place: &Path,
        process: &Process,
        events: &UnboundedSender<Event>,
        reports: &mut UnboundedReceiver<Event>,
    ) -> std::io::Result<Self> {
        let mut iopub = open(place, 2, "SUB", process).await?;
        iopub.0.send(&[b"\x01"]).await?;
        let shell = open(place, 1, "DEALER", process).await?;
        let control = open(place, 4, "DEALER", process).await?;
        let current = Current::default();
        tokio::spawn(follow(iopub.1, current.clone(), events.clone()));
        tokio::spawn(replies(shell.1, current.clone(), events.clone()));
        tokio::spawn(drain(control.1));
        let session = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut connected = Self { shell: shell.0, _control: control.0, _iopub: iopub.0, current, session, sent: 0 };
        loop {
            connected.send("kernel_info_request", &json!({})).await?;
            let again = Instant::now() + ASK_AGAIN;
            loop {
                match tokio::time::timeout_at(again, reports.recv()).await {
                    Err(_) => break,
                    Ok(Some(Event::Idle)) => return Ok(connected),
                    Ok(None | Some(Event::Died)) => return Err(ended()),
                    Ok(Some(_)) => {}
                }
            }
        }
    }

    /// Runs a cell.
    pub(crate) async fn execute(&mut self, code: &str) -> std::io::Result<()> {
        self.request(code, false).await
    }

    /// Runs code that is not a cell: it has no number and shows nothing.
    pub(crate) async fn execute_silently(&mut self, code: &str) -> std::io::Result<()> {
        self.request(code, true).await
    }

    async fn request(&mut self, code: &str, silent: bool) -> std::io::Result<()> {
        let content = json!({
            "code": code, "silent": silent, "store_history": !silent, "user_expressions": {}, "allow_stdin": false, "stop_on_error": false,
        });
        self.send("execute_request", &content).await
    }

    async fn send(&mut self, kind: &str, content: &Value) -> std::io::Result<()> {
        self.sent += 1;
        let id = format!("{}_{}", self.session, self.sent);
        let header = json!({
            "msg_id": id, "session": self.session, "username": "cabana", "date": clock::now(), "msg_type": kind, "version": "5.3",
        });
        self.current.set(&id);
        let (header, content) = (header.to_string(), content.to_string());
        self.shell.send(&[DELIMITER, b"", header.as_bytes(), b"{}", b"{}", content.as_bytes()]).await
    }
}

/// Python code that sets and removes environment variables, without a trace in the namespace.
pub(crate) fn python_environment(changes: &BTreeMap<String, Option<String>>) -> String {
    let set: BTreeMap<_, _> = changes.iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect();
    let removed: Vec<_> = changes.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
    // A JSON string in ASCII is a Python string, but for `\/` and pairs of surrogates, which serde_json does not write.
    let text = Value::from(json!([set, removed]).to_string());
    format!(
        "(lambda e, c: (e.update(c[0]), [e.pop(n, None) for n in c[1]]))(__import__('os').environ, __import__('json').loads({text}))"
    )
}

/// R code that does the same.
pub(crate) fn r_environment(changes: &BTreeMap<String, Option<String>>) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let statements = changes.iter().map(|(name, value)| match value {
        Some(value) => format!("do.call(Sys.setenv, setNames(list({}), {}))", quoted(value), quoted(name)),
        None => format!("Sys.unsetenv({})", quoted(name)),
    });
    statements.collect::<Vec<_>>().join("\n")
}

/// Connects to a socket of a kernel as soon as it is there.
async fn open(
    place: &Path,
    port: u8,
    kind: &str,
    process: &Process,
) -> std::io::Result<(Sender<OwnedWriteHalf>, Receiver<OwnedReadHalf>)> {
    let mut path = place.as_os_str().to_owned();
    path.push(format!("-{port}"));
    loop {
        match zmtp::connect(Path::new(&path), kind).await {
            Ok(connected) => return Ok(connected),
            Err(_) if process.has_ended() => return Err(ended()),
            Err(_) => sleep(TRY).await,
        }
    }
}

fn ended() -> std::io::Error {
    std::io::Error::other("it ended")
}

/// Forwards the reports about the newest request.
async fn follow<R: AsyncRead + Unpin>(mut iopub: Receiver<R>, current: Current, events: UnboundedSender<Event>) {
    while let Ok(frames) = iopub.receive().await {
        let Some(message) = Message::parse(frames) else { continue };
        if current.is(&message.parent)
            && let Some(event) = message.event()
            && events.send(event).is_err()
        {
            return;
        }
    }
}

/// Reads replies. One whose last report does not come ends the request.
async fn replies<R: AsyncRead + Unpin>(mut shell: Receiver<R>, current: Current, events: UnboundedSender<Event>) {
    while let Ok(frames) = shell.receive().await {
        let Some(message) = Message::parse(frames).filter(|m| m.kind == "execute_reply" && current.is(&m.parent))
        else {
            continue;
        };
        let (current, events) = (current.clone(), events.clone());
        tokio::spawn(async move {
            sleep(LATE).await;
            if current.is(&message.parent) {
                // The context may be gone.
                let _ = events.send(Event::Idle);
            }
        });
    }
}

async fn drain<R: AsyncRead + Unpin>(mut control: Receiver<R>) {
    while control.receive().await.is_ok() {}
}

/// A message of a kernel. User code can write any: what is missing or of another kind is empty.
struct Message {
    kind: String,
    parent: String,
    /// `None` if it is too large.
    content: Option<Value>,
}

impl Message {
    fn parse(mut frames: zmtp::Frames) -> Option<Self> {
        let at = frames.iter().position(|frame| frame.as_deref() == Some(DELIMITER))?;
        let part = |at: usize| serde_json::from_slice::<Value>(frames.get(at)?.as_deref()?).ok();
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let (header, parent) = (part(at + 2)?, part(at + 3)?);
        let content = frames.get_mut(at + 5)?.take().map(|bytes| serde_json::from_slice(&bytes).unwrap_or_default());
        Some(Self { kind: text(&header, "msg_type"), parent: text(&parent, "msg_id"), content })
    }

    fn event(self) -> Option<Event> {
        let Some(mut content) = self.content else {
            let text = "A value or an output of more than 128 MiB was left out";
            return Some(Event::Error(Failure::of_service("OutputTooLarge", text)));
        };
        let mut text = |name: &str| match content[name].take() {
            Value::String(text) => text,
            _ => String::new(),
        };
        Some(match self.kind.as_str() {
            "execute_input" => Event::Started(content["execution_count"].as_u64().unwrap_or_default()),
            "stream" => Event::Stream { stderr: text("name") == "stderr", text: text("text") },
            "display_data" | "execute_result" => {
                let Value::Object(data) = content["data"].take() else { return None };
                Event::Result { main: self.kind == "execute_result", data }
            }
            "error" => {
                let (name, value) = (text("ename"), text("evalue"));
                let lines = content["traceback"].as_array().map(Vec::as_slice).unwrap_or_default();
                let traceback = lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n");
                Event::Error(Failure { name, value, traceback })
            }
            "status" if content["execution_state"] == "idle" => Event::Idle,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, content: &str) -> Option<Event> {
        let header = format!("{{\"msg_type\":\"{kind}\"}}");
        let frames = [
            b"topic".to_vec(),
            DELIMITER.to_vec(),
            vec![],
            header.into_bytes(),
            b"{\"msg_id\":\"1\"}".to_vec(),
            vec![],
            content.into(),
        ];
        Message::parse(frames.map(Some).into()).and_then(Message::event)
    }

    #[test]
    fn messages_become_events() {
        assert!(matches!(message("execute_input", r#"{"execution_count":3}"#), Some(Event::Started(3))));
        assert!(
            matches!(message("stream", r#"{"name":"stderr","text":"x"}"#), Some(Event::Stream { stderr: true, text }) if text == "x")
        );
        assert!(matches!(message("status", r#"{"execution_state":"idle"}"#), Some(Event::Idle)));
        let error = message("error", r#"{"ename":"E","evalue":"v","traceback":["a","b"]}"#);
        assert!(matches!(error, Some(Event::Error(e)) if e.traceback == "a\nb" && e.name == "E"));
        for (kind, content) in
            [("status", "{}"), ("display_data", "{}"), ("comm_open", "{}"), ("execute_result", "[1"), ("", "null")]
        {
            assert!(message(kind, content).is_none(), "{kind} {content}");
        }
        assert!(Message::parse(vec![Some(DELIMITER.to_vec()), None]).is_none());
    }

    #[test]
    fn environments_are_quoted() {
        let changes = BTreeMap::from([("A".to_owned(), Some("it's \"x\"\n".to_owned())), ("B".to_owned(), None)]);
        let code = python_environment(&changes);
        assert!(code.ends_with(r#".loads("[{\"A\":\"it's \\\"x\\\"\\n\"},[\"B\"]]"))"#), "{code}");
        assert!(r_environment(&changes).ends_with("Sys.unsetenv(\"B\")"));
    }
}
