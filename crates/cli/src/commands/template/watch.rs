//! Follows the log of a build, and reports how the build ended.

use std::time::{Duration, Instant};

use cabana_client::{Client, Error};
use cabana_types::wire::{BuildInfo, BuildLogEntry, BuildReason};
use cabana_types::{BuildId, TemplateId};

use crate::commands::Context;
use crate::failure::Failure;
use crate::output::{Output, clean};

/// Polling interval; the API has no log stream.
const POLL: Duration = Duration::from_millis(200);
/// Lines per request.
const PAGE: u32 = 100;
/// How long to retry while the server does not respond: it may be restarted during a build.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// One build.
pub(super) struct Watch<'a> {
    pub(super) client: &'a Client,
    pub(super) template: &'a TemplateId,
    pub(super) build: &'a BuildId,
}

impl Watch<'_> {
    /// Prints the log from its start; with `follow`, until the build has ended.
    pub(super) async fn read(
        &self,
        follow: bool,
        context: &Context,
        show: impl Fn(&BuildLogEntry) -> Result<(), Failure>,
    ) -> Result<BuildInfo, Failure> {
        let mut offset = 0;
        loop {
            let info = self.ask(offset, context).await?;
            for entry in &info.log_entries {
                show(entry)?;
            }
            let count = u32::try_from(info.log_entries.len()).unwrap_or(PAGE);
            offset += count;
            let ended = !matches!(info.status.as_str(), "waiting" | "building");
            // Only an empty page means that everything was read.
            if count == 0 && (ended || !follow) {
                return Ok(info);
            }
            if count < PAGE && !ended && follow {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    async fn ask(&self, offset: u32, context: &Context) -> Result<BuildInfo, Failure> {
        let mut silent: Option<Instant> = None;
        loop {
            match self.client.build_status(self.template, self.build, offset, PAGE).await {
                Err(e) if e.is_not_found() => {
                    return Err(Failure::user_error("the build no longer exists: its template was deleted"));
                }
                Err(e @ (Error::Unreachable { .. } | Error::Connection { .. }))
                    if silent.is_none_or(|since| since.elapsed() < RETRY_TIMEOUT) =>
                {
                    if silent.is_none() {
                        silent = Some(Instant::now());
                        context.out.warn(&format!("{e}; retrying"));
                    }
                    tokio::time::sleep(POLL).await;
                }
                answer => return Ok(answer?),
            }
        }
    }
}

/// Prints a line of a build's log: steps are highlighted, and their output is indented.
pub(super) fn show(entry: &BuildLogEntry, out: &Output) {
    // The failure reason is printed at the end.
    if entry.level == "error" {
        return;
    }
    let message = clean(&entry.message);
    let text = message.trim_end().replace('\n', "\n  ");
    if is_heading(&text) {
        out.step(&text);
    } else {
        out.say(&format!("  {text}"));
    }
}

/// Matches `[2/3] RUN make`, `CACHED [build 1/2] COPY . .` and `FROM debian:12`.
fn is_heading(text: &str) -> bool {
    let text = text.strip_prefix("CACHED ").unwrap_or(text);
    let place = text.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let numbers = place.and_then(|(place, _)| place.rsplit(' ').next()).and_then(|last| last.split_once('/'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.starts_with("FROM ") || numbers.is_some_and(|(step, of)| is_number(step) && is_number(of))
}

/// Why a build failed: the step, the message, the last lines of output, and a hint.
pub(super) fn failure(reason: &BuildReason) -> Failure {
    let (message, hint) = match reason.message.split_once("\nHint: ") {
        Some((message, hint)) => (message, Some(hint)),
        None => (reason.message.as_str(), None),
    };
    let place = match reason.step.as_deref() {
        None | Some("") => "the build failed".to_owned(),
        Some("base") => "the build failed at its base image".to_owned(),
        Some("finalize") => "the build failed when the template was tested".to_owned(),
        Some(step) => format!("step {step} of the build failed"),
    };
    let failure = Failure::user_error(format!("{place}: {}", message.trim_end().replace('\n', "\n  ")));
    match hint {
        Some(hint) => failure.hint(hint.trim_end()),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_distinguished_from_output() {
        for heading in ["[1/3] RUN make", "CACHED [2/3] COPY . .", "[build 10/12] RUN x", "FROM debian:12"] {
            assert!(is_heading(heading), "{heading}");
        }
        for line in ["[info] x", "CACHED", "[1/] x", "[a/b] x", "[1/3]", "1/3 x", ""] {
            assert!(!is_heading(line), "{line}");
        }
    }

    #[test]
    fn the_hint_is_separated() {
        let reason = BuildReason {
            message: "failed to run command 'x': exit status 127\nIts last lines:\nx: not found\nHint: install it"
                .to_owned(),
            step: Some("2".to_owned()),
            log_entries: vec![],
        };
        let failure = failure(&reason);
        let text = failure.chain().next().expect("message");
        assert!(text.starts_with("step 2 of the build failed: failed to run") && text.ends_with("\n  x: not found"));
        assert_eq!((failure.hint_text(), failure.exit_code()), (Some("install it"), 1));
    }
}
