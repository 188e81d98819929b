//! Resource limits with cgroups: version 2 if it has the controllers, otherwise version 1. On version 1 each controller
//! has its own hierarchy; a version 2 hierarchy without controllers may be mounted too, and can kill a whole group.

mod freezer;
pub mod io;
mod totals;

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use cabana_types::{Resources, SandboxId};

use crate::Error;
use crate::plan::CgroupDir;

/// Scheduling period of the CPU limit, microseconds.
const PERIOD_USEC: u64 = 100_000;

/// Required controllers of version 1. `cpu` and `cpuacct` may share a mount.
const V1_CONTROLLERS: [&str; 4] = ["cpu", "cpuacct", "memory", "pids"];
/// The version 1 controller that freezes sandboxes if there is no version 2 hierarchy.
const V1_FREEZER: &str = "freezer";

/// The machine's cgroup hierarchies, and our directory in each.
#[derive(Debug, Clone)]
pub struct Cgroups {
    /// Our directories: controller name (empty for version 2) and path.
    homes: Vec<(String, PathBuf)>,
    /// Whether limits are set with version 2.
    unified: bool,
    /// Limits of reads and writes, if the operator set any.
    io: Option<io::Io>,
}

/// Resource usage of a sandbox's cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, microseconds.
    pub cpu_usec: u64,
    /// Part of it that the kernel spent.
    pub system_usec: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Memory in use without page cache, bytes.
    pub memory: u64,
    /// Page cache, bytes.
    pub cache: u64,
    /// Part of the page cache that exists only in memory (shared memory, tmpfs), bytes.
    pub shared: u64,
}

impl Cgroups {
    /// Finds the machine's hierarchies and creates our directory (`name`) in each.
    pub fn open(name: &str) -> Result<Self, Error> {
        let mounts =
            fs::read_to_string("/proc/self/mountinfo").map_err(at("read", Path::new("/proc/self/mountinfo")))?;
        let mut cgroups = Self::find(&mounts, name, |path| fs::read_to_string(path).unwrap_or_default())?;
        let left = io::left_v1(name).filter(|_| !cgroups.unified);
        cgroups.homes.extend(left.map(|home| (io::BLKIO.to_owned(), home)));
        for (controller, home) in &cgroups.homes {
            if controller.is_empty() && cgroups.unified {
                enable_controllers(home.parent().unwrap_or(home));
            }
            make(home)?;
            if controller.is_empty() && cgroups.unified {
                enable_controllers(home);
            }
        }
        Ok(cgroups)
    }

