//! One command: its output, the readers of that output, and its exit status. The process is started in `spawn`; its
//! pipes are read in `pump` and written in `input`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cabana_proto::process::ProcessConfig;
use cabana_types::guest::{MAX_JOURNAL_MESSAGE, TERMINAL_TAG};
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, watch};

use crate::events::signal_name;
use crate::guest::lock;
use crate::input::Input;
use crate::ring::{Budget, Channel, Chunk, Ring};
use crate::survivors::{self, Ticks};

/// How long one reader may block the others before it is disconnected.
const STALL: Duration = Duration::from_secs(10);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal.
    Signaled(i32),
}

impl Status {
    /// The text that clients parse.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Exited(code) => format!("exit status {code}"),
            Self::Signaled(signal) => format!("signal: {}", signal_name(signal)),
        }
    }
}

/// A reader of the output.
#[derive(Debug)]
struct Reader {
    cursor: u64,
    /// Bytes that were dropped before this reader subscribed and that it has not been informed of yet.
    missed: u64,
    moved: Instant,
    cut_off: bool,
}

#[derive(Debug)]
struct Output {
    ring: Ring,
    readers: HashMap<u64, Reader>,
    next_reader: u64,
    /// Set when the process has been reaped.
    status: Option<Status>,
    /// When that was.
    reaped: Option<Ticks>,
    reaped_at: Option<Instant>,
    /// Set after that, when all of the output is in the ring.
    complete: bool,
    timed_out: bool,
}

/// Result of [`Command::next`].
#[derive(Debug)]
pub(crate) enum Next {
    Chunk(Chunk),
    /// No output is available now.
    Wait,
    /// All output was read and the process has ended.
    End(Status),
    /// The reader was too slow while other readers waited.
    TooSlow,
}

/// Result of [`Command::peek`].
#[derive(Debug)]
pub(crate) struct Peek {
    /// Cursor of the first byte of `data`.
    pub(crate) begin: u64,
    pub(crate) data: Vec<u8>,
    /// Set when the process has been reaped.
    pub(crate) ended: Option<Ended>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    /// Whether all of its output was read from its pipes.
    pub(crate) complete: bool,
    /// How long ago it was reaped.
    pub(crate) ago: Duration,
}

#[derive(Debug)]
pub(crate) struct Command {
    /// Process id, which is also its process group and its session.
    pub(crate) pid: Pid,
    /// The client's tag.
    pub(crate) tag: Option<String>,
    pub(crate) config: ProcessConfig,
    pub(crate) input: Input,
    /// Whether it is kept out of the journal and of the history of ended commands.
    pub(crate) quiet: bool,
    output: Mutex<Output>,
    changed: watch::Sender<()>,
    /// Notifies the pump: a reader advanced or unsubscribed, or the process ended.
    pub(crate) pump: Notify,
}

impl Command {
    /// Wraps a process that has just been started.
    pub(crate) fn new(
        pid: Pid,
        tag: Option<String>,
        config: ProcessConfig,
        input: Input,
        budget: Arc<Budget>,
        quiet: bool,
    ) -> Self {
        Self {
            pid,
            tag,
            config,
            input,
            quiet,
            output: Mutex::new(Output {
                ring: Ring::new(budget),
                readers: HashMap::new(),
                next_reader: 0,
                status: None,
                reaped: None,
                reaped_at: None,
                complete: false,
                timed_out: false,
            }),
            changed: watch::Sender::new(()),
            pump: Notify::new(),
        }
    }

