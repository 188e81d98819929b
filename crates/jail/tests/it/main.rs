//! Launches real sandboxes and checks them from the inside. Needs root.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use cabana_jail::cgroup::Cgroups;
use cabana_jail::launcher::{Launched, Launcher};
use cabana_jail::plan::{Descriptors, GuestFds, MountSpec, Plan, RootSpec, UidRange};
use cabana_types::{Resources, SandboxId};

fn example(name: &str) -> PathBuf {
    // target/<profile>/deps/it-… and target/<profile>/examples/…
    let profile = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    profile.join("examples").join(name)
}

/// A new network namespace.
fn network() -> File {
    std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        File::open("/proc/thread-self/ns/net").unwrap()
    })
    .join()
    .unwrap()
}

struct World {
    id: SandboxId,
    dir: tempfile::TempDir,
    cgroups: Cgroups,
    launcher: Launcher,
}

impl World {
    fn new(tag: u8) -> Self {
        assert!(rustix::process::getuid().is_root(), "this test needs root");
        let id = SandboxId::from_random([tag; 20]);
        let dir = tempfile::tempdir().unwrap();
        for name in ["disk/upper", "disk/work", "staging/template", "staging/disk", "staging/root"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        // World-accessible: root inside the sandbox is an unprivileged user outside.
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let cgroups = Cgroups::open(&format!("cabana-jail-test-{}-{tag}", std::process::id())).unwrap();
        let launcher = Launcher::start(&example("launcher"), Some(&example("probe"))).unwrap();
        Self { id, dir, cgroups, launcher }
    }

    fn launch(&self, template: &str) -> Result<(Launched, File), cabana_jail::Error> {
        self.launch_with(Some(template), &[])
    }

    /// Launches with a template, or with the disk as the whole root; with additional mounts: source, target, read-only.
    fn launch_with(
        &self,
        template: Option<&str>,
        mounts: &[(&Path, &str, bool)],
    ) -> Result<(Launched, File), cabana_jail::Error> {
        let sockets = ["traffic", "control"].map(|name| {
            let socket = self.dir.path().join(name);
            let _ = fs::remove_file(&socket);
            UnixListener::bind(socket).unwrap()
        });
        let (report, ready) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let (network, template) = (network(), template.map(|path| File::open(path).unwrap()));
        let disk = File::open(self.dir.path().join("disk")).unwrap();
        let config = File::open("/dev/null").unwrap();
        let facts = File::open(self.dir.path().join("facts")).ok();
        let sources: Vec<File> = mounts.iter().map(|(source, ..)| File::open(source).unwrap()).collect();
        let mut fds = Descriptors::default();
        // Mounts first; the order does not matter.
        let mounts: Vec<MountSpec> = sources
            .iter()
            .zip(mounts)
            .map(|(source, (_, target, read_only))| MountSpec {
                source: fds.add(source.as_fd()).unwrap(),
                target: (*target).to_owned(),
                read_only: *read_only,
            })
            .collect();
        let disk = fds.add(disk.as_fd())?;
        let root = match &template {
            Some(template) => RootSpec::Overlay { template: fds.add(template.as_fd())?, disk },
            None => RootSpec::Whole { disk },
        };
        let plan = Plan {
            id: self.id.clone(),
            uids: UidRange { base: 0x7fff_0000 },
            cgroups: self.cgroups.create(&self.id, Resources::default())?,
            staging: self.dir.path().join("staging"),
            network: fds.add(network.as_fd())?,
            root,
            mounts,
            facts: facts.as_ref().map(|dir| fds.add(dir.as_fd())).transpose()?,
            cpu_count: 3,
            guest: GuestFds {
                control: fds.add(sockets[1].as_fd())?,
                traffic: fds.add(sockets[0].as_fd())?,
                config: fds.add(config.as_fd())?,
                ready: fds.add(ready.as_fd())?,
            },
            resolv_conf: "nameserver 100.96.0.1\n".into(),
            hosts: "127.0.0.1 localhost\n".into(),
            boot_id: "11111111-2222-4333-8444-555555555555".into(),
            shm_bytes: 1 << 20,
            no_new_privileges: false,
        };
        let (answer, answered) = mpsc::channel();
        self.launcher.launch(&plan, &fds, Box::new(move |a| answer.send(a).unwrap()));
        drop(fds);
        drop::<OwnedFd>(ready);
        Ok((answered.recv().unwrap()?, File::from(report)))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.cgroups.kill(&self.id);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !self.cgroups.remove(&self.id).unwrap_or(true) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        self.cgroups.close();
    }
}

#[test]
fn inside() {
    let world = World::new(1);
    // The machine's root is the template: the probe is an ordinary program that needs its libraries.
    let (launched, mut report) = world.launch("/").unwrap();
    assert!(launched.pid > 1);
    let mut text = String::new();
    report.read_to_string(&mut text).unwrap();
    let seen: HashMap<&str, &str> = text.lines().filter_map(|l| l.split_once('=')).collect();
    let is = |name: &str, wanted: &str| assert_eq!(seen.get(name).copied(), Some(wanted), "{name} in:\n{text}");
    is("pid", "1");
    is("fds", "0,1,2,3,4,5,6");
    is("hostname", world.id.as_str());
    assert_eq!(seen["uid_map"].split_whitespace().collect::<Vec<_>>(), ["0", "2147418112", "65536"]);
    is("boot_id", "11111111-2222-4333-8444-555555555555");
    is("resolv_conf", "nameserver 100.96.0.1");
    is("Seccomp", "2");
    is("Groups", "");
    is("CapBnd", "00000000800425fb");
    is("CapEff", "00000000800425fb");
    // Empty, or missing on this kernel.
    for masked in ["kcore", "keys", "kallsyms"] {
        assert!(
            matches!(seen[masked], "" | "error No such file or directory (os error 2)"),
            "{masked}: {}",
            seen[masked]
        );
    }
    for refused in ["unshare user", "bpf", "io_uring", "mount", "umount proc", "mknod", "sethostname"] {
        is(refused, "EPERM");
    }
    for refused in ["socket alg", "socket packet", "socket netfilter"] {
        is(refused, "EAFNOSUPPORT");
    }
    is("socket raw", "EPERM");
    is("socket mptcp", "EPROTONOSUPPORT");
    is("ioctl subvolume", "ENOTTY");
    assert_ne!(seen["ioctl flags"], "ENOTTY");
    is("terminals", "256");
    is("oom_score", "400");
    is("namespaces", "0");
    for masked in ["cmdline", "partitions", "zoneinfo", "open files"] {
        is(masked, "");
    }
    is("pressure", "0");
    is("entropy", "true");
    is("cpu1", "true");
    // Nothing that other sandboxes or the host could watch or lock.
    for path in ["/dev/null", "/dev/tty", "/sys/devices/system/cpu/possible"] {
        let host = fs::metadata(path).unwrap().dev().to_string();
        assert_ne!(seen[format!("device of {path}").as_str()], host, "{path}");
    }
    if cabana_jail::machine::has_own_clock() {
        let uptime: f64 = seen["uptime"].split(' ').next().unwrap().parse().unwrap();
        assert!(uptime < 60.0, "{uptime}");
    }
    for absent in ["clone3", "newer", "io_setup"] {
        is(absent, "ENOSYS");
    }
    for allowed in ["socket route", "socket inet", "write /dev/null", "write /dev/ptmx", "write /written-inside"] {
        is(allowed, "ok");
    }
    for closed in
        ["write /proc/sys/kernel/core_pattern", "write /proc/sysrq-trigger", "write /proc/sys/kernel/random/boot_id"]
    {
        assert!(matches!(seen[closed], "EROFS" | "EACCES" | "ENOENT"), "{closed}: {}", seen[closed]);
    }
    is("write /dev/kvm", "ENOENT");
    is("exists /sys/class", "false");
    let (limit, file) = match world.cgroups.version() {
        1 => ("memory_limit_v1", "write /sys/fs/cgroup/memory/memory.limit_in_bytes"),
        _ => ("memory_limit_v2", "write /sys/fs/cgroup/memory.max"),
    };
    is(limit, &(1024_u64 << 20).to_string());
    assert!(matches!(seen[file], "EROFS" | "EACCES"), "{file}: {}", seen[file]);
    let host_path = world.dir.path().to_str().unwrap();
    assert!(!seen["mountinfo"].contains(host_path), "{}", seen["mountinfo"]);
    assert!(!seen["cgroup"].contains("cabana"), "{}", seen["cgroup"]);
    // Files written by root inside belong to root on disk: ids are shifted only by the mount.
    let written = fs::metadata(world.dir.path().join("disk/upper/written-inside")).unwrap();
    assert_eq!((written.uid(), written.gid()), (0, 0));
}

#[test]
fn a_disk_can_be_the_whole_root() {
    let world = World::new(4);
    let disk = world.dir.path().join("disk");
    let needed = std::process::Command::new("ldd").arg(example("probe")).output().unwrap();
    for library in String::from_utf8(needed.stdout).unwrap().split_whitespace().filter(|word| word.starts_with('/')) {
        let place = disk.join(library.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::copy(library, place).unwrap();
    }
    let (_, mut report) = world.launch_with(None, &[]).unwrap();
    let mut text = String::new();
    report.read_to_string(&mut text).unwrap();
    for line in ["pid=1", "write /written-inside=ok", "mknod=EPERM", "mount=EPERM"] {
        assert!(text.lines().any(|l| l == line), "{line} in:\n{text}");
    }
    let written = fs::metadata(disk.join("written-inside")).unwrap();
    assert_eq!((written.uid(), written.gid()), (0, 0));
}

#[test]
fn further_directories_are_mounted_inside() {
    let world = World::new(5);
    let sources = [world.dir.path().join("fixed"), world.dir.path().join("shared")];
    for source in &sources {
        fs::create_dir(source).unwrap();
        fs::write(source.join("hello"), "from the host").unwrap();
    }
    let mounts = [(sources[0].as_path(), "/volumes/fixed", true), (sources[1].as_path(), "/volumes/shared", false)];
    let (_, mut report) = world.launch_with(Some("/"), &mounts).unwrap();
    let mut text = String::new();
    report.read_to_string(&mut text).unwrap();
    for line in [
        "read /volumes/fixed/hello=from the host",
        "read /volumes/shared/hello=from the host",
        "write /volumes/fixed/new=EROFS",
        "write /volumes/shared/new=ok",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in:\n{text}");
    }
    assert!(!sources[0].join("new").exists());
    let written = fs::metadata(sources[1].join("new")).unwrap();
    assert_eq!((written.uid(), written.gid()), (0, 0), "ids are shifted by the mount alone");
}

#[test]
fn a_mount_target_that_leads_out_is_refused() {
    let world = World::new(6);
    for target in ["relative", "/", "/a/../../b", ""] {
        let error = world.launch_with(Some("/"), &[(world.dir.path(), target, true)]).unwrap_err().to_string();
        assert!(error.contains("make the target of a mount"), "{target}: {error}");
    }
}

#[test]
fn a_failure_names_its_step_and_leaves_nothing() {
    let world = World::new(2);
    // A template without the probe's libraries: everything works up to the exec.
    let empty = tempfile::tempdir().unwrap();
    let error = world.launch(empty.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("start the guest"), "{error}");
    // The launcher continues.
    let (_, mut report) = world.launch("/").unwrap();
    let mut text = String::new();
    report.read_to_string(&mut text).unwrap();
    assert!(text.contains("pid=1"), "{text}");
}

#[test]
fn an_image_whose_directories_are_links_stays_confined() {
    let world = World::new(3);
    let image = tempfile::tempdir().unwrap();
    for name in ["bin", "lib", "lib64", "usr"] {
        std::os::unix::fs::symlink(format!("/host/{name}"), image.path().join(name)).unwrap();
    }
    for name in ["proc", "dev", "sys"] {
        std::os::unix::fs::symlink("/etc", image.path().join(name)).unwrap();
    }
    fs::create_dir(image.path().join("etc")).unwrap();
    std::os::unix::fs::symlink("/proc/sys/kernel/core_pattern", image.path().join("etc/resolv.conf")).unwrap();
    let before = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let error = world.launch(image.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("start the guest"), "{error}");
    assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), before);
    assert!(image.path().join("proc").is_symlink(), "the image itself is never written");
}

