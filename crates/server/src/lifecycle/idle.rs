//! Laying down sandboxes in which nothing happens, where their owner wants that. Idle means idle: no request or open connection through
//! the edge, no command still running, and CPU and network quiet. A build in the background is work, whoever started it.

use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::Stats;
use cabana_types::SandboxId;
use cabana_types::sandbox::PauseCause;
use tokio::time::Instant;

use super::Lifecycle;
use super::pause::Pause;
use super::registry::Entry;

/// A sandbox that uses less than this share of one CPU rests: daemons that wait wake up now and then.
const QUIET_CPU: f64 = 0.03;
/// Bytes a second that may pass through its network meanwhile: neighbours announce themselves.
const QUIET_NETWORK: f64 = 2048.0;

/// What is known about how long a sandbox has been idle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quiet {
    /// The last reading.
    at: Instant,
    cpu_usec: u64,
    network_bytes: u64,
    /// Since when nothing happens.
    since: Instant,
}

impl Quiet {
    /// Takes a reading into account. `busy`: somebody is connected, or was since the last one.
    pub(super) fn next(last: Option<Self>, stats: Stats, busy: bool, now: Instant) -> Self {
        let since = match last {
            Some(last) if !busy && last.is_quiet(stats, now) => last.since,
            _ => now,
        };
        Self { at: now, cpu_usec: stats.cpu_usec, network_bytes: stats.network_bytes, since }
    }

    #[allow(clippy::cast_precision_loss, reason = "rates need no more")]
    fn is_quiet(&self, stats: Stats, now: Instant) -> bool {
        let seconds = (now - self.at).as_secs_f64().max(0.001);
        let cpu = stats.cpu_usec.saturating_sub(self.cpu_usec) as f64 / 1e6 / seconds;
        let network = stats.network_bytes.saturating_sub(self.network_bytes) as f64 / seconds;
        cpu < QUIET_CPU && network < QUIET_NETWORK
    }

    /// For how long nothing has happened.
    pub(super) fn lasting(&self, now: Instant) -> Duration {
        now - self.since
    }
}

impl Lifecycle {
    /// Looks whether a sandbox of which a sample was just taken has been idle for long enough, and lays it down then.
    pub(super) async fn look_for_rest(self: &Arc<Self>, id: &SandboxId, entry: &Arc<Entry>, stats: Stats) {
        let Some(idle) = entry.with_meter(|meter| meter.idle).flatten() else { return };
        let Some(route) = self.directory.get(id) else { return };
        let busy = route.in_flight.take_busy();
        let now = Instant::now();
        let lasting = entry.with_meter(|meter| {
            let quiet = Quiet::next(meter.quiet, stats, busy, now);
            meter.quiet = Some(quiet);
            quiet.lasting(now)
        });
        if lasting.is_none_or(|lasting| lasting < Duration::from_secs(idle)) {
            return;
        }
        // The guest knows of commands that wait without using the CPU. One that cannot be asked is not known to be idle.
        match route.link.activity().await {
            Ok(activity) if activity.commands == 0 => {}
            _ => {
                entry.with_meter(|meter| meter.quiet = None);
                return;
            }
        }
        // From here on a request finds the door closed and wakes the sandbox again, instead of being cut off.
        if !route.in_flight.close_if_idle() {
            return;
        }
        let memory = entry.with_meter(|meter| meter.keeps_memory).unwrap_or(true);
        let pause =
            Pause { memory: memory && self.backend.can_freeze(id), require_healthy: false, why: PauseCause::Idle };
        let (this, id) = (Arc::clone(self), id.clone());
        // In a task of its own: the sampling holds the lock.
        self.tasks.spawn(async move {
            tracing::info!(sandbox = %id, "idle");
            if let Err(error) = this.pause(&id, pause).await {
                tracing::warn!(sandbox = %id, error = cabana_types::error::chain(&error), "could not pause an idle sandbox");
                route.in_flight.reopen();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(cpu_usec: u64, network_bytes: u64) -> Stats {
        Stats { cpu_usec, network_bytes, ..Stats::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_quiet_in_every_way_is_idle() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let quiet = Quiet::next(None, stats(0, 0), false, start);
        // A little CPU and a little network are nothing.
        let later = Quiet::next(Some(quiet), stats(100_000, 5_000), false, at(5));
        assert_eq!(later.lasting(at(5)), Duration::from_secs(5));
        for (stats, busy) in
            [(stats(500_000, 5_000), false), (stats(100_000, 50_000), false), (stats(100_000, 5_000), true)]
        {
            let woken = Quiet::next(Some(later), stats, busy, at(10));
            assert_eq!(woken.lasting(at(10)), Duration::ZERO);
        }
        assert_eq!(
            Quiet::next(Some(later), stats(200_000, 9_000), false, at(10)).lasting(at(10)),
            Duration::from_secs(10)
        );
    }
}
