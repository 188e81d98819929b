//! Metering: one task that measures every running sandbox periodically, what each team runs, and answers about both.
//! The task never waits for a sandbox that is being changed or for a slow backend: a round that takes too long is cut,
//! and the next one starts elsewhere. It also pauses sandboxes that are idle.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::Stats;
use cabana_types::error::chain;
use cabana_types::sandbox::PauseCause;
use cabana_types::wire::{SandboxMetric, TeamMetric};
use cabana_types::{SandboxId, TeamId};
use futures_util::{FutureExt, StreamExt};
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::entry::Entry;
use super::held::Held;
use super::history::Range;
use super::idle::Idleness;
use super::journal;
use super::pause::Pause;
use super::usage::UsageError;

/// Sandboxes that are measured at the same time.
const AT_ONCE: usize = 4;
/// Timeout of one measurement in a round, and of one on demand.
const ROUND_LIMIT: Duration = Duration::from_secs(1);
const DEMAND_LIMIT: Duration = Duration::from_secs(5);

/// Measures sandboxes.
#[derive(Debug)]
pub(super) struct Metering {
    driver: Arc<Driver>,
    interval: Duration,
}

impl Metering {
    pub(super) fn new(driver: Arc<Driver>, interval: Duration) -> Self {
        Self { driver, interval }
    }

