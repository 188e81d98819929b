//! How large a sandbox may be on this machine.

use std::ops::RangeInclusive;

use cabana_types::Resources;
use cabana_types::limits::{self, CPU_COUNT, DISK_MB, MEMORY_MB, OutOfRange, PIDS, within_u32};

use crate::config::Limits;

/// Ranges of the resources and timeout of one sandbox.
#[derive(Debug, Clone)]
pub struct ResourceLimits {
    cpu: RangeInclusive<u32>,
    memory: RangeInclusive<u32>,
    disk: RangeInclusive<u32>,
    /// For sandboxes that ask for nothing.
    defaults: Resources,
    /// Longest timeout, hours.
    pub max_timeout_hours: u32,
}

impl ResourceLimits {
    /// The largest sandbox: CPUs, memory and disk in MiB.
    pub fn largest(&self) -> (u32, u32, u32) {
        (*self.cpu.end(), *self.memory.end(), *self.disk.end())
    }

    /// The configured limits; where none is set, the machine's size.
    pub fn new(limits: &Limits) -> Self {
        let chosen = |configured: u32, otherwise: u32, range: RangeInclusive<u32>| {
            let most = if configured == 0 { otherwise } else { configured };
            *range.start()..=most.clamp(*range.start(), *range.end())
        };
        Self {
            cpu: chosen(limits.max_cpu_count, machine_cpus(), CPU_COUNT),
            memory: chosen(limits.max_memory_mb, machine_memory_mb(), MEMORY_MB),
            disk: chosen(limits.max_disk_mb, *DISK_MB.end(), DISK_MB),
            defaults: Resources {
                cpu_count: limits.cpu_count,
                memory_mb: limits.memory_mb,
                disk_mb: limits.disk_mb,
                pids: PIDS,
            },
            max_timeout_hours: limits.max_timeout_hours,
        }
    }

    /// The resources of a sandbox that asks for nothing.
    pub fn defaults(&self) -> Resources {
        self.defaults
    }

    /// The resources of a new sandbox: what the request asks for if that is in range, otherwise the template's, clamped to the range.
    pub fn resources(
        &self,
        template: Resources,
        cpu: Option<i64>,
        memory_mb: Option<i64>,
        disk_mb: Option<i64>,
    ) -> Result<Resources, OutOfRange> {
        let pick = |field, requested: Option<i64>, template: u32, range: &RangeInclusive<u32>| match requested {
            Some(requested) => within_u32(field, requested, range.clone()),
            None => Ok(template.clamp(*range.start(), *range.end())),
        };
        Ok(Resources {
            cpu_count: pick("cpuCount", cpu, template.cpu_count, &self.cpu)?,
            memory_mb: pick("memoryMB", memory_mb, template.memory_mb, &self.memory)?,
            disk_mb: pick("diskSizeMB", disk_mb, template.disk_mb, &self.disk)?,
            pids: PIDS,
        })
    }

    /// The longest timeout, seconds.
    pub fn longest_timeout(&self) -> u64 {
        (u64::from(self.max_timeout_hours) * 3600).min(limits::MAX_TIMEOUT_SECONDS)
    }

    /// Checks a timeout in seconds.
    pub fn timeout(&self, field: &'static str, seconds: i64) -> Result<u64, String> {
        let most = u64::from(self.max_timeout_hours) * 3600;
        match u64::try_from(seconds) {
            Ok(seconds) if seconds <= most.min(limits::MAX_TIMEOUT_SECONDS) => Ok(seconds),
            Ok(_) => Err(format!("Timeout cannot be greater than {} hours", self.max_timeout_hours)),
            Err(_) => Err(format!("{field} must be between 0 and {most} seconds, not {seconds}")),
        }
    }
}

fn machine_cpus() -> u32 {
    std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok()).unwrap_or(1)
}

/// Memory of this machine, MiB.
pub(crate) fn machine_memory_mb() -> u32 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    total_kb(&text).and_then(|kb| u32::try_from(kb / 1024).ok()).unwrap_or(*MEMORY_MB.end())
}

fn total_kb(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            max_sandboxes: 10,
            cpu_count: 2,
            memory_mb: 1024,
            disk_mb: 1024,
            max_cpu_count: 4,
            max_memory_mb: 2048,
            max_disk_mb: 0,
            memory_overcommit: 0,
            disk_overcommit: 0,
            max_timeout_hours: 24,
            start_seconds: 60,
            ready_seconds: 60,
            max_team_sandboxes: 10,
            max_team_snapshots: 10,
            reserved_memory_mb: 0,
        }
    }

    #[test]
    fn requested_values_are_checked_and_defaults_are_clamped() {
        let limits = ResourceLimits::new(&limits());
        let template = Resources { cpu_count: 8, memory_mb: 4096, disk_mb: 512, pids: PIDS };
        let got = limits.resources(template, None, None, None).expect("cut");
        assert_eq!((got.cpu_count, got.memory_mb, got.disk_mb), (4, 2048, 512));
        let got = limits.resources(template, Some(1), Some(128), Some(64)).expect("asked");
        assert_eq!((got.cpu_count, got.memory_mb, got.disk_mb), (1, 128, 64));
        let error = limits.resources(template, None, Some(4096), None).expect_err("too much");
        assert_eq!(error.to_string(), "memoryMB must be between 128 and 2048, not 4096");
    }

    #[test]
    fn timeouts() {
        let limits = ResourceLimits::new(&limits());
        assert_eq!(limits.timeout("timeout", 0), Ok(0));
        assert_eq!(limits.timeout("timeout", 86_400), Ok(86_400));
        assert_eq!(limits.timeout("timeout", 86_401), Err("Timeout cannot be greater than 24 hours".into()));
        assert!(limits.timeout("timeout", -1).is_err());
        assert!(limits.timeout("timeout", i64::MAX).is_err());
    }

    #[test]
    fn the_machine_is_read() {
        assert_eq!(total_kb("MemFree: 1 kB\nMemTotal:       24000000 kB\n"), Some(24_000_000));
        assert_eq!(total_kb("nonsense"), None);
        assert!(machine_memory_mb() > 64);
    }
}
