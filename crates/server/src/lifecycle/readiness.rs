//! Waits until a launched sandbox is ready: its template's start command has started and its ready command has
//! succeeded. The guest runs both; the host asks it. The answer comes from inside the sandbox, so its size and form are
//! not trusted.

use std::pin::pin;
use std::time::Duration;

use cabana_runtime::Live;
use cabana_store::Sandbox;
use cabana_types::guest::{MAX_READY_LINE, MAX_READY_LINES, Readiness};

use super::held::Held;
use super::tasks::Tasks;
use super::watch::cause;

/// Limit of the output that is reported, in bytes: it is kept in the sandbox's events and tombstone.
const MAX_OUTPUT: usize = 4096;
/// How long to wait for the backend to report the death of a guest that does not answer.
const DEATH_WAIT: Duration = Duration::from_secs(1);

/// Why a sandbox is not ready.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotReady {
    /// One of its commands failed, with the last output, or the guest does not answer.
    Failed(String),
    /// The sandbox is to be removed.
    Ending,
    /// The server stops.
    Stopping,
}

/// Waits for the start and ready commands of sandboxes.
#[derive(Debug)]
pub(super) struct ReadyCheck {
    limit: Duration,
    tasks: Tasks,
}

impl ReadyCheck {
    pub(super) fn new(limit: Duration, tasks: Tasks) -> Self {
        Self { limit, tasks }
    }

    /// How long start and ready commands may take.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Waits until a sandbox is ready. A template with neither command is ready at once.
    pub(super) async fn wait(&self, held: &Held, sandbox: &Sandbox, live: &Live) -> Result<(), NotReady> {
        if !sandbox.boot.prepares() {
            return Ok(());
        }
        let ending = held.entry().lock.until_ending();
        let mut vitals = live.vitals.clone();
        let mut death = pin!(async {
            match vitals.wait_for(|vitals| vitals.death.is_some()).await.ok().and_then(|vitals| vitals.death) {
                Some(death) => format!("it {}", cause(death).describe()),
                // The backend stopped watching; the guest's answer counts.
                None => std::future::pending().await,
            }
        });
        let why = tokio::select! {
            biased;
            () = ending.cancelled() => return Err(NotReady::Ending),
            () = self.tasks.stopping() => return Err(NotReady::Stopping),
            died = &mut death => died,
            asked = live.link.readiness(self.limit) => match asked {
                Ok(readiness) if readiness.ready => return Ok(()),
                Ok(readiness) => describe(&readiness),
                // The connection usually breaks because the guest died.
                Err(error) => match tokio::time::timeout(DEATH_WAIT, &mut death).await {
                    Ok(died) => died,
                    Err(_) => format!("its guest daemon does not say whether it is ready: {error}"),
                },
            },
        };
        Err(NotReady::Failed(why))
    }
}

/// The reason that a guest gives, and below it the last lines of output that fit.
pub(super) fn describe(readiness: &Readiness) -> String {
    let mut text = readiness.message.as_deref().map(plain).unwrap_or_default();
    if text.is_empty() {
        text = "its guest daemon does not say why".into();
    }
    let lines = &readiness.output[readiness.output.len().saturating_sub(MAX_READY_LINES)..];
    let mut room = MAX_OUTPUT;
    let mut fitting: Vec<String> = lines
        .iter()
        .rev()
        .map(|line| plain(line))
        .take_while(|line| {
            let fits = line.len() < room;
            room = room.saturating_sub(line.len() + 1);
            fits
        })
        .collect();
    if !fitting.is_empty() {
        fitting.reverse();
        text.push_str("; its last output:\n");
        text.push_str(&fitting.join("\n"));
    }
    text
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_READY_LINE).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn not_ready(message: Option<&str>, output: Vec<String>) -> Readiness {
        Readiness { ready: false, message: message.map(str::to_owned), output, exit_code: None }
    }

    #[test]
    fn the_reason_and_the_end_of_the_output_are_reported() {
        let text = describe(&not_ready(Some("its start command ended"), vec!["a".into(), "b\u{1b}[0m".into()]));
        assert_eq!(text, "its start command ended; its last output:\na\nb[0m");
        assert_eq!(describe(&not_ready(Some("why"), vec![])), "why");
        assert_eq!(describe(&not_ready(None, vec![])), "its guest daemon does not say why");
        let many: Vec<String> = (0..100).map(|n| format!("{n} {}", "x".repeat(300))).collect();
        let text = describe(&not_ready(Some("why"), many));
        assert!(text.contains("\n99 ") && !text.contains("\n80 ") && text.len() < MAX_OUTPUT + 100, "{text}");
    }

    proptest! {
        #[test]
        fn every_answer_of_a_guest_is_bounded(message in "\\PC{0,3000}", output in prop::collection::vec("\\PC{0,2000}", 0..40)) {
            let text = describe(&not_ready(Some(&message), output));
            prop_assert!(text.len() <= 4 * MAX_READY_LINE + MAX_OUTPUT + 100);
            prop_assert!(text.lines().count() <= MAX_READY_LINES + 1);
        }
    }
}
