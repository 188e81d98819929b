//! Calls that ran when the server ended, with a sandbox that is a script.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabana_types::guest::tools as guest;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::computer::{Command, CommandEvent, Exit, LifecycleDone, Link, NewCommand, NewLink, Signal};
use crate::tools;

/// A sandbox with files, and with commands that do what was written down.
#[derive(Default)]
struct Fake {
    files: BTreeMap<String, &'static str>,
    commands: Mutex<BTreeMap<String, VecDeque<CommandEvent>>>,
    signals: Mutex<Vec<Signal>>,
}

struct FakeCommand {
    events: VecDeque<CommandEvent>,
}

#[async_trait]
impl Command for FakeCommand {
    async fn next(&mut self) -> Result<Option<CommandEvent>, ComputerError> {
        match self.events.pop_front() {
            Some(event) => Ok(Some(event)),
            None => std::future::pending().await,
        }
    }
}

fn refused(path: &str) -> ComputerError {
    ComputerError::Refused(guest::Refusal {
        code: ToolErrorCode::FileNotFound,
        message: format!("{path} does not exist"),
        path: None,
        size: None,
        media_type: None,
    })
}

#[async_trait]
impl Computer for Fake {
    fn sandbox_id(&self) -> &str {
        "ifake"
    }

    async fn read(&self, request: guest::Read) -> Result<guest::ReadAnswer, ComputerError> {
        let text = self.files.get(&request.path).ok_or_else(|| refused(&request.path))?;
        let content = match request.what {
            guest::ReadWhat::Bytes { .. } => guest::Content::Bytes {
                data: STANDARD.encode(text),
                sha256: Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect(),
                mode: 0o644,
            },
            guest::ReadWhat::Lines { .. } => {
                let lines = text.lines().map(|line| guest::Line { text: line.to_owned(), cut: 0 }).collect();
                guest::Content::Lines { lines, total: 1, truncated: false }
            }
        };
        Ok(guest::ReadAnswer { path: format!("/home/{}", request.path), size: text.len() as u64, content })
    }

    async fn stat(&self, request: guest::Stat) -> Result<guest::StatAnswer, ComputerError> {
        self.files.get(&request.path).ok_or_else(|| refused(&request.path))?;
        Ok(guest::StatAnswer {
            path: request.path,
            kind: guest::EntryKind::File,
            size: 0,
            mode: 0,
            asked: String::new(),
            modified: 0,
            target: None,
            content: None,
        })
    }

    async fn list(&self, _: guest::List) -> Result<guest::ListAnswer, ComputerError> {
        unreachable!("no test lists")
    }

    async fn edit(&self, _: guest::Edit) -> Result<guest::EditAnswer, ComputerError> {
        unreachable!("nothing is done twice")
    }

    async fn grep(&self, _: guest::Grep) -> Result<guest::GrepAnswer, ComputerError> {
        unreachable!("no test searches")
    }

    async fn find(&self, _: guest::Find) -> Result<guest::FindAnswer, ComputerError> {
        unreachable!("no test searches")
    }

    async fn start(&self, _: NewCommand) -> Result<Box<dyn Command>, ComputerError> {
        unreachable!("nothing is done twice")
    }

    async fn attach(&self, tag: &str) -> Result<Option<Box<dyn Command>>, ComputerError> {
        let events = self.commands.lock().unwrap().remove(tag);
        Ok(events.map(|events| Box::new(FakeCommand { events }) as Box<dyn Command>))
    }

    async fn signal(&self, _: &str, signal: Signal) -> Result<bool, ComputerError> {
        self.signals.lock().unwrap().push(signal);
        Ok(true)
    }

    async fn download_link(&self, _: NewLink) -> Result<Link, ComputerError> {
        unreachable!("no test makes links")
    }
}

struct One(Arc<Fake>);

#[async_trait]
impl Computers for One {
    async fn open(&self, _: Option<&str>) -> Result<Arc<dyn Computer>, ComputerError> {
        Ok(Arc::clone(&self.0) as Arc<dyn Computer>)
    }

    async fn lifecycle(&self, _: &'static str, _: Value) -> Result<LifecycleDone, ComputerError> {
        unreachable!("nothing is done twice")
    }

    async fn service(&self, _: &str, _: &'static str, _: Value) -> Result<LifecycleDone, ComputerError> {
        unreachable!("nothing is done twice")
    }
}

#[derive(Default)]
struct Recorded(Mutex<String>);

#[async_trait]
impl Observer for Recorded {
    async fn output(&self, _: OutputStream, chunk: Bytes) {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk));
    }
}

fn id() -> CallId {
    CallId::from_random([7; 20])
}

fn call(fake: Fake) -> (Call, Arc<Fake>, Arc<Recorded>) {
    let (fake, seen) = (Arc::new(fake), Arc::new(Recorded::default()));
    let (computers, observer) = (Arc::new(One(Arc::clone(&fake))), Arc::clone(&seen) as Arc<dyn Observer>);
    let call = Call { id: id(), computers, cancel: CancellationToken::new(), observer, limits: Limits::default() };
    (call, fake, seen)
}

fn command(events: impl IntoIterator<Item = CommandEvent>) -> Fake {
    let commands = [(format!("call:{}", id()), events.into_iter().collect())].into();
    Fake { commands: Mutex::new(commands), ..Fake::default() }
}

