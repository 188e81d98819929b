//! Setup of a sandbox's first process, from clone to exec of the guest. Runs in a copy of the launcher, with the
//! sandbox's own ids from the start.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use cabana_types::guest::{CONFIG_FD, CONTROL_FD, READY_FD, TRAFFIC_FD};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{Gid, Uid};

use crate::error::{During, Error};
use crate::plan::{MountSpec, Plan, RootSpec};
use crate::procfs::Replaced;
use crate::root::{INERT, attach, copy_tree, directory, directory_at, file, filesystem, make_read_only, within};
use crate::{apparmor, capabilities, channel, device, kernel, machine, procfs, seccomp, sysfs};

/// Descriptors that the guest inherits; see [`crate::plan::GuestFds`].
pub(crate) struct GuestFiles<'a> {
    pub(crate) control: BorrowedFd<'a>,
    pub(crate) traffic: BorrowedFd<'a>,
    pub(crate) config: BorrowedFd<'a>,
    pub(crate) ready: BorrowedFd<'a>,
}

/// What the launcher knows of the machine.
pub(crate) struct Host<'a> {
    pub(crate) filters: &'a seccomp::Filters,
    pub(crate) facts: &'a sysfs::HostFacts,
    pub(crate) own_clock: bool,
    /// Whether the machine has a profile of AppArmor for sandboxes.
    pub(crate) apparmor: bool,
}

/// Files of [`Plan::facts`], in the order of their mounts.
pub(crate) const FACTS: [&str; 5] = [procfs::OWN[0], procfs::OWN[1], procfs::OWN[2], procfs::OWN[3], "online"];

/// Becomes the guest. `mounts` are the filesystem of [`device::nodes`], [`FACTS`] if the plan has them, and the
/// directories of [`Plan::directories`] with the sandbox's ids. On an error, reports it to the launcher through `status`
/// and exits.
pub(crate) fn become_guest(
    plan: &Plan,
    mounts: Vec<OwnedFd>,
    inherited: &GuestFiles<'_>,
    guest: BorrowedFd<'_>,
    status: BorrowedFd<'_>,
    host: &Host<'_>,
) -> ! {
    // `place_descriptors` reuses the numbers for other files, so no previous owner may close them.
    let mounts = std::mem::ManuallyDrop::new(mounts);
    if let Err(error) = prepare(plan, &mounts, host) {
        fail(status, &error);
    }
    if let Err(source) = place_descriptors(inherited, guest, status) {
        fail(status, &Error::Step { step: "place descriptors", source });
    }
    // SAFETY: `place_descriptors` has just put them there, and nothing else owns the numbers.
    let (guest, status) = unsafe { (BorrowedFd::borrow_raw(GUEST_FD), BorrowedFd::borrow_raw(STATUS_FD)) };
    let source = kernel::execute(
        guest,
        &[c"cabana-guest"],
        &[c"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", c"HOME=/root"],
    );
    fail(status, &Error::Step { step: "start the guest", source })
}

fn fail(status: BorrowedFd<'_>, error: &Error) -> ! {
    let cause = std::error::Error::source(error).map(|c| format!(": {c}")).unwrap_or_default();
    let _ = channel::send(status, format!("{error}{cause}").as_bytes(), &[]);
    // SAFETY: ends this process immediately; destructors of the launcher's state must not run in this copy.
    unsafe { libc::_exit(1) }
}

/// Numbers of the guest's executable and the status socket before the exec, which closes both.
const GUEST_FD: i32 = 7;
const STATUS_FD: i32 = 8;

