//! Runs one command in a sandbox as if it were local: output, input, signals, terminal size and exit code.

use std::io::IsTerminal;
use std::time::Duration;

use bytes::Bytes;
use cabana_client::{Command, CommandEvent, Error, Exit, SandboxHandle, Signal, StartCommand};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::args::CommandArgs;
use crate::failure::{Failure, Outcome};
use crate::signals::Signals;
use crate::terminal::{self, RawMode};

/// How long a command may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);
/// The same on a terminal: interactive shells ignore SIGTERM.
const TERMINAL_GRACE: Duration = Duration::from_secs(1);
/// Exit code on timeout, as for `timeout`.
const TIMED_OUT: u8 = 124;
/// Exit code if the sandbox ended before the command: as if it was killed.
const KILLED: u8 = 137;
/// Exit codes of a command that could not be started, as for shells.
const NOT_EXECUTABLE: u8 = 126;
const NO_SUCH_COMMAND: u8 = 127;
/// Chunk size for input.
const CHUNK: usize = 32 * 1024;
/// End of input on a terminal (Ctrl-D).
const END_OF_INPUT: &[u8] = &[4];

/// Applies the flags for input and the terminal.
pub(crate) fn prepare(command: &mut StartCommand, args: &CommandArgs) {
    command.cwd = args.cwd.clone();
    if args.tty {
        command.pty = Some(terminal::size());
        for (name, value) in [("TERM", "xterm-256color"), ("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8")] {
            command.env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    command.stdin = !args.no_stdin && (args.tty || !std::io::stdin().is_terminal());
}

/// Runs a command to its end and returns the exit code as a shell would.
pub(crate) async fn run(sandbox: &SandboxHandle, command: &StartCommand, signals: &mut Signals) -> Outcome {
    let raw = if command.pty.is_some() { RawMode::enter()? } else { None };
    match follow(sandbox, command, signals).await {
        Ok(exit) => {
            if let Some(raw) = raw {
                raw.leave_cleanly();
            }
            Ok(exit.shell_code())
        }
        Err(failure) => {
            drop(raw);
            Err(match failure.client_error() {
                Some(e) if e.is_deadline() => Failure::user_error("the command timed out").code(TIMED_OUT),
                Some(e) => match code_of(e) {
                    Some(code) => failure.code(code),
                    None => failure,
                },
                None => failure,
            })
        }
    }
}

/// The exit code for a command that could not run to its end, as for shells.
fn code_of(error: &Error) -> Option<u8> {
    match error {
        Error::Gone { .. } => Some(KILLED),
        Error::Guest { message, .. } if message.starts_with("cannot start ") => {
            Some(if error.guest_code() == Some("permission_denied") { NOT_EXECUTABLE } else { NO_SUCH_COMMAND })
        }
        _ => None,
    }
}

async fn follow(sandbox: &SandboxHandle, command: &StartCommand, signals: &mut Signals) -> Result<Exit, Failure> {
    let pty = command.pty.is_some();
    let running = sandbox.start(command).await?;
    let pid = running.pid();
    let mut printing = AbortOnDropHandle::new(tokio::spawn(print(running)));
    let _input = command.stdin.then(|| AbortOnDropHandle::new(tokio::spawn(send_input(sandbox.clone(), pid, pty))));
    let mut resized = signal(SignalKind::window_change())?;
    let grace = if pty { TERMINAL_GRACE } else { GRACE };
    let mut asked = 0_u32;
    let mut deadline = Instant::now();
    loop {
        tokio::select! {
            ended = &mut printing => {
                let result = ended?;
                // The reader of our output is gone: send the command what a local one would get.
                if result.as_ref().is_err_and(Failure::is_silent) {
                    let _ = sandbox.signal(pid, Signal::Terminate).await;
                }
                return result;
            }
            number = signals.recv() => {
                asked += 1;
                deadline = Instant::now() + grace;
                send(sandbox, pid, if asked == 1 { Signal::Terminate } else { Signal::Kill });
                if asked > 2 {
                    return Err(Failure::user_error("interrupted").code(128 + number));
                }
            }
            () = tokio::time::sleep_until(deadline), if asked > 0 => {
                asked += 1;
                deadline = Instant::now() + grace;
                send(sandbox, pid, Signal::Kill);
                if asked > 2 {
                    return Err(Failure::user_error("the command did not end when it was killed"));
                }
            }
            Some(()) = resized.recv(), if pty => {
                let (sandbox, size) = (sandbox.clone(), terminal::size());
                tokio::spawn(async move { sandbox.resize(pid, size).await });
            }
        }
    }
}

/// Sends a signal from its own task, so that the loop is not blocked. Errors are ignored: the command may have ended.
fn send(sandbox: &SandboxHandle, pid: u32, signal: Signal) {
    let sandbox = sandbox.clone();
    tokio::spawn(async move { sandbox.signal(pid, signal).await });
}

/// Prints the command's output, as fast as our reader reads it.
async fn print(mut command: Command) -> Result<Exit, Failure> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    while let Some(event) = command.next().await? {
        match event {
            CommandEvent::Stdout(bytes) | CommandEvent::Pty(bytes) => {
                stdout.write_all(&bytes).await?;
                stdout.flush().await?;
            }
            CommandEvent::Stderr(bytes) => {
                stderr.write_all(&bytes).await?;
                stderr.flush().await?;
            }
            CommandEvent::Ended(exit) => return Ok(exit),
        }
    }
    Err(Failure::user_error("the command's output stopped"))
}

/// Sends our input to the command, until it accepts no more.
async fn send_input(sandbox: SandboxHandle, pid: u32, pty: bool) {
    let mut stdin = tokio::io::stdin();
    let sink = sandbox.stdin(pid, pty);
    let mut buffer = vec![0; CHUNK];
    loop {
        match stdin.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                if !sink.send(Bytes::copy_from_slice(&buffer[..count])).await {
                    return;
                }
            }
        }
    }
    if pty {
        sink.send(Bytes::from_static(END_OF_INPUT)).await;
        let _ = sink.finish().await;
    } else if sink.finish().await.is_ok() {
        let _ = sandbox.close_stdin(pid).await;
    }
}
