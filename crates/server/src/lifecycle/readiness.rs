//! Waiting until a sandbox that was launched is ready: until its template's start command was started and its ready command has succeeded.
//! The guest runs both; this asks it. What it answers comes from a sandbox: its size and its form are doubted.

use std::pin::pin;
use std::time::Duration;

use cabana_runtime::Live;
use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::guest::{MAX_READY_LINE, MAX_READY_LINES, Readiness};
use jiff::Timestamp;

use super::Lifecycle;
use super::watch::cause;

/// Bytes of the output that is told: it is kept with the sandbox's events and tombstone.
const MAX_OUTPUT: usize = 4096;
/// When a guest is gone, the backend says how within this.
const NEWS: Duration = Duration::from_secs(1);

/// Why a sandbox is not ready.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unready {
    /// One of its commands failed, with the last output; or the guest cannot be asked.
    Failed(String),
    /// Somebody ended the sandbox.
    Doomed,
    /// The server stops.
    Stopping,
}

impl Lifecycle {
    /// Waits until a sandbox is ready. Where its template has neither command, nobody is asked. The caller holds the entry's lock; a kill ends
    /// the waiting, and so does the end of the server.
    pub(super) async fn until_ready(&self, sandbox: &Sandbox, live: &Live) -> Result<(), Unready> {
        if !sandbox.boot.prepares() {
            return Ok(());
        }
        let doomed = self.registry.entry(&sandbox.id).doomed.clone();
        let mut vitals = live.vitals.clone();
        let mut death = pin!(async {
            match vitals.wait_for(|vitals| vitals.death.is_some()).await.ok().and_then(|vitals| vitals.death) {
                Some(death) => format!("it {}", cause(death).describe()),
                // A backend that stopped watching says nothing; then the guest's answer counts.
                None => std::future::pending().await,
            }
        });
        let why = tokio::select! {
            biased;
            () = doomed.cancelled() => return Err(Unready::Doomed),
            () = self.stopping.cancelled() => return Err(Unready::Stopping),
            died = &mut death => died,
            asked = live.link.readiness(self.ready_limit) => match asked {
                Ok(readiness) if readiness.ready => return Ok(()),
                Ok(readiness) => explained(&readiness),
                // It is mostly the end of the guest that ends the conversation.
                Err(error) => match tokio::time::timeout(NEWS, &mut death).await {
                    Ok(died) => died,
                    Err(_) => format!("its guest daemon does not say whether it is ready: {error}"),
                },
            },
        };
        Err(Unready::Failed(why))
    }

    /// Notes that a sandbox which comes up nevertheless is not ready.
    pub(super) async fn note_unready(&self, id: &SandboxId, why: String) {
        tracing::warn!(sandbox = %id, error = why, "a sandbox comes up without being ready");
        let details = serde_json::json!({ "message": why });
        if let Err(error) = self.store.note(id.clone(), "not_ready", details, Timestamp::now()).await {
            let error = cabana_types::error::chain(&error);
            tracing::warn!(sandbox = %id, error, "could not note that a sandbox is not ready");
        }
    }
}

/// What a guest says, in words: why, and below that the last lines that fit.
pub(super) fn explained(readiness: &Readiness) -> String {
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

    fn unready(message: Option<&str>, output: Vec<String>) -> Readiness {
        Readiness { ready: false, message: message.map(str::to_owned), output, exit_code: None }
    }

    #[test]
    fn what_is_told_is_the_reason_and_the_end_of_the_output() {
        let told = explained(&unready(Some("its start command ended"), vec!["a".into(), "b\u{1b}[0m".into()]));
        assert_eq!(told, "its start command ended; its last output:\na\nb[0m");
        assert_eq!(explained(&unready(Some("why"), vec![])), "why");
        assert_eq!(explained(&unready(None, vec![])), "its guest daemon does not say why");
        let many: Vec<String> = (0..100).map(|n| format!("{n} {}", "x".repeat(300))).collect();
        let told = explained(&unready(Some("why"), many));
        assert!(told.contains("\n99 ") && !told.contains("\n80 ") && told.len() < MAX_OUTPUT + 100, "{told}");
    }

    proptest! {
        #[test]
        fn whatever_a_guest_says_is_bounded(message in "\\PC{0,3000}", output in prop::collection::vec("\\PC{0,2000}", 0..40)) {
            let told = explained(&unready(Some(&message), output));
            prop_assert!(told.len() <= 4 * MAX_READY_LINE + MAX_OUTPUT + 100);
            prop_assert!(told.lines().count() <= MAX_READY_LINES + 1);
        }
    }
}
