//! One command: its output with the readers of it, and how it ended. Its process is started in `spawn`, its pipes are read in
//! `pump` and written in `input`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cabana_proto::process::ProcessConfig;
use cabana_types::guest::MAX_JOURNAL_MESSAGE;
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, watch};

use crate::events::signal_name;
use crate::guest::lock;
use crate::input::Input;
use crate::ring::{Budget, Channel, Chunk, Ring};

/// How long one reader may hold up the others before it is cut off.
const STALL: Duration = Duration::from_secs(10);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It called exit.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
}

impl Status {
    /// In the words that clients compare with.
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
    /// Bytes that were gone before it came, and that it was not told of yet.
    missed: u64,
    moved: Instant,
    cut_off: bool,
}

#[derive(Debug)]
struct Output {
    ring: Ring,
    readers: HashMap<u64, Reader>,
    next_reader: u64,
    /// Set when the process was reaped.
    status: Option<Status>,
    /// Set when, after that, all of the output is in the ring.
    complete: bool,
    timed_out: bool,
}

/// What a reader gets.
#[derive(Debug)]
pub(crate) enum Next {
    /// Output.
    Chunk(Chunk),
    /// Nothing now.
    Wait,
    /// Everything was read and the process has ended.
    End(Status),
    /// The reader was too slow while others waited.
    CutOff,
}

/// A command.
#[derive(Debug)]
pub(crate) struct Command {
    /// Process id, which is also its process group and its session.
    pub(crate) pid: Pid,
    /// The client's name for it.
    pub(crate) tag: Option<String>,
    pub(crate) config: ProcessConfig,
    /// Where its input goes.
    pub(crate) input: Input,
    /// Whether nobody shall hear of it.
    pub(crate) quiet: bool,
    output: Mutex<Output>,
    changed: watch::Sender<()>,
    /// Wakes the pump: a reader moved on or went away, or the process ended.
    pub(crate) pump: Notify,
}

impl Command {
    /// A command that has just been started.
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
                complete: false,
                timed_out: false,
            }),
            changed: watch::Sender::new(()),
            pump: Notify::new(),
        }
    }

    /// The process id as the wire has it.
    pub(crate) fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// What was asked for, on one line.
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

    /// Adds a reader at the oldest output that is kept.
    pub(crate) fn subscribe(&self) -> (u64, watch::Receiver<()>) {
        let mut output = lock(&self.output);
        let id = output.next_reader;
        output.next_reader += 1;
        let (cursor, missed) = output.ring.begin();
        output.readers.insert(id, Reader { cursor, missed, moved: Instant::now(), cut_off: false });
        (id, self.changed.subscribe())
    }

    /// Removes a reader; the process no longer waits for it.
    pub(crate) fn unsubscribe(&self, reader: u64) {
        lock(&self.output).readers.remove(&reader);
        self.pump.notify_one();
    }

    /// The next thing for a reader.
    pub(crate) fn next(&self, reader: u64) -> Next {
        let mut output = lock(&self.output);
        let Output { ring, readers, status, complete, .. } = &mut *output;
        let Some(reader) = readers.get_mut(&reader).filter(|r| !r.cut_off) else { return Next::CutOff };
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

    /// What stands for output that is gone: a line where a person would look for it, and where no program reads the command's results.
    fn gap(&self, missed: u64) -> Chunk {
        let line = format!("[cabana: {missed} bytes of output were dropped]");
        if self.input.is_terminal() {
            Chunk { channel: Channel::Pty, data: format!("{line}\r\n").into() }
        } else {
            Chunk { channel: Channel::Stderr, data: format!("{line}\n").into() }
        }
    }

    /// Whether the pump should read on. Where one reader stalls while another has read everything, the stalled one is cut off
    /// after a while; a reader that is alone holds the process up for as long as it likes.
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

    /// Adds output.
    pub(crate) fn push(&self, chunk: Chunk) {
        let mut output = lock(&self.output);
        let needed = output.readers.values().filter(|r| !r.cut_off).map(|r| r.cursor).min();
        output.ring.push(chunk, needed);
        drop(output);
        self.changed.send_replace(());
    }

    /// The reaper saw it end.
    pub(crate) fn reaped(&self, status: Status) {
        lock(&self.output).status = Some(status);
        self.pump.notify_one();
    }

    /// How it ended, once it has.
    pub(crate) fn status(&self) -> Option<Status> {
        lock(&self.output).status
    }

    /// The pump has put all output into the ring.
    pub(crate) fn complete(&self) {
        lock(&self.output).complete = true;
        self.input.shut();
        self.changed.send_replace(());
    }

    /// Waits until the output is complete.
    pub(crate) async fn completed(&self) {
        let mut changes = self.changed.subscribe();
        // The sender lives in `self`, so that waiting cannot fail.
        let _ = changes.wait_for(|()| lock(&self.output).complete).await;
    }

    /// Signals the whole process group, unless the process has been reaped: its number may belong to another one by then.
    pub(crate) fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        if lock(&self.output).status.is_some() {
            return Err(rustix::io::Errno::SRCH);
        }
        rustix::process::kill_process_group(self.pid, signal)
    }

    /// Its time is up.
    pub(crate) fn time_out(&self) {
        lock(&self.output).timed_out = true;
        // It may have ended this instant.
        let _ = self.signal(Signal::KILL);
    }

    /// Whether its deadline ended it.
    pub(crate) fn timed_out(&self) -> bool {
        lock(&self.output).timed_out
    }
}
