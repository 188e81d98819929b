//! Waiting longer after each failure.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);

/// The next pause.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Backoff {
    pub(super) fn new() -> Self {
        Self(FIRST)
    }

    /// Waits. `false` if the server stops meanwhile.
    pub(super) async fn wait(&mut self, stopping: &CancellationToken) -> bool {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST);
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = stopping.cancelled() => false,
        }
    }
}
