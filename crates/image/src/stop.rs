//! Cancels long blocking work: a flag and a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Checked regularly by blocking work (unpacking, copying, hashing). Clones share the flag.
#[derive(Debug, Clone)]
pub struct Stop {
    cancelled: Arc<AtomicBool>,
    until: Instant,
}

impl Stop {
    /// Stops after `time`.
    pub fn after(time: Duration) -> Self {
        Self { cancelled: Arc::default(), until: Instant::now() + time }
    }

    /// Stops the work at its next check.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns an error if the work should stop; `what` names the work.
    pub fn check(&self, what: &'static str) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if Instant::now() >= self.until { Err(Error::TimedOut(what)) } else { Ok(()) }
    }
}
