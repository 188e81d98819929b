//! What sandboxes use: samples, taken by the sampling task and on demand, and their history.

use std::sync::PoisonError;
use std::time::Duration;

use cabana_runtime::Stats;
use cabana_store::Sandbox;
use cabana_types::wire::SandboxMetric;
use cabana_types::{Resources, SandboxId, TeamId};
use jiff::Timestamp;
use tokio::time::Instant;

use super::history::{History, Range, Sample};
use super::idle::Quiet;
use super::{Entry, Lifecycle};

/// How long the backend may take.
const LIMIT: Duration = Duration::from_secs(5);
/// CPU use is the average since the last reading that is at least this old.
const SHORTEST: Duration = Duration::from_millis(500);

/// What is known of a sandbox that is up.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) team: TeamId,
    resources: Resources,
    started_at: Timestamp,
    cpu: Option<CpuReading>,
    history: History<Usage>,
    /// Seconds of idleness after which it is paused, and how.
    pub(super) idle: Option<u64>,
    pub(super) keeps_memory: bool,
    /// How long it has been idle.
    pub(super) quiet: Option<Quiet>,
}

/// A reading of a sandbox's CPU time, and what it came to.
#[derive(Debug, Clone, Copy)]
struct CpuReading {
    at: Instant,
    cpu_usec: u64,
    percent: f64,
}

/// One sample.
#[derive(Debug, Clone, Copy)]
struct Usage {
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

/// Why nothing is known.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// It is not up.
    #[error("the sandbox {0} is not up")]
    NotUp(SandboxId),
    /// The backend did not answer in time.
    #[error("the backend did not answer about {0}")]
    NoAnswer(SandboxId),
    /// The backend failed.
    #[error("ask about {id}")]
    Backend {
        /// The sandbox.
        id: SandboxId,
        /// Why not.
        #[source]
        source: cabana_runtime::Error,
    },
}

impl Lifecycle {
    /// Bytes of its disk that a running sandbox uses now, if that can be said.
    pub async fn disk_used(&self, id: &SandboxId) -> Option<u64> {
        let entry = self.registry.get(id)?;
        self.stats(id, &entry).await.ok().map(|stats| stats.disk_used)
    }

    async fn stats(&self, id: &SandboxId, entry: &Entry) -> Result<Stats, UsageError> {
        let asked = async {
            let _held = entry.lock.lock().await;
            self.ask(id).await
        };
        tokio::time::timeout(LIMIT, asked).await.map_err(|_| UsageError::NoAnswer(id.clone()))?
    }

    /// Asks the backend. The caller holds the entry's lock.
    pub(super) async fn ask(&self, id: &SandboxId) -> Result<Stats, UsageError> {
        if self.directory.get(id).is_none() {
            return Err(UsageError::NotUp(id.clone()));
        }
        self.backend.stats(id).await.map_err(|source| UsageError::Backend { id: id.clone(), source })
    }

    /// What a running sandbox used, oldest first: at most what the history keeps. If now is in the range and the last sample is old,
    /// there is a new one.
    pub async fn usage(&self, id: &SandboxId, range: Range) -> Result<Vec<SandboxMetric>, UsageError> {
        let entry = self.registry.get(id).ok_or_else(|| UsageError::NotUp(id.clone()))?;
        let refreshed = if range.contains(Timestamp::now()) { self.refresh(id, &entry).await } else { Ok(()) };
        let metrics =
            entry.with_meter(|meter| meter.history.between(range).map(|usage| meter.metric(usage)).collect::<Vec<_>>());
        match (metrics, refreshed) {
            // What is known is worth more than an error.
            (Some(metrics), Ok(())) => Ok(metrics),
            (Some(metrics), Err(_)) if !metrics.is_empty() => Ok(metrics),
            // One that sleeps uses nothing.
            (metrics, Err(UsageError::NotUp(_))) => Ok(metrics.unwrap_or_default()),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => Ok(vec![]),
        }
    }

    /// What a running sandbox used when it was last asked, which is not long ago.
    pub async fn last_usage(&self, id: &SandboxId) -> Option<SandboxMetric> {
        let entry = self.registry.get(id)?;
        // An old sample is better than none.
        let _ = self.refresh(id, &entry).await;
        entry.with_meter(|meter| meter.history.last().map(|usage| meter.metric(usage)))?
    }

    /// Takes a sample, unless the last one is younger than the interval: asking often costs no more than asking seldom.
    async fn refresh(&self, id: &SandboxId, entry: &Entry) -> Result<(), UsageError> {
        let young = entry.with_meter(|meter| meter.cpu.is_some_and(|last| last.at.elapsed() < self.sample_every));
        if young == Some(true) {
            return Ok(());
        }
        let stats = self.stats(id, entry).await?;
        entry.with_meter(|meter| meter.record(stats));
        Ok(())
    }
}

impl Entry {
    /// Does something with the meter, if the sandbox has come up.
    pub(super) fn with_meter<T>(&self, act: impl FnOnce(&mut Meter) -> T) -> Option<T> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
    }
}

impl Meter {
    /// For a sandbox that came up.
    pub(super) fn new(sandbox: &Sandbox) -> Self {
        Self {
            team: sandbox.team.clone(),
            resources: sandbox.resources,
            started_at: sandbox.started_at.unwrap_or(sandbox.created_at),
            cpu: None,
            history: History::default(),
            idle: sandbox.policy.idle,
            keeps_memory: sandbox.policy.keeps_memory(),
            quiet: None,
        }
    }

    /// For the same sandbox, up again: what it used before stays known.
    pub(super) fn again(&mut self, sandbox: &Sandbox) {
        let history = std::mem::take(&mut self.history);
        *self = Self { history, ..Self::new(sandbox) };
    }

    /// It may use more or less from now on.
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

    /// Use since the last reading, or since the start if there is none, as a share of all its CPUs.
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
