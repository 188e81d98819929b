//! Starts the process of a command: as its user, in its directory, in its own session, without the daemon's state.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::Arc;

use cabana_proto::process::{PTY, ProcessConfig};
use connectrpc::{ConnectError, ErrorCode};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use crate::error::code_of;
use crate::guest::Settings;
use crate::input::{Input, Kind, register};
use crate::pump::Source;
use crate::ring::Channel;
use crate::users::{self, Account};
use crate::{open, path, pty};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// When the sandbox runs out of memory, the kernel kills commands before the daemon, which has 400 from the launcher.
const OOM_SCORE: &[u8] = b"900";
/// The kernel's default limit is about 2 MiB; a request is far smaller.
const MAX_ARGS: usize = 1 << 20;
const MAX_ENV: usize = 1 << 20;
const MAX_STRINGS: usize = 4096;

/// A process to start.
pub(crate) struct Launch<'a> {
    pub(crate) config: &'a ProcessConfig,
    pub(crate) account: &'a Account,
    pub(crate) settings: &'a Settings,
    /// Size of its terminal; pipes if unset.
    pub(crate) pty: Option<&'a PTY>,
    /// Whether it gets a stdin pipe.
    pub(crate) stdin: bool,
}

/// A started process.
pub(crate) struct Spawned {
    pub(crate) pid: Pid,
    pub(crate) input: Input,
    pub(crate) sources: [Option<Source>; 2],
}

impl Launch<'_> {
    /// Starts the process. Contains no await: the caller registers the process before the reaper can see it end.
    pub(crate) fn start(&self) -> Result<Spawned, ConnectError> {
        self.check_sizes()?;
        let directory = self.directory()?;
        let program = program(&self.config.cmd);
        let mut command = process::Command::new(program);
        command.args(&self.config.args).env_clear().envs(self.env());
        let ends = self.connect(&mut command).map_err(|e| failed("cannot make pipes for the process", &e))?;
        self.prepare_child(&mut command, directory);
        let child = command.spawn().map_err(|e| {
            let code = match code_of(&e) {
                ErrorCode::NotFound | ErrorCode::Internal => ErrorCode::InvalidArgument,
                code => code,
            };
            ConnectError::new(code, format!("cannot start '{}': {e}", crate::auth::truncated(program)))
        })?;
        // Closes the child's ends; otherwise our pipes would never reach end of file.
        drop(command);
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| ConnectError::internal("the kernel gave no process id"))?;
        Ok(Spawned { pid, input: ends.input, sources: ends.sources })
    }

    fn check_sizes(&self) -> Result<(), ConnectError> {
        let config = self.config;
        let too_large =
            |what: &str| Err(ConnectError::resource_exhausted(format!("{what} of the process are too large")));
        if config.args.len() > MAX_STRINGS || config.args.iter().map(String::len).sum::<usize>() > MAX_ARGS {
            return too_large("the arguments");
        }
        let env = config.envs.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        if config.envs.len() > MAX_STRINGS || env > MAX_ENV {
            return too_large("the environment variables");
        }
        if config.cmd.is_empty() || config.cmd.contains('\0') {
            return Err(ConnectError::invalid_argument("cmd must name a program"));
        }
        match config.envs.keys().find(|k| k.is_empty() || k.contains(['=', '\0'])) {
            Some(key) => Err(ConnectError::invalid_argument(format!(
                "'{}' is not a name of an environment variable",
                crate::auth::truncated(key)
            ))),
            None => Ok(()),
        }
    }

    /// The environment; later entries override earlier ones.
    fn env(&self) -> impl Iterator<Item = (String, String)> {
        let search = process_path();
        let home = self.account.home.to_string_lossy().into_owned();
        let login = [
            ("PATH".to_owned(), search),
            ("HOME".to_owned(), home),
            ("USER".to_owned(), self.account.name.clone()),
            ("LOGNAME".to_owned(), self.account.name.clone()),
        ];
        let own = |(key, value): (&String, &String)| (key.clone(), value.clone());
        let trust = self.settings.trust.iter().cloned();
        login.into_iter().chain(trust).chain(self.settings.env.iter().map(own)).chain(self.config.envs.iter().map(own))
    }

    /// Opens the working directory, so that the checked directory is the one used.
    fn directory(&self) -> Result<OwnedFd, ConnectError> {
        let asked = self.config.cwd.as_deref().unwrap_or_default();
        let path = path::resolve(asked, self.account, self.settings.default_workdir.as_deref())
            .map_err(|e| ConnectError::invalid_argument(e.to_string()))?;
        match open_directory(&path) {
            Err(_) if asked.is_empty() => {
                open_directory(&self.account.home).or_else(|_| open_directory(Path::new("/")))
            }
            answer => answer,
        }
        .map_err(|refusal| match refusal {
            DirectoryError::Missing => {
                ConnectError::invalid_argument(format!("cwd '{}' does not exist", path.display()))
            }
            DirectoryError::Proc => ConnectError::invalid_argument(format!("cwd '{}' is not allowed", path.display())),
            DirectoryError::Io(cause) if cause.raw_os_error() == Some(libc::ENOTDIR) => {
                ConnectError::invalid_argument(format!("cwd '{}' is not a directory", path.display()))
            }
            DirectoryError::Io(cause) => crate::error::rpc_io("open_directory", &path, &cause),
        })
    }

    fn connect(&self, command: &mut process::Command) -> io::Result<Ends> {
        if let Some(size) = self.pty {
            let terminal = pty::open(size, self.account.uid)?;
            command.stdin(terminal.slave.try_clone()?).stdout(terminal.slave.try_clone()?).stderr(terminal.slave);
            let master = register(terminal.master)?;
            let source = Source { channel: Channel::Pty, end: Arc::clone(&master) };
            return Ok(Ends { input: Input::new(Kind::Pty, Some(master)), sources: [Some(source), None] });
        }
        let input = if self.stdin {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            command.stdin(theirs);
            Input::new(Kind::Stdin, Some(register(ours)?))
        } else {
            command.stdin(Stdio::null());
            Input::new(Kind::None, None)
        };
        let (stdout, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        command.stdout(theirs);
        let (stderr, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        command.stderr(theirs);
        let source = |channel, end| Ok::<_, io::Error>(Some(Source { channel, end: register(end)? }));
        Ok(Ends { input, sources: [source(Channel::Stdout, stdout)?, source(Channel::Stderr, stderr)?] })
    }

    fn prepare_child(&self, command: &mut process::Command, directory: OwnedFd) {
        let child = Child {
            groups: users::groups_of(self.account),
            uid: self.account.uid,
            gid: self.account.gid,
            directory,
            terminal: self.pty.is_some(),
        };
        // SAFETY: `Child::set_up` only makes system calls on data prepared before the fork: it neither allocates
        // nor takes locks.
        unsafe { command.pre_exec(move || child.set_up()) };
    }
}

struct Ends {
    input: Input,
    sources: [Option<Source>; 2],
}

/// Setup in the child between fork and exec.
struct Child {
    groups: Vec<u32>,
    uid: u32,
    gid: u32,
    directory: OwnedFd,
    terminal: bool,
}

impl Child {
    fn set_up(&self) -> io::Result<()> {
        // SAFETY: system calls with valid arguments in the single thread of the forked child. Ids are set with raw
        // `syscall`, because libc's wrappers would synchronise with threads that exist only in the parent.
        unsafe {
            check(libc::setsid().into())?;
            if self.terminal {
                check(libc::ioctl(0, libc::TIOCSCTTY, 0).into())?;
            }
            for signal in 1..=64 {
                // Fails for SIGKILL, SIGSTOP and libc's two reserved signals, as expected.
                libc::signal(signal, libc::SIG_DFL);
            }
            libc::umask(0o022);
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            check(libc::setrlimit(libc::RLIMIT_CORE, &none).into())?;
            raise_oom_score();
            // Not permitted and not needed in an ordinary process that runs as itself, as in development.
            if libc::geteuid() == 0 || libc::geteuid() != self.uid {
                check(libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()))?;
                check(libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid))?;
                check(libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid))?;
            }
            check(libc::fchdir(self.directory.as_raw_fd()).into())?;
            // The daemon's descriptors are close-on-exec; this covers descriptors that a launcher left open. Kernels
            // before 5.11 do not support it.
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        Ok(())
    }
}

