//! One cell from its request to its last line, whether somebody still reads them or not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};

use crate::context::{Context, Held};
use crate::event::{Event, Failure};
use crate::kernel::Kernel;
use crate::line;

/// How long an interrupted cell may take to end, before its kernel is replaced.
const INTERRUPT: Duration = Duration::from_secs(5);
/// How much may wait for a client that reads slowly.
const MAX_WAITING: usize = 64 << 20;
/// How much a cell may print and show.
const MAX_OUTPUT: usize = 1 << 30;

/// What a client wants to run.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) code: String,
    pub(crate) environment: BTreeMap<String, String>,
}

/// The lines of a cell on their way to the client. Dropping it tells the cell that nobody reads them.
#[derive(Debug)]
pub(crate) struct Lines {
    lines: UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
}

impl Lines {
    /// The next lines, or none at the end. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let line = self.lines.recv().await?;
        self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
        Some(line)
    }
}

/// Where a cell writes its lines.
struct Output {
    lines: UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
    written: usize,
}

impl Output {
    /// Writes a line, unless nobody reads it.
    fn write(&mut self, line: Bytes) {
        let length = line.len();
        self.written += length;
        self.waiting.fetch_add(length, Ordering::Relaxed);
        let _ = self.lines.send(line);
    }

    fn error(&mut self, name: &str, value: &str) {
        self.write(line::error(&Failure::of_service(name, value)));
    }

    fn is_full(&self) -> Option<String> {
        if self.waiting.load(Ordering::Relaxed) > MAX_WAITING {
            return Some(format!("The cell was interrupted: {} MiB of its output wait to be read", MAX_WAITING >> 20));
        }
        (self.written > MAX_OUTPUT)
            .then(|| format!("The cell was interrupted: its output has more than {} MiB", MAX_OUTPUT >> 20))
    }
}

/// Runs a cell in the background. It waits for earlier ones of its context.
pub(crate) fn start(context: Arc<Context>, cell: Cell) -> Lines {
    let (sender, lines) = unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let output = Output { lines: sender, waiting: Arc::clone(&waiting), written: 0 };
    tokio::spawn(async move { run(&context, &cell, output).await });
    Lines { lines, waiting }
}

async fn run(context: &Context, cell: &Cell, mut output: Output) {
    let gone = output.lines.clone();
    let mut held = tokio::select! {
        held = context.hold() => held,
        () = gone.closed() => return,
    };
    let died = match context.running(&mut held).await {
        Ok(kernel) => match follow(kernel, cell, &mut output).await {
            End::Idle => false,
            End::Died => {
                let text = if context.removed.is_cancelled() { "Context was removed" } else { "Context was restarted" };
                output.error("ContextRestarting", text);
                true
            }
            End::Gone => !settle(kernel).await,
        },
        Err(error) => {
            output.error("UnexpectedEndOfExecution", &error.to_string());
            false
        }
    };
    output.write(line::end());
    drop((output, gone));
    if died {
        replace(context, &mut held).await;
    }
}

/// How following a cell ended.
enum End {
    Idle,
    Died,
    /// Nobody reads the output any more, or it is too much; the cell still runs.
    Gone,
}

async fn follow(kernel: &mut Kernel, cell: &Cell, output: &mut Output) -> End {
    let gone = output.lines.clone();
    // Waiting for what the environment needs can be given up as well.
    let begun = tokio::select! {
        begun = kernel.begin(&cell.code, &cell.environment) => begun,
        () = gone.closed() => return End::Gone,
    };
    if begun.is_err() {
        return End::Died;
    }
    let (mut started, mut repeated, mut failed) = (false, false, false);
    loop {
        let event = tokio::select! {
            event = kernel.next() => event,
            () = gone.closed() => return End::Gone,
        };
        match event {
            Event::Started(count) => {
                started = true;
                output.write(line::count(count));
            }
            Event::Stream { stderr, text } => output.write(line::stream(stderr, &text)),
            Event::Result { main, data } => output.write(line::result(main, data)),
            Event::Error(failure) if !failed => {
                failed = true;
                output.write(line::error(&failure));
            }
            Event::Error(_) => {}
            Event::Idle if started => return End::Idle,
            // A kernel that was interrupted throws away what comes next.
            Event::Idle if repeated => {
                output.error("ExecutionAborted", "Execution was aborted");
                return End::Idle;
            }
            Event::Idle => {
                repeated = true;
                if kernel.again(&cell.code).await.is_err() {
                    return End::Died;
                }
            }
            Event::Died => return End::Died,
        }
        if let Some(why) = output.is_full() {
            output.error("OutputLimitExceeded", &why);
            return End::Gone;
        }
    }
}

/// Interrupts what nobody waits for. `false` if the kernel has to be replaced.
async fn settle(kernel: &mut Kernel) -> bool {
    let until = Instant::now() + INTERRUPT;
    kernel.interrupt().await;
    loop {
        match timeout_at(until, kernel.next()).await {
            Ok(Event::Idle) => return true,
            Ok(Event::Died) | Err(_) => return false,
            Ok(_) => {}
        }
    }
}

/// A new kernel, so that the next cell need not wait for it.
async fn replace(context: &Context, held: &mut Held<'_>) {
    held.take();
    if !context.removed.is_cancelled() {
        // The next cell tries again, and says why it does not work.
        let _ = context.running(held).await;
    }
}