fn printed(text: &'static str) -> CommandEvent {
    CommandEvent::Output(OutputStream::Stdout, Bytes::from_static(text.as_bytes()))
}

fn ended(code: i32) -> CommandEvent {
    CommandEvent::Ended(Exit { code: Some(code), status: format!("exit status {code}") })
}

async fn again(tool: &str, arguments: Value, call: &Call) -> Result<String, ToolErrorCode> {
    let result = resume(tools::find(tool).unwrap(), &arguments, call).await;
    assert_eq!((&result.call_id, result.tool.as_str()), (&call.id, tool));
    match result.error {
        None => Ok(result.output),
        Some(error) => {
            assert!(!error.hint.is_empty() && result.output.contains(&error.hint));
            Err(error.code)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn commands_are_followed_to_their_end() {
    let arguments = json!({"command": "make", "timeout_seconds": 30});
    let (one, _, seen) = call(command([CommandEvent::Started { pid: 5 }, printed("a\n"), printed("b\n"), ended(0)]));
    assert_eq!(again("sandbox_run_command", arguments.clone(), &one).await, Ok("a\nb\n".into()));
    assert_eq!(*seen.0.lock().unwrap(), "a\nb\n");
    // It was taken: there is no such command any more.
    assert_eq!(again("sandbox_run_command", arguments.clone(), &one).await, Err(ToolErrorCode::Interrupted));
    let (one, ..) = call(command([CommandEvent::Dropped, printed("b\n"), ended(2)]));
    let result = resume(tools::find("sandbox_run_command").unwrap(), &arguments, &one).await;
    assert_eq!(result.error.unwrap().code, ToolErrorCode::CommandFailed);
    assert_eq!((result.truncated, result.data["exitCode"].clone()), (true, json!(2)));
    assert_eq!(result.data["outputPath"], json!(format!("/tmp/cabana/outputs/{}.txt", id())));
}

#[tokio::test(start_paused = true)]
async fn followed_commands_have_their_time_and_can_be_cancelled() {
    let arguments = json!({"command": "make", "timeout_seconds": 30});
    let begin = Instant::now();
    let (one, fake, _) = call(command([printed("a\n")]));
    assert_eq!(again("sandbox_run_command", arguments.clone(), &one).await, Err(ToolErrorCode::CommandTimeout));
    assert!(begin.elapsed() >= Duration::from_secs(30));
    assert_eq!(fake.signals.lock().unwrap().first(), Some(&Signal::Term));
    let (one, fake, _) = call(command([printed("a\n")]));
    let cancel = one.cancel.clone();
    let (done, ()) = tokio::join!(again("sandbox_run_command", arguments, &one), async move { cancel.cancel() });
    assert_eq!(done, Err(ToolErrorCode::Cancelled));
    assert_eq!(fake.signals.lock().unwrap().first(), Some(&Signal::Term));
    let (one, fake, _) = call(command([CommandEvent::Started { pid: 5 }, printed("a\n")]));
    let output = again("sandbox_run_command", json!({"command": "serve", "background": true}), &one).await.unwrap();
    assert!(output.contains("[still running as command call_") && output.contains("kill -- -5"), "{output}");
    assert!(fake.signals.lock().unwrap().is_empty());
}

#[tokio::test]
async fn edits_are_looked_up() {
    let fake = || Fake { files: [("a".to_owned(), "one\n")].into(), ..Fake::default() };
    let (one, ..) = call(fake());
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    assert_eq!(again("sandbox_write_file", write("a", "one\n"), &one).await, Ok("wrote /home/a (4 bytes)".into()));
    assert_eq!(again("sandbox_write_file", write("a", "two\n"), &one).await, Err(ToolErrorCode::Interrupted));
    assert_eq!(again("sandbox_write_file", write("b", "one\n"), &one).await, Err(ToolErrorCode::Interrupted));
    let executable = json!({"path": "a", "content": "one\n", "executable": true});
    assert_eq!(again("sandbox_write_file", executable, &one).await, Err(ToolErrorCode::Interrupted));
    assert_eq!(again("sandbox_delete_file", json!({"path": "b"}), &one).await, Ok("deleted b".into()));
    assert_eq!(again("sandbox_delete_file", json!({"path": "a"}), &one).await, Err(ToolErrorCode::Interrupted));
    assert_eq!(again("sandbox_read_file", json!({"path": "a"}), &one).await, Ok("1\tone\n".into()));
    assert_eq!(again("sandbox_read_file", json!({"path": "b"}), &one).await, Err(ToolErrorCode::FileNotFound));
    for (tool, arguments) in [
        ("sandbox_apply_patch", json!({"patch": "x"})),
        ("sandbox_find_replace", json!({"path": "a", "find": "one", "replace": "two"})),
        ("sandbox_start_service", json!({"command": "serve"})),
        ("sandbox_create", json!({})),
    ] {
        assert_eq!(again(tool, arguments, &one).await, Err(ToolErrorCode::Interrupted), "{tool}");
    }
    assert_eq!(again("sandbox_write_file", json!({}), &one).await, Err(ToolErrorCode::InvalidArguments));
}
