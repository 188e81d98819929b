//! A kernel: what runs the cells of one context, in one process. It runs one at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::bash::Bash;
use crate::error::Error;
use crate::event::Event;
use crate::jupyter::{Jupyter, python_environment, r_environment};
use crate::language::{Language, Runner};
use crate::process::Process;
use crate::script::Script;

/// Changes of environment variables: a value, or none to remove it.
pub(crate) type Environment = BTreeMap<String, Option<String>>;

/// Where the service keeps its sockets and scripts. Only root may enter it.
pub(crate) const PLACE: &str = "/run/cabana-interpreter";
pub(crate) const SCRIPTS: [(&str, &str); 2] = [
    ("python.py", include_str!("../kernels/python.py")),
    ("javascript.mjs", include_str!("../kernels/javascript.mjs")),
];

/// The environment of kernels: they run as root.
const HOME: [(&str, &str); 3] = [("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root")];

/// A running kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    talk: Talk,
    process: Process,
    events: UnboundedReceiver<Event>,
    /// Variables that an earlier cell had for itself.
    changed: Vec<String>,
    used: bool,
}

#[derive(Debug)]
enum Talk {
    Python(Jupyter),
    R(Jupyter),
    Script(Script),
    Bash(Bash),
}

impl Kernel {
    /// Starts a kernel in a directory.
    pub(crate) async fn start(language: &Language, directory: &str) -> Result<Self, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let place =
            Path::new(PLACE).join(format!("k{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed)));
        if !tokio::fs::metadata(directory).await.is_ok_and(|about| about.is_dir()) {
            return Err(Error::Directory(directory.to_owned()));
        }
        let (sender, mut events) = unbounded_channel();
        let script = |name: &str| Path::new(PLACE).join(name);
        let command = |program: &str| {
            let mut command = Command::new(program);
            command.current_dir(directory).envs(HOME);
            command
        };
        let started = match language.runner {
            Runner::Python => {
                let python = |file: &Path| {
                    let mut command = command("python3");
                    // It ends when its parent does.
                    command.arg(script("python.py")).arg(file).env("JPY_PARENT_PID", std::process::id().to_string());
                    command
                };
                let started = Jupyter::start(python, place, &sender, &mut events).await;
                started.map(|(jupyter, process)| (Talk::Python(jupyter), process))
            }
            Runner::R => {
                let r = |file: &Path| {
                    let mut command = command("R");
                    command
                        .args(["--no-save", "--no-restore", "--no-echo", "-e", "IRkernel::main()", "--args"])
                        .arg(file);
                    command
                };
                let started = Jupyter::start(r, place, &sender, &mut events).await;
                started.map(|(jupyter, process)| (Talk::R(jupyter), process))
            }
            Runner::Node { types } => {
                let mut command = command("node");
                command.arg("--disable-warning=ExperimentalWarning").arg(script("javascript.mjs"));
                command.arg(if types { "typescript" } else { "javascript" });
                let started = Script::start(&mut command, &place, &sender).await;
                started.map(|(script, process)| (Talk::Script(script), process))
            }
            Runner::Bash => {
                let started = Bash::start(&mut command("bash"), &place, &sender).await;
                started.map(|(bash, process)| (Talk::Bash(bash), process))
            }
        };
        let (talk, process) = started.map_err(|error| Error::Kernel(language.name, error.to_string()))?;
        Ok(Self { talk, process, events, changed: Vec::new(), used: false })
    }

    /// The process, to end it while the kernel is in use.
    pub(crate) fn process(&self) -> Process {
        self.process.clone()
    }

    /// Whether it has run a cell.
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Begins a cell with variables of its own. An error means that the kernel is about to end.
    pub(crate) async fn begin(&mut self, code: &str, own: &BTreeMap<String, String>) -> std::io::Result<()> {
        self.used = true;
        let changes = self.changes(own);
        self.discard();
        match &mut self.talk {
            Talk::Python(jupyter) | Talk::R(jupyter) if changes.is_empty() => jupyter.execute(code).await,
            Talk::Python(_) => {
                self.run_silently(&python_environment(&changes)).await?;
                self.again(code).await
            }
            Talk::R(_) => {
                self.run_silently(&r_environment(&changes)).await?;
                self.again(code).await
            }
            Talk::Script(script) => script.execute(code, &changes).await,
            Talk::Bash(bash) => bash.execute(code, &changes).await,
        }
    }

    /// Sends a cell to a Jupyter kernel that has thrown it away.
    pub(crate) async fn again(&mut self, code: &str) -> std::io::Result<()> {
        self.discard();
        match &mut self.talk {
            Talk::Python(jupyter) | Talk::R(jupyter) => jupyter.execute(code).await,
            Talk::Script(_) | Talk::Bash(_) => Ok(()),
        }
    }

    /// The next report. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Event {
        self.events.recv().await.unwrap_or(Event::Died)
    }

    /// Asks the cell to end.
    pub(crate) async fn interrupt(&mut self) {
        match &mut self.talk {
            // If it does not take the message, it is killed.
            Talk::Script(script) => drop(script.interrupt().await),
            _ => self.process.interrupt(),
        }
    }

    async fn run_silently(&mut self, code: &str) -> std::io::Result<()> {
        if let Talk::Python(jupyter) | Talk::R(jupyter) = &mut self.talk {
            jupyter.execute_silently(code).await?;
        }
        loop {
            match self.next().await {
                Event::Idle => return Ok(()),
                Event::Died => return Err(std::io::ErrorKind::BrokenPipe.into()),
                _ => {}
            }
        }
    }

    /// Reports about earlier cells.
    fn discard(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            if matches!(event, Event::Died) {
                self.events.close();
            }
        }
    }

    /// What to change for a cell: variables of the one before get the sandbox's value back.
    fn changes(&mut self, own: &BTreeMap<String, String>) -> Environment {
        let before = std::mem::replace(&mut self.changed, own.keys().cloned().collect());
        let restored = before.into_iter().map(|name| {
            let home = HOME.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let value = home.or_else(|| std::env::var(&name).ok());
            (name, value)
        });
        restored.chain(own.iter().map(|(name, value)| (name.clone(), Some(value.clone())))).collect()
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.process.kill();
    }
}
