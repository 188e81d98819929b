//! Commands in a sandbox: starting, attaching, input, signals, terminal size.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use cabana_http::ResponseBody;
use cabana_proto::process as pb;
use connectrpc::client::{CallOptions, ServerStream};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::api::within;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::sandbox::SandboxHandle;

/// Seconds of silence after which the guest sends a keepalive message on a stream.
const KEEPALIVE_SECONDS: &str = "50";
/// Chunks of input in flight.
const INPUT_QUEUE: usize = 4;

/// A command to start.
#[derive(Debug, Clone, Default)]
pub struct StartCommand {
    /// The program: a path, or a name to look for in `PATH`.
    pub program: String,
    pub args: Vec<String>,
    /// Environment, on top of the sandbox's own.
    pub env: HashMap<String, String>,
    /// Working directory; the user's home if unset.
    pub cwd: Option<String>,
    /// Whether input will be sent; otherwise it reads from `/dev/null`.
    pub stdin: bool,
    /// Runs it on a terminal of this size.
    pub pty: Option<PtySize>,
    /// A tag to find it by.
    pub tag: Option<String>,
    /// Kills it after this long.
    pub timeout: Option<Duration>,
}

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PtySize {
    pub cols: u16,
    pub rows: u16,
}

/// An event of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    /// Standard output.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// Terminal output.
    Pty(Bytes),
    /// The command ended; this is the last event.
    Ended(Exit),
}

/// A signal that the guest delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

enum Events {
    Started(ServerStream<ResponseBody, pb::__buffa::view::StartResponseView<'static>>),
    Attached(ServerStream<ResponseBody, pb::__buffa::view::ConnectResponseView<'static>>),
}

/// A running command. Dropping it leaves the command running.
pub struct Command {
    sandbox: SandboxHandle,
    events: Events,
    pid: u32,
    ended: bool,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command").field("sandbox", self.sandbox.id()).field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Command {
    /// Its process id inside the sandbox.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The next event; `None` after [`CommandEvent::Ended`]. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<CommandEvent>> {
        let action = "follow the command";
        loop {
            if self.ended {
                return Ok(None);
            }
            let event = match next_event(&mut self.events).await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    return Err(Error::Answer { action, reason: "it stopped before the command ended".to_owned() });
                }
                Err(e) => {
                    let broken = self.sandbox.error(action, e);
                    return Err(self.sandbox.explain(broken).await);
                }
            };
            use pb::__buffa::oneof::process_event::data_event::Output;
            match event {
                Event::Start(_) | Event::Keepalive(_) => {}
                Event::Data(data) => match data.output {
                    Some(Output::Stdout(bytes)) => return Ok(Some(CommandEvent::Stdout(bytes.into()))),
                    Some(Output::Stderr(bytes)) => return Ok(Some(CommandEvent::Stderr(bytes.into()))),
                    Some(Output::Pty(bytes)) => return Ok(Some(CommandEvent::Pty(bytes.into()))),
                    None => {}
                },
                Event::End(end) => {
                    self.ended = true;
                    let exit = Exit { code: end.exit_code, exited: end.exited, status: end.status, error: end.error };
                    return Ok(Some(CommandEvent::Ended(exit)));
                }
            }
        }
    }
}

type Event = pb::__buffa::oneof::process_event::Event;

async fn next_event(events: &mut Events) -> std::result::Result<Option<Event>, connectrpc::ConnectError> {
    loop {
        let event = match events {
            Events::Started(stream) => {
                let Some(message) = stream.message().await? else { return Ok(None) };
                message.to_owned_message().event.into_option()
            }
            Events::Attached(stream) => {
                let Some(message) = stream.message().await? else { return Ok(None) };
                message.to_owned_message().event.into_option()
            }
        };
        if let Some(event) = event.and_then(|e| e.event) {
            return Ok(Some(event));
        }
    }
}

impl SandboxHandle {
    /// Starts a command and returns when it runs.
    pub async fn start(&self, command: &StartCommand) -> Result<Command> {
        let action = "start the command";
        let request = pb::StartRequest {
            process: pb::ProcessConfig {
                cmd: command.program.clone(),
                args: command.args.clone(),
                envs: command.env.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
                cwd: command.cwd.clone(),
                ..Default::default()
            }
            .into(),
            pty: command.pty.map(to_pty).into(),
            tag: command.tag.clone(),
            stdin: Some(command.stdin),
            ..Default::default()
        };
        let mut options = streaming();
        if let Some(timeout) = command.timeout {
            options = options.with_timeout(timeout);
        }
        within(action, async {
            let stream = self.processes().start_with_options(request, options).await;
            let stream = stream.map_err(|e| self.error(action, e))?;
            self.opened(action, Events::Started(stream)).await
        })
        .await
    }

    /// Attaches to a running command. Earlier output is not repeated.
    pub async fn attach(&self, pid: u32) -> Result<Command> {
        let action = "attach to the command";
        let request = pb::ConnectRequest { process: selector(pid), ..Default::default() };
        within(action, async {
            let stream = self.processes().connect_with_options(request, streaming()).await;
            let stream = stream.map_err(|e| self.error(action, e))?;
            self.opened(action, Events::Attached(stream)).await
        })
        .await
    }

