//! The shell of a terminal, through the guest's process service on the control port. Everything the guest says is untrusted.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cabana_edge::Route;
use cabana_guest_link::{GuestLink, Port};
use cabana_proto::process as pb;
use cabana_proto::process::ProcessClient;
use cabana_types::ErrorCode;
use cabana_types::guest::{DROPPED_HEADER, TERMINAL_HEADER, TERMINAL_TAG};
use cabana_types::wire::Terminal;
use connectrpc::ConnectError;
use connectrpc::client::{CallOptions, ServerStream};
use hyper::body::Incoming;
use jiff::Timestamp;
use pb::__buffa::oneof::process_event::Event;
use pb::__buffa::oneof::process_event::data_event::Output;
use pb::__buffa::oneof::process_input::Input;
use pb::__buffa::oneof::process_selector::Selector;
use pb::__buffa::view::{ConnectResponseView, StartResponseView};
use tokio::time::timeout;

use crate::error::ApiError;
use crate::guest_process::{self, Transport};
use crate::terminals::MAX_TERMINALS;

/// Seconds between two messages of a silent shell, so that a lost guest is noticed.
const KEEPALIVE: &str = "30";
/// A healthy guest answers within this time.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Bytes of one message with input.
const INPUT_CHUNK: usize = 64 << 10;
/// Characters of a command or status that are shown.
const MAX_SHOWN: usize = 256;

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) cols: u32,
    pub(super) rows: u32,
}

impl Size {
    fn wire(self) -> pb::PTY {
        let size = pb::pty::Size { cols: self.cols, rows: self.rows, ..Default::default() };
        pb::PTY { size: size.into(), ..Default::default() }
    }
}

/// What a terminal does.
#[derive(Debug)]
pub(super) enum ShellEvent {
    Output(Bytes),
    /// The shell has ended: its exit code, or how else it ended.
    Ended(Result<i32, String>),
}

/// The output of a shell.
pub(super) struct Shell {
    pub(super) pid: u32,
    /// Bytes of earlier output that the guest no longer keeps.
    pub(super) dropped: u64,
    events: Events,
}

