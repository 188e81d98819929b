//! The log of one build. Lines are collected and written together, so that a step with much output does not need a
//! transaction per line.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_store::{BuildLine, LogLevel, Store};
use cabana_types::BuildId;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

/// How long lines are buffered.
const GATHER: Duration = Duration::from_millis(150);
/// Maximum number of buffered lines; further ones are counted and dropped.
const MOST_WAITING: usize = 2000;
/// Lines of a step's output to show in a failure.
pub(super) const TAIL: usize = 20;

/// Where the steps of one build write.
#[derive(Debug, Clone)]
pub(super) struct Log {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    build: BuildId,
    waiting: Mutex<Waiting>,
    /// Held while lines are written, so that closing waits for them.
    writing: tokio::sync::Mutex<()>,
    closed: CancellationToken,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<BuildLine>,
    left_out: usize,
}

impl Log {
    pub(super) fn new(store: Store, build: BuildId) -> Self {
        let (waiting, writing, closed) = Default::default();
        Self { inner: Arc::new(Inner { store, build, waiting, writing, closed }) }
    }

    pub(super) fn write(&self, level: LogLevel, step: Option<&str>, message: impl Into<String>) {
        let mut waiting = self.waiting();
        if waiting.lines.len() >= MOST_WAITING {
            waiting.left_out += 1;
            return;
        }
        let (step, message) = (step.map(str::to_owned), message.into());
        waiting.lines.push(BuildLine { at: Timestamp::now(), level, step, message });
    }

    pub(super) fn info(&self, step: &str, message: impl Into<String>) {
        self.write(LogLevel::Info, Some(step), message);
    }

    pub(super) fn warn(&self, step: &str, message: impl Into<String>) {
        self.write(LogLevel::Warn, Some(step), message);
    }

    /// Writes the buffered lines.
    async fn flush(&self) {
        let _writing = self.inner.writing.lock().await;
        let Waiting { mut lines, left_out } = std::mem::take(&mut *self.waiting());
        if left_out > 0 {
            let message = format!("{left_out} lines came too fast and are left out");
            lines.push(BuildLine { at: Timestamp::now(), level: LogLevel::Warn, step: None, message });
        }
        if !lines.is_empty()
            && let Err(error) = self.inner.store.append_build_log(self.inner.build.clone(), lines).await
        {
            tracing::warn!(build = %self.inner.build, error = cabana_types::error::chain(&error), "lines of a build's log are lost");
        }
    }

    /// Writes periodically until the log is closed.
    pub(super) async fn keep_flushing(self) {
        while self.inner.closed.run_until_cancelled(tokio::time::sleep(GATHER)).await.is_some() {
            self.flush().await;
        }
    }

    /// Writes everything. Nothing is written after this returns.
    pub(super) async fn close(&self) {
        self.inner.closed.cancel();
        self.flush().await;
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.inner.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last lines that a step wrote.
#[derive(Debug, Default)]
pub(super) struct Tail(VecDeque<String>);

impl Tail {
    pub(super) fn push(&mut self, line: String) {
        if self.0.len() == TAIL {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    pub(super) fn text(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}
