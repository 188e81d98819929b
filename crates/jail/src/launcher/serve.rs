//! The launcher process itself.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use cabana_types::SandboxId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, Mode, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::net::RecvFlags;
use rustix::thread::Uid;

use crate::channel;
use crate::error::{During, Error};
use crate::init::{self, GuestFiles, Host};
use crate::kernel::{self, Cloned};
use crate::plan::{Answer, Plan, Received};
use crate::root::{INERT, copy_tree, idmapped};
use crate::seccomp::Filters;
use crate::sysfs::HostFacts;
use crate::{apparmor, device, machine, privileges, process};

/// Namespaces created by the clone. The network namespace is prepared beforehand; the cgroup namespace is created when
/// the process is in its cgroups, and the time namespace where its clocks can be set.
const NAMESPACES: u64 =
    (libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC) as u64;

/// Runs the launcher until the socket at descriptor 0 is closed. `guest` is the guest's executable. The process must be
/// single-threaded.
pub fn main(guest: &[u8]) -> Result<(), Error> {
    // Sandboxes are watched by pidfd; the kernel may reap their first processes at once.
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    // Signals of the server's terminal must not reach the launcher: it exits when the server does.
    rustix::process::setsid().during("start a session").or_else(|_| Ok::<_, Error>(rustix::process::getpid()))?;
    // Best effort: some machines do not grant the capability; the server says so.
    let _ = process::survive_memory_shortage();
    privileges::reduce_launcher()?;
    // Devices are made with their exact permissions.
    rustix::process::umask(Mode::empty());
    let server = std::io::stdin();
    let mut launcher = Process {
        guest: sealed_copy(guest)?,
        filters: Filters::compile()?,
        host_network: open("/proc/self/ns/net")?,
        host_facts: HostFacts::read(),
        own_clock: machine::has_own_clock(),
        apparmor: apparmor::is_loaded(),
        users_may_clone: users_may_clone(),
        pending: HashMap::new(),
    };
    loop {
        let ids: Vec<SandboxId> = launcher.pending.keys().cloned().collect();
        let (readable, finished) = {
            let mut fds = vec![PollFd::new(&server, PollFlags::IN)];
            fds.extend(ids.iter().map(|id| PollFd::new(&launcher.pending[id].status, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).during("wait for requests"),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            (
                ready[0],
                ids.into_iter().zip(ready[1..].to_vec()).filter(|(_, r)| *r).map(|(id, _)| id).collect::<Vec<_>>(),
            )
        };
        for id in finished {
            launcher.finish(server.as_fd(), id)?;
        }
        if readable {
            match channel::receive(&server, RecvFlags::empty()).during("receive a request")? {
                Some((bytes, fds)) => launcher.begin(server.as_fd(), &bytes, fds)?,
                None => {
                    for pending in launcher.pending.values() {
                        let _ = process::kill(&pending.pidfd);
                    }
                    return Ok(());
                }
            }
        }
    }
}

struct Process {
    guest: OwnedFd,
    filters: Filters,
    host_network: OwnedFd,
    host_facts: HostFacts,
    own_clock: bool,
    apparmor: bool,
    users_may_clone: bool,
    pending: HashMap<SandboxId, Pending>,
}

/// A sandbox whose first process has not started the guest yet.
struct Pending {
    pid: i32,
    pidfd: OwnedFd,
    status: OwnedFd,
}

impl Process {
    fn begin(&mut self, server: BorrowedFd<'_>, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<(), Error> {
        let Ok(plan) = serde_json::from_slice::<Plan>(bytes) else {
            return Err(Error::Launcher("got a request that it does not understand"));
        };
        let id = plan.id.clone();
        match self.launch(&plan, &Received::new(fds)) {
            Ok(pending) => {
                self.pending.insert(id, pending);
                Ok(())
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|c| format!(": {c}")).unwrap_or_default();
                answer(server, failed(id, &format!("{error}{cause}")), None)
            }
        }
    }

    fn launch(&self, plan: &Plan, fds: &Received) -> Result<Pending, Error> {
        let (ours, theirs) = channel::pair().during("make a status socket")?;
        // Resolve all descriptors before the clone, so that a plan that lacks one leaves nothing behind.
        let directories: Vec<BorrowedFd<'_>> =
            plan.directories().into_iter().map(|index| fds.get(index)).collect::<Result<_, _>>()?;
        let facts = plan.facts.map(|index| fds.get(index)).transpose()?;
        let guest = GuestFiles {
            control: fds.get(plan.guest.control)?,
            traffic: fds.get(plan.guest.traffic)?,
            config: fds.get(plan.guest.config)?,
            ready: fds.get(plan.guest.ready)?,
        };
        kernel::enter_network(fds.get(plan.network)?).during("enter the network namespace")?;
        let time = if self.own_clock { 0 } else { u64::from(kernel::CLONE_NEWTIME.unsigned_abs()) };
        let cloned = clone_owned_by(if self.users_may_clone { plan.uids.base } else { 0 }, NAMESPACES | time);
        if matches!(cloned, Ok(Cloned::Child)) {
            drop(ours);
            self.child(plan, theirs, &guest);
        }
        // If this fails, every later sandbox would be cloned in the wrong namespace: exit, and let the server restart
        // the launcher.
        kernel::enter_network(self.host_network.as_fd()).during("return to the host's network namespace")?;
        let Cloned::Parent { pid, pidfd } = cloned.during("clone")? else {
            return Err(Error::Launcher("continued as its child"));
        };
        drop(theirs);
        let pending = Pending { pid, pidfd, status: ours };
        match release(plan, &pending, facts, &directories) {
            Ok(()) => Ok(pending),
            Err(error) => {
                let _ = process::kill(&pending.pidfd);
                Err(error)
            }
        }
    }

    /// In the clone: waits until the launcher has set up ids, cgroups and mounts, then becomes the guest.
    fn child(&self, plan: &Plan, status: OwnedFd, guest: &GuestFiles<'_>) -> ! {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let Some((_, mounts)) = channel::receive(&status, RecvFlags::empty()).ok().flatten() else {
            // The launcher gave up, or has exited.
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(1) }
        };
        let host = Host {
            filters: &self.filters,
            facts: &self.host_facts,
            own_clock: self.own_clock,
            apparmor: self.apparmor,
        };
        init::become_guest(plan, mounts, guest, self.guest.as_fd(), status.as_fd(), &host)
    }

    /// The status socket of a clone is readable, or was closed by the exec of the guest.
    fn finish(&mut self, server: BorrowedFd<'_>, id: SandboxId) -> Result<(), Error> {
        let Some(pending) = self.pending.remove(&id) else { return Ok(()) };
        match channel::receive(&pending.status, RecvFlags::DONTWAIT) {
            Ok(None) => answer(server, Answer::Launched { id, pid: pending.pid }, Some(pending.pidfd.as_fd())),
            Ok(Some((message, _))) => {
                let _ = process::kill(&pending.pidfd);
                answer(server, failed(id, &String::from_utf8_lossy(&message)), None)
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                self.pending.insert(id, pending);
                Ok(())
            }
            Err(error) => {
                let _ = process::kill(&pending.pidfd);
                answer(server, failed(id, &format!("read the status of the first process: {error}")), None)
            }
        }
    }
}

