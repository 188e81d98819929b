//! Registry of commands: running ones, and for a while those that ended, so that a late reader can still attach.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cabana_proto::process::__buffa::oneof::process_selector::Selector;
use cabana_proto::process::ProcessSelector;
use cabana_types::guest::{Activity, SERVICE_TAG};
use connectrpc::ConnectError;
use rustix::process::Signal;

use crate::command::{Command, Status};
use crate::guest::lock;
use crate::journal::Journal;
use crate::pump;
use crate::ring::Budget;
use crate::spawn::Launch;
use crate::tools::output_file::OutputFile;

/// Maximum number of running commands.
const MAX_LIVE: usize = 512;
/// How many ended commands are remembered, and for how long.
const MAX_ENDED: usize = 128;
const REMEMBERED: Duration = Duration::from_secs(300);
/// Maximum number of ended commands whose pipes are kept open for background processes.
const MAX_LINGERING: usize = 128;

#[derive(Debug, Default)]
struct Registry {
    live: HashMap<u32, Arc<Command>>,
    ended: VecDeque<(Instant, Arc<Command>)>,
    evicting: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Commands {
    registry: Mutex<Registry>,
    /// Memory budget for all output.
    pub(crate) budget: Arc<Budget>,
    lingering: AtomicUsize,
    /// Log of starts and exits.
    pub(crate) journal: Journal,
}

impl Commands {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Starts a command and its pump, which also writes its output to `output`. A quiet one is not logged, and is forgotten
    /// when it has ended.
    pub(crate) fn start(
        self: &Arc<Self>,
        launch: &Launch<'_>,
        tag: Option<String>,
        quiet: bool,
        output: Option<OutputFile>,
    ) -> Result<Arc<Command>, ConnectError> {
        self.check_room()?;
        let spawned = launch.start()?;
        let (config, budget) = (launch.config.clone(), Arc::clone(&self.budget));
        let command = Arc::new(Command::new(spawned.pid, tag, config, spawned.input, budget, quiet));
        self.add(Arc::clone(&command));
        let [first, second] = spawned.sources;
        tokio::spawn(pump::run(Arc::clone(self), Arc::clone(&command), [first, second], output));
        Ok(command)
    }

    /// Returns an error if too many commands are running.
    fn check_room(&self) -> Result<(), ConnectError> {
        if lock(&self.registry).live.len() < MAX_LIVE {
            return Ok(());
        }
        self.journal.warn(None, format!("Command refused: {MAX_LIVE} are already running"));
        Err(ConnectError::resource_exhausted(format!("{MAX_LIVE} commands are running; end some first")))
    }

    /// Registers a command that was just started. There is no await between its start and this, so the reaper cannot
    /// run in between.
    fn add(&self, command: Arc<Command>) {
        let number = command.number();
        if !command.quiet {
            self.journal.info(Some(number), format!("Process {number} started: {}", command.line()));
        }
        let mut registry = lock(&self.registry);
        registry.ended.retain(|(_, ended)| ended.number() != number);
        registry.live.insert(number, command);
    }

    /// Records the exit status of a process.
    pub(crate) fn reaped(&self, pid: u32, status: Status) {
        if let Some(command) = lock(&self.registry).live.get(&pid) {
            command.reaped(status);
        }
    }

    /// Moves a command whose output is complete to the ended commands.
    pub(crate) fn ended(self: &Arc<Self>, command: &Arc<Command>) {
        let number = command.number();
        match command.status() {
            _ if command.quiet => {}
            _ if command.timed_out() => {
                self.journal.warn(Some(number), format!("Process {number} was killed: its deadline passed"));
            }
            Some(status) => self.journal.info(Some(number), format!("Process {number} ended: {}", status.describe())),
            None => {}
        }
        let mut registry = lock(&self.registry);
        if registry.live.get(&number).is_some_and(|live| Arc::ptr_eq(live, command)) {
            registry.live.remove(&number);
        }
        if command.quiet {
            return;
        }
        registry.ended.push_back((Instant::now(), Arc::clone(command)));
        let alone = !std::mem::replace(&mut registry.evicting, true);
        drop(registry);
        self.evict();
        if alone {
            tokio::spawn(Arc::clone(self).evict_by_age());
        }
    }

