//! Reaps all children, as process 1 must: the daemon's commands and orphans. No other code waits for children, so no
//! exit status is lost.

use std::sync::Arc;

use rustix::process::{WaitOptions, WaitStatus, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::command::Status;
use crate::commands::Commands;
use crate::error::Error;

/// Listens for SIGCHLD; must be called before the first child is started.
pub(crate) fn listen() -> Result<Signal, Error> {
    signal(SignalKind::child()).map_err(Error::system("listen for ended children"))
}

/// Reaps children for ever.
pub(crate) async fn run(mut signals: Signal, commands: Arc<Commands>) {
    while signals.recv().await.is_some() {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(status) = ended(status) {
                commands.reaped(pid.as_raw_nonzero().get().unsigned_abs(), status);
            }
        }
    }
}

fn ended(status: WaitStatus) -> Option<Status> {
    status.exit_status().map(Status::Exited).or_else(|| status.terminating_signal().map(Status::Signaled))
}
