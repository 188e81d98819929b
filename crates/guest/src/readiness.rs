//! Readiness of the sandbox: runs the template's start command, which keeps running, and retries its ready command
//! until it succeeds.

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

/// Backoff between attempts of the ready command.
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// Timeout of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(30);
/// Effectively disables keepalives, which have no reader here.
const NO_KEEPALIVE: Duration = Duration::from_secs(3600);

/// The start and ready commands, and the result.
#[derive(Debug)]
pub(crate) struct Preparation {
    start: Option<Vec<String>>,
    ready: Option<Vec<String>>,
    decided: watch::Sender<Option<Readiness>>,
    /// Cancelled when nobody waits for the result any more.
    over: CancellationToken,
    /// The last output of the start command.
    started: Arc<Mutex<Tail>>,
    last_attempt: Mutex<AttemptResult>,
}

/// Result of the last attempt of the ready command.
#[derive(Debug, Default)]
struct AttemptResult {
    /// Why it failed.
    why: String,
    exit_code: Option<i32>,
    output: Vec<String>,
}

impl Preparation {
    /// Starts nothing yet; without any commands the sandbox is ready.
    pub(crate) fn new(start: Option<Vec<String>>, ready: Option<Vec<String>>) -> Self {
        let [start, ready] = [start, ready].map(|command| command.filter(|c| !c.is_empty()));
        let decided = (start.is_none() && ready.is_none()).then(is_ready);
        Self {
            start,
            ready,
            decided: watch::Sender::new(decided),
            over: CancellationToken::new(),
            started: Arc::default(),
            last_attempt: Mutex::default(),
        }
    }

    /// Waits for the result. If there is none within `limit`, the sandbox is not ready.
    pub(crate) async fn decided_within(&self, limit: Duration) -> Readiness {
        let mut decided = self.decided.subscribe();
        if timeout(limit, decided.wait_for(Option::is_some)).await.is_err() {
            self.give_up();
        }
        let answer = decided.borrow().clone();
        answer.unwrap_or_else(is_ready)
    }

    /// Sets the result to "not ready" if there is none yet.
    pub(crate) fn give_up(&self) {
        self.over.cancel();
        let last = lock(&self.last_attempt);
        let message = match last.why.as_str() {
            "" => "its ready command has not ended".to_owned(),
            why => format!("its ready command did not succeed: {why}"),
        };
        self.decide(self.not_ready(message, last.exit_code, &last.output));
    }

    /// Sets the result; the first one wins.
    fn decide(&self, readiness: Readiness) {
        self.decided.send_if_modified(|decided| {
            let open = decided.is_none();
            decided.get_or_insert(readiness);
            open
        });
    }

    fn not_ready(&self, mut message: String, exit_code: Option<i32>, attempt: &[String]) -> Readiness {
        shorten(&mut message, MAX_READY_LINE);
        let started = lock(&self.started).lines();
        let output = if started.is_empty() { attempt.to_vec() } else { started };
        Readiness { ready: false, message: Some(message), output, exit_code }
    }
}

fn is_ready() -> Readiness {
    Readiness { ready: true, message: None, output: vec![], exit_code: None }
}

/// Runs the commands and sets the result.
pub(crate) async fn prepare(guest: Arc<Guest>) {
    let preparation = &guest.preparation;
    let mut started = None;
    if let Some(words) = &preparation.start {
        match launch(&guest, words, START_TAG, false) {
            Ok(command) => started = Some(tokio::spawn(log_output(Arc::clone(&guest), command))),
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
            // It may have left a daemon running.
            None | Some(Status::Exited(0)) => std::future::pending().await,
            Some(status) => status,
        }
    };
    tokio::select! {
        biased;
        () = preparation.over.cancelled() => {}
        status = failed => {
            let (what, exit_code) = describe(status);
            let message = format!("its start command ended ({what}) before the ready command succeeded");
            preparation.decide(preparation.not_ready(message, exit_code, &[]));
        }
        () = retry_until_ready(&guest, words) => preparation.decide(is_ready()),
    }
}

/// Retries the ready command until it succeeds.
async fn retry_until_ready(guest: &Arc<Guest>, words: &[String]) {
    let mut backoff = FIRST_BACKOFF;
    loop {
        let result = attempt(guest, words).await;
        if result.exit_code == Some(0) {
            return;
        }
        *lock(&guest.preparation.last_attempt) = result;
        sleep(backoff).await;
        backoff = (backoff * 2).min(MAX_BACKOFF);
    }
}

/// Runs the ready command once.
async fn attempt(guest: &Arc<Guest>, words: &[String]) -> AttemptResult {
    let command = match launch(guest, words, READY_TAG, true) {
        Ok(command) => KillOnDrop(command),
        Err(error) => return AttemptResult { why: error.message.unwrap_or_default(), ..AttemptResult::default() },
    };
    let tail = Mutex::new(Tail::default());
    let ended = timeout(ATTEMPT_TIMEOUT, follow(&command.0, &tail, |_, _| {})).await;
    let (why, exit_code) = match ended {
        Ok(Some(status)) => describe(status),
        Ok(None) => ("its output could not be read".to_owned(), None),
        Err(_) => (format!("it took longer than {} s", ATTEMPT_TIMEOUT.as_secs()), None),
    };
    let output = lock(&tail).lines();
    AttemptResult { why, exit_code, output }
}

/// Kills the command when the attempt is dropped.
struct KillOnDrop(Arc<Command>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if self.0.status().is_none() {
            self.0.time_out();
        }
    }
}

fn describe(status: Status) -> (String, Option<i32>) {
    let exit_code = match status {
        Status::Exited(code) => Some(code),
        Status::Signaled(_) => None,
    };
    (status.describe(), exit_code)
}

/// Starts one of the two commands as a client would: as the default user, in the default directory, with the sandbox's
/// environment.
fn launch(guest: &Arc<Guest>, words: &[String], tag: &str, quiet: bool) -> Result<Arc<Command>, ConnectError> {
    let (cmd, args) = words.split_first().map_or((String::new(), vec![]), |(cmd, args)| (cmd.clone(), args.to_vec()));
    let config = ProcessConfig { cmd, args, ..Default::default() };
    let settings = guest.settings().clone();
    let account = users::find_or_root(&settings.default_user);
    let launch = Launch { config: &config, account: &account, settings: &settings, pty: None, stdin: false };
    guest.commands.start(&launch, Some(tag.to_owned()), quiet, None)
}

/// Logs every line of the start command's output, and returns its exit status.
async fn log_output(guest: Arc<Guest>, command: Arc<Command>) -> Option<Status> {
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
async fn follow(command: &Arc<Command>, tail: &Mutex<Tail>, mut on_line: impl FnMut(Channel, &str)) -> Option<Status> {
    let mut events = events::subscribe(Arc::clone(command), NO_KEEPALIVE, None, false);
    while let Some(Ok(event)) = events.next().await {
        match event {
            Event::Data(chunk) => lock(tail).add(&chunk, &mut on_line),
            Event::Start(_) | Event::Keepalive => {}
            Event::End(_) => break,
        }
    }
    lock(tail).finish(&mut on_line);
    // Also set if this reader was disconnected, which can happen in a sandbox that was paused for long.
    drop(events);
    command.completed().await;
    command.status()
}
