//! Idleness: no request or open connection through the edge, no command still running, and little use of CPU and network. A build in the
//! background is not idle, regardless of who started it.

use std::time::Duration;

use cabana_runtime::Stats;
use tokio::time::Instant;

/// An idle sandbox uses less than this share of one CPU: waiting daemons run now and then.
const IDLE_CPU: f64 = 0.03;
/// An idle sandbox has less network traffic than this, in bytes per second: hosts announce themselves.
const IDLE_NETWORK: f64 = 2048.0;

/// How long a sandbox has been idle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idleness {
    /// Time of the last reading.
    at: Instant,
    cpu_usec: u64,
    network_bytes: u64,
    /// Since when it is idle.
    since: Instant,
}

impl Idleness {
    /// Adds a reading. `busy`: there is a request or connection, or was one since the last reading.
    pub(super) fn next(last: Option<Self>, stats: Stats, busy: bool, now: Instant) -> Self {
        let since = match last {
            Some(last) if !busy && last.is_idle(stats, now) => last.since,
            _ => now,
        };
        Self { at: now, cpu_usec: stats.cpu_usec, network_bytes: stats.network_bytes, since }
    }

    #[allow(clippy::cast_precision_loss, reason = "rates need no more")]
    fn is_idle(&self, stats: Stats, now: Instant) -> bool {
        let seconds = (now - self.at).as_secs_f64().max(0.001);
        let cpu = stats.cpu_usec.saturating_sub(self.cpu_usec) as f64 / 1e6 / seconds;
        let network = stats.network_bytes.saturating_sub(self.network_bytes) as f64 / seconds;
        cpu < IDLE_CPU && network < IDLE_NETWORK
    }

    /// How long it has been idle.
    pub(super) fn duration(&self, now: Instant) -> Duration {
        now - self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(cpu_usec: u64, network_bytes: u64) -> Stats {
        Stats { cpu_usec, network_bytes, ..Stats::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_sandbox_that_is_quiet_in_every_way_is_idle() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let first = Idleness::next(None, stats(0, 0), false, start);
        // A little CPU and network use is idle.
        let later = Idleness::next(Some(first), stats(100_000, 5_000), false, at(5));
        assert_eq!(later.duration(at(5)), Duration::from_secs(5));
        for (stats, busy) in
            [(stats(500_000, 5_000), false), (stats(100_000, 50_000), false), (stats(100_000, 5_000), true)]
        {
            let busy_now = Idleness::next(Some(later), stats, busy, at(10));
            assert_eq!(busy_now.duration(at(10)), Duration::ZERO);
        }
        assert_eq!(
            Idleness::next(Some(later), stats(200_000, 9_000), false, at(10)).duration(at(10)),
            Duration::from_secs(10)
        );
    }
}
