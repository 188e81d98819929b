//! Replaces the guest in this crate's tests: reports what it sees inside the sandbox through the readiness pipe, as
//! `name=value` lines.

use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;

use cabana_types::guest::READY_FD;

fn main() {
    let mut seen = String::new();
    let mut tell = |name: &str, value: String| {
        let _ = writeln!(seen, "{name}={}", value.trim().replace('\n', "|"));
    };
    tell("fds", open_descriptors());
    tell("pid", std::process::id().to_string());
    for (name, path) in [
        ("hostname", "/proc/sys/kernel/hostname"),
        ("uid_map", "/proc/self/uid_map"),
        ("boot_id", "/proc/sys/kernel/random/boot_id"),
        ("resolv_conf", "/etc/resolv.conf"),
        ("mountinfo", "/proc/self/mountinfo"),
        ("cgroup", "/proc/self/cgroup"),
        ("memory_limit_v1", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        ("memory_limit_v2", "/sys/fs/cgroup/memory.max"),
        ("kcore", "/proc/kcore"),
        ("keys", "/proc/keys"),
        ("kallsyms", "/proc/kallsyms"),
        ("oom_score", "/proc/self/oom_score_adj"),
        ("namespaces", "/proc/sys/user/max_user_namespaces"),
        ("meminfo", "/proc/meminfo"),
        ("cpus online", "/sys/devices/system/cpu/online"),
        ("uptime", "/proc/uptime"),
        ("cmdline", "/proc/cmdline"),
        ("partitions", "/proc/partitions"),
        ("zoneinfo", "/proc/zoneinfo"),
        ("open files", "/proc/sys/fs/file-nr"),
    ] {
        tell(name, fs::read_to_string(path).unwrap_or_else(|e| format!("error {e}")));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for field in ["CapBnd", "CapEff", "Seccomp", "Groups"] {
        let line = status.lines().find_map(|l| l.strip_prefix(&format!("{field}:"))).unwrap_or_default();
        tell(field, line.to_owned());
    }
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/random/boot_id",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory.max",
        "/dev/null",
        "/dev/ptmx",
        "/dev/kvm",
        "/written-inside",
        "/proc/meminfo",
        "/sys/devices/system/cpu/possible",
        "/volumes/fixed/new",
        "/volumes/shared/new",
    ] {
        let create = path.starts_with("/volumes") || path == "/written-inside";
        let result = OpenOptions::new().write(true).create(create).open(path).map(|_| "ok".to_owned());
        tell(&format!("write {path}"), result.unwrap_or_else(|e| errno_name(e.raw_os_error())));
    }
    for path in ["/volumes/fixed/hello", "/volumes/shared/hello"] {
        tell(&format!("read {path}"), fs::read_to_string(path).unwrap_or_else(|e| errno_name(e.raw_os_error())));
    }
    let mut terminals = Vec::new();
    while let Ok(terminal) = OpenOptions::new().read(true).write(true).open("/dev/ptmx") {
        terminals.push(terminal);
    }
    tell("terminals", terminals.len().to_string());
    drop(terminals);
    for path in ["/dev/null", "/dev/tty", "/sys/devices/system/cpu/possible", "/proc/meminfo"] {
        tell(&format!("device of {path}"), fs::metadata(path).map(|found| found.dev()).unwrap_or_default().to_string());
    }
    tell(
        "entropy",
        fs::File::open("/dev/urandom").is_ok_and(|mut file| file.read_exact(&mut [0; 8]).is_ok()).to_string(),
    );
    tell("pressure", fs::read_dir("/proc/pressure").map(Iterator::count).unwrap_or_default().to_string());
    tell("cpu1", fs::exists("/sys/devices/system/cpu/cpu1").unwrap_or_default().to_string());
    tell("exists /sys/class", fs::exists("/sys/class").unwrap_or(true).to_string());
    let root = CString::new("/").unwrap_or_default();
    // SAFETY: plain system calls whose arguments are constants or valid for the call; all are expected to be refused.
    unsafe {
        tell("unshare user", result(libc::unshare(libc::CLONE_NEWUSER).into()));
        tell("clone3", result(libc::syscall(libc::SYS_clone3, 0, 0)));
        tell("socket alg", result(libc::socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0).into()));
        tell("socket packet", result(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0).into()));
        tell("socket netfilter", result(libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 12).into()));
        tell("socket route", result(libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0).into()));
        tell("socket inet", result(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into()));
        tell("socket mptcp", result(libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP).into()));
        tell("socket raw", result(libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP).into()));
        let mut context: libc::c_ulong = 0;
        tell("io_setup", result(libc::syscall(libc::SYS_io_setup, 1, &raw mut context)));
        let directory = libc::open(c"/".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        // BTRFS_IOC_SUBVOL_CREATE and FS_IOC_GETFLAGS.
        let mut request = [0_u8; 4096];
        tell("ioctl subvolume", result(libc::ioctl(directory, 0x5000_940e, request.as_mut_ptr()).into()));
        tell("ioctl flags", result(libc::ioctl(directory, 0x8008_6601, request.as_mut_ptr()).into()));
        libc::close(directory);
        tell("bpf", result(libc::syscall(libc::SYS_bpf, 0, 0, 0)));
        tell("io_uring", result(libc::syscall(libc::SYS_io_uring_setup, 1, 0)));
        tell("newer", result(libc::syscall(libc::SYS_mseal + 8, 0, 0)));
        tell(
            "mount",
            result(libc::mount(root.as_ptr(), root.as_ptr(), root.as_ptr(), libc::MS_BIND, std::ptr::null()).into()),
        );
        tell("umount proc", result(libc::umount(c"/proc".as_ptr()).into()));
        tell("mknod", result(libc::mknod(c"/device".as_ptr(), libc::S_IFBLK | 0o600, libc::makedev(8, 0)).into()));
        tell("sethostname", result(libc::sethostname(c"x".as_ptr(), 1).into()));
        // SAFETY: the launcher passed the pipe at this number, and nothing else owns it.
        let _ = std::fs::File::from_raw_fd(READY_FD).write_all(seen.as_bytes());
    }
}

fn result(value: libc::c_long) -> String {
    if value >= 0 { "ok".to_owned() } else { errno_name(std::io::Error::last_os_error().raw_os_error()) }
}

fn errno_name(errno: Option<i32>) -> String {
    match errno {
        Some(libc::EPERM) => "EPERM".into(),
        Some(libc::ENOSYS) => "ENOSYS".into(),
        Some(libc::EAFNOSUPPORT) => "EAFNOSUPPORT".into(),
        Some(libc::EROFS) => "EROFS".into(),
        Some(libc::EACCES) => "EACCES".into(),
        Some(libc::ENOTTY) => "ENOTTY".into(),
        Some(libc::EPROTONOSUPPORT) => "EPROTONOSUPPORT".into(),
        Some(libc::ENOENT) => "ENOENT".into(),
        other => format!("{other:?}"),
    }
}

fn open_descriptors() -> String {
    let open = |fd: &i32| {
        // SAFETY: asks for flags only.
        unsafe { libc::fcntl(*fd, libc::F_GETFD) >= 0 }
    };
    (0..1024).filter(open).map(|fd| fd.to_string()).collect::<Vec<_>>().join(",")
}
