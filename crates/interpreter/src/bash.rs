//! A kernel that is a shell: it reads each cell from a file, and writes the exit status of the last command to a pipe.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;

use crate::event::{Event, Failure};
use crate::process::Process;
use crate::script::Utf8;

/// How much output is read at once.
const PIECE: usize = 64 << 10;

/// A shell.
#[derive(Debug)]
pub(crate) struct Bash {
    stdin: ChildStdin,
    cell: PathBuf,
    events: UnboundedSender<Event>,
    count: u64,
}

impl Bash {
    /// Starts a shell. Output and errors are one stream, in their order.
    pub(crate) async fn start(
        command: &mut Command,
        place: &Path,
        events: &UnboundedSender<Event>,
    ) -> std::io::Result<(Self, Process)> {
        let (status_path, cell) = (place.with_extension("status"), place.with_extension("cell"));
        rustix::fs::mknodat(CWD, &status_path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Also for writing: a pipe without a writer would be at its end.
        let status = pipe::OpenOptions::new().read_write(true).open_receiver(&status_path)?;
        let (reader, writer) = std::io::pipe()?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
        command.args(["--noprofile", "--norc"]).stdout(writer.try_clone()?).stderr(writer);
        let (process, stdin) = Process::spawn(command, Stdio::piped(), events.clone())?;
        let stdin = stdin.ok_or_else(|| std::io::Error::other("it has no input"))?;
        let mut bash = Self { stdin, cell, events: events.clone(), count: 0 };
        // An interrupt ends the command that runs, and not the shell.
        bash.write(&format!("trap : INT; exec 9>{}\n", quoted(&status_path.to_string_lossy()))).await?;
        tokio::spawn(follow(output, status, events.clone()));
        Ok((bash, process))
    }

    /// Runs a cell, after changes of the environment.
    pub(crate) async fn execute(
        &mut self,
        code: &str,
        environment: &BTreeMap<String, Option<String>>,
    ) -> std::io::Result<()> {
        self.count += 1;
        // The context holds the other end.
        let _ = self.events.send(Event::Started(self.count));
        tokio::fs::write(&self.cell, code).await?;
        let mut lines = String::new();
        for (name, value) in environment.iter().filter(|(name, _)| is_name(name)) {
            lines.push_str(&match value {
                Some(value) => format!("export {name}={}\n", quoted(value)),
                None => format!("unset {name}\n"),
            });
        }
        lines.push_str(&format!(". {} </dev/null 9>&-; echo \"$?\" >&9\n", quoted(&self.cell.to_string_lossy())));
        self.write(&lines).await
    }

    async fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.stdin.write_all(text.as_bytes()).await?;
        self.stdin.flush().await
    }
}

/// Reports output, and the end of each cell after all output that came before.
async fn follow(output: pipe::Receiver, status: pipe::Receiver, events: UnboundedSender<Event>) {
    let mut status = BufReader::new(status);
    let (mut line, mut text, mut buffer) = (String::new(), Utf8::default(), vec![0; PIECE]);
    loop {
        let ended = tokio::select! {
            biased;
            readable = output.readable() => {
                if readable.is_err() {
                    return;
                }
                false
            }
            // A line is shorter than what a pipe writes at once.
            read = status.read_line(&mut line) => {
                if read.is_err() {
                    return;
                }
                true
            }
        };
        loop {
            match output.try_read(&mut buffer) {
                // Every writer is gone.
                Ok(0) => return,
                Ok(n) => {
                    if let Some(text) = text.take(&buffer[..n]) {
                        // The context may be gone.
                        let _ = events.send(Event::Stream { stderr: false, text });
                    }
                    if !ended {
                        break;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => return,
            }
        }
        if ended {
            let status = std::mem::take(&mut line);
            if status.trim() != "0" {
                let _ = events.send(Event::Error(Failure::of_service("", status.trim())));
            }
            let _ = events.send(Event::Idle);
        }
    }
}

/// A text in quotes of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Whether a shell can have a variable of this name.
fn is_name(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    text.bytes().next().is_some_and(letter) && text.bytes().all(|b| letter(b) || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_for_a_shell() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert!(is_name("A_1") && !is_name("1A") && !is_name("") && !is_name("A;B"));
    }
}
