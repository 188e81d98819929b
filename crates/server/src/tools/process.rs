//! Commands of tools, through the guest's process service on the control port.

use std::time::Duration;

use async_trait::async_trait;
use cabana_agent::computer::{Command, CommandEvent, ComputerError, Exit, NewCommand, OutputStream, Signal};
use cabana_guest_link::{GuestLink, Port};
use cabana_proto::process as pb;
use cabana_types::guest::tools::{OUTPUT_AFTER_HEADER, OUTPUT_FILE_HEADER};
use cabana_types::tool::ToolErrorCode;
use connectrpc::client::{CallOptions, ServerStream};
use connectrpc::{ConnectError, ErrorCode};
use hyper::body::Incoming;
use pb::__buffa::oneof::process_event::Event;
use pb::__buffa::oneof::process_event::data_event::Output;
use pb::__buffa::oneof::process_input::Input;
use pb::__buffa::oneof::process_selector::Selector;
use pb::__buffa::view::{ConnectResponseView, StartResponseView};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::computer::{gone as ended, unresponsive};
use crate::guest_process;

/// Seconds between two messages of a silent command, so that a lost guest is noticed.
const KEEPALIVE: &str = "30";
/// Bytes of one message with input.
const INPUT_CHUNK: usize = 64 << 10;
/// A healthy guest delivers a signal within this time; one that is paused does not.
const SIGNAL_TIME: Duration = Duration::from_secs(3);
/// Characters of a status.
const MAX_STATUS: usize = 200;

/// Starts a command as the sandbox's user.
pub(super) async fn start(
    link: &GuestLink,
    gone: CancellationToken,
    command: NewCommand,
) -> Result<Box<dyn Command>, ComputerError> {
    let client = guest_process::client(link.clone(), Port::Control);
    let request = pb::StartRequest {
        process: pb::ProcessConfig {
            cmd: "/bin/bash".to_owned(),
            args: vec!["-l".to_owned(), "-c".to_owned(), command.script],
            envs: command.env.into_iter().collect(),
            cwd: command.cwd,
            ..Default::default()
        }
        .into(),
        stdin: Some(command.stdin.is_some()),
        tag: Some(command.tag.clone()),
        ..Default::default()
    };
    let options = CallOptions::default()
        .with_header("keepalive-ping-interval", KEEPALIVE)
        .with_header(OUTPUT_FILE_HEADER, command.output_file)
        .with_header(OUTPUT_AFTER_HEADER, command.output_after.to_string());
    let events = unless(&gone, client.start_with_options(request, options)).await?.map_err(|error| refused(&error))?;
    let stdin = command.stdin.map(|text| {
        let link = link.clone();
        AbortOnDropHandle::new(tokio::spawn(feed(link, command.tag, text)))
    });
    Ok(Box::new(Started { events, gone, _stdin: stdin }))
}

/// A program with its arguments, without a shell.
pub(super) struct Direct {
    pub(super) program: &'static str,
    pub(super) arguments: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) input: String,
    pub(super) tag: String,
}

/// Starts a program as the sandbox's user.
pub(super) async fn start_direct(
    link: &GuestLink,
    gone: CancellationToken,
    direct: Direct,
) -> Result<Box<dyn Command>, ComputerError> {
    let client = guest_process::client(link.clone(), Port::Control);
    let request = pb::StartRequest {
        process: pb::ProcessConfig {
            cmd: direct.program.to_owned(),
            args: direct.arguments,
            envs: direct.env.into_iter().collect(),
            ..Default::default()
        }
        .into(),
        stdin: Some(true),
        tag: Some(direct.tag.clone()),
        ..Default::default()
    };
    let events = unless(&gone, client.start(request)).await?.map_err(|error| refused(&error))?;
    let stdin = AbortOnDropHandle::new(tokio::spawn(feed(link.clone(), direct.tag, direct.input)));
    Ok(Box::new(Started { events, gone, _stdin: Some(stdin) }))
}

/// The command with this tag, running or recently ended.
pub(super) async fn attach(
    link: &GuestLink,
    gone: CancellationToken,
    tag: &str,
) -> Result<Option<Box<dyn Command>>, ComputerError> {
    let client = guest_process::client(link.clone(), Port::Control);
    let request = pb::ConnectRequest { process: selector(tag).into(), ..Default::default() };
    let options = CallOptions::default().with_header("keepalive-ping-interval", KEEPALIVE);
    // That there is no such command may be known with the first message only.
    let attaching = async {
        let mut events = client.connect_with_options(request, options).await?;
        let first = events.message().await?.map(|message| message.to_owned_message().event.into_option());
        Ok((events, first.flatten().and_then(|event| event.event)))
    };
    match unless(&gone, attaching).await? {
        Ok((events, first)) => Ok(Some(Box::new(Attached { events, gone, first }))),
        Err(ConnectError { code: ErrorCode::NotFound, .. }) => Ok(None),
        Err(error) => Err(refused(&error)),
    }
}

