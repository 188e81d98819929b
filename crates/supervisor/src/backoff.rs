//! Exponential backoff.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(60);

/// Delays that double from one retry to the next, up to a maximum.
#[derive(Debug, Clone)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Default for Backoff {
    /// From 250 ms to one minute.
    fn default() -> Self {
        Self::new(FIRST, LONGEST)
    }
}

impl Backoff {
    /// Delays from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first.min(longest), longest }
    }

    /// The next delay.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next;
        self.next = delay.saturating_mul(2).min(self.longest);
        delay
    }

    /// Waits for the next delay. `false` if `stop` is cancelled first.
    pub async fn wait(&mut self, stop: &CancellationToken) -> bool {
        stop.run_until_cancelled(tokio::time::sleep(self.next_delay())).await.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let delays: Vec<u64> = (0..5).map(|_| backoff.next_delay().as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 5, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn stop_interrupts_the_wait() {
        let stop = CancellationToken::new();
        assert!(Backoff::default().wait(&stop).await);
        stop.cancel();
        assert!(!Backoff::default().wait(&stop).await);
    }
}