/// Whether user namespaces created by ids other than root have full capabilities. AppArmor can restrict this: they can
/// be created, but without capabilities.
fn users_may_clone() -> bool {
    let restricted = std::fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    restricted.map_or(true, |text| text.trim() == "0")
}

/// Clones into namespaces owned by the sandbox's own id: per-user kernel limits (inotify instances and watches,
/// namespaces) then apply to each sandbox separately, and none can exhaust another's.
fn clone_owned_by(uid: u32, namespaces: u64) -> Result<Cloned, Errno> {
    let effective = |uid: u32| rustix::thread::set_thread_res_uid(None, Uid::from_raw(uid), None);
    effective(uid)?;
    // SAFETY: this process has one thread.
    let cloned = unsafe { kernel::clone_into(namespaces) };
    if matches!(cloned, Ok(Cloned::Child)) {
        return cloned;
    }
    // Cannot fail: the real id is still that of root.
    effective(0)?;
    match cloned {
        // Some machines let only root create user namespaces; their sandboxes share root's limits.
        Err(Errno::PERM | Errno::NOSPC) => {
            // SAFETY: as above.
            unsafe { kernel::clone_into(namespaces) }
        }
        other => other,
    }
}

/// Gives a waiting clone its ids, cgroups and mounts, and lets it continue.
fn release(
    plan: &Plan,
    pending: &Pending,
    facts: Option<BorrowedFd<'_>>,
    directories: &[BorrowedFd<'_>],
) -> Result<(), Error> {
    let pid = pending.pid;
    for map in ["uid_map", "gid_map"] {
        write(Path::new(&format!("/proc/{pid}/{map}")), &plan.uids.map())?;
    }
    // From here, where the capability counts: what is inside cannot lower it.
    write(Path::new(&format!("/proc/{pid}/oom_score_adj")), &process::SANDBOX_OOM_SCORE.to_string())?;
    for cgroup in &plan.cgroups {
        write(&cgroup.path.join("cgroup.procs"), &pid.to_string())?;
    }
    let users = open(&format!("/proc/{pid}/ns/user"))?;
    let mut mounts = vec![device::nodes(plan.uids.base)?];
    for name in facts.iter().flat_map(|_| init::FACTS) {
        mounts.push(inert_copy(facts, name).during("open the sandbox's own facts")?);
    }
    for dir in directories {
        mounts.push(idmapped(*dir, users.as_fd())?);
    }
    let mounts: Vec<BorrowedFd<'_>> = mounts.iter().map(AsFd::as_fd).collect();
    channel::send(&pending.status, b"go", &mounts).during("release the first process")
}

/// A mount of one file that nothing inside can write.
fn inert_copy(dir: Option<BorrowedFd<'_>>, name: &str) -> Result<OwnedFd, Errno> {
    let copy = copy_tree(dir.ok_or(Errno::BADF)?, name, false)?;
    let attributes = INERT.union(MountAttrFlags::MOUNT_ATTR_RDONLY);
    kernel::set_mount_attributes(copy.as_fd(), attributes.bits().into(), false, None)?;
    Ok(copy)
}

fn answer(server: BorrowedFd<'_>, answer: Answer, fd: Option<BorrowedFd<'_>>) -> Result<(), Error> {
    let bytes = serde_json::to_vec(&answer).map_err(|_| Error::Launcher("cannot encode its response"))?;
    channel::send(server, &bytes, fd.as_slice()).during("answer the server")
}

fn failed(id: SandboxId, message: &str) -> Answer {
    Answer::Failed { id, message: message.to_owned() }
}

/// The guest's executable in a sealed memory file: nothing inside a sandbox can write to it, or reach the host's file
/// through `/proc/self/exe`.
fn sealed_copy(guest: &[u8]) -> Result<OwnedFd, Error> {
    let copy = memfd_create("cabana-guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .during("make the guest's memory file")?;
    let mut to = File::from(copy);
    to.write_all(guest).map_err(|_| Error::Launcher("cannot copy the guest into memory"))?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&to, seals).during("seal the guest")?;
    Ok(to.into())
}

fn open(path: &str) -> Result<OwnedFd, Error> {
    File::open(path).map(OwnedFd::from).map_err(|source| Error::Path { action: "open", path: path.into(), source })
}

fn write(path: &Path, content: &str) -> Result<(), Error> {
    // One write: the kernel does not accept partial writes to these files.
    std::fs::write(path, content).map_err(|source| Error::Path { action: "write", path: path.to_owned(), source })
}
