//! What all sandboxes of the machine share: the kernel's tables, and the memory that the host keeps for itself. One
//! sandbox is bounded by its own cgroups; many together are bounded by [`Totals`], so that they cannot fill a table that
//! the host needs too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cabana_types::Fact;
use cabana_types::limits::FLOWS_AT_ONCE;

/// The kernel's default on small machines: eight sandboxes with all their processes would fill it.
const SMALL_PID_MAX: u64 = 32_768;
/// The most that a 64-bit kernel takes.
const PID_MAX: u64 = 4_194_304;
/// Terminals of one sandbox, see `device.rs`.
pub(crate) const TERMINALS: u64 = 256;
/// Sandboxes that can run at once: each has a network slot.
const SANDBOXES: u64 = 2046;
/// The kernel keeps this many terminals for the host.
const HOST_TERMINALS: u64 = 1024;
/// Inotify instances of one sandbox where all sandboxes are counted as root's, see `launcher/serve.rs`.
pub(crate) const INOTIFY_INSTANCES: u64 = 128;
/// An open file takes more memory than this, so the memory limits of sandboxes end before the table does.
const BYTES_PER_FILE: u64 = 128;

/// A tracked connection takes less memory than this.
const BYTES_PER_CONNECTION: u64 = 320;
/// Connections of the host, beside those of sandboxes.
const HOST_CONNECTIONS: u64 = 65_536;
/// Part of the memory that a full connection table may take.
const PART_FOR_CONNECTIONS: u64 = 32;
/// Connections for each place in the table.
const CONNECTIONS_PER_PLACE: u64 = 8;

/// A kernel setting that could not be raised.
#[derive(Debug)]
pub struct NotRaised {
    /// Its file below `/proc/sys`.
    pub path: PathBuf,
    /// The value that sandboxes need.
    pub wanted: u64,
    /// Why it stays as it is.
    pub source: io::Error,
}

/// Raises tables of the kernel that a few sandboxes could fill otherwise; never lowers one.
pub fn raise_tables() -> Vec<NotRaised> {
    let mut failed = Vec::new();
    for (path, wanted) in wanted_tables(memory(), read) {
        if let Err(source) = fs::write(&path, wanted.to_string()) {
            failed.push(NotRaised { path, wanted, source });
        }
    }
    failed
}

/// The settings that are too small, with the values that they should have.
fn wanted_tables(memory: u64, read: impl Fn(&Path) -> Option<u64>) -> Vec<(PathBuf, u64)> {
    let connections = u64::from(FLOWS_AT_ONCE) * SANDBOXES + HOST_CONNECTIONS;
    let connections = connections.min(memory / PART_FOR_CONNECTIONS / BYTES_PER_CONNECTION);
    let places = connections / CONNECTIONS_PER_PLACE;
    let tables = [
        // Another value than the default is the operator's.
        ("kernel/pid_max", SMALL_PID_MAX, PID_MAX),
        ("kernel/pty/max", TERMINALS * SANDBOXES + HOST_TERMINALS - 1, TERMINALS * SANDBOXES + HOST_TERMINALS),
        ("fs/file-max", (memory / BYTES_PER_FILE).saturating_sub(1), memory / BYTES_PER_FILE),
        ("net/netfilter/nf_conntrack_max", connections.saturating_sub(1), connections),
        ("net/netfilter/nf_conntrack_buckets", places.saturating_sub(1), places),
    ];
    let mut small: Vec<(PathBuf, u64)> = Vec::new();
    for (name, enough, wanted) in tables {
        let path = Path::new("/proc/sys").join(name);
        if read(&path).is_some_and(|current| current <= enough) {
            small.push((path, wanted));
        }
    }
    // Where AppArmor lets only root make user namespaces, root's limit is that of all sandboxes together.
    if read(Path::new(RESTRICTED)).is_some_and(|restricted| restricted != 0) {
        let path = PathBuf::from("/proc/sys/fs/inotify/max_user_instances");
        let wanted = INOTIFY_INSTANCES * SANDBOXES;
        if read(&path).is_some_and(|current| current < wanted) {
            small.push((path, wanted));
        }
    }
    small
}

