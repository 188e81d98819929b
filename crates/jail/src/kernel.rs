//! System calls without a wrapper in our dependencies.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result < 0 {
        // SAFETY: errno is thread-local and was set by the failed call.
        Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }))
    } else {
        Ok(result)
    }
}

/// Both sides of a clone.
pub(crate) enum Cloned {
    /// In the new process.
    Child,
    /// In the caller: the child's pid and a descriptor of it.
    Parent { pid: i32, pidfd: OwnedFd },
}

/// Clones this process into new namespaces.
///
/// # Safety
/// The process must be single-threaded: the child continues in a copy of its memory.
pub(crate) unsafe fn clone_into(namespaces: u64) -> Result<Cloned, Errno> {
    let mut pidfd: libc::c_int = -1;
    let args = libc::clone_args {
        flags: namespaces | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    // SAFETY: the structure is valid for the call; without CLONE_VM the child has its own copy of everything.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) })?;
    if pid == 0 {
        return Ok(Cloned::Child);
    }
    // SAFETY: CLONE_PIDFD made the kernel put a new descriptor there, which nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    #[allow(clippy::cast_possible_truncation)] // a pid has at most 22 bits
    Ok(Cloned::Parent { pid: pid as i32, pidfd })
}

/// Enters the network namespace behind a descriptor.
pub(crate) fn enter_network(netns: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the call takes a descriptor and a flag.
    check(i64::from(unsafe { libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) })).map(drop)
}

/// Enters a new cgroup namespace rooted at the current cgroups.
pub(crate) fn unshare_cgroup() -> Result<(), Errno> {
    // SAFETY: the call takes a flag.
    check(i64::from(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) })).map(drop)
}

pub(crate) const CLONE_NEWTIME: i32 = 0x80;

/// Makes a new time namespace, which this process enters when it executes its next program.
pub(crate) fn unshare_time() -> Result<(), Errno> {
    // SAFETY: the call takes a flag.
    check(i64::from(unsafe { libc::unshare(CLONE_NEWTIME) })).map(drop)
}

/// Seconds of a clock.
pub(crate) fn clock_seconds(clock: libc::clockid_t) -> Result<i64, Errno> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is valid for the call.
    check(i64::from(unsafe { libc::clock_gettime(clock, &raw mut now) }))?;
    Ok(now.tv_sec)
}

/// `mount_setattr` on the mount behind a descriptor, optionally recursive, and optionally with the id mapping of a user
/// namespace.
pub(crate) fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    attributes: u64,
    recursive: bool,
    idmap: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let attr = libc::mount_attr {
        attr_set: attributes | if idmap.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 },
        attr_clr: 0,
        propagation: 0,
        #[allow(clippy::cast_sign_loss)] // an open descriptor is not negative
        userns_fd: idmap.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path and the structure are valid for the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Replaces this process with the program behind a descriptor.
pub(crate) fn execute(program: BorrowedFd<'_>, args: &[&CStr], env: &[&CStr]) -> Errno {
    let pointers = |texts: &[&CStr]| -> Vec<*const libc::c_char> {
        texts.iter().map(|t| t.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (args, env) = (pointers(args), pointers(env));
    // SAFETY: both arrays are null-terminated and outlive the call; on success it does not return.
    let result = unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program.as_raw_fd(),
            c"".as_ptr(),
            args.as_ptr(),
            env.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    check(result).err().unwrap_or(Errno::NOEXEC)
}

/// Starts a new session keyring, so that keys of other sandboxes or the host cannot be reached.
pub(crate) fn join_new_keyring() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for an anonymous keyring.
    match check(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) }) {
        // Not an error: a kernel without keyrings has no keys to protect.
        Ok(_) | Err(Errno::NOSYS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Installs a seccomp program for this process and its children. Without `no_new_privs`, so that `sudo` works inside;
/// this needs `CAP_SYS_ADMIN` in its user namespace.
pub(crate) fn install_filter(program: &[seccompiler::sock_filter]) -> Result<(), Errno> {
    let len = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    let fprog = libc::sock_fprog { len, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: `seccompiler::sock_filter` has the kernel's layout; the program outlives the call, which does not write
    // to it.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const fprog) }).map(drop)
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: the caller is about to replace its program and keeps no owner of the closed descriptors in use.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }).map(drop)
}

/// Duplicates a descriptor to a number.
pub(crate) fn place(fd: impl AsFd, number: i32, keep_on_exec: bool) -> Result<(), Errno> {
    let flags = if keep_on_exec { 0 } else { libc::O_CLOEXEC };
    let raw = fd.as_fd().as_raw_fd();
    if raw == number {
        // SAFETY: plain flag change on an open descriptor.
        return check(i64::from(unsafe {
            libc::fcntl(raw, libc::F_SETFD, if keep_on_exec { 0 } else { libc::FD_CLOEXEC })
        }))
        .map(drop);
    }
    // SAFETY: whatever was open at `number` belongs to this process, which is about to replace its program.
    check(i64::from(unsafe { libc::dup3(raw, number, flags) })).map(drop)
}

/// Duplicates a descriptor to a number of at least `floor`, away from the fixed numbers.
pub(crate) fn lift(fd: impl AsFd, floor: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: plain duplication; the result is new and has no other owner.
    let raw = check(i64::from(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_DUPFD_CLOEXEC, floor) }))?;
    #[allow(clippy::cast_possible_truncation)] // a descriptor is an int
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(raw as i32) })
}
