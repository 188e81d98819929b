//! The contents of the files, in the kernel's formats. Numbers have fixed widths.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cabana_jail::cgroup::Usage;

/// Clock ticks of user space per second, on every architecture.
const TICKS: u64 = 100;

/// What a sandbox has and uses.
pub(super) struct View {
    pub(super) cpus: u32,
    /// Its memory, bytes.
    pub(super) memory: u64,
    pub(super) usage: Usage,
    /// How long it runs.
    pub(super) up: Duration,
    /// When its clocks began to count.
    pub(super) boot: SystemTime,
}

impl View {
    pub(super) fn meminfo(&self) -> String {
        let Usage { memory, cache, shared, .. } = self.usage;
        let files = cache.saturating_sub(shared);
        let rows = [
            ("MemTotal", self.memory),
            ("MemFree", self.memory.saturating_sub(memory + cache)),
            ("MemAvailable", self.memory.saturating_sub(memory + shared)),
            ("Buffers", 0),
            ("Cached", cache),
            ("SwapCached", 0),
            ("Active", memory),
            ("Inactive", cache),
            ("Active(anon)", memory),
            ("Inactive(anon)", shared),
            ("Active(file)", 0),
            ("Inactive(file)", files),
            ("Unevictable", 0),
            ("Mlocked", 0),
            ("SwapTotal", 0),
            ("SwapFree", 0),
            ("Dirty", 0),
            ("Writeback", 0),
            ("AnonPages", memory),
            ("Mapped", 0),
            ("Shmem", shared),
            ("KReclaimable", 0),
            ("Slab", 0),
            ("SReclaimable", 0),
            ("SUnreclaim", 0),
            ("KernelStack", 0),
            ("PageTables", 0),
            ("CommitLimit", self.memory),
            ("Committed_AS", memory + shared),
            ("VmallocTotal", 0),
            ("VmallocUsed", 0),
            ("AnonHugePages", 0),
            ("Hugepagesize", 2 << 20),
        ];
        let mut text = String::new();
        for (name, bytes) in rows {
            let _ = writeln!(text, "{:<16}{:>12} kB", format!("{name}:"), bytes >> 10);
        }
        text
    }

    pub(super) fn stat(&self) -> String {
        let ticks = |usec: u64| usec / (1_000_000 / TICKS);
        let cpus = u64::from(self.cpus.max(1));
        let (used, system) = (ticks(self.usage.cpu_usec), ticks(self.usage.system_usec));
        let user = used.saturating_sub(system);
        let idle = (self.up.as_secs() * TICKS * cpus).saturating_sub(used);
        let line = |name: String, share: u64| {
            let (user, system, idle) = (user / share, system / share, idle / share);
            format!("{name} {user:>12} 0 {system:>12} {idle:>12} 0 0 0 0 0 0\n")
        };
        let mut text = line("cpu ".into(), 1);
        for number in 0..cpus {
            text.push_str(&line(format!("cpu{number}"), cpus));
        }
        let boot = self.boot.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let pids = self.usage.pids;
        let _ = write!(
            text,
            "intr 0\nctxt 0\nbtime {boot}\nprocesses {pids:>12}\nprocs_running 1\nprocs_blocked 0\n\
             softirq 0 0 0 0 0 0 0 0 0 0 0\n"
        );
        text
    }
}

/// Load averages, from the CPU time used: how many processors were busy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    averages: [f64; 3],
    pids: u64,
}

/// Periods of the averages, seconds.
const PERIODS: [f64; 3] = [60.0, 300.0, 900.0];

/// Length of `/proc/loadavg`: enough for the largest numbers.
const LOAD_LENGTH: usize = 80;

impl Load {
    pub(super) fn add(&mut self, passed: Duration, used_usec: u64, pids: u64) {
        self.pids = pids;
        let seconds = passed.as_secs_f64();
        if seconds < 0.001 {
            return;
        }
        #[allow(clippy::cast_precision_loss)] // an average
        let busy = used_usec as f64 / 1e6 / seconds;
        for (average, period) in self.averages.iter_mut().zip(PERIODS) {
            let kept = (-seconds / period).exp();
            *average = *average * kept + busy * (1.0 - kept);
        }
    }