    fn find(mountinfo: &str, name: &str, read: impl Fn(&Path) -> String) -> Result<Self, Error> {
        let mut v1 = Vec::new();
        let mut freezer = None;
        let mut v2 = None;
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let (Some(point), mut right) = (left.split(' ').nth(4), right.split(' ')) else { continue };
            match (right.next(), right.nth(1)) {
                (Some("cgroup2"), _) if v2.is_none() => v2 = Some(PathBuf::from(point)),
                (Some("cgroup"), Some(options)) => {
                    if options.split(',').any(|o| o == V1_FREEZER) && freezer.is_none() {
                        freezer = Some((V1_FREEZER.to_owned(), PathBuf::from(point).join(name)));
                    }
                    for controller in V1_CONTROLLERS {
                        if options.split(',').any(|o| o == controller) && !v1.iter().any(|(c, _)| c == controller) {
                            v1.push((controller.to_owned(), PathBuf::from(point).join(name)));
                        }
                    }
                }
                _ => {}
            }
        }
        if let Some(root) = &v2 {
            let controllers = read(&root.join("cgroup.controllers"));
            if ["cpu", "memory", "pids"].iter().all(|c| controllers.split_ascii_whitespace().any(|have| have == *c)) {
                return Ok(Self { homes: vec![(String::new(), root.join(name))], unified: true, io: None });
            }
        }
        for needed in V1_CONTROLLERS {
            if !v1.iter().any(|(c, _)| c == needed) {
                return Err(Error::Unsupported(format!(
                    "the cgroup controller `{needed}` is not available: mount cgroup version 2 at \
                     /sys/fs/cgroup (systemd does), or the version 1 controllers cpu, cpuacct, memory and pids"
                )));
            }
        }
        match v2 {
            Some(root) => v1.push((String::new(), root.join(name))),
            None => v1.extend(freezer),
        }
        Ok(Self { homes: v1, unified: false, io: None })
    }

    /// The version that limits are set with.
    pub fn version(&self) -> u8 {
        if self.unified { 2 } else { 1 }
    }

    /// A sandbox's directory for a controller.
    fn dir(&self, id: &SandboxId, controller: &str) -> Option<PathBuf> {
        let key = if self.unified { "" } else { controller };
        self.homes.iter().find(|(c, _)| c == key).map(|(_, home)| home.join(id.as_str()))
    }

    /// Creates a sandbox's cgroups with their limits, for the plan.
    pub fn create(&self, id: &SandboxId, limits: Resources) -> Result<Vec<CgroupDir>, Error> {
        let dirs: Vec<CgroupDir> = self
            .homes
            .iter()
            .map(|(controller, home)| CgroupDir {
                shown_as: controller.clone(),
                path: home.join(id.as_str()),
                visible: self.unified || !["", io::BLKIO].contains(&controller.as_str()),
            })
            .collect();
        let mut made: Vec<&Path> = Vec::new();
        for dir in &dirs {
            if !made.contains(&dir.path.as_path()) {
                make(&dir.path)?;
                made.push(&dir.path);
            }
        }
        self.set_limits(id, limits)?;
        self.limit_io_of(id)?;
        Ok(dirs)
    }

    /// Sets the limits of a sandbox.
    pub fn set_limits(&self, id: &SandboxId, limits: Resources) -> Result<(), Error> {
        let quota = u64::from(limits.cpu_count) * PERIOD_USEC;
        let memory = (u64::from(limits.memory_mb) << 20).to_string();
        let put = |controller: &str, file: &str, value: &str| -> Result<(), Error> {
            let Some(dir) = self.dir(id, controller) else { return Ok(()) };
            let path = dir.join(file);
            fs::write(&path, value).map_err(at("write", &path))
        };
        // Optional files: not every kernel has swap accounting.
        let try_put = |controller: &str, file: &str, value: &str| match put(controller, file, value) {
            Err(Error::Path { source, .. }) if totals::is_absent(source.kind()) => Ok(()),
            other => other,
        };
        put("pids", "pids.max", &limits.pids.to_string())?;
        if self.unified {
            put("cpu", "cpu.max", &format!("{quota} {PERIOD_USEC}"))?;
            put("memory", "memory.max", &memory)?;
            try_put("memory", "memory.swap.max", "0")
        } else {
            put("cpu", "cpu.cfs_period_us", &PERIOD_USEC.to_string())?;
            put("cpu", "cpu.cfs_quota_us", &quota.to_string())?;
            let sockets = totals::socket_memory(u64::from(limits.memory_mb) << 20).to_string();
            match try_put("memory", "memory.kmem.tcp.limit_in_bytes", &sockets) {
                // Sockets hold more at the moment; the earlier limit stays.
                Err(Error::Path { source, .. }) if source.kind() == ErrorKind::ResourceBusy => {}
                other => other?,
            }
            // One limit must never exceed the other, so the order depends on the direction.
            match put("memory", "memory.limit_in_bytes", &memory) {
                Err(Error::Path { source, .. }) if source.kind() == ErrorKind::InvalidInput => {
                    try_put("memory", "memory.memsw.limit_in_bytes", &memory)?;
                    put("memory", "memory.limit_in_bytes", &memory)
                }
                Err(error) => Err(error),
                Ok(()) => try_put("memory", "memory.memsw.limit_in_bytes", &memory),
            }
        }
    }

    /// Whether a process is in a sandbox's cgroup.
    pub fn contains(&self, id: &SandboxId, pid: i32) -> bool {
        let Some(dir) = self.dir(id, "pids") else { return false };
        fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|t| t.lines().any(|l| l.parse() == Ok(pid)))
    }

    /// Sandboxes that have a cgroup.
    pub fn list(&self) -> Result<Vec<SandboxId>, Error> {
        let mut ids = Vec::new();
        for (_, home) in &self.homes {
            let entries = match fs::read_dir(home) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(source) => return Err(at("list", home)(source)),
            };
            for entry in entries.flatten() {
                let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
                if let Some(id) =
                    entry.file_name().to_str().and_then(|n| n.parse::<SandboxId>().ok()).filter(|_| is_dir)
                    && !ids.contains(&id)
                {
                    ids.push(id);
                }
            }
        }
        Ok(ids)
    }

    /// Kills all processes in a sandbox's cgroups: a fallback for killing its first process.
    pub fn kill(&self, id: &SandboxId) -> Result<(), Error> {
        // Frozen processes do not die on version 1.
        if self.homes.iter().any(|(c, _)| c == V1_FREEZER) {
            let _ = self.thaw(id);
        }
        for (_, home) in &self.homes {
            let dir = home.join(id.as_str());
            let switch = dir.join("cgroup.kill");
            match fs::write(&switch, "1") {
                Ok(()) => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                // Version 1 does not have this file, and refuses to create it.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                Err(source) => return Err(at("write", &switch)(source)),
            }
            for pid in fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default().lines() {
                if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
        }
        Ok(())
    }

    /// Removes a sandbox's cgroups. `Ok(false)` if there are still processes; missing cgroups are fine.
    pub fn remove(&self, id: &SandboxId) -> Result<bool, Error> {
        let mut empty = true;
        for (_, home) in &self.homes {
            let dir = home.join(id.as_str());
            match fs::remove_dir(&dir) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() == ErrorKind::ResourceBusy => empty = false,
                Err(source) => return Err(at("remove", &dir)(source)),
            }
        }
        Ok(empty)
    }

    /// Removes our own directories if they contain no sandboxes.
    pub fn close(&self) {
        for (_, home) in &self.homes {
            let _ = fs::remove_dir(home);
        }
    }

    /// Resource usage of a sandbox.
    pub fn usage(&self, id: &SandboxId) -> Result<Usage, Error> {
        let read = |controller: &str, file: &str| -> Result<String, Error> {
            let dir = self.dir(id, controller).ok_or_else(|| Error::Unsupported(format!("no {controller} cgroup")))?;
            let path = dir.join(file);
            fs::read_to_string(&path).map_err(at("read", &path))
        };
        let stat = read("memory", "memory.stat")?;
        let pids = number(&read("pids", "pids.current")?);
        let (cache, shared, current, cpu_usec, system_usec) = if self.unified {
            let (cpu, current) = (read("cpu", "cpu.stat")?, number(&read("memory", "memory.current")?));
            (
                field(&stat, "file"),
                field(&stat, "shmem"),
                current,
                field(&cpu, "usage_usec"),
                field(&cpu, "system_usec"),
            )
        } else {
            let used = number(&read("cpuacct", "cpuacct.usage")?) / 1000;
            // Not every kernel counts it.
            let system = number(&read("cpuacct", "cpuacct.usage_sys").unwrap_or_default()) / 1000;
            let current = number(&read("memory", "memory.usage_in_bytes")?);
            (field(&stat, "total_cache"), field(&stat, "total_shmem"), current, used, system)
        };
        Ok(Usage { cpu_usec, system_usec, pids, memory: current.saturating_sub(cache), cache, shared })
    }

    /// The limits of a sandbox as the kernel has them: processors, and memory in bytes.
    pub fn limits(&self, id: &SandboxId) -> Option<(u32, u64)> {
        let read = |controller: &str, file: &str| fs::read_to_string(self.dir(id, controller)?.join(file)).ok();
        let (quota, memory) = if self.unified {
            let quota = read("cpu", "cpu.max")?;
            (number(quota.split_ascii_whitespace().next()?), number(&read("memory", "memory.max")?))
        } else {
            (number(&read("cpu", "cpu.cfs_quota_us")?), number(&read("memory", "memory.limit_in_bytes")?))
        };
        let cpus = u32::try_from(quota / PERIOD_USEC).ok().filter(|cpus| *cpus > 0)?;
        (memory > 0).then_some((cpus, memory))
    }

    /// Number of processes of a sandbox killed by the OOM killer.
    pub fn oom_kills(&self, id: &SandboxId) -> u64 {
        let file = if self.unified { "memory.events" } else { "memory.oom_control" };
        let Some(dir) = self.dir(id, "memory") else { return 0 };
        fs::read_to_string(dir.join(file)).map(|t| field(&t, "oom_kill")).unwrap_or_default()
    }

    /// A descriptor that reports when [`Cgroups::oom_kills`] may have changed: on version 1 an eventfd that becomes
    /// readable, on version 2 a file with an exceptional condition (`POLLPRI`).
    pub fn watch_oom(&self, id: &SandboxId) -> Result<OwnedFd, Error> {
        let dir = self.dir(id, "memory").ok_or_else(|| Error::Unsupported("no memory cgroup".into()))?;
        if self.unified {
            let path = dir.join("memory.events");
            return fs::File::open(&path).map(OwnedFd::from).map_err(at("open", &path));
        }
        use std::os::fd::AsRawFd;
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let counter = rustix::event::eventfd(0, flags).map_err(|e| at("make an event counter for", &dir)(e.into()))?;
        let path = dir.join("memory.oom_control");
        let control = fs::File::open(&path).map_err(at("open", &path))?;
        let path = dir.join("cgroup.event_control");
        fs::write(&path, format!("{} {}", counter.as_raw_fd(), control.as_raw_fd())).map_err(at("write", &path))?;
        Ok(counter)
    }
}

