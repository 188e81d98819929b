//! Ends all processes of a service, also those that have left its session or ignore signals.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

use super::{Census, blocking};
use crate::commands::Commands;
use crate::error::Problem;
use crate::survivors::{self, Ticks};

/// How often it is looked at what is left, first and later.
const OFTEN: Duration = Duration::from_millis(10);
const SELDOM: Duration = Duration::from_millis(100);
/// How long processes are killed that start others all the time, or that the kernel does not let die.
const KILLING: Duration = Duration::from_secs(10);
/// Looks in a row that find no process, after which there is none.
const LOOKS_WITHOUT: u32 = 2;

/// Terminates the processes of a service, and kills those that are left after the time. Goes on if the host closes the connection.
pub(super) async fn all_of(commands: Arc<Commands>, tag: String, grace: Duration) -> Result<(), Problem> {
    let ended = tokio::spawn(until_none_is_left(commands, tag, grace)).await;
    ended.unwrap_or_else(|_| Err(Problem::internal("the operation was interrupted")))
}

async fn until_none_is_left(commands: Arc<Commands>, tag: String, grace: Duration) -> Result<(), Problem> {
    let began = Instant::now();
    let mut asked = HashMap::new();
    let (mut interval, mut unseen) = (OFTEN, 0);
    loop {
        let kill = began.elapsed() >= grace;
        let mut round = Round { commands: Arc::clone(&commands), tag: tag.clone(), asked, kill };
        let left;
        (left, asked) = blocking(move || (round.signal(), round.asked)).await?;
        // A process that forks and ends while it is looked at is not seen, nor what it has started.
        unseen = if left == 0 { unseen + 1 } else { 0 };
        if unseen == LOOKS_WITHOUT {
            return Ok(());
        }
        if began.elapsed() >= grace + KILLING {
            return Err(Problem::internal(format!("{left} processes of the service do not end")));
        }
        if left == 0 {
            interval = OFTEN;
        }
        let until_kill = grace.saturating_sub(began.elapsed());
        sleep(if until_kill.is_zero() { interval } else { interval.min(until_kill) }).await;
        interval = (interval * 3 / 2).min(if kill { OFTEN } else { SELDOM });
    }
}

struct Round {
    commands: Arc<Commands>,
    tag: String,
    /// Processes that were terminated: a second signal makes some programs give up on ending in order.
    asked: HashMap<u32, Ticks>,
    kill: bool,
}

impl Round {
    /// Signals the processes that run, and tells how many there are.
    fn signal(&mut self) -> usize {
        let census = Census::take(&self.commands);
        let members = census.members(&self.tag);
        for pid in &members {
            let Some(process) = census.process(*pid) else { continue };
            if self.kill {
                send(*pid, process.started, &[Signal::KILL]);
            } else if self.asked.insert(*pid, process.started) != Some(process.started) {
                // Stopped processes must be continued to end.
                let signals = [Signal::TERM, Signal::CONT];
                send(*pid, process.started, if process.is_stopped { &signals } else { &[Signal::TERM] });
            }
        }
        members.len()
    }
}

/// Signals a process if it is still the one that was started at that time. It may have ended.
fn send(pid: u32, started: Ticks, signals: &[Signal]) {
    let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw) else { return };
    // Opened before it is compared: from then on the descriptor means the process that was compared.
    let opened = pidfd_open(pid, PidfdFlags::empty());
    let number = pid.as_raw_nonzero().get().unsigned_abs();
    if survivors::stat(number).is_none_or(|process| process.started != started) {
        return;
    }
    for signal in signals {
        let _ = match &opened {
            Ok(descriptor) => pidfd_send_signal(descriptor, *signal),
            // An old kernel or a filter may not have the call.
            Err(_) => kill_process(pid, *signal),
        };
    }
}