    /// Measures all running sandboxes periodically until the server stops.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(self.interval);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut last = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            let mut running = self.driver.registry.all();
            running.retain(|entry| self.driver.routes.get(&entry.id).is_some());
            let mut by_team = HashMap::new();
            for entry in &running {
                if let Some(team) = entry.with_meter(|meter| meter.team.clone()) {
                    *by_team.entry(team).or_default() += 1;
                }
            }
            self.driver.teams.record(by_team, last.elapsed());
            last = Instant::now();
            let count = running.len();
            if count > 0 {
                running.rotate_left(rand::random_range(0..count));
            }
            let round = futures_util::stream::iter(running).for_each_concurrent(AT_ONCE, |entry| self.sample(entry));
            if tokio::time::timeout(self.interval, round).await.is_err() {
                tracing::warn!(sandboxes = count, "measuring all sandboxes takes too long; some samples are missing");
            }
        }
    }

    /// Measures a sandbox, unless another task holds it.
    async fn sample(&self, entry: Arc<Entry>) {
        let Some(held) = entry.try_hold() else { return };
        let id = &entry.id;
        // A panic of the backend must not end the task.
        let measured = AssertUnwindSafe(self.measure(&held)).catch_unwind();
        match tokio::time::timeout(ROUND_LIMIT, measured).await {
            Ok(Ok(Ok(stats))) => {
                entry.with_meter(|meter| meter.record(stats));
                self.driver.store.note_disk(id, stats.disk_used);
                drop(held);
                self.keep_lines(&entry, stats).await;
                self.pause_if_idle(&entry, stats).await;
            }
            Ok(Ok(Err(UsageError::NotRunning(_)))) => {}
            Ok(Ok(Err(error))) => {
                tracing::debug!(sandbox = %id, error = chain(&error), "could not measure the sandbox")
            }
            Ok(Err(_)) => tracing::error!(sandbox = %id, "measuring the sandbox panicked"),
            Err(_) => tracing::debug!(sandbox = %id, "measuring the sandbox takes too long"),
        }
    }

    /// Reads the end of the guest's journal if the sandbox has worked since the last time.
    async fn keep_lines(&self, entry: &Entry, stats: Stats) {
        let Some(since) = entry.with_meter(|meter| meter.wants_lines(stats)).flatten() else { return };
        let Some(route) = self.driver.routes.get(&entry.id) else { return };
        let lines = journal::last_lines(&route.link, since).await;
        entry.with_meter(|meter| meter.keep_lines(stats, lines));
    }

    async fn measure(&self, held: &Held) -> Result<Stats, UsageError> {
        let id = held.id();
        if self.driver.routes.get(id).is_none() {
            return Err(UsageError::NotRunning(id.clone()));
        }
        held.stats().await.map_err(|source| UsageError::Backend { id: id.clone(), source })
    }

    async fn measure_now(&self, entry: &Arc<Entry>) -> Result<Stats, UsageError> {
        let measured = async { self.measure(&entry.hold().await).await };
        let measured = tokio::time::timeout(DEMAND_LIMIT, measured).await;
        measured.map_err(|_| UsageError::NoAnswer(entry.id.clone()))?
    }

    /// What a running sandbox used, oldest first. If the range includes now and the last sample is old, a new one is taken.
    pub(super) async fn usage(&self, id: &SandboxId, range: Range) -> Result<Vec<SandboxMetric>, UsageError> {
        let entry = self.driver.registry.get(id).ok_or_else(|| UsageError::NotRunning(id.clone()))?;
        let refreshed = if range.contains(Timestamp::now()) { self.refresh(&entry).await } else { Ok(()) };
        let metrics = entry.with_meter(|meter| meter.metrics(range));
        match (metrics, refreshed) {
            (Some(metrics), Ok(())) => Ok(metrics),
            // Old samples are better than an error.
            (Some(metrics), Err(_)) if !metrics.is_empty() => Ok(metrics),
            // A paused sandbox uses nothing.
            (metrics, Err(UsageError::NotRunning(_))) => Ok(metrics.unwrap_or_default()),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Ok(vec![]),
        }
    }

    /// The last sample of a running sandbox, which is recent if the sandbox could be measured.
    pub(super) async fn last_usage(&self, id: &SandboxId) -> Option<SandboxMetric> {
        let entry = self.driver.registry.get(id)?;
        // An old sample is better than none.
        let _ = self.refresh(&entry).await;
        entry.with_meter(|meter| meter.last_metric())?
    }

    /// Bytes of its disk that a running sandbox uses, if that can be measured.
    pub(super) async fn disk_used(&self, id: &SandboxId) -> Option<u64> {
        let entry = self.driver.registry.get(id)?;
        self.measure_now(&entry).await.ok().map(|stats| stats.disk_used)
    }

    pub(super) fn team_usage(&self, team: &TeamId, range: Range) -> Vec<TeamMetric> {
        self.driver.teams.metrics(team, range)
    }

    /// Takes a sample, unless the last one is younger than the interval: frequent requests cost no more than rare ones.
    async fn refresh(&self, entry: &Arc<Entry>) -> Result<(), UsageError> {
        if entry.with_meter(|meter| meter.is_fresh(self.interval)) == Some(true) {
            return Ok(());
        }
        let stats = self.measure_now(entry).await?;
        entry.with_meter(|meter| meter.record(stats));
        Ok(())
    }

    /// Pauses a sandbox that has been idle for long enough.
    async fn pause_if_idle(&self, entry: &Arc<Entry>, stats: Stats) {
        let Some(limit) = entry.with_meter(|meter| meter.idle).flatten() else { return };
        if self.driver.routes.keeps_awake(&entry.id) {
            return;
        }
        let Some(route) = self.driver.routes.get(&entry.id) else { return };
        let busy = route.in_flight.take_busy();
        let now = Instant::now();
        let idle = entry.with_meter(|meter| {
            let idleness = Idleness::next(meter.idleness, stats, busy, now);
            meter.idleness = Some(idleness);
            idleness.duration(now)
        });
        if idle.is_none_or(|idle| idle < Duration::from_secs(limit)) {
            return;
        }
        // The guest knows of commands that wait without using the CPU. If it does not answer, the sandbox is not known to be idle.
        match route.link.activity().await {
            Ok(activity) if activity.commands == 0 => {}
            _ => {
                entry.with_meter(|meter| meter.idleness = None);
                return;
            }
        }
        // From here on a request resumes the sandbox again instead of being cut off.
        if !route.in_flight.close_if_idle() {
            return;
        }
        let keeps_memory = entry.with_meter(|meter| meter.keeps_memory).unwrap_or(true);
        let pause = Pause {
            memory: keeps_memory && self.driver.registry.host().can_freeze(&entry.id),
            require_healthy: false,
            why: PauseCause::Idle,
        };
        let (driver, id) = (Arc::clone(&self.driver), entry.id.clone());
        // In a task of its own: a round must not wait for it.
        self.driver.tasks.spawn("pause an idle sandbox", async move {
            tracing::info!(sandbox = %id, "idle, pausing");
            if let Err(error) = driver.pause(&id, pause).await {
                tracing::warn!(sandbox = %id, error = chain(&error), "could not pause the idle sandbox");
                route.in_flight.reopen();
            }
        });
    }
}