/// Signals a command's process group; `false` if it does not run.
pub(super) async fn signal(link: &GuestLink, tag: &str, signal: Signal) -> Result<bool, ComputerError> {
    let client = guest_process::client(link.clone(), Port::Control);
    let signal = match signal {
        Signal::Term => pb::Signal::SIGNAL_SIGTERM,
        Signal::Kill => pb::Signal::SIGNAL_SIGKILL,
    };
    let request = pb::SendSignalRequest { process: selector(tag).into(), signal: signal.into(), ..Default::default() };
    let sent = timeout(SIGNAL_TIME, client.send_signal(request)).await;
    match sent.map_err(|_| unresponsive("a signal was not delivered in time"))? {
        Ok(_) => Ok(true),
        Err(error) if error.code == ErrorCode::NotFound => Ok(false),
        Err(error) => Err(refused(&error)),
    }
}

fn selector(tag: &str) -> pb::ProcessSelector {
    pb::ProcessSelector { selector: Some(Selector::Tag(tag.to_owned())), ..Default::default() }
}

/// Writes standard input and closes it. A command that does not read it just does not get it.
async fn feed(link: GuestLink, tag: String, text: String) {
    let client = guest_process::client(link, Port::Control);
    for chunk in text.into_bytes().chunks(INPUT_CHUNK) {
        let input = pb::ProcessInput { input: Some(Input::Stdin(chunk.to_vec())), ..Default::default() };
        let request =
            pb::SendInputRequest { process: selector(&tag).into(), input: input.into(), ..Default::default() };
        if client.send_input(request).await.is_err() {
            return;
        }
    }
    let request = pb::CloseStdinRequest { process: selector(&tag).into(), ..Default::default() };
    // It may have ended.
    let _ = client.close_stdin(request).await;
}

/// A command that was started by this call.
struct Started {
    events: ServerStream<Incoming, StartResponseView<'static>>,
    gone: CancellationToken,
    _stdin: Option<AbortOnDropHandle<()>>,
}

/// A command that was started before.
struct Attached {
    events: ServerStream<Incoming, ConnectResponseView<'static>>,
    gone: CancellationToken,
    first: Option<Event>,
}

#[async_trait]
impl Command for Started {
    async fn next(&mut self) -> Result<Option<CommandEvent>, ComputerError> {
        loop {
            let Some(message) = lost(&self.gone, self.events.message()).await? else { return Ok(None) };
            let event = message.to_owned_message().event.into_option().and_then(|event| event.event);
            if let Some(event) = event.and_then(translate) {
                return Ok(Some(event));
            }
        }
    }
}

#[async_trait]
impl Command for Attached {
    async fn next(&mut self) -> Result<Option<CommandEvent>, ComputerError> {
        loop {
            let event = match self.first.take() {
                Some(event) => Some(event),
                None => {
                    let Some(message) = lost(&self.gone, self.events.message()).await? else { return Ok(None) };
                    message.to_owned_message().event.into_option().and_then(|event| event.event)
                }
            };
            if let Some(event) = event.and_then(translate) {
                return Ok(Some(event));
            }
        }
    }
}

/// A stream that breaks is a sandbox that ended or was paused. A paused one just says nothing more.
async fn lost<T>(
    gone: &CancellationToken,
    message: impl Future<Output = Result<Option<T>, ConnectError>>,
) -> Result<Option<T>, ComputerError> {
    match unless(gone, message).await {
        Err(_) | Ok(Err(ConnectError { code: ErrorCode::Unavailable, .. })) => Ok(None),
        Ok(message) => message.map_err(|error| refused(&error)),
    }
}

/// Gives up if the sandbox stops running.
async fn unless<T>(gone: &CancellationToken, work: impl Future<Output = T>) -> Result<T, ComputerError> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = gone.cancelled() => Err(ended()),
    }
}

fn translate(event: Event) -> Option<CommandEvent> {
    match event {
        Event::Start(start) => Some(CommandEvent::Started { pid: start.pid }),
        Event::Data(data) => match data.output {
            Some(Output::Stdout(bytes) | Output::Pty(bytes)) => {
                Some(CommandEvent::Output(OutputStream::Stdout, bytes.into()))
            }
            Some(Output::Stderr(bytes)) => Some(CommandEvent::Output(OutputStream::Stderr, bytes.into())),
            None => None,
        },
        Event::End(end) => {
            let exit = Exit {
                code: end.exited.then_some(end.exit_code),
                status: end.status.chars().filter(|c| !c.is_control()).take(MAX_STATUS).collect(),
            };
            Some(CommandEvent::Ended(exit))
        }
        Event::Keepalive(_) => None,
    }
}

fn refused(error: &ConnectError) -> ComputerError {
    let message = error.message.clone().unwrap_or_default();
    let failed = |code, hint: &str| ComputerError::Failed { code, message: message.clone(), hint: hint.to_owned() };
    match error.code {
        ErrorCode::InvalidArgument => failed(ToolErrorCode::InvalidArguments, ""),
        ErrorCode::PermissionDenied => failed(ToolErrorCode::PermissionDenied, ""),
        ErrorCode::ResourceExhausted => failed(ToolErrorCode::NoRoom, "end commands that are not needed"),
        ErrorCode::NotFound => failed(ToolErrorCode::FileNotFound, ""),
        _ => unresponsive(&message),
    }
}
