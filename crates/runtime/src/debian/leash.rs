//! Running long programs so that they cannot outlive us: in namespaces of their own, killed with everything that they started when we
//! stop, are killed, or no longer care. Their mounts vanish with them.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use cabana_fs::program;

use crate::Error;

/// How many of a failed program's last lines are shown.
const SHOWN: usize = 20;
const LONGEST_LINE: u64 = 4096;

/// Ends the program that runs on it, from another thread.
#[derive(Debug, Default)]
pub(super) struct Leash {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    pulled: bool,
    process: Option<OwnedFd>,
}

impl Leash {
    /// Kills what is running, and what would be started later.
    pub(super) fn pull(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.pulled = true;
        if let Some(process) = &held.process {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    fn hold(&self, process: OwnedFd) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.pulled {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
        held.process = Some(process);
    }

    fn is_pulled(&self) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).pulled
    }

    fn let_go(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).process = None;
    }

    /// Runs a program to its end on the calling thread, which must be one that lives until then: the kernel kills the program when the
    /// thread that started it ends. Lines that it prints go to `line`.
    pub(super) fn run(
        &self,
        name: &'static str,
        arguments: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
        input: String,
        mut line: impl FnMut(&str),
    ) -> Result<(), Error> {
        let io = |source| Error::Io { action: name, source };
        let missing =
            |program: &str| Error::Unsupported(format!("{program} is not installed: apt-get install {program}"));
        // Not started at all: what is killed while it starts may leave a child that does not know yet to end with it.
        if self.is_pulled() {
            return Err(Error::Program { program: name, output: "it was stopped before it began".to_owned() });
        }
        let program = program::find(name).ok_or_else(|| missing(name))?;
        let setpriv = program::find("setpriv").ok_or_else(|| missing("util-linux"))?;
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
            // The shell is the first process of the namespace, so that the program need not care for orphans.
            .args(["/bin/sh", "-c", "umask 022; \"$@\"; exit $?", "sh"])
            .arg(program)
            .args(arguments)
            .current_dir("/")
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root")
            .env("LC_ALL", "C.UTF-8")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone().map_err(io)?)
            .stderr(writer);
        let mut child = command.spawn().map_err(io)?;
        // It holds the writing end of the pipe, which would never end.
        drop(command);
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => self.hold(process),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(io(error.into()));
            }
        }
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read its input says why in its output.
            let _ = stdin.write_all(input.as_bytes());
        }
        let last = read_lines(&mut reader, &mut line);
        let status = child.wait();
        self.let_go();
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

/// Hands the lines on and keeps the last ones.
fn read_lines(reader: &mut impl Read, line: &mut impl FnMut(&str)) -> VecDeque<String> {
    let mut reader = BufReader::new(reader);
    let mut last = VecDeque::new();
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return last,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        if text.is_empty() {
            continue;
        }
        line(text);
        if last.len() == SHOWN {
            last.pop_front();
        }
        last.push_back(text.to_owned());
    }
}

/// Makes the calls that wait for the disk do nothing, for this thread and what it starts. A package manager makes thousands; the pool writes
/// everything to disk once, before the result gets its name.
pub(super) fn never_wait_for_the_disk() {
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
        tracing::debug!(%error, "the build will be slower");
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn shell(leash: &Leash, script: &str, line: impl FnMut(&str)) -> Result<(), Error> {
        leash.run("sh", vec!["-s".into()], Vec::new(), script.to_owned(), line)
    }

    #[test]
    fn a_failed_program_shows_its_last_lines() {
        let error = shell(&Leash::default(), "seq 1 50; echo oops >&2; exit 3", |_| ()).expect_err("it failed");
        let Error::Program { output, .. } = error else { panic!("{error}") };
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[19]), (SHOWN + 1, "32", "oops"));
        assert!(lines[20].contains('3'), "{output}");
    }

    #[test]
    fn a_pulled_leash_ends_everything_that_was_started() {
        let leash = Leash::default();
        let mark = format!("86400.{}", std::process::id());
        let start = Instant::now();
        std::thread::scope(|scope| {
            // Even what detaches itself.
            let script = format!("setsid sleep {mark} & sleep {mark} & echo up; wait");
            let (up, is_up) = std::sync::mpsc::channel();
            let leash = &leash;
            let run = scope.spawn(move || shell(leash, &script, |_| up.send(()).expect("somebody waits")));
            is_up.recv().expect("it is up");
            let came = wait(|| running(&mark) == 2);
            leash.pull();
            assert!(run.join().expect("no panic").is_err());
            assert!(came, "they did not start");
        });
        assert!(wait(|| running(&mark) == 0), "something is left");
        // Nothing can be started on it any more.
        assert!(shell(&leash, "sleep 86400", |_| ()).is_err());
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
