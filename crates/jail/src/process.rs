//! Processes that are not our children: identified by pid and start time, watched and killed by pidfd.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A persistent identity of a process: a pid alone may have been reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ProcessName {
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
}

impl ProcessName {
    /// The identity of a running process.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, started: start_time(&stat)? })
    }

    /// Opens a pidfd, if it is still the same process.
    pub fn open(self) -> Option<OwnedFd> {
        let fd = pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::NONBLOCK).ok()?;
        // Open first, then compare: from here on the pidfd refers to the process that was compared.
        (Self::of(self.pid)? == self).then_some(fd)
    }
}

/// Field 22 of `/proc/<pid>/stat`; field 2 is a name in parentheses that may contain anything.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Kills a process. If it is the first of a pid namespace, the kernel kills all others in it too.
pub fn kill(pidfd: impl AsFd) -> Result<(), Errno> {
    match pidfd_send_signal(pidfd, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error),
    }
}

/// When the machine runs out of memory, the kernel kills processes with a higher score first. Processes of the host have
/// 0, commands of sandboxes get more from their guest.
pub const SERVER_OOM_SCORE: i32 = -900;
/// Of a sandbox's first process. If the launcher has `CAP_SYS_RESOURCE`, nothing inside can go below it.
pub(crate) const SANDBOX_OOM_SCORE: i32 = 400;

/// Makes this process and what it starts later the last to be killed for lack of memory. Needs `CAP_SYS_RESOURCE`.
pub fn survive_memory_shortage() -> std::io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", SERVER_OOM_SCORE.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_processes_apart() {
        let me = ProcessName::of(std::process::id() as i32).unwrap();
        assert!(me.open().is_some());
        assert!(ProcessName { started: me.started + 1, ..me }.open().is_none());
        assert_eq!(start_time("1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 77 9"), Some(77));
        assert_eq!(start_time("garbage"), None);
    }
}
