//! The event stream of a command: start, output, keepalives while it is silent, end.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cabana_proto::process::__buffa::oneof::process_event::{Event as WireEvent, data_event::Output};
use cabana_proto::process::{ConnectResponse, ProcessEvent, StartResponse, process_event};
use connectrpc::{CodecFormat, ConnectError, Encodable, ServiceStream};
use http::HeaderMap;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::command::{Command, Next, Status};
use crate::ring::{Channel, Chunk};

const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(90);

/// The keepalive interval that the client requests.
pub(crate) fn keepalive_interval(headers: &HeaderMap) -> Duration {
    headers
        .get("keepalive-ping-interval")
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.trim().parse::<u64>().ok())
        .map_or(DEFAULT_KEEPALIVE, |seconds| Duration::from_secs(seconds.clamp(1, 3600)))
}

/// An event, before encoding.
#[derive(Debug)]
pub(crate) enum Event {
    /// The process was started.
    Start(u32),
    /// Output.
    Data(Chunk),
    /// The process ended.
    End(Status),
    Keepalive,
}

impl Event {
    fn message(&self) -> ProcessEvent {
        let event: WireEvent = match self {
            Self::Start(pid) => process_event::StartEvent { pid: *pid, ..Default::default() }.into(),
            Self::Data(Chunk { channel, data }) => {
                let data = data.to_vec();
                let output = match channel {
                    Channel::Stdout => Output::Stdout(data),
                    Channel::Stderr => Output::Stderr(data),
                    Channel::Pty => Output::Pty(data),
                };
                process_event::DataEvent { output: Some(output), ..Default::default() }.into()
            }
            Self::End(status) => end(*status).into(),
            Self::Keepalive => process_event::KeepAlive::default().into(),
        };
        ProcessEvent { event: Some(event), ..Default::default() }
    }

