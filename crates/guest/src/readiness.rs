//! Getting the sandbox ready, once the daemon serves: the template's start command, which runs as long as the sandbox does, and its ready
//! command, which is tried until it succeeds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cabana_proto::process::ProcessConfig;
use cabana_types::guest::{MAX_READY_LINE, READY_TAG, Readiness, START_TAG};
use connectrpc::ConnectError;
use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::command::{Command, Status};
use crate::events::{self, Event};
use crate::guest::{Guest, lock};
use crate::journal::shorten;
use crate::ring::Channel;
use crate::spawn::Launch;
use crate::tail::Tail;
use crate::users;

/// Pauses between two tries of the ready command: each is longer than the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long one try may take.
const TRY: Duration = Duration::from_secs(30);
/// Nobody listens for keepalives here.
const SILENCE: Duration = Duration::from_secs(3600);

/// What there is to do before the sandbox is ready, and how far that is.
#[derive(Debug)]
pub(crate) struct Preparation {
    start: Option<Vec<String>>,
    ready: Option<Vec<String>>,
    decided: watch::Sender<Option<Readiness>>,
    /// Cancelled when nobody waits any more.
    over: CancellationToken,
    /// What the start command wrote last.
    started: Arc<Mutex<Tail>>,
    tried: Mutex<Tried>,
}

/// The last try of the ready command.
#[derive(Debug, Default)]
struct Tried {
    /// Why it did not succeed.
    why: String,
    exit_code: Option<i32>,
    output: Vec<String>,
}

impl Preparation {
    /// Nothing is begun; where there is nothing to do, the sandbox is ready.
    pub(crate) fn new(start: Option<Vec<String>>, ready: Option<Vec<String>>) -> Self {
        let [start, ready] = [start, ready].map(|command| command.filter(|c| !c.is_empty()));
        let decided = (start.is_none() && ready.is_none()).then(is_ready);
        Self {
            start,
            ready,
            decided: watch::Sender::new(decided),
            over: CancellationToken::new(),
            started: Arc::default(),
            tried: Mutex::default(),
        }
    }

    /// Whether the sandbox is ready, when that is decided. What is not by then is given up.
    pub(crate) async fn decided_within(&self, limit: Duration) -> Readiness {
        let mut decided = self.decided.subscribe();
        if timeout(limit, decided.wait_for(Option::is_some)).await.is_err() {
            self.give_up();
        }
        let answer = decided.borrow().clone();
        answer.unwrap_or_else(is_ready)
    }

    /// If it is not decided yet, the sandbox is not ready.
    pub(crate) fn give_up(&self) {
        self.over.cancel();
        let tried = lock(&self.tried);
        let message = match tried.why.as_str() {
            "" => "its ready command has not ended".to_owned(),
            why => format!("its ready command did not succeed: {why}"),
        };
        self.decide(self.not_ready(message, tried.exit_code, &tried.output));
    }

    /// The first decision stays.
    fn decide(&self, readiness: Readiness) {
        self.decided.send_if_modified(|decided| {
            let open = decided.is_none();
            decided.get_or_insert(readiness);
            open
        });
    }

    fn not_ready(&self, mut message: String, exit_code: Option<i32>, tried: &[String]) -> Readiness {
        shorten(&mut message, MAX_READY_LINE);
        let started = lock(&self.started).lines();
        let output = if started.is_empty() { tried.to_vec() } else { started };
        Readiness { ready: false, message: Some(message), output, exit_code }
    }
}

fn is_ready() -> Readiness {
    Readiness { ready: true, message: None, output: vec![], exit_code: None }
}

