//! Orderly shutdown of all processes, before only the sandbox's disk is kept: SIGTERM first, then SIGKILL after a
//! timeout.

use std::io;
use std::time::Duration;

use cabana_types::guest::STOP_SECONDS;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout_at};

/// Time reserved for SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_millis(500);

/// Ends every process except this one. Returns when there are none left, or on timeout.
pub(crate) async fn all_processes() {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS);
    for (signal, until) in [(libc::SIGTERM, deadline - KILL_TIMEOUT), (libc::SIGKILL, deadline)] {
        send_to_all(signal);
        if signal == libc::SIGTERM {
            // Stopped processes must be continued to end.
            send_to_all(libc::SIGCONT);
        }
        // Orphans become children of this process, so each exit raises SIGCHLD; the reaper collects them shortly after.
        while others_exist() {
            if timeout_at(until.min(Instant::now() + KILL_TIMEOUT), ended.recv()).await.is_err()
                && Instant::now() >= until
            {
                break;
            }
        }
    }
}

fn send_to_all(signal: i32) {
    if std::process::id() != 1 {
        // Started manually: signalling every process would hit the whole machine.
        return;
    }
    // SAFETY: sends a signal; from process 1 this reaches exactly the other processes of this sandbox.
    unsafe { libc::kill(-1, signal) };
}

fn others_exist() -> bool {
    if std::process::id() != 1 {
        return false;
    }
    // SAFETY: signal 0 is not delivered; the call only checks whether a target exists.
    unsafe { libc::kill(-1, 0) == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH) }
}