enum Events {
    New(ServerStream<Incoming, StartResponseView<'static>>),
    Known(ServerStream<Incoming, ConnectResponseView<'static>>),
}

/// Starts a login shell as the sandbox's user.
pub(super) async fn start(
    link: &GuestLink,
    size: Size,
    cwd: Option<String>,
    env: BTreeMap<String, String>,
) -> Result<Shell, ConnectError> {
    let request = pb::StartRequest {
        process: pb::ProcessConfig {
            cmd: "/bin/bash".to_owned(),
            args: vec!["-l".to_owned()],
            envs: env.into_iter().collect(),
            cwd,
            ..Default::default()
        }
        .into(),
        pty: size.wire().into(),
        // The time is in the tag, so that it is known without remembering it.
        tag: Some(format!("{TERMINAL_TAG}{}", uuid::Uuid::now_v7())),
        ..Default::default()
    };
    let options = CallOptions::default().with_header("keepalive-ping-interval", KEEPALIVE);
    let events = in_time(client(link).start_with_options(request, options)).await?;
    Shell { pid: 0, dropped: 0, events: Events::New(events) }.started().await
}

/// Connects to a shell, and gets what the guest keeps of its output.
pub(super) async fn connect(link: &GuestLink, pid: u32) -> Result<Shell, ConnectError> {
    let request = pb::ConnectRequest { process: selector(pid).into(), ..Default::default() };
    let options =
        CallOptions::default().with_header("keepalive-ping-interval", KEEPALIVE).with_header(TERMINAL_HEADER, "1");
    let events = in_time(client(link).connect_with_options(request, options)).await?;
    let dropped = events.headers().get(DROPPED_HEADER).and_then(|value| value.to_str().ok());
    let dropped = dropped.and_then(|text| text.parse().ok()).unwrap_or_default();
    Shell { pid, dropped, events: Events::Known(events) }.started().await
}

impl Shell {
    /// That there is no such process may be known with the first message only.
    async fn started(mut self) -> Result<Self, ConnectError> {
        match in_time(self.events.next()).await? {
            Some(Event::Start(start)) => {
                self.pid = start.pid;
                Ok(self)
            }
            _ => Err(ConnectError::unavailable("the guest did not say that the shell was started")),
        }
    }

    /// The next event; `None` if the stream broke off.
    pub(super) async fn next(&mut self) -> Result<Option<ShellEvent>, ConnectError> {
        loop {
            match self.events.next().await? {
                Some(Event::Data(data)) => match data.output {
                    Some(Output::Pty(bytes) | Output::Stdout(bytes) | Output::Stderr(bytes)) => {
                        return Ok(Some(ShellEvent::Output(bytes.into())));
                    }
                    None => {}
                },
                Some(Event::End(end)) => {
                    let how = if end.exited { Ok(end.exit_code) } else { Err(shown(&end.status)) };
                    return Ok(Some(ShellEvent::Ended(how)));
                }
                Some(Event::Start(_) | Event::Keepalive(_)) => {}
                None => return Ok(None),
            }
        }
    }
}

impl Events {
    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Result<Option<Event>, ConnectError> {
        loop {
            let event = match self {
                Self::New(events) => {
                    let Some(message) = events.message().await? else { return Ok(None) };
                    message.to_owned_message().event
                }
                Self::Known(events) => {
                    let Some(message) = events.message().await? else { return Ok(None) };
                    message.to_owned_message().event
                }
            };
            if let Some(event) = event.into_option().and_then(|event| event.event) {
                return Ok(Some(event));
            }
        }
    }
}

/// Types into a terminal. Waits while the program in it does not read.
pub(super) async fn write(link: &GuestLink, pid: u32, bytes: &[u8]) -> Result<(), ConnectError> {
    for chunk in bytes.chunks(INPUT_CHUNK) {
        let input = pb::ProcessInput { input: Some(Input::Pty(chunk.to_vec())), ..Default::default() };
        let request = pb::SendInputRequest { process: selector(pid).into(), input: input.into(), ..Default::default() };
        client(link).send_input(request).await?;
    }
    Ok(())
}

/// Changes the size of a terminal.
pub(super) async fn resize(link: &GuestLink, pid: u32, size: Size) -> Result<(), ConnectError> {
    let request = pb::UpdateRequest { process: selector(pid).into(), pty: size.wire().into(), ..Default::default() };
    in_time(client(link).update(request)).await.map(drop)
}

/// How many terminals a sandbox has.
pub(super) async fn count(link: &GuestLink) -> Result<usize, ConnectError> {
    Ok(terminals(link).await?.count())
}

/// The terminals of a sandbox.
pub(super) async fn list(route: &Route) -> Result<Vec<Terminal>, ApiError> {
    let processes = terminals(&route.link).await.map_err(|error| unresponsive(&error))?;
    let terminal = |process: pb::ProcessInfo| {
        let config = process.config.into_option().unwrap_or_default();
        let line: Vec<&str> = std::iter::once(&config.cmd).chain(&config.args).map(String::as_str).collect();
        Terminal { pid: process.pid, command: shown(&line.join(" ")), started_at: started_at(process.tag.as_deref()) }
    };
    let mut all: Vec<_> = processes.take(MAX_TERMINALS).map(terminal).collect();
    all.sort_by_key(|terminal| (terminal.started_at, terminal.pid));
    Ok(all)
}

/// Ends the shell of a terminal; `false` if there is none. An interactive shell ignores TERM.
pub(super) async fn end(route: &Route, pid: u32) -> Result<bool, ApiError> {
    let link = &route.link;
    if !terminals(link).await.map_err(|error| unresponsive(&error))?.any(|process| process.pid == pid) {
        return Ok(false);
    }
    let signal = pb::Signal::SIGNAL_SIGKILL;
    let request = pb::SendSignalRequest { process: selector(pid).into(), signal: signal.into(), ..Default::default() };
    match in_time(client(link).send_signal(request)).await {
        Ok(_) => Ok(true),
        // It has just ended by itself.
        Err(error) if error.code == connectrpc::ErrorCode::NotFound => Ok(true),
        Err(error) => Err(unresponsive(&error)),
    }
}

async fn terminals(link: &GuestLink) -> Result<impl Iterator<Item = pb::ProcessInfo>, ConnectError> {
    let answer = in_time(client(link).list(pb::ListRequest::default())).await?.into_owned();
    let is_terminal = |process: &pb::ProcessInfo| process.tag.as_ref().is_some_and(|tag| tag.starts_with(TERMINAL_TAG));
    Ok(answer.processes.into_iter().filter(is_terminal))
}

/// The time in a tag.
fn started_at(tag: Option<&str>) -> Option<Timestamp> {
    let id: uuid::Uuid = tag?.strip_prefix(TERMINAL_TAG)?.parse().ok()?;
    let (seconds, nanoseconds) = id.get_timestamp()?.to_unix();
    Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()
}

fn client(link: &GuestLink) -> ProcessClient<Transport> {
    guest_process::client(link.clone(), Port::Control)
}

fn selector(pid: u32) -> pb::ProcessSelector {
    pb::ProcessSelector { selector: Some(Selector::Pid(pid)), ..Default::default() }
}

async fn in_time<T>(call: impl Future<Output = Result<T, ConnectError>>) -> Result<T, ConnectError> {
    let late = |_| ConnectError::unavailable("the guest did not answer in time");
    timeout(ANSWER_TIME, call).await.map_err(late)?
}

/// A text of the guest, cut and without control characters.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect()
}

fn unresponsive(error: &ConnectError) -> ApiError {
    let words = shown(error.message.as_deref().unwrap_or_default());
    ApiError::new(ErrorCode::SandboxUnresponsive, format!("The sandbox does not respond: {words}; try again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_tells_when_a_terminal_was_started() {
        let now = Timestamp::now();
        let at = started_at(Some(&format!("{TERMINAL_TAG}{}", uuid::Uuid::now_v7()))).expect("time");
        assert!((at.as_millisecond() - now.as_millisecond()).abs() < 60_000, "{at}");
        for tag in [None, Some("terminal:"), Some("terminal:x"), Some("0198"), Some("terminal:\u{1F600}")] {
            assert_eq!(started_at(tag), None);
        }
        assert_eq!(shown("a\u{1b}[31mb\n"), "a[31mb");
    }
}
