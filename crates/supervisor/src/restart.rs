//! When a failed task is started again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
/// Failures that are longer ago do not count.
const WINDOW: Duration = Duration::from_secs(300);
/// Failures within the window after which a task counts as broken. With the delays above that takes about a minute.
const MOST_FAILURES: usize = 10;

/// A restart policy.
#[derive(Debug, Clone)]
pub struct Restart {
    first: Duration,
    longest: Duration,
    window: Duration,
    most_failures: Option<usize>,
}

impl Restart {
    /// Restarts for ever. For tasks whose absence harms only a part of the server: a delivery that panics each time
    /// must not take the API down.
    pub const fn forever() -> Self {
        Self { first: FIRST, longest: LONGEST, window: WINDOW, most_failures: None }
    }

    /// Restarts, but ends the process after ten failures within five minutes. For tasks without which the server does
    /// not keep its promises, such as timeouts.
    pub const fn or_end_process() -> Self {
        Self { most_failures: Some(MOST_FAILURES), ..Self::forever() }
    }

    /// Sets the first and the longest delay.
    #[must_use]
    pub const fn delays(self, first: Duration, longest: Duration) -> Self {
        Self { first, longest, ..self }
    }

    /// Ends the process after `failures` within `window`.
    #[must_use]
    pub const fn escalate_after(self, failures: usize, window: Duration) -> Self {
        Self { most_failures: Some(failures), window, ..self }
    }
}

/// The failures of one task so far.
#[derive(Debug)]
pub(crate) struct History {
    policy: Restart,
    failures: VecDeque<Instant>,
}

/// What follows a failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    RestartAfter(Duration),
    EndProcess,
}

impl History {
    pub(crate) fn new(policy: Restart) -> Self {
        Self { policy, failures: VecDeque::new() }
    }

    /// Records a failure. The delay grows with the number of failures in the window.
    pub(crate) fn failed(&mut self, now: Instant) -> Next {
        let window = self.policy.window;
        while self.failures.front().is_some_and(|at| now.duration_since(*at) > window) {
            self.failures.pop_front();
        }
        // Without a limit on failures, only as many are kept as make a difference to the delay.
        if self.failures.len() >= self.policy.most_failures.unwrap_or(32).max(1) {
            self.failures.pop_front();
        }
        self.failures.push_back(now);
        if self.policy.most_failures.is_some_and(|most| self.failures.len() >= most) {
            return Next::EndProcess;
        }
        let doublings = u32::try_from(self.failures.len() - 1).unwrap_or(u32::MAX);
        let delay = self.policy.first.saturating_mul(2u32.saturating_pow(doublings));
        Next::RestartAfter(delay.min(self.policy.longest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn delays_grow_with_failures_in_the_window_and_shrink_after_it() {
        let start = Instant::now();
        let mut history = History::new(Restart::forever().delays(secs(1), secs(5)));
        let delays: Vec<Next> = (0..4).map(|_| history.failed(start)).collect();
        assert_eq!(delays, [1, 2, 4, 5].map(|s| Next::RestartAfter(secs(s))));
        assert_eq!(history.failed(start + WINDOW + secs(1)), Next::RestartAfter(secs(1)));
    }

    proptest! {
        #[test]
        fn escalates_exactly_when_the_window_holds_that_many_failures(
            gaps in prop::collection::vec(0u64..40, 1..60),
            most in 1usize..8,
        ) {
            let window = secs(60);
            let mut history = History::new(Restart::forever().escalate_after(most, window));
            let mut now = Instant::now();
            let mut all = Vec::new();
            for gap in gaps {
                now += secs(gap);
                all.push(now);
                let recent = all.iter().filter(|at| now.duration_since(**at) <= window).count();
                let next = history.failed(now);
                if recent >= most {
                    prop_assert_eq!(next, Next::EndProcess);
                } else {
                    prop_assert!(matches!(next, Next::RestartAfter(delay) if delay >= FIRST && delay <= LONGEST));
                }
            }
        }

        #[test]
        fn a_task_that_is_restarted_for_ever_never_escalates(gaps in prop::collection::vec(0u64..10, 1..200)) {
            let mut history = History::new(Restart::forever());
            let mut now = Instant::now();
            for gap in gaps {
                now += secs(gap);
                prop_assert!(matches!(history.failed(now), Next::RestartAfter(delay) if delay <= LONGEST));
                prop_assert!(history.failures.len() <= 32);
            }
        }
    }
}