    /// Expires ended commands; one task for all of them, which exits with the last.
    async fn evict_by_age(self: Arc<Self>) {
        loop {
            tokio::time::sleep(REMEMBERED).await;
            self.evict();
            let mut registry = lock(&self.registry);
            if registry.ended.is_empty() {
                registry.evicting = false;
                return;
            }
        }
    }

    /// Drops ended commands beyond the limits on number, age and size.
    fn evict(&self) {
        let mut registry = lock(&self.registry);
        while let Some((at, _)) = registry.ended.front() {
            let over = registry.ended.len() > MAX_ENDED || self.budget.is_short();
            if !over && at.elapsed() < REMEMBERED {
                break;
            }
            registry.ended.pop_front();
        }
    }

    /// Commands whose process is running.
    pub(crate) fn running(&self) -> Vec<Arc<Command>> {
        let mut commands: Vec<_> =
            lock(&self.registry).live.values().filter(|c| c.status().is_none()).cloned().collect();
        commands.sort_by_key(|c| c.number());
        commands
    }

    /// Activity, as reported to the host.
    pub(crate) fn activity(&self) -> Activity {
        Activity { commands: self.running().iter().filter(|c| !is_service(c)).count() }
    }

    /// Finds a running command.
    pub(crate) fn find_running(&self, selector: Option<&ProcessSelector>) -> Result<Arc<Command>, ConnectError> {
        let selector = required(selector)?;
        self.running().into_iter().find(|c| matches(c, selector)).ok_or_else(|| not_found(selector))
    }

    /// Finds a running or ended command; if several have the same tag, the latest.
    pub(crate) fn find(&self, selector: Option<&ProcessSelector>) -> Result<Arc<Command>, ConnectError> {
        let selector = required(selector)?;
        let registry = lock(&self.registry);
        let live = registry.live.values().find(|c| matches(c, selector));
        let ended = || registry.ended.iter().rev().map(|(_, c)| c).find(|c| matches(c, selector));
        live.or_else(ended).cloned().ok_or_else(|| not_found(selector))
    }

    /// The latest command with a tag, running or ended.
    pub(crate) fn tagged(&self, tag: &str) -> Option<Arc<Command>> {
        let registry = lock(&self.registry);
        let has_tag = |c: &&Arc<Command>| c.tag.as_deref() == Some(tag);
        let live = registry.live.values().filter(has_tag).max_by_key(|c| c.number());
        live.or_else(|| registry.ended.iter().rev().map(|(_, c)| c).find(has_tag)).cloned()
    }

    /// Services, running or ended.
    pub(crate) fn services(&self) -> Vec<Arc<Command>> {
        let registry = lock(&self.registry);
        let all = registry.live.values().chain(registry.ended.iter().map(|(_, c)| c));
        all.filter(|c| is_service(c)).cloned().collect()
    }

    /// Kills all commands; used on shutdown.
    pub(crate) fn kill_all(&self) {
        for command in self.running() {
            // It may just have ended.
            let _ = command.signal(Signal::KILL);
        }
    }

    /// Acquires a permit to keep pipes open after their command has ended.
    pub(crate) fn linger(self: &Arc<Self>) -> Option<LingerPermit> {
        let taken = self.lingering.fetch_add(1, Ordering::Relaxed);
        let permit = LingerPermit(Arc::clone(self));
        (taken < MAX_LINGERING).then_some(permit)
    }
}

/// Permit from [`Commands::linger`].
pub(crate) struct LingerPermit(Arc<Commands>);

impl Drop for LingerPermit {
    fn drop(&mut self) {
        self.0.lingering.fetch_sub(1, Ordering::Relaxed);
    }
}

fn is_service(command: &Command) -> bool {
    command.tag.as_ref().is_some_and(|tag| tag.starts_with(SERVICE_TAG))
}

fn required(selector: Option<&ProcessSelector>) -> Result<&Selector, ConnectError> {
    selector
        .and_then(|s| s.selector.as_ref())
        .ok_or_else(|| ConnectError::invalid_argument("a process must be selected by pid or tag"))
}

fn matches(command: &Command, selector: &Selector) -> bool {
    match selector {
        Selector::Pid(pid) => command.number() == *pid,
        Selector::Tag(tag) => command.tag.as_ref() == Some(tag),
    }
}

fn not_found(selector: &Selector) -> ConnectError {
    ConnectError::not_found(match selector {
        Selector::Pid(pid) => format!("process with pid {pid} not found"),
        Selector::Tag(tag) => format!("process with tag '{}' not found", crate::auth::truncated(tag)),
    })
}
