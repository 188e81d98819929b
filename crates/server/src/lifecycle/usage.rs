//! What a sandbox uses now.

use std::sync::PoisonError;
use std::time::Duration;

use cabana_runtime::Stats;
use cabana_store::Sandbox;
use cabana_types::SandboxId;
use cabana_types::wire::SandboxMetric;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{Entry, Lifecycle};

/// How long the backend may take.
const LIMIT: Duration = Duration::from_secs(5);
/// CPU use is the average since the last reading that is at least this old.
const SHORTEST: Duration = Duration::from_millis(500);

/// A reading of a sandbox's CPU time, and what it came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuReading {
    at: Instant,
    cpu_usec: u64,
    percent: f64,
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
            if self.directory.get(id).is_none() {
                return Err(UsageError::NotUp(id.clone()));
            }
            self.backend.stats(id).await.map_err(|source| UsageError::Backend { id: id.clone(), source })
        };
        tokio::time::timeout(LIMIT, asked).await.map_err(|_| UsageError::NoAnswer(id.clone()))?
    }

    /// What a running sandbox uses now.
    pub async fn usage(&self, sandbox: &Sandbox) -> Result<SandboxMetric, UsageError> {
        let id = &sandbox.id;
        let entry = self.registry.get(id).ok_or_else(|| UsageError::NotUp(id.clone()))?;
        let stats = self.stats(id, &entry).await?;
        let now = Timestamp::now();
        let mut last = entry.cpu.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = read(*last, stats, sandbox, now);
        *last = Some(reading);
        drop(last);
        let mib = |mb: u32| u64::from(mb) * 1024 * 1024;
        Ok(SandboxMetric {
            timestamp: now,
            timestamp_unix: now.as_second(),
            cpu_count: sandbox.resources.cpu_count,
            cpu_used_pct: reading.percent,
            mem_used: stats.memory_used,
            mem_total: mib(sandbox.resources.memory_mb),
            mem_cache: stats.memory_cache,
            disk_used: stats.disk_used,
            disk_total: mib(sandbox.resources.disk_mb),
        })
    }
}

/// Use since the last reading, or since the start if there is none, as a share of all its CPUs.
fn read(last: Option<CpuReading>, stats: Stats, sandbox: &Sandbox, now: Timestamp) -> CpuReading {
    let at = Instant::now();
    let (since, used) = match last {
        Some(last) if at - last.at < SHORTEST => return last,
        Some(last) => (at - last.at, stats.cpu_usec.saturating_sub(last.cpu_usec)),
        None => {
            let up = sandbox.started_at.map(|started| now.duration_since(started));
            (up.and_then(|d| Duration::try_from(d).ok()).unwrap_or_default(), stats.cpu_usec)
        }
    };
    let had = since.as_micros() * u128::from(sandbox.resources.cpu_count);
    let percent = if had == 0 { 0.0 } else { ratio(used, had) * 100.0 };
    CpuReading { at, cpu_usec: stats.cpu_usec, percent: (percent.clamp(0.0, 100.0) * 100.0).round() / 100.0 }
}

#[allow(clippy::cast_precision_loss, reason = "a percentage needs no more")]
fn ratio(used: u64, had: u128) -> f64 {
    used as f64 / had as f64
}
