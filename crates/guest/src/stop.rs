//! Ending everything in order, before the sandbox's disk is all that is kept of it: processes are asked to end, and killed if they do not
//! in time.

use std::io;
use std::time::Duration;

use cabana_types::guest::STOP_SECONDS;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout_at};

/// Time left for those that must be killed.
const LAST: Duration = Duration::from_millis(500);

/// Ends every process but this one. Returns when there is none, or when time is up.
pub(crate) async fn everything() {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS);
    for (signal, until) in [(libc::SIGTERM, deadline - LAST), (libc::SIGKILL, deadline)] {
        send_to_all(signal);
        if signal == libc::SIGTERM {
            // What was stopped could not end.
            send_to_all(libc::SIGCONT);
        }
        // Orphans become children of this process, so that every end is signalled; the reaper takes them away a moment later.
        while others_exist() {
            if timeout_at(until.min(Instant::now() + LAST), ended.recv()).await.is_err() && Instant::now() >= until {
                break;
            }
        }
    }
}

fn send_to_all(signal: i32) {
    if std::process::id() != 1 {
        // Started by hand, on a machine that is not its own.
        return;
    }
    // SAFETY: sends a signal; as process 1 this reaches exactly the processes of this sandbox, without this one.
    unsafe { libc::kill(-1, signal) };
}

fn others_exist() -> bool {
    if std::process::id() != 1 {
        return false;
    }
    // SAFETY: signal 0 is sent to nobody; the call only tells whether there would be somebody.
    unsafe { libc::kill(-1, 0) == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH) }
}
