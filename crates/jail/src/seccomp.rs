//! System calls allowed inside a sandbox: an allow-list similar to that of container runtimes, but stricter.
//!
//! Three programs are stacked. The first allows the listed calls and returns `EPERM` for the rest. The second returns
//! `ENOSYS` for `clone3` (its flags cannot be inspected, and libraries then fall back to `clone`), for asynchronous I/O
//! (the machine has one table of it, which one sandbox could fill) and for calls newer than this list, so that programs
//! fall back too. The third (`arguments.rs`) looks into `ioctl` and `socket`. Foreign architectures (32-bit, x32) are
//! killed.

mod arguments;

use std::collections::BTreeMap;

use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch,
};

use crate::Error;
use crate::kernel;

/// The compiled programs in order of installation: if several refuse, the last one installed determines the error.
pub struct Filters {
    programs: [BpfProgram; 3],
}

impl Filters {
    /// Compiles the programs. Takes some milliseconds; done once per launcher.
    pub fn compile() -> Result<Self, Error> {
        let unsupported = |e: &dyn std::fmt::Display| Error::Unsupported(format!("the system call filter: {e}"));
        let program = |rules, otherwise, listed| -> Result<BpfProgram, Error> {
            SeccompFilter::new(rules, otherwise, listed, TARGET)
                .map_err(|e| unsupported(&e))?
                .try_into()
                .map_err(|e: seccompiler::BackendError| unsupported(&e))
        };
        let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
        let allowed = allowed().map_err(|e| unsupported(&e))?;
        Ok(Self {
            programs: [
                program(allowed, errno(libc::EPERM), SeccompAction::Allow)?,
                program(absent(), SeccompAction::Allow, errno(libc::ENOSYS))?,
                arguments::program(),
            ],
        })
    }

    /// Installs the programs for this process and its children.
    pub(crate) fn install(&self) -> Result<(), Errno> {
        self.programs.iter().try_for_each(|program| kernel::install_filter(program))
    }
}

#[cfg(target_arch = "x86_64")]
const TARGET: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const TARGET: TargetArch = TargetArch::aarch64;

type Rules = BTreeMap<i64, Vec<Rule>>;

/// First number after the newest call in this list.
const NEWER: std::ops::Range<i64> = 463..520;

fn absent() -> Rules {
    let mut rules: Rules = NEWER.map(|number| (number, Vec::new())).collect();
    for call in ABSENT {
        rules.insert(call, Vec::new());
    }
    rules
}

const ABSENT: [i64; 6] = [
    libc::SYS_clone3,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
    libc::SYS_io_cancel,
    libc::SYS_io_destroy,
];

/// Flags of `clone` and `unshare` that create namespaces.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;
const CLONE_NEWTIME: u64 = 0x80;

fn argument(index: u8, op: Op, value: i32) -> Result<Condition, seccompiler::BackendError> {
    Condition::new(index, Len::Dword, op, u64::from(value.unsigned_abs()))
}

fn allowed() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = ALLOWED.iter().chain(&ALLOWED_BY_NUMBER).map(|number| (*number, Vec::new())).collect();
    // `clone` keeps its exit signal in the low byte, where `unshare` has CLONE_NEWTIME.
    let no_namespaces = |mask| Rule::new(vec![Condition::new(0, Len::Qword, Op::MaskedEq(mask), 0)?]);
    rules.insert(libc::SYS_clone, vec![no_namespaces(NAMESPACES)?]);
    rules.insert(libc::SYS_unshare, vec![no_namespaces(NAMESPACES | CLONE_NEWTIME)?]);

    rules.insert(libc::SYS_socketpair, vec![Rule::new(vec![argument(0, Op::Eq, libc::AF_UNIX)?])?]);

    let mut personalities = Vec::new();
    for value in [0, 0x0008, 0x0004_0000, 0x0002_0000, 0x0002_0008, 0xffff_ffff_u64] {
        personalities.push(Rule::new(vec![Condition::new(0, Len::Dword, Op::Eq, value)?])?);
    }
    rules.insert(libc::SYS_personality, personalities);
    Ok(rules)
}

macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// Allowed with any arguments.
#[rustfmt::skip]
const ALLOWED: &[i64] = calls! {
    SYS_accept SYS_accept4 SYS_access SYS_alarm SYS_arch_prctl SYS_bind SYS_brk SYS_capget SYS_capset
    SYS_chdir SYS_chmod SYS_chown SYS_chroot SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_close
    SYS_close_range SYS_connect SYS_copy_file_range SYS_creat SYS_dup SYS_dup2 SYS_dup3 SYS_epoll_create
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_ctl_old SYS_epoll_pwait SYS_epoll_pwait2 SYS_epoll_wait
    SYS_epoll_wait_old SYS_eventfd SYS_eventfd2 SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_faccessat
    SYS_faccessat2 SYS_fadvise64 SYS_fallocate SYS_fanotify_mark SYS_fchdir SYS_fchmod SYS_fchmodat SYS_fchmodat2
    SYS_fchown SYS_fchownat SYS_fcntl SYS_fdatasync SYS_fgetxattr SYS_flistxattr SYS_flock SYS_fork SYS_fremovexattr
    SYS_fsetxattr SYS_fstat SYS_fstatfs SYS_fsync SYS_ftruncate SYS_futex
    SYS_futex_waitv SYS_futimesat SYS_getcpu SYS_getcwd SYS_getdents SYS_getdents64 SYS_getegid
    SYS_geteuid SYS_getgid SYS_getgroups SYS_getitimer SYS_getpeername SYS_getpgid SYS_getpgrp SYS_getpid SYS_getppid
    SYS_getpriority SYS_getrandom SYS_getresgid SYS_getresuid SYS_getrlimit SYS_get_robust_list SYS_getrusage
    SYS_getsid SYS_getsockname SYS_getsockopt SYS_get_thread_area SYS_gettid SYS_gettimeofday SYS_getuid SYS_getxattr
    SYS_inotify_add_watch SYS_inotify_init SYS_inotify_init1 SYS_inotify_rm_watch SYS_ioctl SYS_ioprio_get
    SYS_ioprio_set SYS_kill SYS_landlock_add_rule
    SYS_landlock_create_ruleset SYS_landlock_restrict_self SYS_lchown SYS_lgetxattr SYS_link SYS_linkat SYS_listen
    SYS_listxattr SYS_llistxattr SYS_lremovexattr SYS_lseek SYS_lsetxattr SYS_lstat SYS_madvise
    SYS_membarrier SYS_memfd_create SYS_memfd_secret SYS_mincore SYS_mkdir SYS_mkdirat SYS_mknod SYS_mknodat SYS_mlock
    SYS_mlock2 SYS_mlockall SYS_mmap SYS_modify_ldt SYS_mprotect SYS_mq_getsetattr SYS_mq_notify SYS_mq_open
    SYS_mq_timedreceive SYS_mq_timedsend SYS_mq_unlink SYS_mremap SYS_mseal SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd
    SYS_msync SYS_munlock SYS_munlockall SYS_munmap SYS_name_to_handle_at SYS_nanosleep SYS_newfstatat SYS_open
    SYS_openat SYS_openat2 SYS_pause SYS_pidfd_open SYS_pidfd_send_signal SYS_pipe SYS_pipe2 SYS_pkey_alloc
    SYS_pkey_free SYS_pkey_mprotect SYS_poll SYS_ppoll SYS_prctl SYS_pread64 SYS_preadv SYS_preadv2 SYS_prlimit64
    SYS_process_mrelease SYS_process_vm_readv SYS_process_vm_writev SYS_pselect6 SYS_ptrace SYS_pwrite64 SYS_pwritev
    SYS_pwritev2 SYS_read SYS_readahead SYS_readlink SYS_readlinkat SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg
    SYS_remap_file_pages SYS_removexattr SYS_rename SYS_renameat SYS_renameat2 SYS_restart_syscall SYS_rmdir SYS_rseq
    SYS_rt_sigaction SYS_rt_sigpending SYS_rt_sigprocmask SYS_rt_sigqueueinfo SYS_rt_sigreturn SYS_rt_sigsuspend
    SYS_rt_sigtimedwait SYS_rt_tgsigqueueinfo SYS_sched_getaffinity SYS_sched_getattr SYS_sched_getparam
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_getscheduler SYS_sched_rr_get_interval
    SYS_sched_setaffinity SYS_sched_setattr SYS_sched_setparam SYS_sched_setscheduler SYS_sched_yield SYS_seccomp
    SYS_select SYS_semctl SYS_semget SYS_semop SYS_semtimedop SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto
    SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_setitimer SYS_setpgid SYS_setpriority SYS_setregid
    SYS_setresgid SYS_setresuid SYS_setreuid SYS_setrlimit SYS_set_robust_list SYS_setsid SYS_setsockopt
    SYS_set_thread_area SYS_set_tid_address SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl SYS_shmdt SYS_shmget
    SYS_shutdown SYS_sigaltstack SYS_signalfd SYS_signalfd4 SYS_socket SYS_splice SYS_stat SYS_statfs SYS_statx SYS_symlink
    SYS_symlinkat SYS_sync SYS_sync_file_range SYS_syncfs SYS_sysinfo SYS_tee SYS_tgkill SYS_time SYS_timer_create
    SYS_timer_delete SYS_timer_getoverrun SYS_timer_gettime SYS_timer_settime SYS_timerfd_create SYS_timerfd_gettime
    SYS_timerfd_settime SYS_times SYS_tkill SYS_truncate SYS_umask SYS_uname SYS_unlink SYS_unlinkat SYS_utime
    SYS_utimensat SYS_utimes SYS_vfork SYS_vmsplice SYS_wait4 SYS_waitid SYS_write SYS_writev
};

/// Also allowed: newer calls with the same number on all architectures: `cachestat`, `map_shadow_stack`, `futex_wake`,
/// `futex_wait`, `futex_requeue`.
const ALLOWED_BY_NUMBER: [i64; 5] = [451, 453, 454, 455, 456];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiles_and_leaves_out_what_reaches_the_host() {
        let filters = Filters::compile().unwrap();
        assert!(filters.programs.iter().all(|p| p.len() < 4096), "the kernel takes at most 4096 instructions");
        let rules = allowed().unwrap();
        for call in [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_setns,
            libc::SYS_bpf,
            libc::SYS_perf_event_open,
            libc::SYS_userfaultfd,
            libc::SYS_io_uring_setup,
            libc::SYS_keyctl,
            libc::SYS_add_key,
            libc::SYS_open_by_handle_at,
            libc::SYS_kexec_load,
            libc::SYS_init_module,
            libc::SYS_fsopen,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_mount_setattr,
            libc::SYS_clone3,
            libc::SYS_kcmp,
            libc::SYS_pidfd_getfd,
            libc::SYS_syslog,
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_clock_settime,
            libc::SYS_iopl,
        ] {
            assert!(!rules.contains_key(&call), "call {call} is allowed");
        }
    }
}