fn check(answer: i64) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Best effort: `/proc` may be hidden.
///
/// # Safety
/// Only system calls; callable between fork and exec.
unsafe fn raise_oom_score() {
    const FILE: &CStr = c"/proc/self/oom_score_adj";
    // SAFETY: the path is a C string, the buffer is valid for its length, and the descriptor is closed once.
    unsafe {
        let fd = libc::open(FILE.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::write(fd, OOM_SCORE.as_ptr().cast(), OOM_SCORE.len());
            libc::close(fd);
        }
    }
}

enum DirectoryError {
    Missing,
    Proc,
    Io(io::Error),
}

/// Opens a working directory. `/proc` is refused: its links lead to open files of the daemon and other processes.
fn open_directory(path: &Path) -> Result<OwnedFd, DirectoryError> {
    let fd = open::open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).map_err(|cause| {
        match cause.raw_os_error() {
            Some(libc::ENOENT) => DirectoryError::Missing,
            Some(libc::ELOOP) if path.starts_with("/proc") => DirectoryError::Proc,
            _ => DirectoryError::Io(cause),
        }
    })?;
    if open::is_kernel_made(&fd) && open::real_path(&fd).map_or(true, |real| real.starts_with("/proc")) {
        return Err(DirectoryError::Proc);
    }
    Ok(fd)
}

/// Clients use bash, but small images have only `sh`.
fn program(cmd: &str) -> &str {
    if cmd == "/bin/bash" && !Path::new(cmd).exists() { "/bin/sh" } else { cmd }
}

fn process_path() -> String {
    std::env::var_os("PATH")
        .map(PathBuf::from)
        .and_then(|p| p.into_os_string().into_string().ok())
        .filter(|p| !p.is_empty())
        .unwrap_or_else(|| DEFAULT_PATH.to_owned())
}

fn failed(what: &str, cause: &io::Error) -> ConnectError {
    ConnectError::new(code_of(cause), format!("{what}: {cause}"))
}