    pub(super) fn text(&self) -> String {
        let [one, five, fifteen] = self.averages.map(|average| average.clamp(0.0, 9999.0));
        let pids = self.pids.max(1);
        let text = format!("{one:.2} {five:.2} {fifteen:.2} 1/{pids} {pids}");
        format!("{text:<width$}\n", width = LOAD_LENGTH - 1)
    }
}

/// The first processors of the host's list.
pub(super) fn cpuinfo(host: &str, cpus: u32) -> String {
    let blocks: Vec<&str> = host.split("\n\n").filter(|block| !block.trim().is_empty()).collect();
    let (true, mut text) = (!blocks.is_empty(), String::new()) else { return String::new() };
    for (number, block) in (0..cpus).zip(blocks.iter().cycle()) {
        for line in block.trim_matches('\n').lines() {
            let name = line.split(':').next().unwrap_or_default();
            let _ = match name.trim() {
                "processor" => writeln!(text, "{name}: {number}"),
                "siblings" | "cpu cores" => writeln!(text, "{name}: {cpus}"),
                "core id" | "apicid" | "initial apicid" => writeln!(text, "{name}: {number}"),
                _ => writeln!(text, "{line}"),
            };
        }
        text.push('\n');
    }
    text
}

/// A range of processors in the format of `/sys/devices/system/cpu/online`.
pub(super) fn online(cpus: u32) -> String {
    if cpus <= 1 { "0\n".to_owned() } else { format!("0-{}\n", cpus - 1) }
}

/// Counters of the kernel that monitors want. They are the machine's: they would tell what all neighbours do, and carry
/// messages between sandboxes.
pub(super) const VMSTAT: &str = "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\noom_kill 0\n";

/// Seconds since the machine booted.
pub(super) fn uptime() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    text.split('.').next()?.parse().ok()
}

/// How long a process runs that was started at this tick since boot.
pub(super) fn uptime_since(started: u64) -> Option<Duration> {
    Some(Duration::from_secs(uptime()?.saturating_sub(started / TICKS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_as_many_processors_as_the_sandbox_has() {
        let host = "processor\t: 0\nmodel name\t: X\nsiblings\t: 8\n\nprocessor\t: 1\nmodel name\t: X\n\n";
        let text = cpuinfo(host, 3);
        assert_eq!(text.matches("model name\t: X").count(), 3);
        assert!(text.contains("processor\t: 2\n") && text.contains("siblings\t: 3\n"), "{text}");
        assert_eq!((cpuinfo("", 2), online(1), online(4)), (String::new(), "0\n".into(), "0-3\n".into()));
    }

    #[test]
    fn the_load_follows_the_use() {
        let mut load = Load::default();
        for _ in 0..60 {
            load.add(Duration::from_secs(5), 10_000_000, 12);
        }
        assert!(load.text().starts_with("1.9") || load.text().starts_with("2.0"), "{}", load.text());
        load.add(Duration::ZERO, u64::MAX, 1);
        load.add(Duration::from_millis(1), u64::MAX, u64::MAX);
        assert_eq!(load.text().len(), LOAD_LENGTH);
    }

    #[test]
    fn idle_time_is_what_is_left() {
        let usage = Usage { cpu_usec: 3_000_000, system_usec: 1_000_000, pids: 4, ..Usage::default() };
        let view = View { cpus: 2, memory: 1 << 30, usage, up: Duration::from_secs(10), boot: UNIX_EPOCH };
        let text = view.stat();
        let first: Vec<&str> = text.lines().next().unwrap().split_ascii_whitespace().collect();
        assert_eq!(first[..5], ["cpu", "200", "0", "100", "1700"]);
        assert_eq!(text.lines().filter(|line| line.starts_with("cpu")).count(), 3);
        assert!(view.meminfo().lines().all(|line| line.ends_with(" kB")));
    }
}
