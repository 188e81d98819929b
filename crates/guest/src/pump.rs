//! Moves the output of one command from its pipes into its ring, at the pace of its readers, and signals completion.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::Interest;
use tokio::time::{Instant, sleep_until};

use crate::command::Command;
use crate::commands::Commands;
use crate::input::RegisteredFd;
use crate::ring::{Channel, Chunk};
use crate::tools::output_file::OutputFile;

const PIPE_CHUNK: usize = 32 << 10;
const PTY_CHUNK: usize = 16 << 10;
/// How long the end is delayed by background processes that keep the pipes open.
const GRACE: Duration = Duration::from_millis(200);
/// How often stalled readers are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

thread_local! {
    /// One buffer for all pumps: there is one thread, and no await while it is borrowed.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; PIPE_CHUNK].into_boxed_slice());
}

/// The read end of a pipe, or a terminal.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) channel: Channel,
    pub(crate) end: RegisteredFd,
}

impl Source {
    /// Waits for bytes; `None` at end of file.
    async fn read(&self) -> Option<Chunk> {
        let limit = if self.channel == Channel::Pty { PTY_CHUNK } else { PIPE_CHUNK };
        let read = self.end.async_io(Interest::READABLE, |fd| {
            SCRATCH.with_borrow_mut(|scratch| {
                let scratch = scratch.get_mut(..limit).unwrap_or_default();
                let count = rustix::io::read(fd, &mut *scratch)?;
                Ok::<_, io::Error>(Bytes::copy_from_slice(scratch.get(..count).unwrap_or_default()))
            })
        });
        match read.await {
            Ok(data) if !data.is_empty() => Some(Chunk { channel: self.channel, data }),
            // A terminal returns EIO once its last user has closed it.
            Ok(_) | Err(_) => None,
        }
    }

    /// Bytes in the pipe; not reliable for a terminal.
    fn waiting(&self) -> u64 {
        if self.channel == Channel::Pty { 0 } else { rustix::io::ioctl_fionread(&*self.end).unwrap_or(0) }
    }
}

/// Reads a source that may be closed already.
async fn read(source: Option<&Source>) -> Option<Chunk> {
    match source {
        Some(source) => source.read().await,
        None => std::future::pending().await,
    }
}

/// Waits until the file takes more output, if it is being written.
async fn settled(output: Option<&mut OutputFile>) {
    match output {
        Some(output) if output.is_busy() => output.settle().await,
        _ => std::future::pending().await,
    }
}

/// Runs until the command has ended and its output is complete.
pub(crate) async fn run(
    commands: Arc<Commands>,
    command: Arc<Command>,
    [mut first, mut second]: [Option<Source>; 2],
    mut output: Option<OutputFile>,
) {
    // Bytes in the pipes when the process ended; anything beyond was written by background processes.
    let mut owed: Option<(u64, Instant)> = None;
    loop {
        if owed.is_none() && command.status().is_some() {
            let waiting = [&first, &second].into_iter().flatten().map(Source::waiting).sum();
            owed = Some((waiting, Instant::now() + GRACE));
        }
        if first.is_none() && second.is_none() && owed.is_some() {
            break;
        }
        if !command.has_room() {
            tokio::select! {
                () = command.pump.notified() => {}
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
            }
            continue;
        }
        let grace = match owed {
            Some((0, end)) => Some(end),
            _ => None,
        };
        let chunk = tokio::select! {
            biased;
            chunk = read(first.as_ref()), if first.is_some() => {
                if chunk.is_none() {
                    first = None;
                }
                chunk
            }
            chunk = read(second.as_ref()), if second.is_some() => {
                if chunk.is_none() {
                    second = None;
                }
                chunk
            }
            () = command.pump.notified() => None,
            () = settled(output.as_mut()) => None,
            () = sleep_until(grace.unwrap_or_else(Instant::now)), if grace.is_some() => break,
        };
        if let Some(chunk) = chunk {
            if let Some(output) = &mut output {
                output.write(&chunk.data).await;
            }
            if let Some((left, end)) = &mut owed {
                *left = left.saturating_sub(chunk.data.len() as u64);
                if *left == 0 && Instant::now() >= *end {
                    command.push(chunk);
                    break;
                }
            }
            command.push(chunk);
            // Alternate, so that neither stream starves the other.
            std::mem::swap(&mut first, &mut second);
        }
    }
    if let Some(output) = output {
        output.finish().await;
    }
    command.complete();
    commands.ended(&command);
    drop(command);
    linger(&commands, first, second).await;
}

/// Keeps reading the pipes of a background process, so that it is not killed by SIGPIPE.
async fn linger(commands: &Arc<Commands>, first: Option<Source>, second: Option<Source>) {
    let mut sources: Vec<Source> =
        [first, second].into_iter().flatten().filter(|s| s.channel != Channel::Pty).collect();
    if sources.is_empty() {
        return;
    }
    let Some(_place) = commands.linger() else { return };
    while let Some(source) = sources.first() {
        let other = sources.get(1);
        let ended = tokio::select! {
            chunk = read(Some(source)) => chunk.is_none().then_some(0),
            chunk = read(other), if other.is_some() => chunk.is_none().then_some(1),
        };
        if let Some(index) = ended {
            sources.remove(index);
        }
    }
}