fn at(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Path { action, path, source }
}

fn make(dir: &Path) -> Result<(), Error> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(at("create", dir)(error)),
        _ => Ok(()),
    }
}

/// Best effort: a controller that cannot be enabled shows up as a missing file when a limit is set.
fn enable_controllers(dir: &Path) {
    for controller in ["+cpu", "+memory", "+pids", "+io"] {
        let _ = fs::write(dir.join("cgroup.subtree_control"), controller);
    }
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_default()
}

fn field(text: &str, name: &str) -> u64 {
    text.lines().find_map(|l| l.split_once(' ').filter(|(n, _)| *n == name)).map(|(_, v)| number(v)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 20 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 30 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";

    #[test]
    fn finds_the_trees_of_both_versions() {
        let v2 = "31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = Cgroups::find(v2, "x", |_| "cpuset cpu io memory pids\n".into()).unwrap();
        assert_eq!((found.version(), found.homes.len()), (2, 1));
        let found = Cgroups::find(HYBRID, "x", |_| "hugetlb\n".into()).unwrap();
        assert_eq!((found.version(), found.homes.len()), (1, 5));
        assert!(found.can_freeze());
        let old = HYBRID.replace("cgroup2", "tmpfs");
        assert!(!Cgroups::find(&old, "x", |_| String::new()).unwrap().can_freeze());
        let old = format!("{old}35 30 0:31 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n");
        assert!(Cgroups::find(&old, "x", |_| String::new()).unwrap().can_freeze());
        assert!(Cgroups::find(v2, "x", |_| "hugetlb\n".into()).unwrap_err().to_string().contains("`cpu`"));
    }

    #[test]
    fn reads_counters() {
        assert_eq!(field("oom 1\noom_kill 3\noom_group_kill 0\n", "oom_kill"), 3);
        assert_eq!(field("", "oom_kill"), 0);
    }
}
