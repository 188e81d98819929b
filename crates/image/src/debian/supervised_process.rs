//! Runs a program that cannot outlive the server: in PID and mount namespaces of its own, killed with all its descendants on
//! request, or when the server exits or is killed. Its mounts go with the namespace.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use cabana_fs::program;

use super::Error;

/// Lines of a failed program's output that its error shows.
const SHOWN_LINES: usize = 20;
const MAX_LINE_BYTES: u64 = 4096;
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs one program at a time; [`kill`](Self::kill) ends it from another thread.
#[derive(Debug, Default)]
pub(super) struct SupervisedProcess {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    killed: bool,
    process: Option<OwnedFd>,
}

impl SupervisedProcess {
    /// Kills the running program; later ones are not started.
    pub(super) fn kill(&self) {
        let mut state = self.lock();
        state.killed = true;
        if let Some(process) = &state.process {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self, process: OwnedFd) {
        let mut state = self.lock();
        if state.killed {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
        state.process = Some(process);
    }

    /// Runs a program to its end on the calling thread, passing each line of its output to `line`. The kernel kills the program
    /// when the thread that started it ends, so this must not be a thread of a pool.
    pub(super) fn run(
        &self,
        name: &'static str,
        arguments: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
        input: String,
        mut line: impl FnMut(&str),
    ) -> Result<(), Error> {
        let io = |source| Error::Io { action: name, source };
        // Do not start it at all: a process killed during startup may leave a child that has no death signal set yet.
        if self.lock().killed {
            return Err(Error::Program { program: name, output: "it was stopped before it began".to_owned() });
        }
        let program = program::find(name).ok_or(Error::NotInstalled(name))?;
        let setpriv = program::find("setpriv").ok_or(Error::NotInstalled("util-linux"))?;
        let (mut reader, writer) = std::io::pipe().map_err(io)?;
        let mut command = Command::new(setpriv);
        command
            .args([
                "--pdeathsig",
                "KILL",
                "--",
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "--pid",
                "--mount-proc",
            ])
            .args(["--fork", "--kill-child=KILL", "--"])
            // The shell is PID 1 of the namespace, so that the program need not reap orphans.
            .args(["/bin/sh", "-c", "umask 022; \"$@\"; exit $?", "sh"])
            .arg(program)
            .args(arguments)
            .current_dir("/")
            .env_clear()
            .env("PATH", PATH)
            .env("HOME", "/root")
            .env("LC_ALL", "C.UTF-8")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone().map_err(io)?)
            .stderr(writer);
        let mut child = command.spawn().map_err(io)?;
        // It holds the pipe's write end: without this the reader would never see its end.
        drop(command);
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => self.started(process),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io(error.into()));
            }
        }
        if let Some(mut stdin) = child.stdin.take() {
            // If the program does not read its input, its output says why.
            let _ = stdin.write_all(input.as_bytes());
        }
        let last = read_lines(&mut reader, &mut line);
        let status = child.wait();
        self.lock().process = None;
        match status.map_err(io)? {
            status if status.success() => Ok(()),
            status => {
                let mut last = Vec::from(last);
                last.push(format!("({status})"));
                Err(Error::Program { program: name, output: last.join("\n") })
            }
        }
    }
}

/// Passes each line on and returns the last ones.
fn read_lines(reader: &mut impl Read, line: &mut impl FnMut(&str)) -> VecDeque<String> {
    let mut reader = BufReader::new(reader);
    let mut last = VecDeque::new();
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return last,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        line(text);
        if last.len() == SHOWN_LINES {
            last.pop_front();
        }
        last.push_back(text.to_owned());
    }
}

/// Turns fsync and the like into no-ops for this thread and its children. Package managers call them thousands of times; the
/// pool syncs the finished tree once, before it gets its name.
pub(super) fn disable_fsync() {
    let calls = [
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_sync,
        libc::SYS_syncfs,
        libc::SYS_sync_file_range,
        libc::SYS_msync,
    ];
    let applied = (|| {
        let rules: BTreeMap<i64, Vec<_>> = calls.iter().map(|call| (*call, Vec::new())).collect();
        let architecture = std::env::consts::ARCH.try_into()?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(0), architecture)?;
        seccompiler::apply_filter(&BpfProgram::try_from(filter)?)
    })();
    if let Err(error) = applied {
        tracing::debug!(%error, "fsync stays enabled; the build will be slower");
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn shell(process: &SupervisedProcess, script: &str, line: impl FnMut(&str)) -> Result<(), Error> {
        process.run("sh", vec!["-s".into()], Vec::new(), script.to_owned(), line)
    }

    #[test]
    fn a_failed_program_shows_its_last_lines() {
        let error =
            shell(&SupervisedProcess::default(), "seq 1 50; echo oops >&2; exit 3", |_| ()).expect_err("it failed");
        let Error::Program { output, .. } = error else { panic!("{error}") };
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[19]), (SHOWN_LINES + 1, "32", "oops"));
        assert!(lines[20].contains('3'), "{output}");
    }

    #[test]
    fn kill_ends_all_descendants() {
        let process = SupervisedProcess::default();
        let mark = format!("86400.{}", std::process::id());
        let start = Instant::now();
        std::thread::scope(|scope| {
            // Even what detaches itself.
            let script = format!("setsid sleep {mark} & sleep {mark} & echo up; wait");
            let (up, is_up) = std::sync::mpsc::channel();
            let process = &process;
            let run = scope.spawn(move || shell(process, &script, |_| up.send(()).expect("somebody waits")));
            is_up.recv().expect("it is up");
            let came = wait(|| running(&mark) == 2);
            process.kill();
            assert!(run.join().expect("no panic").is_err());
            assert!(came, "they did not start");
        });
        assert!(wait(|| running(&mark) == 0), "something is left");
        // Later programs are not started.
        assert!(shell(&process, "sleep 86400", |_| ()).is_err());
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    fn wait(mut until: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if until() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    fn running(mark: &str) -> usize {
        let processes = std::fs::read_dir("/proc").expect("processes").flatten();
        let line = format!("sleep\0{mark}\0").into_bytes();
        processes.filter(|p| std::fs::read(p.path().join("cmdline")).is_ok_and(|l| l == line)).count()
    }
}