    /// Encodes output directly, without building a message: most of what the daemon sends is output.
    fn data_json(chunk: &Chunk) -> Bytes {
        let name = match chunk.channel {
            Channel::Stdout => "stdout",
            Channel::Stderr => "stderr",
            Channel::Pty => "pty",
        };
        let mut json = String::with_capacity(chunk.data.len() / 3 * 4 + 48);
        json.push_str(r#"{"event":{"data":{""#);
        json.push_str(name);
        json.push_str(r#"":""#);
        STANDARD.encode_string(&chunk.data, &mut json);
        json.push_str(r#""}}}"#);
        Bytes::from(json)
    }
}

impl Encodable<StartResponse> for Event {
    fn encode(&self, codec: CodecFormat) -> Result<Bytes, ConnectError> {
        match self {
            Self::Data(chunk) if codec == CodecFormat::Json => Ok(Self::data_json(chunk)),
            _ => StartResponse { event: self.message().into(), ..Default::default() }.encode(codec),
        }
    }
}

impl Encodable<ConnectResponse> for Event {
    fn encode(&self, codec: CodecFormat) -> Result<Bytes, ConnectError> {
        match self {
            Self::Data(chunk) if codec == CodecFormat::Json => Ok(Self::data_json(chunk)),
            _ => ConnectResponse { event: self.message().into(), ..Default::default() }.encode(codec),
        }
    }
}

fn end(status: Status) -> process_event::EndEvent {
    let (exit_code, exited) = match status {
        Status::Exited(code) => (code, true),
        Status::Signaled(_) => (-1, false),
    };
    let status = status.describe();
    let error = (exit_code != 0).then(|| status.clone());
    process_event::EndEvent { exit_code, exited, status, error, ..Default::default() }
}

/// Signal names as clients expect them.
pub(crate) fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "hangup",
        libc::SIGINT => "interrupt",
        libc::SIGQUIT => "quit",
        libc::SIGILL => "illegal instruction",
        libc::SIGTRAP => "trace/breakpoint trap",
        libc::SIGABRT => "aborted",
        libc::SIGBUS => "bus error",
        libc::SIGFPE => "floating point exception",
        libc::SIGKILL => "killed",
        libc::SIGUSR1 => "user defined signal 1",
        libc::SIGSEGV => "segmentation fault",
        libc::SIGUSR2 => "user defined signal 2",
        libc::SIGPIPE => "broken pipe",
        libc::SIGALRM => "alarm clock",
        libc::SIGTERM => "terminated",
        libc::SIGXCPU => "CPU time limit exceeded",
        libc::SIGXFSZ => "file size limit exceeded",
        libc::SIGSYS => "bad system call",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// A reader's position in the stream.
struct Subscription {
    command: Arc<Command>,
    reader: u64,
    changes: watch::Receiver<()>,
    started: bool,
    ended: bool,
    keepalive: Duration,
    deadline: Option<Instant>,
    /// Whether this is the stream of Start, whose deadline is the command's.
    owner: bool,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.command.unsubscribe(self.reader);
    }
}

impl Subscription {
    async fn next(&mut self) -> Option<Result<Event, ConnectError>> {
        if self.ended {
            return None;
        }
        if !self.started {
            self.started = true;
            return Some(Ok(Event::Start(self.command.number())));
        }
        let silent_until = Instant::now() + self.keepalive;
        loop {
            self.changes.borrow_and_update();
            if self.deadline.is_some_and(|d| d <= Instant::now()) {
                return self.fail(deadline_error(self.owner));
            }
            match self.command.next(self.reader) {
                Next::Chunk(chunk) => return Some(Ok(Event::Data(chunk))),
                Next::TooSlow => {
                    return self.fail(ConnectError::aborted("output was read too slowly while others waited for it"));
                }
                Next::End(_) if self.owner && self.command.timed_out() => return self.fail(deadline_error(true)),
                Next::End(status) => {
                    self.ended = true;
                    return Some(Ok(Event::End(status)));
                }
                Next::Wait => {}
            }
            let deadline = self.deadline;
            tokio::select! {
                biased;
                // Cannot fail: the sender lives in the command, which we hold.
                _ = self.changes.changed() => {}
                () = sleep_until(deadline.unwrap_or(silent_until)), if deadline.is_some() => {}
                () = sleep_until(silent_until) => return Some(Ok(Event::Keepalive)),
            }
        }
    }

    fn fail(&mut self, error: ConnectError) -> Option<Result<Event, ConnectError>> {
        self.ended = true;
        Some(Err(error))
    }
}

fn deadline_error(owner: bool) -> ConnectError {
    ConnectError::deadline_exceeded(if owner {
        "the command exceeded its timeout"
    } else {
        "the stream exceeded its timeout"
    })
}

/// Subscribes to a command. The subscription exists when this returns, so no output is missed.
pub(crate) fn subscribe(
    command: Arc<Command>,
    keepalive: Duration,
    deadline: Option<Instant>,
    owner: bool,
) -> ServiceStream<Event> {
    let (reader, changes) = command.subscribe();
    stream(Subscription { command, reader, changes, started: false, ended: false, keepalive, deadline, owner })
}

/// Subscribes to a terminal, and returns how many bytes of its output are no longer kept.
pub(crate) fn subscribe_to_terminal(command: Arc<Command>, keepalive: Duration) -> (u64, ServiceStream<Event>) {
    let (reader, changes) = command.subscribe();
    let (missed, deadline) = (command.take_missed(reader), None);
    let subscription =
        Subscription { command, reader, changes, started: false, ended: false, keepalive, deadline, owner: false };
    (missed, stream(subscription))
}

fn stream(subscription: Subscription) -> ServiceStream<Event> {
    Box::pin(futures_util::stream::unfold(subscription, |mut subscription| async move {
        let item = subscription.next().await?;
        Some((item, subscription))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(event: &Event) -> String {
        let bytes = Encodable::<StartResponse>::encode(event, CodecFormat::Json).unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn wire_form() {
        let chunk = Chunk { channel: Channel::Stderr, data: Bytes::from_static(b"hi\xff") };
        let direct = json(&Event::Data(chunk.clone()));
        assert_eq!(direct, r#"{"event":{"data":{"stderr":"aGn/"}}}"#);
        let message = StartResponse { event: Event::Data(chunk).message().into(), ..Default::default() };
        assert_eq!(direct.as_bytes(), message.encode(CodecFormat::Json).unwrap());
        assert_eq!(json(&Event::Start(7)), r#"{"event":{"start":{"pid":7}}}"#);
        assert_eq!(json(&Event::Keepalive), r#"{"event":{"keepalive":{}}}"#);
        assert_eq!(
            json(&Event::End(Status::Exited(0))),
            r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#
        );
        assert_eq!(
            json(&Event::End(Status::Signaled(9))),
            r#"{"event":{"end":{"exitCode":-1,"status":"signal: killed","error":"signal: killed"}}}"#
        );
    }
}