const RESTRICTED: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// Limits of all sandboxes of one server together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Processes and threads.
    pub pids: u64,
    /// Memory, bytes.
    pub memory: u64,
    /// Memory of sockets where the memory limit does not include it (cgroup version 1), bytes.
    pub socket_memory: u64,
}

/// What the kernel gives to the whole machine.
#[derive(Debug, Clone, Copy)]
struct Machine {
    pid_max: u64,
    threads_max: u64,
    memory: u64,
    /// Above this, the kernel makes all sockets of the machine use less.
    socket_pressure: u64,
}

impl Totals {
    /// Leaves `reserved_memory` bytes to the host; 0 for 5 %, at least 512 MiB.
    pub fn of_this_machine(reserved_memory: u64) -> Self {
        let page = page_size();
        let second = |name: &str| {
            let text = fs::read_to_string(Path::new("/proc/sys/net/ipv4").join(name)).ok()?;
            text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages.saturating_mul(page))
        };
        let memory = memory();
        let machine = Machine {
            pid_max: read(Path::new("/proc/sys/kernel/pid_max")).unwrap_or(SMALL_PID_MAX),
            threads_max: read(Path::new("/proc/sys/kernel/threads-max")).unwrap_or(SMALL_PID_MAX),
            memory,
            socket_pressure: second("tcp_mem").into_iter().chain(second("udp_mem")).min().unwrap_or(memory / 16),
        };
        Self::of(machine, reserved_memory)
    }

    fn of(machine: Machine, reserved_memory: u64) -> Self {
        let pids = machine.pid_max.min(machine.threads_max);
        let reserved = if reserved_memory == 0 { (machine.memory / 20).max(512 << 20) } else { reserved_memory };
        Self {
            pids: pids - (pids / 8).max(1024).min(pids / 2),
            memory: machine.memory.saturating_sub(reserved).max(machine.memory / 2),
            socket_memory: machine.socket_pressure / 4 * 3,
        }
    }
}

/// First kernel in which a process that executes a program enters the time namespace that it has made.
const OWN_CLOCK: (u32, u32) = (6, 3);

/// Whether the clocks of sandboxes start at zero (uptime, monotonic time); otherwise they are the host's.
pub fn has_own_clock() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or_default());
    let version = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    version >= OWN_CLOCK && Path::new("/proc/self/timens_offsets").exists()
}

/// Memory of the machine, bytes.
pub fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() << 10
}

