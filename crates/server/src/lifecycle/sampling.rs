//! One task that measures every running sandbox now and then, and what each team runs. It never waits for a sandbox that is busy or
//! for a backend that is slow: a round that does not end in time is cut, and the next one begins elsewhere.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cabana_types::wire::TeamMetric;
use cabana_types::{SandboxId, TeamId};
use futures_util::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior};

use super::history::{History, Range, Sample};
use super::{Entry, Lifecycle, UsageError};

/// Sandboxes that the backend is asked about at the same time.
const AT_ONCE: usize = 4;
/// How long it may take for one of them.
const LIMIT: Duration = Duration::from_secs(1);

/// What every team runs.
#[derive(Debug, Default)]
pub(super) struct Teams(Mutex<HashMap<TeamId, TeamMeter>>);

#[derive(Debug, Default)]
struct TeamMeter {
    /// Sandboxes that came up since the last round.
    starts: u32,
    history: History<TeamUsage>,
}

/// One sample.
#[derive(Debug, Clone, Copy)]
struct TeamUsage {
    at: Timestamp,
    running: u32,
    /// Sandboxes started per second.
    rate: f64,
}

impl Sample for TeamUsage {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn peak(self, later: Self) -> Self {
        Self { at: later.at, running: self.running.max(later.running), rate: self.rate.max(later.rate) }
    }
}

impl Teams {
    /// A sandbox of a team came up.
    pub(super) fn started(&self, team: &TeamId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(team.clone()).or_default().starts += 1;
    }

    fn record(&self, mut running: HashMap<TeamId, u32>, elapsed: Duration) {
        let at = Timestamp::now();
        let mut teams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for team in running.keys() {
            if !teams.contains_key(team) {
                teams.insert(team.clone(), TeamMeter::default());
            }
        }
        for (team, meter) in teams.iter_mut() {
            let rate = f64::from(std::mem::take(&mut meter.starts)) / elapsed.as_secs_f64().max(1.0);
            let running = running.remove(team).unwrap_or_default();
            meter.history.push(TeamUsage { at, running, rate });
        }
    }
}

impl Lifecycle {
    /// What a team ran over time, oldest first.
    pub fn team_usage(&self, team: &TeamId, range: Range) -> Vec<TeamMetric> {
        let teams = self.teams.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(meter) = teams.get(team) else { return vec![] };
        let metric = |usage: TeamUsage| TeamMetric {
            timestamp: usage.at,
            timestamp_unix: usage.at.as_second(),
            concurrent_sandboxes: usage.running,
            sandbox_start_rate: usage.rate,
        };
        meter.history.between(range).map(metric).collect()
    }

    pub(super) async fn sample(self: Arc<Self>) {
        let mut tick = tokio::time::interval(self.sample_every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut last = Instant::now();
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                _ = tick.tick() => {}
            }
            let mut up = self.registry.all();
            up.retain(|(id, _)| self.directory.get(id).is_some());
            let mut running = HashMap::new();
            for (_, entry) in &up {
                if let Some(team) = entry.with_meter(|meter| meter.team.clone()) {
                    *running.entry(team).or_default() += 1;
                }
            }
            self.teams.record(running, last.elapsed());
            last = Instant::now();
            if !up.is_empty() {
                let start = rand::random_range(0..up.len());
                up.rotate_left(start);
            }
            let count = up.len();
            let round =
                futures_util::stream::iter(up).for_each_concurrent(AT_ONCE, |(id, entry)| self.measure(id, entry));
            if tokio::time::timeout(self.sample_every, round).await.is_err() {
                tracing::warn!(sandboxes = count, "measuring all sandboxes takes too long; some samples are missing");
            }
        }
    }

    /// Takes a sample of a sandbox that nobody else asks the backend about.
    async fn measure(self: &Arc<Self>, id: SandboxId, entry: Arc<Entry>) {
        let Ok(held) = entry.lock.try_lock() else { return };
        // A fault of the backend must not end the sampling.
        let asked = AssertUnwindSafe(self.ask(&id)).catch_unwind();
        match tokio::time::timeout(LIMIT, asked).await {
            Ok(Ok(Ok(stats))) => {
                entry.with_meter(|meter| meter.record(stats));
                drop(held);
                self.look_for_rest(&id, &entry, stats).await;
            }
            Ok(Ok(Err(UsageError::NotUp(_)))) => {}
            Ok(Ok(Err(error))) => {
                tracing::debug!(sandbox = %id, error = cabana_types::error::chain(&error), "could not measure a sandbox");
            }
            Ok(Err(_)) => tracing::error!(sandbox = %id, "measuring a sandbox panicked"),
            Err(_) => tracing::debug!(sandbox = %id, "measuring a sandbox takes too long"),
        }
    }
}
