//! `GET /metrics`: resource usage from the sandbox's cgroup (version 1 or 2), or from `/proc`.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cabana_types::guest::DISK_USED_HEADER;
use http::HeaderMap;
use serde::Serialize;

use crate::guest::{Guest, lock};
use crate::open;

const ROOT: &str = "/sys/fs/cgroup";
/// Requests closer together than this get the previous value.
const SPACING: Duration = Duration::from_millis(100);
const MIB: u64 = 1 << 20;

/// Response body.
#[derive(Debug, Serialize)]
pub(crate) struct Metrics {
    ts: u64,
    cpu_count: u32,
    cpu_used_pct: f64,
    mem_total: u64,
    mem_used: u64,
    mem_cache: u64,
    mem_total_mib: u64,
    mem_used_mib: u64,
    disk_total: u64,
    disk_used: u64,
}

/// Computes CPU usage between two requests.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    at: Instant,
    used: Option<Duration>,
    percent: f64,
}

impl CpuMeter {
    /// Reads nothing until the first request.
    pub(crate) fn new(now: Instant) -> Self {
        Self { at: now, used: None, percent: 0.0 }
    }

    /// CPU usage in percent of all CPUs, since the previous call or since the start.
    fn sample(&mut self, now: Instant, used: Duration, cpus: u32) -> f64 {
        let passed = now.saturating_duration_since(self.at);
        if passed >= SPACING || self.used.is_none() {
            let spent = used.saturating_sub(self.used.unwrap_or_default());
            let share = spent.as_secs_f64() / passed.max(SPACING).as_secs_f64() / f64::from(cpus);
            self.percent = ((share * 10_000.0).round() / 100.0).clamp(0.0, 100.0);
            self.at = now;
            self.used = Some(used);
        }
        self.percent
    }
}

/// Measures usage. `host_headers` are headers from the host, which has more exact disk figures.
pub(crate) fn measure(guest: &Guest, host_headers: Option<&HeaderMap>) -> Metrics {
    let root = Path::new(ROOT);
    let cpu = cpu_time(root).unwrap_or_else(cpu_time_of_processes);
    let (mem_used, mem_cache) = memory(root).unwrap_or_else(|| (memory_of_processes(), 0));
    let totals = guest.totals;
    let (size, used) = disk();
    let reported = host_headers
        .and_then(|h| h.get(DISK_USED_HEADER))
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.trim().parse::<u64>().ok());
    let mem_total = if totals.memory == 0 { machine_memory() } else { totals.memory };
    Metrics {
        ts: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        cpu_count: totals.cpus,
        cpu_used_pct: lock(&guest.cpu).sample(Instant::now(), cpu, totals.cpus),
        mem_total,
        mem_used,
        mem_cache,
        mem_total_mib: mem_total / MIB,
        mem_used_mib: mem_used / MIB,
        disk_total: if totals.disk == 0 { size } else { totals.disk },
        disk_used: reported.unwrap_or(used),
    }
}

fn cpu_time(root: &Path) -> Option<Duration> {
    if let Some(text) = read(&root.join("cpu.stat"))
        && let Some(micros) = field(&text, "usage_usec")
    {
        return Some(Duration::from_micros(micros));
    }
    ["cpuacct/cpuacct.usage", "cpu,cpuacct/cpuacct.usage", "cpuacct.usage"]
        .into_iter()
        .find_map(|name| read(&root.join(name))?.trim().parse().ok())
        .map(Duration::from_nanos)
}

/// Used bytes without the page cache, and the page cache. Shared memory counts as used: it cannot be dropped.
fn memory(root: &Path) -> Option<(u64, u64)> {
    let number = |name: &str| read(&root.join(name))?.trim().parse::<u64>().ok();
    let (current, stat, cache, shared) = match number("memory.current") {
        Some(current) => (current, "memory.stat", "file", "shmem"),
        None => (number("memory/memory.usage_in_bytes")?, "memory/memory.stat", "total_cache", "total_shmem"),
    };
    let stat = read(&root.join(stat)).unwrap_or_default();
    let cache = field(&stat, cache).unwrap_or(0).saturating_sub(field(&stat, shared).unwrap_or(0));
    Some((current.saturating_sub(cache), cache))
}

fn disk() -> (u64, u64) {
    rustix::fs::statvfs("/").map_or((0, 0), |fs| {
        let size = fs.f_blocks.saturating_mul(fs.f_frsize);
        (size, size.saturating_sub(fs.f_bfree.saturating_mul(fs.f_frsize)))
    })
}

fn machine_memory() -> u64 {
    let text = read(Path::new("/proc/meminfo")).unwrap_or_default();
    field(&text.replace(':', " "), "MemTotal").unwrap_or(0) * 1024
}

fn cpu_time_of_processes() -> Duration {
    let ticks: u64 = processes("stat").map(|stat| cpu_ticks(&stat).unwrap_or(0)).sum();
    Duration::from_millis(ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1))
}

/// User and system time of a process and of the children it waited for. The name may contain spaces.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_ascii_whitespace().skip(11).take(4).map(|n| n.parse::<u64>().ok()).sum()
}

fn memory_of_processes() -> u64 {
    let pages: u64 = processes("statm").filter_map(|statm| statm.split(' ').nth(1)?.parse::<u64>().ok()).sum();
    pages.saturating_mul(rustix::param::page_size() as u64)
}

fn processes(file: &'static str) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|e| e.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .filter_map(move |e| std::fs::read_to_string(e.path().join(file)).ok())
}

fn read(path: &Path) -> Option<String> {
    String::from_utf8(open::read_small(path, 64 << 10).ok()?).ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn version_two() {
        let dir = group(&[
            ("memory.current", "1000\n"),
            ("memory.stat", "anon 1\nfile 300\nshmem 100\n"),
            ("cpu.stat", "usage_usec 5000\nuser_usec 1\n"),
        ]);
        assert_eq!(memory(dir.path()), Some((800, 200)));
        assert_eq!(cpu_time(dir.path()), Some(Duration::from_millis(5)));
    }

    #[test]
    fn version_one() {
        let dir = group(&[
            ("memory/memory.usage_in_bytes", "1000\n"),
            ("memory/memory.stat", "cache 1\ntotal_cache 400\ntotal_shmem 100\n"),
            ("cpuacct/cpuacct.usage", "7000\n"),
        ]);
        assert_eq!(memory(dir.path()), Some((700, 300)));
        assert_eq!(cpu_time(dir.path()), Some(Duration::from_micros(7)));
        assert_eq!(memory(&dir.path().join("none")), None);
    }

    #[test]
    fn processes_are_summed() {
        assert!(memory_of_processes() > 0);
        assert_eq!(cpu_ticks("1 (a b) c) S 0 1 1 0 -1 4 1 2 3 4 10 20 30 40 20"), Some(100));
        assert_eq!(cpu_ticks("nonsense"), None);
    }

    #[test]
    fn percent_of_all_cpus() {
        let start = Instant::now();
        let mut meter = CpuMeter::new(start);
        let second = Duration::from_secs(1);
        assert_eq!(meter.sample(start + second, second, 2), 50.0);
        assert_eq!(meter.sample(start + second, second * 9, 2), 50.0);
        assert_eq!(meter.sample(start + second * 3, second * 2, 2), 25.0);
        assert_eq!(meter.sample(start + second * 4, Duration::ZERO, 2), 0.0);
        assert_eq!(meter.sample(start + second * 5, second * 9, 2), 100.0);
    }
}
