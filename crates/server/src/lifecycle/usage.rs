//! Resource use of sandboxes and teams: samples, taken periodically and on demand, and their history.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cabana_runtime::Stats;
use cabana_store::Sandbox;
use cabana_types::wire::{SandboxMetric, TeamMetric};
use cabana_types::{Resources, SandboxId, TeamId};
use jiff::Timestamp;
use tokio::time::Instant;

use super::history::{History, Range, Sample};
use super::idle::Idleness;
use super::journal::MAX_LAST;

/// CPU use is the average since the last reading that is at least this old.
const SHORTEST: Duration = Duration::from_millis(500);
/// CPU time after which a sandbox may have something new in its journal. Reading the journal takes less.
const WORKED_USEC: u64 = 5000;
/// Rounds for which a guest that did not answer is left alone.
const SKIPPED: u32 = 12;

/// Resource use of a running sandbox.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) team: TeamId,
    resources: Resources,
    started_at: Timestamp,
    cpu: Option<CpuReading>,
    history: History<Usage>,
    /// Seconds of idleness after which it is paused, and whether that keeps its memory.
    pub(super) idle: Option<u64>,
    pub(super) keeps_memory: bool,
    pub(super) idleness: Option<Idleness>,
    last_lines: LastLines,
}

/// The end of the guest's journal, as it was when the sandbox last did something: when the guest dies, it is what is left of it.
#[derive(Debug, Default)]
struct LastLines {
    lines: Vec<String>,
    /// CPU time of the sandbox when they were read.
    cpu_usec: u64,
    /// Rounds to leave out, because the guest did not answer.
    skip: u32,
}

/// A reading of a sandbox's CPU time, and the use since the last one.
#[derive(Debug, Clone, Copy)]
struct CpuReading {
    at: Instant,
    cpu_usec: u64,
    percent: f64,
}

/// One sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    at: Timestamp,
    cpu_percent: f64,
    memory_used: u64,
    memory_cache: u64,
    disk_used: u64,
}

impl Sample for Usage {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn peak(self, later: Self) -> Self {
        Self {
            at: later.at,
            cpu_percent: self.cpu_percent.max(later.cpu_percent),
            memory_used: self.memory_used.max(later.memory_used),
            memory_cache: self.memory_cache.max(later.memory_cache),
            disk_used: self.disk_used.max(later.disk_used),
        }
    }
}

/// Why the resource use of a sandbox is unknown.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The sandbox does not run.
    #[error("the sandbox {0} is not running")]
    NotRunning(SandboxId),
    /// The backend did not answer in time.
    #[error("the backend did not answer about {0}")]
    NoAnswer(SandboxId),
    /// The backend failed.
    #[error("measure {id}")]
    Backend {
        /// The sandbox.
        id: SandboxId,
        /// The backend's error.
        #[source]
        source: cabana_runtime::Error,
    },
}

impl Meter {
    /// A meter for a sandbox that started.
    pub(super) fn new(sandbox: &Sandbox) -> Self {
        Self {
            team: sandbox.team.clone(),
            resources: sandbox.resources,
            started_at: sandbox.started_at.unwrap_or(sandbox.created_at),
            cpu: None,
            history: History::default(),
            idle: sandbox.policy.idle,
            keeps_memory: sandbox.policy.keeps_memory(),
            idleness: None,
            last_lines: LastLines::default(),
        }
    }

    /// The sandbox started again; its history is kept.
    pub(super) fn restart(&mut self, sandbox: &Sandbox) {
        let history = std::mem::take(&mut self.history);
        *self = Self { history, ..Self::new(sandbox) };
    }

    /// Whether the sandbox has worked since its last lines were read, and since when it runs.
    pub(super) fn wants_lines(&mut self, stats: Stats) -> Option<Timestamp> {
        let last = &mut self.last_lines;
        if last.skip > 0 {
            last.skip -= 1;
            return None;
        }
        (stats.cpu_usec.saturating_sub(last.cpu_usec) >= WORKED_USEC).then_some(self.started_at)
    }

    /// Keeps the last lines; `None` if the guest did not answer.
    pub(super) fn keep_lines(&mut self, stats: Stats, lines: Option<Vec<String>>) {
        match lines {
            Some(lines) => self.last_lines = LastLines { lines, cpu_usec: stats.cpu_usec, skip: 0 },
            None => self.last_lines.skip = SKIPPED,
        }
    }

