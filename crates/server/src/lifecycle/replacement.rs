//! Limits how often a failed sandbox is booted again: one that fails at once would otherwise do so for ever.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cabana_types::SandboxId;
use tokio::time::Instant;

/// Least time between two replacements of one sandbox.
const SOONEST: Duration = Duration::from_secs(60);

/// When sandboxes were last replaced.
#[derive(Debug, Default)]
pub(super) struct Replacements(Mutex<HashMap<SandboxId, Instant>>);

impl Replacements {
    /// Whether a sandbox may be replaced now; counts the replacement if so.
    pub(super) fn allow(&self, id: &SandboxId) -> bool {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|_, at| now - *at < SOONEST);
        match last.contains_key(id) {
            true => false,
            false => last.insert(id.clone(), now).is_none(),
        }
    }
}