fn page_size() -> u64 {
    // SAFETY: asks for a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

fn read(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Checks for `cabana doctor`.
pub fn facts() -> Vec<Fact> {
    vec![process_table(), terminals(), memory_shortage(), crate::apparmor::fact()]
}

fn process_table() -> Fact {
    let totals = Totals::of_this_machine(0);
    let small = read(Path::new("/proc/sys/kernel/pid_max")).is_some_and(|max| max <= SMALL_PID_MAX);
    let sandboxes = totals.pids / u64::from(cabana_types::limits::PIDS);
    Fact {
        name: "process table",
        ok: !small,
        required: false,
        detail: format!(
            "sandboxes may have {} processes and threads together; {sandboxes} that use all of theirs leave none for others",
            totals.pids
        ),
        remedy: small.then(|| format!("sysctl -w kernel.pid_max={PID_MAX} (the server tries this when it starts)")),
    }
}

fn terminals() -> Fact {
    let most = read(Path::new("/proc/sys/kernel/pty/max")).unwrap_or_default();
    let wanted = TERMINALS * SANDBOXES + HOST_TERMINALS;
    let ok = most >= wanted;
    Fact {
        name: "terminals",
        ok,
        required: false,
        detail: format!("at most {most} on this machine, {TERMINALS} in one sandbox"),
        remedy: (!ok).then(|| format!("sysctl -w kernel.pty.max={wanted} (the server tries this when it starts)")),
    }
}

/// `CAP_SYS_RESOURCE`, by its number.
const SYS_RESOURCE: u32 = 24;

fn memory_shortage() -> Fact {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    let ok = effective & (1 << SYS_RESOURCE) != 0;
    let total = Totals::of_this_machine(0).memory >> 20;
    let detail = match ok {
        true => format!("sandboxes may use {total} MiB together, and the server is the last to be killed"),
        false => {
            format!("sandboxes may use {total} MiB together; without CAP_SYS_RESOURCE the server is not protected")
        }
    };
    let remedy = (!ok).then(|| "run the server with CAP_SYS_RESOURCE".to_owned());
    Fact { name: "memory shortage", ok, required: false, detail, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Machine =
        Machine { pid_max: 32_768, threads_max: 192_700, memory: 24 << 30, socket_pressure: 1 << 30 };

    #[test]
    fn the_host_keeps_a_part_of_everything() {
        let totals = Totals::of(SMALL, 0);
        assert_eq!(totals.pids, 28_672);
        assert_eq!(totals.memory, (24 << 30) - (24 << 30) / 20);
        assert_eq!(totals.socket_memory, 3 << 28);
        assert_eq!(Totals::of(SMALL, 4 << 30).memory, 20 << 30);
        let raised = Totals::of(Machine { pid_max: PID_MAX, ..SMALL }, 0);
        assert_eq!(raised.pids, 192_700 - 192_700 / 8);
        let tiny = Machine { pid_max: 1000, memory: 600 << 20, ..SMALL };
        assert_eq!(Totals::of(tiny, 0).pids, 500);
        assert_eq!(Totals::of(tiny, 0).memory, 300 << 20, "never less than half");
    }

    #[test]
    fn only_tables_that_are_too_small_are_raised() {
        let names = |read: fn(&Path) -> Option<u64>| -> Vec<String> {
            let small = wanted_tables(1 << 30, read).into_iter();
            small.map(|(path, wanted)| format!("{}={wanted}", path.display())).collect()
        };
        let defaults = names(|path| match path.to_str() {
            Some("/proc/sys/kernel/pid_max") => Some(32_768),
            Some("/proc/sys/kernel/pty/max") => Some(4096),
            Some("/proc/sys/fs/file-max") => Some(100_000),
            Some("/proc/sys/fs/inotify/max_user_instances") => Some(128),
            Some("/proc/sys/net/netfilter/nf_conntrack_max") => Some(65_536),
            Some("/proc/sys/net/netfilter/nf_conntrack_buckets") => Some(65_536),
            _ => None,
        });
        let wanted = [
            "/proc/sys/kernel/pid_max=4194304",
            "/proc/sys/kernel/pty/max=524800",
            "/proc/sys/fs/file-max=8388608",
            // 1/32 of 1 GiB; there are places enough.
            "/proc/sys/net/netfilter/nf_conntrack_max=104857",
        ];
        assert_eq!(defaults, wanted);
        assert!(names(|_| Some(u64::MAX)).is_empty());
        assert!(names(|_| None).is_empty(), "a kernel without them");
        assert!(names(|_| Some(65_536 << 10)).is_empty(), "a value of the operator");
        let restricted = names(|path| match path.to_str() {
            Some(RESTRICTED) => Some(1),
            Some("/proc/sys/fs/inotify/max_user_instances") => Some(128),
            _ => None,
        });
        assert_eq!(restricted, ["/proc/sys/fs/inotify/max_user_instances=261888"]);
    }

    #[test]
    fn every_failed_check_has_a_remedy() {
        for fact in facts() {
            assert_eq!(fact.ok, fact.remedy.is_none(), "{fact:?}");
        }
    }
}