    /// Keeps the last lines, whatever the sandbox has done.
    pub(super) fn replace_lines(&mut self, lines: Vec<String>) {
        self.last_lines.lines = lines;
    }

    /// Adds a line that the host knows.
    pub(super) fn add_line(&mut self, line: String) {
        let lines = &mut self.last_lines.lines;
        lines.push(line);
        let first = lines.len().saturating_sub(MAX_LAST);
        lines.drain(..first);
    }

    pub(super) fn last_lines(&self) -> Vec<String> {
        self.last_lines.lines.clone()
    }

    pub(super) fn started_at(&self) -> Timestamp {
        self.started_at
    }

    pub(super) fn resize(&mut self, resources: Resources) {
        self.resources = resources;
    }

    /// Adds a sample.
    pub(super) fn record(&mut self, stats: Stats) {
        let now = Timestamp::now();
        let reading = self.read(stats, now);
        self.cpu = Some(reading);
        self.history.push(Usage {
            at: now,
            cpu_percent: reading.percent,
            memory_used: stats.memory_used,
            memory_cache: stats.memory_cache,
            disk_used: stats.disk_used,
        });
    }

    /// CPU use since the last reading, or since the start if there is none, as a percentage of all its CPUs.
    fn read(&self, stats: Stats, now: Timestamp) -> CpuReading {
        let at = Instant::now();
        let (since, used) = match self.cpu {
            Some(last) if at - last.at < SHORTEST => return last,
            Some(last) => (at - last.at, stats.cpu_usec.saturating_sub(last.cpu_usec)),
            None => (Duration::try_from(now.duration_since(self.started_at)).unwrap_or_default(), stats.cpu_usec),
        };
        let had = since.as_micros() * u128::from(self.resources.cpu_count);
        let percent = if had == 0 { 0.0 } else { ratio(used, had) * 100.0 };
        CpuReading { at, cpu_usec: stats.cpu_usec, percent: (percent.clamp(0.0, 100.0) * 100.0).round() / 100.0 }
    }

    /// Whether the last sample is younger than this.
    pub(super) fn is_fresh(&self, age: Duration) -> bool {
        self.cpu.is_some_and(|last| last.at.elapsed() < age)
    }

    /// The samples within a range, oldest first.
    pub(super) fn metrics(&self, range: Range) -> Vec<SandboxMetric> {
        self.history.between(range).map(|usage| self.metric(usage)).collect()
    }

    pub(super) fn last_metric(&self) -> Option<SandboxMetric> {
        self.history.last().map(|usage| self.metric(usage))
    }

    fn metric(&self, usage: Usage) -> SandboxMetric {
        let mib = |mb: u32| u64::from(mb) * 1024 * 1024;
        SandboxMetric {
            timestamp: usage.at,
            timestamp_unix: usage.at.as_second(),
            cpu_count: self.resources.cpu_count,
            cpu_used_pct: usage.cpu_percent,
            mem_used: usage.memory_used,
            mem_total: mib(self.resources.memory_mb),
            mem_cache: usage.memory_cache,
            disk_used: usage.disk_used,
            disk_total: mib(self.resources.disk_mb),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a percentage needs no more")]
fn ratio(used: u64, had: u128) -> f64 {
    used as f64 / had as f64
}

/// How many sandboxes each team runs and starts, over time.
#[derive(Debug, Default)]
pub(super) struct Teams(Mutex<HashMap<TeamId, TeamMeter>>);

#[derive(Debug, Default)]
struct TeamMeter {
    /// Sandboxes that started since the last sample.
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
    /// Counts a started sandbox.
    pub(super) fn count_start(&self, team: &TeamId) {
        self.teams().entry(team.clone()).or_default().starts += 1;
    }

    /// Adds a sample for every team.
    pub(super) fn record(&self, mut running: HashMap<TeamId, u32>, elapsed: Duration) {
        let at = Timestamp::now();
        let mut teams = self.teams();
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

    /// What a team ran, oldest first.
    pub(super) fn metrics(&self, team: &TeamId, range: Range) -> Vec<TeamMetric> {
        let teams = self.teams();
        let Some(meter) = teams.get(team) else { return vec![] };
        let metric = |usage: TeamUsage| TeamMetric {
            timestamp: usage.at,
            timestamp_unix: usage.at.as_second(),
            concurrent_sandboxes: usage.running,
            sandbox_start_rate: usage.rate,
        };
        meter.history.between(range).map(metric).collect()
    }

    fn teams(&self) -> MutexGuard<'_, HashMap<TeamId, TeamMeter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
