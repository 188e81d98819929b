//! Output of a service by cursor.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cabana_types::guest::services::{CommandEnd, CommandOutput, Output};
use tokio::time::{Instant, timeout};

use crate::command::{Ended, Peek, Status};
use crate::guest::Guest;

/// How long the end of a process is held back for its last output, which another reader may block.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// What is asked for.
pub(super) struct Wanted {
    pub(super) after: Option<u64>,
    pub(super) max: usize,
    pub(super) wait: Duration,
    /// Whether only the end is waited for.
    pub(super) end_only: bool,
}

/// Waits for output or the end, and answers with what is there then.
pub(super) async fn read(guest: &Guest, tag: &str, wanted: &Wanted) -> Output {
    let boot = guest.boot.clone();
    let Some(command) = guest.commands.tagged(tag) else { return Output { boot, command: None } };
    let mut changes = command.changes();
    let deadline = Instant::now() + wanted.wait;
    let seen = loop {
        changes.mark_unchanged();
        let seen = command.peek(wanted.after, wanted.max);
        let left = deadline.saturating_duration_since(Instant::now());
        let has_output = !wanted.end_only && !seen.data.is_empty();
        if has_output || is_over(&seen) || left.is_zero() {
            break seen;
        }
        let held_back = seen.ended.map(|ended| LAST_OUTPUT.saturating_sub(ended.ago));
        // The command lives as long as this: there are always further changes.
        let _ = timeout(held_back.map_or(left, |held_back| held_back.min(left)), changes.changed()).await;
    };
    let end = seen.ended.filter(|_| is_over(&seen)).map(|ended| end(ended.status));
    let data = STANDARD.encode(&seen.data);
    Output { boot, command: Some(CommandOutput { pid: command.number(), end, begin: seen.begin, data }) }
}

fn is_over(seen: &Peek) -> bool {
    seen.ended.is_some_and(|Ended { complete, ago, .. }| complete || ago >= LAST_OUTPUT)
}

fn end(status: Status) -> CommandEnd {
    let code = match status {
        Status::Exited(code) => Some(code),
        Status::Signaled(_) => None,
    };
    CommandEnd { code, status: status.describe() }
}