    /// The process id as sent to clients.
    pub(crate) fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The program and its arguments on one line.
    pub(crate) fn line(&self) -> String {
        let mut line = String::new();
        for part in std::iter::once(&self.config.cmd).chain(&self.config.args) {
            if line.len() > MAX_JOURNAL_MESSAGE {
                break;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.extend(part.chars().take(MAX_JOURNAL_MESSAGE).map(|c| if c.is_control() { ' ' } else { c }));
        }
        line
    }

    /// Adds a reader, starting at the oldest output that is kept.
    pub(crate) fn subscribe(&self) -> (u64, watch::Receiver<()>) {
        let mut output = lock(&self.output);
        let id = output.next_reader;
        output.next_reader += 1;
        let (cursor, missed) = output.ring.begin();
        output.readers.insert(id, Reader { cursor, missed, moved: Instant::now(), cut_off: false });
        (id, self.changed.subscribe())
    }

    /// How many bytes were dropped before a new reader subscribed. It is then not informed of them by a line.
    pub(crate) fn take_missed(&self, reader: u64) -> u64 {
        lock(&self.output).readers.get_mut(&reader).map_or(0, |reader| std::mem::take(&mut reader.missed))
    }

    /// Whether it is a terminal of a person.
    pub(crate) fn is_persons_terminal(&self) -> bool {
        self.input.is_terminal() && self.tag.as_ref().is_some_and(|tag| tag.starts_with(TERMINAL_TAG))
    }

    /// Removes a reader, so that the process no longer waits for it.
    pub(crate) fn unsubscribe(&self, reader: u64) {
        lock(&self.output).readers.remove(&reader);
        self.pump.notify_one();
    }

    /// The next item for a reader.
    pub(crate) fn next(&self, reader: u64) -> Next {
        let mut output = lock(&self.output);
        let Output { ring, readers, status, complete, .. } = &mut *output;
        let Some(reader) = readers.get_mut(&reader).filter(|r| !r.cut_off) else { return Next::TooSlow };
        if reader.missed > 0 {
            let missed = std::mem::take(&mut reader.missed);
            return Next::Chunk(self.gap(missed));
        }
        if let Some((chunk, cursor)) = ring.read(reader.cursor) {
            reader.cursor = cursor;
            reader.moved = Instant::now();
            self.pump.notify_one();
            return Next::Chunk(chunk);
        }
        match *status {
            Some(status) if *complete => Next::End(status),
            _ => Next::Wait,
        }
    }

    /// A line that stands for dropped output: on stderr, so that it does not mix with the command's results; on the
    /// terminal if there is one.
    fn gap(&self, missed: u64) -> Chunk {
        let line = format!("[cabana: {missed} bytes of output were dropped]");
        if self.input.is_terminal() {
            Chunk { channel: Channel::Pty, data: format!("{line}\r\n").into() }
        } else {
            Chunk { channel: Channel::Stderr, data: format!("{line}\n").into() }
        }
    }

    /// Whether the pump should keep reading. If one reader stalls while another has read everything, the stalled one is
    /// disconnected after a timeout. A single reader may block the process indefinitely.
    pub(crate) fn has_room(&self) -> bool {
        let mut output = lock(&self.output);
        let Output { ring, readers, .. } = &mut *output;
        let window = ring.window();
        let full = |reader: &Reader| !reader.cut_off && ring.unread(reader.cursor) >= window;
        if !readers.values().any(full) {
            return true;
        }
        if readers.values().all(|r| r.cut_off || full(r)) {
            return false;
        }
        let mut cut = false;
        for reader in readers.values_mut() {
            if full(reader) && reader.moved.elapsed() >= STALL {
                reader.cut_off = true;
                cut = true;
            }
        }
        if cut {
            self.changed.send_replace(());
        }
        !readers.values().any(|r| !r.cut_off && ring.unread(r.cursor) >= window)
    }

    /// Appends output.
    pub(crate) fn push(&self, chunk: Chunk) {
        let mut output = lock(&self.output);
        let needed = output.readers.values().filter(|r| !r.cut_off).map(|r| r.cursor).min();
        output.ring.push(chunk, needed);
        drop(output);
        self.changed.send_replace(());
    }

    /// Records the exit status; called by the reaper.
    pub(crate) fn reaped(&self, status: Status) {
        let mut output = lock(&self.output);
        output.status = Some(status);
        output.reaped = Some(Ticks::now());
        output.reaped_at = Some(Instant::now());
        drop(output);
        self.changed.send_replace(());
        self.pump.notify_one();
    }

    /// The exit status, once it has ended.
    pub(crate) fn status(&self) -> Option<Status> {
        lock(&self.output).status
    }

    /// When its process was reaped.
    pub(crate) fn reaped_at(&self) -> Option<Ticks> {
        lock(&self.output).reaped
    }

    /// Notifications of output and of the end.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Output from a cursor on, or the newest, without being a reader: the process never waits for who calls this, and output may be
    /// dropped before it was read.
    pub(crate) fn peek(&self, after: Option<u64>, max: usize) -> Peek {
        let output = lock(&self.output);
        let (begin, data) = output.ring.copy(after, max);
        let ended = output.status.map(|status| (status, output.complete, output.reaped_at));
        let ended = ended.map(|(status, complete, at)| Ended {
            status,
            complete,
            ago: at.map_or(Duration::ZERO, |at| at.elapsed()),
        });
        Peek { begin, data, ended }
    }

    /// Marks the output as complete; called by the pump.
    pub(crate) fn complete(&self) {
        lock(&self.output).complete = true;
        self.input.shut();
        self.changed.send_replace(());
    }

    /// Waits until the output is complete.
    pub(crate) async fn completed(&self) {
        let mut changes = self.changed.subscribe();
        // Cannot fail: the sender lives in `self`.
        let _ = changes.wait_for(|()| lock(&self.output).complete).await;
    }

    /// Signals the process group, unless the process has been reaped: its pid may have been reused by then.
    pub(crate) fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        if lock(&self.output).status.is_some() {
            return Err(rustix::io::Errno::SRCH);
        }
        rustix::process::kill_process_group(self.pid, signal)
    }

    /// Signals what is left of the process group after the process itself has ended. `SRCH` if nothing is.
    pub(crate) fn signal_survivors(&self, signal: Signal) -> rustix::io::Result<()> {
        let reaped = lock(&self.output).reaped.ok_or(rustix::io::Errno::SRCH)?;
        match survivors::exist(self.number(), reaped) {
            true => rustix::process::kill_process_group(self.pid, signal),
            false => Err(rustix::io::Errno::SRCH),
        }
    }

    /// Kills the command because its deadline has passed.
    pub(crate) fn time_out(&self) {
        lock(&self.output).timed_out = true;
        // It may just have ended.
        let _ = self.signal(Signal::KILL);
    }

    /// Whether it was killed by its deadline.
    pub(crate) fn timed_out(&self) -> bool {
        lock(&self.output).timed_out
    }
}