fn prepare(plan: &Plan, mounts: &[OwnedFd], host: &Host<'_>) -> Result<(), Error> {
    rustix::thread::set_thread_groups(&[]).during("clear groups")?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT).during("become root's group inside")?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).during("become root inside")?;
    rustix::process::setsid().during("start a session")?;
    kernel::unshare_cgroup().during("enter a cgroup namespace")?;
    rustix::system::sethostname(plan.id.as_str().as_bytes()).during("set the host name")?;

    restrict_user_namespace()?;
    if host.own_clock {
        reset_clocks()?;
    }
    if host.apparmor {
        apparmor::confine_next_program()?;
    }

    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).during("make mounts private")?;
    let [template, disk, staging] = ["template", "disk", "root"].map(|name| {
        openat(CWD, plan.staging.join(name), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .during("open the staging directory")
    });
    let too_few = Error::Launcher("sent too few mounts");
    let Some((dev, mounts)) = mounts.split_first() else { return Err(too_few) };
    let (facts, mounts) = match plan.facts.and_then(|_| mounts.split_at_checked(FACTS.len())) {
        None if plan.facts.is_some() => return Err(too_few),
        None => (&[][..], mounts),
        Some(split) => split,
    };
    let overlay;
    let (root, mounts) = match (plan.root, mounts) {
        (RootSpec::Whole { .. }, [disk, mounts @ ..]) => (disk.as_fd(), mounts),
        (RootSpec::Overlay { .. }, [template_mount, disk_mount, mounts @ ..]) => {
            // The kernel accepts overlay layers only from this mount namespace.
            attach(template_mount, template?).during("attach the template")?;
            attach(disk_mount, disk?).during("attach the disk")?;
            overlay = crate::root::overlay(template_mount.as_fd(), disk_mount.as_fd())?;
            (overlay.as_fd(), mounts)
        }
        _ => return Err(too_few),
    };
    attach(root, staging?).during("attach the root")?;

    let files = files(plan)?;
    device::mount(root, dev.as_fd(), plan.shm_bytes)?;
    let mut small = Vec::with_capacity(PROC_FILES.len());
    for (name, _) in PROC_FILES {
        let copy = copy_tree(&files, name, false).during("copy a file of /proc")?;
        make_read_only(&copy).during("make a file of /proc read-only")?;
        small.push(copy);
    }
    let small = PROC_FILES.iter().zip(&small).map(|((_, path), file)| Replaced { path, file: file.as_fd() });
    let mut replaced: Vec<Replaced<'_>> = small.collect();
    replaced.extend(procfs::OWN.iter().zip(facts).map(|(path, file)| Replaced { path, file: file.as_fd() }));
    procfs::mount(root, dev.as_fd(), &replaced)?;
    sysfs::mount(root, &plan.cgroups, host.facts, plan.cpu_count, facts.last().map(AsFd::as_fd))?;
    let etc = match within(root, "etc") {
        Ok(etc) => etc,
        Err(_) => directory(root, "etc")?,
    };
    for name in ETC_FILES {
        attach(copy_tree(&files, name, false).during("copy a file of /etc")?, file(&etc, name)?)
            .during("attach a file of /etc")?;
    }
    if mounts.len() != plan.mounts.len() {
        return Err(Error::Launcher("sent another number of mounts than planned"));
    }
    for (spec, mount) in plan.mounts.iter().zip(mounts) {
        attach_mount(root, spec, mount.as_fd())?;
    }

    rustix::process::fchdir(root).during("enter the root")?;
    rustix::process::pivot_root(".", ".").during("change the root")?;
    unmount(".", UnmountFlags::DETACH).during("leave the host's root")?;
    rustix::process::chdir("/").during("go to the root")?;

    limits()?;
    kernel::join_new_keyring().during("join a new keyring")?;
    // Filters first: installing them without `no_new_privs` needs a capability that is dropped afterwards.
    host.filters.install().during("install the system call filter")?;
    if plan.no_new_privileges {
        rustix::thread::set_no_new_privs(true).during("forbid new privileges")?;
    }
    capabilities::restrict()
}

/// Mounts an additional directory.
fn attach_mount(root: BorrowedFd<'_>, spec: &MountSpec, mount: BorrowedFd<'_>) -> Result<(), Error> {
    kernel::set_mount_attributes(mount, libc::MOUNT_ATTR_NOSUID, false, None).during("restrict a mount")?;
    if spec.read_only {
        make_read_only(mount).during("make a mount read-only")?;
    }
    attach(mount, directory_at(root, &spec.target)?).during("attach a mount")
}

/// Small files below `/proc`: name and path there.
const PROC_FILES: [(&str, &str); 2] = [("boot_id", "sys/kernel/random/boot_id"), ("vmstat", "vmstat")];

/// Counters that tools expect, of a machine without swap.
const VMSTAT: &str = "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault 0\npgmajfault 0\noom_kill 0\n";

