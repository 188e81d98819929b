//! Checks of the kernel and the environment.

use std::fs;
use std::path::Path;

use cabana_types::Fact;

/// First version with overlay filesystems over idmapped layers.
const KERNEL: (u32, u32) = (5, 19);
/// Free memory in MiB below which there is a warning.
const LOW_MEMORY_MIB: u64 = 1024;
const NAMESPACES: [&str; 8] = ["user", "pid", "net", "mnt", "uts", "ipc", "cgroup", "time"];
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

pub(super) fn facts() -> Vec<Fact> {
    vec![root(), kernel(), cgroups(), namespaces(), user_namespaces(), overlay(), seccomp(), memory()]
}

pub(super) fn required(name: &'static str, found: Result<String, String>, remedy: &str) -> Fact {
    let ok = found.is_ok();
    let detail = found.unwrap_or_else(|problem| problem);
    Fact { name, ok, required: true, detail, remedy: (!ok).then(|| remedy.to_owned()) }
}

fn root() -> Fact {
    let found = match rustix::process::geteuid() {
        user if user.is_root() => Ok("yes".to_owned()),
        user => Err(format!("no: this is user {user}; the server needs root")),
    };
    required("root", found, "sudo cabana server")
}

fn kernel() -> Fact {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let (major, minor) = KERNEL;
    let found = match version(&release) {
        Some(version) if version >= KERNEL => Ok(release),
        _ => Err(format!("{release} is older than {major}.{minor}")),
    };
    required(
        "kernel",
        found,
        "install the distribution's newer kernel and reboot (Debian 12: apt-get install linux-image-amd64)",
    )
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Looks for the controllers: version 2 alone, or version 1 with or without version 2.
fn cgroups() -> Fact {
    let unified = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let in_two = |name: &&str| unified.split_whitespace().any(|c| c == *name);
    let in_one = |name: &&str| Path::new("/sys/fs/cgroup").join(name).join("cgroup.procs").exists();
    let found = if !unified.is_empty() {
        let missing: Vec<_> = CONTROLLERS.into_iter().filter(|c| !in_two(c)).collect();
        if missing.is_empty() {
            Ok("version 2".to_owned())
        } else {
            Err(format!("version 2 lacks {}", missing.join(", ")))
        }
    } else {
        let missing: Vec<_> = CONTROLLERS.into_iter().filter(|c| !in_one(c)).collect();
        let beside = Path::new("/sys/fs/cgroup/unified/cgroup.procs").exists();
        match (missing.is_empty(), beside) {
            (true, true) => Ok("version 1, with version 2 mounted too".to_owned()),
            (true, false) => Ok("version 1".to_owned()),
            (false, _) => Err(format!("{} are not mounted", missing.join(", "))),
        }
    };
    required("cgroups", found, "mount -t cgroup2 none /sys/fs/cgroup")
}

fn namespaces() -> Fact {
    let missing: Vec<_> = NAMESPACES.into_iter().filter(|n| !Path::new("/proc/self/ns").join(n).exists()).collect();
    let found = if missing.is_empty() { Ok("all".to_owned()) } else { Err(format!("no {}", missing.join(", "))) };
    required("namespaces", found, "install the distribution's full kernel")
}

fn user_namespaces() -> Fact {
    let found = match number("/proc/sys/user/max_user_namespaces") {
        Some(0) => Err("switched off".to_owned()),
        Some(most) => Ok(format!("at most {most}")),
        None => Err("not in this kernel".to_owned()),
    };
    required("user namespaces", found, "sysctl -w user.max_user_namespaces=10000")
}

fn overlay() -> Fact {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let found = if known.lines().any(|l| l.split_whitespace().any(|w| w == "overlay")) {
        Ok("in the kernel".to_owned())
    } else {
        Err("not in this kernel, or its module is not loaded".to_owned())
    };
    required("overlay filesystem", found, "modprobe overlay")
}

fn seccomp() -> Fact {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let found = if actions.split_whitespace().any(|a| a == "errno") {
        Ok("filters".to_owned())
    } else {
        Err("not in this kernel".to_owned())
    };
    required("seccomp", found, "install the distribution's full kernel")
}

fn memory() -> Fact {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| -> u64 {
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    let (free, total) = (kib("MemAvailable") / 1024, kib("MemTotal") / 1024);
    let ok = free >= LOW_MEMORY_MIB;
    Fact {
        name: "memory",
        ok,
        required: false,
        detail: format!("{free} MiB of {total} MiB are free"),
        remedy: (!ok).then(|| "free some, or give sandboxes less with --memory".to_owned()),
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases() {
        assert_eq!(version("6.18.5"), Some((6, 18)));
        assert_eq!(version("6.1.0-42-amd64"), Some((6, 1)));
        assert_eq!(version("5.15.167.4-microsoft-standard-WSL2"), Some((5, 15)));
        assert_eq!(version("what"), None);
    }

    #[test]
    fn every_failed_check_has_a_remedy() {
        for fact in facts() {
            assert_eq!(fact.ok, fact.remedy.is_none(), "{fact:?}");
            assert!(!fact.detail.is_empty());
        }
    }
}
