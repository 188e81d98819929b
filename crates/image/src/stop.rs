//! How the caller ends long work from outside: a flag, and a time at which patience ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// Asked often by blocking work (unpacking, copying, hashing). Clones share the flag.
#[derive(Debug, Clone)]
pub struct Stop {
    cancelled: Arc<AtomicBool>,
    until: Instant,
}

impl Stop {
    /// Ends by itself after `time`.
    pub fn after(time: Duration) -> Self {
        Self { cancelled: Arc::default(), until: Instant::now() + time }
    }

    /// Ends the work at its next look.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// An error if the work should end; `what` is what then took too long.
    pub fn check(&self, what: &'static str) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        if Instant::now() >= self.until { Err(Error::TimedOut(what)) } else { Ok(()) }
    }
}