const ETC_FILES: [&str; 3] = ["resolv.conf", "hosts", "hostname"];

/// Small files specific to this sandbox, on a filesystem of their own that is not part of its disk.
fn files(plan: &Plan) -> Result<OwnedFd, Error> {
    let files = filesystem("tmpfs", &[("mode", "0755"), ("size", "256k"), ("nr_inodes", "8")], INERT)?;
    let hostname = format!("{}\n", plan.id);
    let boot_id = format!("{}\n", plan.boot_id);
    let contents = [
        ("resolv.conf", plan.resolv_conf.as_str()),
        ("hosts", &plan.hosts),
        ("hostname", &hostname),
        ("boot_id", &boot_id),
        ("vmstat", VMSTAT),
    ];
    for (name, content) in contents {
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if ETC_FILES.contains(&name) { 0o644 } else { 0o444 });
        let file = openat(&files, name, create, mode).during("make a small file")?;
        std::fs::File::from(file)
            .write_all(content.as_bytes())
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
            .during("write a small file")?;
    }
    Ok(files)
}

/// Gives the sandbox clocks that start at zero: how long the machine runs is the host's affair. Takes effect with the
/// exec of the guest.
fn reset_clocks() -> Result<(), Error> {
    kernel::unshare_time().during("make a time namespace")?;
    let seconds = |clock| kernel::clock_seconds(clock).during("read a clock");
    let (monotonic, boot) = (seconds(libc::CLOCK_MONOTONIC)?, seconds(libc::CLOCK_BOOTTIME)?);
    // The file belongs to the host's root unless this process can be traced; nothing else runs here yet, and the exec
    // decides anew.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).during("open the clocks")?;
    let path = "/proc/self/timens_offsets";
    std::fs::write(path, format!("monotonic -{monotonic} 0\nboottime -{boot} 0\n")).map_err(|source| Error::Path {
        action: "write",
        path: path.into(),
        source,
    })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).during("close the clocks")
}

/// Limits of the user namespace, which only its creator may raise again: no namespaces below it, and inotify instances
/// per sandbox also where the machine counts all of them as root's. Uses the host's `/proc`.
fn restrict_user_namespace() -> Result<(), Error> {
    let limits = [("max_user_namespaces", 0), ("max_inotify_instances", machine::INOTIFY_INSTANCES)];
    for (name, most) in limits {
        let path = format!("/proc/sys/user/{name}");
        match std::fs::write(&path, most.to_string()) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::Path { action: "write", path: path.into(), source });
            }
            _ => {}
        }
    }
    Ok(())
}

fn limits() -> Result<(), Error> {
    let set = |resource, wanted: u64| {
        // Raising a hard limit needs a capability that some hosts do not grant: never exceed the current limit.
        let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX).min(wanted);
        setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) })
    };
    set(Resource::Core, 0).during("limit core dumps")?;
    set(Resource::Nofile, 1_048_576).during("limit open files")?;
    set(Resource::Memlock, 64 << 20).during("limit locked memory")
}

fn place_descriptors(inherited: &GuestFiles<'_>, guest: BorrowedFd<'_>, status: BorrowedFd<'_>) -> Result<(), Errno> {
    // First move everything away from the fixed numbers.
    let lifted = [
        (kernel::lift(inherited.traffic, 64)?, TRAFFIC_FD, true),
        (kernel::lift(inherited.config, 64)?, CONFIG_FD, true),
        (kernel::lift(inherited.ready, 64)?, READY_FD, true),
        (kernel::lift(inherited.control, 64)?, CONTROL_FD, true),
        (kernel::lift(guest, 64)?, GUEST_FD, false),
        (kernel::lift(status, 64)?, STATUS_FD, false),
    ];
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let null = kernel::lift(null, 64)?;
    for number in 0..3 {
        kernel::place(&null, number, true)?;
    }
    for (fd, number, keep) in &lifted {
        kernel::place(fd, *number, *keep)?;
    }
    debug_assert!(null.as_raw_fd() >= 64);
    // Their numbers are closed below or by the exec, or the process exits.
    std::mem::forget(lifted);
    std::mem::forget(null);
    #[allow(clippy::cast_sign_loss)] // a constant
    kernel::close_from(STATUS_FD as u32 + 1)
}