#[test]
fn all_sandboxes_together_are_limited() {
    use cabana_jail::machine::Totals;
    let world = World::new(7);
    let totals = Totals { pids: 100, memory: 300 << 20, socket_memory: 64 << 20 };
    assert!(world.cgroups.set_totals(totals).is_empty());
    let limits = world.cgroups.totals();
    assert_eq!((limits.pids, limits.memory), (100, 300 << 20));
    if world.cgroups.version() == 1 {
        assert_eq!(limits.socket_memory, 64 << 20);
        let dir = world.cgroups.create(&world.id, Resources::default()).unwrap();
        let memory = dir.iter().find(|dir| dir.shown_as == "memory").unwrap();
        let sockets = fs::read_to_string(memory.path.join("memory.kmem.tcp.limit_in_bytes")).unwrap();
        assert_eq!(sockets.trim(), (64_u64 << 20).to_string(), "a sixteenth of its memory");
    }
}

#[test]
fn reads_and_writes_are_limited_where_the_machine_can() {
    use cabana_jail::cgroup::io::{IoLimits, fact};
    let mut world = World::new(9);
    let limits = IoLimits { write_bytes: 3 << 20, read_operations: 70, ..IoLimits::default() };
    let errors = world.cgroups.limit_io(limits, world.dir.path());
    // Also what doctor says.
    assert_eq!(errors.is_empty(), fact(world.dir.path()).ok, "{errors:?}");
    let dirs = world.cgroups.create(&world.id, Resources::default()).unwrap();
    if errors.is_empty() {
        let (shown_as, writes, reads) = match world.cgroups.version() {
            1 => ("blkio", "blkio.throttle.write_bps_device", "blkio.throttle.read_iops_device"),
            _ => ("", "io.max", "io.max"),
        };
        let dir = dirs.iter().find(|dir| dir.shown_as == shown_as).unwrap();
        assert!(!dir.visible || world.cgroups.version() == 2);
        assert!(fs::read_to_string(dir.path.join(writes)).unwrap().contains(&(3 << 20).to_string()));
        assert!(fs::read_to_string(dir.path.join(reads)).unwrap().contains("70"));
    }
    assert!(world.cgroups.remove(&world.id).unwrap());
    assert!(dirs.iter().all(|dir| !dir.path.exists()));
}

#[test]
fn a_sandbox_is_told_its_own_facts() {
    let world = World::new(8);
    let facts = world.dir.path().join("facts");
    fs::create_dir(&facts).unwrap();
    for name in ["cpuinfo", "loadavg", "meminfo", "online", "stat", "vmstat"] {
        fs::write(facts.join(name), format!("its own {name}")).unwrap();
    }
    let (_, mut report) = world.launch("/").unwrap();
    let mut text = String::new();
    report.read_to_string(&mut text).unwrap();
    for line in ["meminfo=its own meminfo", "cpus online=its own online"] {
        assert!(text.lines().any(|l| l == line), "{line} in:\n{text}");
    }
    for path in ["/proc/meminfo", "/sys/devices/system/cpu/possible"] {
        let refused = ["EROFS", "EACCES"].map(|errno| format!("write {path}={errno}"));
        assert!(text.lines().any(|l| refused.iter().any(|r| r == l)), "{path} in:\n{text}");
    }
}