/// Does what there is to do, and decides.
pub(crate) async fn prepare(guest: Arc<Guest>) {
    let preparation = &guest.preparation;
    let mut started = None;
    if let Some(words) = &preparation.start {
        match launch(&guest, words, START_TAG, false) {
            Ok(command) => started = Some(tokio::spawn(listen(Arc::clone(&guest), command))),
            Err(error) => {
                let why = error.message.unwrap_or_default();
                guest.commands.journal.warn(None, format!("The start command could not be started: {why}"));
                let message = format!("its start command could not be started: {why}");
                return preparation.decide(preparation.not_ready(message, None, &[]));
            }
        }
    }
    let Some(words) = &preparation.ready else { return preparation.decide(is_ready()) };
    let failed = async {
        let ended = match started {
            Some(started) => started.await.ok().flatten(),
            None => None,
        };
        match ended {
            // It may have left a daemon behind.
            None | Some(Status::Exited(0)) => std::future::pending().await,
            Some(status) => status,
        }
    };
    tokio::select! {
        biased;
        () = preparation.over.cancelled() => {}
        status = failed => {
            let (what, exit_code) = described(status);
            let message = format!("its start command ended ({what}) before the ready command succeeded");
            preparation.decide(preparation.not_ready(message, exit_code, &[]));
        }
        () = until_success(&guest, words) => preparation.decide(is_ready()),
    }
}

/// Tries the ready command until it succeeds.
async fn until_success(guest: &Arc<Guest>, words: &[String]) {
    let mut pause = FIRST_PAUSE;
    loop {
        let tried = attempt(guest, words).await;
        if tried.exit_code == Some(0) {
            return;
        }
        *lock(&guest.preparation.tried) = tried;
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Tries the ready command once.
async fn attempt(guest: &Arc<Guest>, words: &[String]) -> Tried {
    let command = match launch(guest, words, READY_TAG, true) {
        Ok(command) => Attempt(command),
        Err(error) => return Tried { why: error.message.unwrap_or_default(), ..Tried::default() },
    };
    let tail = Mutex::new(Tail::default());
    let ended = timeout(TRY, follow(&command.0, &tail, |_, _| {})).await;
    let (why, exit_code) = match ended {
        Ok(Some(status)) => described(status),
        Ok(None) => ("its output could not be read".to_owned(), None),
        Err(_) => (format!("it took longer than {} s", TRY.as_secs()), None),
    };
    let output = lock(&tail).lines();
    Tried { why, exit_code, output }
}

/// A try that is given up is killed.
struct Attempt(Arc<Command>);

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.0.status().is_none() {
            self.0.time_out();
        }
    }
}

fn described(status: Status) -> (String, Option<i32>) {
    let exit_code = match status {
        Status::Exited(code) => Some(code),
        Status::Signaled(_) => None,
    };
    (status.describe(), exit_code)
}

/// Starts one of the two, like a command that a client sends: as the default user, in the default directory, with the sandbox's
/// environment.
fn launch(guest: &Arc<Guest>, words: &[String], tag: &str, quiet: bool) -> Result<Arc<Command>, ConnectError> {
    let (cmd, args) = words.split_first().map_or((String::new(), vec![]), |(cmd, args)| (cmd.clone(), args.to_vec()));
    let config = ProcessConfig { cmd, args, ..Default::default() };
    let settings = guest.settings().clone();
    let account = users::find_or_root(&settings.default_user);
    let launch = Launch { config: &config, account: &account, settings: &settings, pty: None, stdin: false };
    guest.commands.start(&launch, Some(tag.to_owned()), quiet)
}

/// Notes every line of the start command's output, and tells how it ended.
async fn listen(guest: Arc<Guest>, command: Arc<Command>) -> Option<Status> {
    let journal = &guest.commands.journal;
    let number = Some(command.number());
    follow(&command, &guest.preparation.started, |channel, line| {
        let text = format!("Start command: {line}");
        match channel {
            Channel::Stderr => journal.warn(number, text),
            Channel::Stdout | Channel::Pty => journal.info(number, text),
        }
    })
    .await
}

/// Reads a command's output to its end.
async fn follow(command: &Arc<Command>, tail: &Mutex<Tail>, mut told: impl FnMut(Channel, &str)) -> Option<Status> {
    let mut events = events::subscribe(Arc::clone(command), SILENCE, None, false);
    while let Some(Ok(event)) = events.next().await {
        match event {
            Event::Data(chunk) => lock(tail).add(&chunk, &mut told),
            Event::Start(_) | Event::Keepalive => {}
            Event::End(_) => break,
        }
    }
    lock(tail).finish(&mut told);
    // Also where it was cut off from the output, which a sandbox that stood still for long may be.
    drop(events);
    command.completed().await;
    command.status()
}