    /// Waits for the first event, which carries the process id.
    async fn opened(&self, action: &'static str, mut events: Events) -> Result<Command> {
        loop {
            match next_event(&mut events).await.map_err(|e| self.error(action, e))? {
                Some(Event::Start(start)) => {
                    return Ok(Command { sandbox: self.clone(), events, pid: start.pid, ended: false });
                }
                Some(Event::Keepalive(_)) => {}
                _ => return Err(Error::Answer { action, reason: "it does not start with a process id".to_owned() }),
            }
        }
    }

    /// Sends a signal to a command.
    pub async fn signal(&self, pid: u32, signal: Signal) -> Result<()> {
        let signal = match signal {
            Signal::Terminate => pb::Signal::SIGNAL_SIGTERM,
            Signal::Kill => pb::Signal::SIGNAL_SIGKILL,
        };
        let request = pb::SendSignalRequest { process: selector(pid), signal: signal.into(), ..Default::default() };
        let answer = self.processes().send_signal_with_options(request, Self::unary()).await;
        answer.map(drop).map_err(|e| self.error("signal the command", e))
    }

    /// Changes the size of a command's terminal.
    pub async fn resize(&self, pid: u32, size: PtySize) -> Result<()> {
        let request =
            pb::UpdateRequest { process: selector(pid), pty: Some(to_pty(size)).into(), ..Default::default() };
        let answer = self.processes().update_with_options(request, Self::unary()).await;
        answer.map(drop).map_err(|e| self.error("resize the terminal", e))
    }

    /// Closes a command's standard input.
    pub async fn close_stdin(&self, pid: u32) -> Result<()> {
        let request = pb::CloseStdinRequest { process: selector(pid), ..Default::default() };
        let answer = self.processes().close_stdin_with_options(request, Self::unary()).await;
        answer.map(drop).map_err(|e| self.error("close the command's input", e))
    }

    /// Opens a stream of input to a command. The order is kept, and sending waits for the command to read.
    pub fn stdin(&self, pid: u32, pty: bool) -> StdinSink {
        let (sender, receiver) = mpsc::channel::<Bytes>(INPUT_QUEUE);
        let first = pb::StreamInputRequest {
            event: Some(pb::stream_input_request::StartEvent { process: selector(pid), ..Default::default() }.into()),
            ..Default::default()
        };
        let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|chunk| (chunk, receiver))
        });
        let requests = futures_util::stream::once(std::future::ready(first)).chain(chunks.map(move |chunk| {
            let data = pb::stream_input_request::DataEvent { input: to_input(chunk, pty), ..Default::default() };
            pb::StreamInputRequest { event: Some(data.into()), ..Default::default() }
        }));
        let sandbox = self.clone();
        let call = tokio::spawn(async move {
            let answer = sandbox.processes().stream_input_with_options(requests, CallOptions::default()).await;
            answer.map(drop).map_err(|e| sandbox.error("send input", e))
        });
        StdinSink { sender, call: AbortOnDropHandle::new(call) }
    }
}

/// The input of one command. Dropping it discards chunks in flight.
#[derive(Debug)]
pub struct StdinSink {
    sender: mpsc::Sender<Bytes>,
    call: AbortOnDropHandle<Result<()>>,
}

impl StdinSink {
    /// Sends a chunk; waits while the command reads more slowly. `false` if the command accepts no more input.
    pub async fn send(&self, chunk: Bytes) -> bool {
        self.sender.send(chunk).await.is_ok()
    }

    /// Waits until everything that was sent has arrived. The command's input stays open: see
    /// [`SandboxHandle::close_stdin`].
    pub async fn finish(self) -> Result<()> {
        drop(self.sender);
        match self.call.await {
            Ok(result) => result,
            Err(_) => Err(Error::Answer { action: "send input", reason: "it was interrupted".to_owned() }),
        }
    }
}

fn streaming() -> CallOptions {
    CallOptions::default().with_header("keepalive-ping-interval", KEEPALIVE_SECONDS)
}

fn selector<P: buffa::ProtoBox<pb::ProcessSelector>>(pid: u32) -> buffa::MessageField<pb::ProcessSelector, P> {
    use pb::__buffa::oneof::process_selector::Selector;
    pb::ProcessSelector { selector: Some(Selector::Pid(pid)), ..Default::default() }.into()
}

fn to_input<P: buffa::ProtoBox<pb::ProcessInput>>(data: Bytes, pty: bool) -> buffa::MessageField<pb::ProcessInput, P> {
    use pb::__buffa::oneof::process_input::Input;
    let input = if pty { Input::Pty(data.into()) } else { Input::Stdin(data.into()) };
    pb::ProcessInput { input: Some(input), ..Default::default() }.into()
}

fn to_pty(size: PtySize) -> pb::PTY {
    let size = pb::pty::Size { cols: size.cols.into(), rows: size.rows.into(), ..Default::default() };
    pb::PTY { size: size.into(), ..Default::default() }
}
