//! The process of a kernel: a group of its own, killed with everything that it has started and that has not left the group.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;

use crate::event::Event;

/// A running process.
#[derive(Debug, Clone)]
pub(crate) struct Process(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    group: Pid,
    ended: AtomicBool,
}

impl Process {
    /// Starts a process. Its end is reported as [`Event::Died`].
    pub(crate) fn spawn(
        command: &mut Command,
        stdin: Stdio,
        events: UnboundedSender<Event>,
    ) -> std::io::Result<(Self, Option<ChildStdin>)> {
        let mut child = command.stdin(stdin).process_group(0).spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let group = id.ok_or_else(|| std::io::Error::other("it ended at once"))?;
        let stdin = child.stdin.take();
        let process = Self(Arc::new(Inner { group, ended: AtomicBool::new(false) }));
        let watched = process.clone();
        tokio::spawn(async move {
            // Whatever it says, the process is gone.
            let _ = child.wait().await;
            watched.kill();
            watched.0.ended.store(true, Ordering::Relaxed);
            let _ = events.send(Event::Died);
        });
        Ok((process, stdin))
    }

    pub(crate) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
    }

    fn signal(&self, signal: Signal) {
        if !self.has_ended() {
            // It may have ended just now.
            let _ = kill_process_group(self.0.group, signal);
        }
    }
}
