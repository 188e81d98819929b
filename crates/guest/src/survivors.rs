//! Processes of a command that outlive its first process, for example because they ignore SIGTERM. They are still in its process group,
//! but its number may be given to another group once all of them have ended.

use std::fs::File;
use std::io::Read as _;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

const MAX_STAT: u64 = 4096;

/// Time since the machine was started, as `/proc` tells it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(u64);

impl Ticks {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let per_second = clock_ticks_per_second();
        let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
        Self(u64::try_from(now.tv_sec).unwrap_or(0) * per_second + nanoseconds * per_second / 1_000_000_000)
    }
}

/// Whether the process group has members that were started before its first process was reaped. While it has, its number belongs to it.
pub(crate) fn exist(group: u32, reaped: Ticks) -> bool {
    pids().filter_map(stat).any(|process| {
        process.group == group && process.session == group && process.is_alive && process.started <= reaped
    })
}

/// Processes that can be seen.
pub(crate) fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What `/proc` tells everybody about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) is_alive: bool,
    pub(crate) is_stopped: bool,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) started: Ticks,
}

pub(crate) fn stat(pid: u32) -> Option<Process> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/stat")).ok()?.take(MAX_STAT).read_to_end(&mut bytes).ok()?;
    parse(&String::from_utf8_lossy(&bytes))
}

/// The name of a process, in parentheses, may contain anything.
fn parse(stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let threads: u32 = fields.nth(13)?.parse().ok()?;
    let started = Ticks(fields.nth(1)?.parse().ok()?);
    // The first thread may end before the others.
    let is_alive = !matches!(state, "Z" | "X") || threads > 1;
    Some(Process { is_alive, is_stopped: matches!(state, "T" | "t"), parent, group, session, started })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses() {
        let text = "7 (a) S) (b) S 1 70 71 0 -1 4 5 6 7 8 9 10 11 12 20 0 1 0 12345 99 3";
        let expected =
            Process { is_alive: true, is_stopped: false, parent: 1, group: 70, session: 71, started: Ticks(12345) };
        assert_eq!(parse(text), Some(expected));
        assert!(!parse(&text.replace(") S 1", ") Z 1")).unwrap().is_alive);
        assert!(parse(&text.replace(") S 1", ") T 1")).unwrap().is_stopped);
        let threads_left = text.replace(") S 1", ") Z 1").replace("20 0 1 0", "20 0 2 0");
        assert!(parse(&threads_left).unwrap().is_alive);
        assert_eq!(parse("7 (a"), None);
        let own = stat(std::process::id()).unwrap();
        assert!(own.is_alive && own.started <= Ticks::now());
    }
}
