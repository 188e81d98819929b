//! All commands: the running ones, and for a while those that ended, so that a late reader learns how.

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

/// Commands at once.
const MAX_LIVE: usize = 512;
/// Ended commands that are remembered, and for how long.
const MAX_ENDED: usize = 128;
const REMEMBERED: Duration = Duration::from_secs(300);
/// Ended commands whose pipes are kept open for processes that they left behind.
const MAX_LINGERING: usize = 128;

#[derive(Debug, Default)]
struct Registry {
    live: HashMap<u32, Arc<Command>>,
    ended: VecDeque<(Instant, Arc<Command>)>,
    forgetting: bool,
}

/// The registry.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    registry: Mutex<Registry>,
    /// Memory of all output.
    pub(crate) budget: Arc<Budget>,
    lingering: AtomicUsize,
    /// Where their starts and ends are noted.
    pub(crate) journal: Journal,
}

impl Commands {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Starts a command and what looks after it. A quiet one leaves no trace: it is not noted, and forgotten when it has ended.
    pub(crate) fn start(
        self: &Arc<Self>,
        launch: &Launch<'_>,
        tag: Option<String>,
        quiet: bool,
    ) -> Result<Arc<Command>, ConnectError> {
        self.check_room()?;
        let spawned = launch.start()?;
        let (config, budget) = (launch.config.clone(), Arc::clone(&self.budget));
        let command = Arc::new(Command::new(spawned.pid, tag, config, spawned.input, budget, quiet));
        self.add(Arc::clone(&command));
        let [first, second] = spawned.sources;
        tokio::spawn(pump::run(Arc::clone(self), Arc::clone(&command), first, second));
        Ok(command)
    }

    /// Refuses where there are too many.
    fn check_room(&self) -> Result<(), ConnectError> {
        if lock(&self.registry).live.len() < MAX_LIVE {
            return Ok(());
        }
        self.journal.warn(None, format!("A command was refused: {MAX_LIVE} are running"));
        Err(ConnectError::resource_exhausted(format!("{MAX_LIVE} commands are running; end some first")))
    }

    /// Adds a command that was just started. No await lies between its start and this, so the reaper cannot come first.
    fn add(&self, command: Arc<Command>) {
        let number = command.number();
        if !command.quiet {
            self.journal.info(Some(number), format!("Process {number} started: {}", command.line()));
        }
        let mut registry = lock(&self.registry);
        registry.ended.retain(|(_, ended)| ended.number() != number);
        registry.live.insert(number, command);
    }

    /// Tells the command of this process how it ended.
    pub(crate) fn reaped(&self, pid: u32, status: Status) {
        if let Some(command) = lock(&self.registry).live.get(&pid) {
            command.reaped(status);
        }
    }

    /// Moves a command whose output is complete to the ended ones.
    pub(crate) fn ended(self: &Arc<Self>, command: &Arc<Command>) {
        let number = command.number();
        match command.status() {
            _ if command.quiet => {}
            _ if command.timed_out() => {
                self.journal.warn(Some(number), format!("Process {number} was killed: its time was over"));
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
        let alone = !std::mem::replace(&mut registry.forgetting, true);
        drop(registry);
        self.forget();
        if alone {
            tokio::spawn(Arc::clone(self).forget_by_age());
        }
    }

    /// One task for all ended commands; it ends with the last of them.
    async fn forget_by_age(self: Arc<Self>) {
        loop {
            tokio::time::sleep(REMEMBERED).await;
            self.forget();
            let mut registry = lock(&self.registry);
            if registry.ended.is_empty() {
                registry.forgetting = false;
                return;
            }
        }
    }

    /// Drops ended commands that are too many, too old or too large.
    fn forget(&self) {
        let mut registry = lock(&self.registry);
        while let Some((at, _)) = registry.ended.front() {
            let over = registry.ended.len() > MAX_ENDED || self.budget.is_short();
            if !over && at.elapsed() < REMEMBERED {
                break;
            }
            registry.ended.pop_front();
        }
    }

    /// Every command whose process runs.
    pub(crate) fn running(&self) -> Vec<Arc<Command>> {
        let mut commands: Vec<_> =
            lock(&self.registry).live.values().filter(|c| c.status().is_none()).cloned().collect();
        commands.sort_by_key(|c| c.number());
        commands
    }

    /// What is going on, for the host.
    pub(crate) fn activity(&self) -> Activity {
        let is_service = |c: &Arc<Command>| c.tag.as_ref().is_some_and(|tag| tag.starts_with(SERVICE_TAG));
        Activity { commands: self.running().iter().filter(|c| !is_service(c)).count() }
    }

    /// The running command that a selector names.
    pub(crate) fn find_running(&self, selector: Option<&ProcessSelector>) -> Result<Arc<Command>, ConnectError> {
        let selector = chosen(selector)?;
        self.running().into_iter().find(|c| matches(c, selector)).ok_or_else(|| not_found(selector))
    }

    /// The running or ended command that a selector names; of several with one tag, the latest.
    pub(crate) fn find(&self, selector: Option<&ProcessSelector>) -> Result<Arc<Command>, ConnectError> {
        let selector = chosen(selector)?;
        let registry = lock(&self.registry);
        let live = registry.live.values().find(|c| matches(c, selector));
        let ended = || registry.ended.iter().rev().map(|(_, c)| c).find(|c| matches(c, selector));
        live.or_else(ended).cloned().ok_or_else(|| not_found(selector))
    }

    /// Kills everything; for a daemon that is asked to end.
    pub(crate) fn kill_all(&self) {
        for command in self.running() {
            // It may have ended this instant.
            let _ = command.signal(Signal::KILL);
        }
    }

    /// Takes one of the places for pipes that outlive their command.
    pub(crate) fn linger(self: &Arc<Self>) -> Option<Lingering> {
        let taken = self.lingering.fetch_add(1, Ordering::Relaxed);
        let place = Lingering(Arc::clone(self));
        (taken < MAX_LINGERING).then_some(place)
    }
}

/// A place that [`Commands::linger`] gave.
pub(crate) struct Lingering(Arc<Commands>);

impl Drop for Lingering {
    fn drop(&mut self) {
        self.0.lingering.fetch_sub(1, Ordering::Relaxed);
    }
}

fn chosen(selector: Option<&ProcessSelector>) -> Result<&Selector, ConnectError> {
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
        Selector::Tag(tag) => format!("process with tag '{}' not found", crate::auth::shown(tag)),
    })
}
