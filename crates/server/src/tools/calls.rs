//! Calls of tools. Each runs in a task of its own, which ends what it has started when the caller goes away. Calls that are detached or
//! have an idempotency key are written to the store before they act, and so are their results.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_agent::call::{self, Call, Limits, Observer};
use cabana_agent::computer::Computers;
use cabana_agent::tools::Tool;
use cabana_store::{Store, ToolCall};
use cabana_types::error::chain;
use cabana_types::tool::ToolResult;
use cabana_types::{CallId, SandboxId, TeamId};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// How long the result of a detached call is kept.
const KEEP_DETACHED: SignedDuration = SignedDuration::from_hours(1);
/// How long an idempotency key stands for its first request.
const KEEP_KEY: SignedDuration = SignedDuration::from_hours(24);
/// A call ends within this time: the longest command, and some more.
const LONGEST: SignedDuration = SignedDuration::from_mins(45);
/// Bytes of a result that is kept; images and data of a larger one are left out.
const MAX_KEPT: usize = 256 << 10;
/// Results of one team that are kept, the newest ones: they must not fill the disk.
const MAX_CALLS: u32 = 2000;

/// The calls in progress.
#[derive(Debug)]
pub(crate) struct Calls {
    store: Store,
    limits: Limits,
    tasks: TaskTracker,
    /// Those whose result somebody may ask for later.
    running: Mutex<HashMap<CallId, Arc<Running>>>,
}

#[derive(Debug)]
struct Running {
    team: TeamId,
    sandbox: SandboxId,
    cancel: CancellationToken,
    done: watch::Receiver<Option<Arc<ToolResult>>>,
}

/// A call that others can find, until this is dropped.
#[derive(Debug)]
struct Registered {
    calls: Arc<Calls>,
    id: CallId,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.calls.running().remove(&self.id);
    }
}

/// A call to start. Its arguments fit the schema.
pub(crate) struct NewCall {
    pub(crate) team: TeamId,
    /// The sandbox that the call was made on; `None` if the tool chooses it, and then nothing is kept.
    pub(crate) sandbox: Option<SandboxId>,
    pub(crate) tool: &'static dyn Tool,
    pub(crate) arguments: Value,
    pub(crate) computers: Arc<dyn Computers>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) key: Option<String>,
    /// Whether the call goes on when the caller goes away.
    pub(crate) detach: bool,
}

/// Why a call was not started.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The idempotency key was used for another request.
    KeyMismatch,
    /// The store failed.
    Store(cabana_store::Error),
}

/// A call that was started, by this request or by an earlier one with the same key.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: CallId,
    done: watch::Receiver<Option<Arc<ToolResult>>>,
    /// Cancels the call when the caller goes away.
    _cancel: Option<DropGuard>,
}

impl Handle {
    /// Waits for the result.
    pub(crate) async fn result(mut self) -> Option<Arc<ToolResult>> {
        // An error is a task that panicked.
        let done = self.done.wait_for(Option::is_some).await.ok()?;
        done.clone()
    }
}

impl Calls {
    pub(crate) fn new(store: Store, limits: Limits, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self { store, limits, tasks, running: Mutex::default() })
    }

    /// Limits of every call.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Starts a call, or finds the one that its key stands for.
    pub(crate) async fn start(self: &Arc<Self>, new: NewCall) -> Result<Handle, CallError> {
        let id = CallId::from_random(rand::random());
        let cancel = CancellationToken::new();
        let (tell, done) = watch::channel(None);
        let mut registered = None;
        if let Some(sandbox) = new.sandbox.as_ref().filter(|_| new.detach || new.key.is_some()) {
            let row = row(&id, sandbox, &new);
            let digest = row.digest;
            // Before the row is written: whoever finds it there waits for this call instead of taking it for interrupted.
            let running = Running {
                team: new.team.clone(),
                sandbox: sandbox.clone(),
                cancel: cancel.clone(),
                done: done.clone(),
            };
            registered = Some(self.register(id.clone(), running));
            if let Some(earlier) = self.store.begin_tool_call(row, MAX_CALLS).await.map_err(CallError::Store)? {
                return match earlier.digest == digest {
                    true => self.earlier(earlier).await.map_err(CallError::Store),
                    false => Err(CallError::KeyMismatch),
                };
            }
        }
        let handle = Handle { id: id.clone(), done, _cancel: (!new.detach).then(|| cancel.clone().drop_guard()) };
        let this = Arc::clone(self);
        let limits = self.limits;
        self.tasks.spawn(async move {
            let NewCall { tool, arguments, computers, observer, key, .. } = new;
            let call = Call { id, computers, cancel, observer, limits };
            let result = call::execute(tool, &arguments, &call).await;
            if registered.is_some() {
                this.keep(&result, key.is_some()).await;
            }
            // Nobody may be waiting any more.
            let _ = tell.send(Some(Arc::new(result)));
            drop(registered);
        });
        Ok(handle)
    }

    /// The result of a call of a team in a sandbox: `Some(None)` while it runs, `None` if there is no such call.
    pub(crate) async fn result(
        &self,
        team: &TeamId,
        sandbox: &SandboxId,
        id: &CallId,
    ) -> Result<Option<Option<Arc<ToolResult>>>, cabana_store::Error> {
        if let Some(running) = self.find(team, sandbox, id) {
            return Ok(Some(running.done.borrow().clone()));
        }
        let row = self.store.tool_call(id).await?;
        Ok(row.filter(|row| row.team == *team && row.sandbox == *sandbox).map(|row| Some(ended(&row))))
    }

    /// Cancels a call that runs; `false` if it does not.
    pub(crate) fn cancel(&self, team: &TeamId, sandbox: &SandboxId, id: &CallId) -> bool {
        let running = self.find(team, sandbox, id);
        running.inspect(|running| running.cancel.cancel()).is_some()
    }

    fn find(&self, team: &TeamId, sandbox: &SandboxId, id: &CallId) -> Option<Arc<Running>> {
        let running = self.running().get(id).cloned()?;
        (running.team == *team && running.sandbox == *sandbox).then_some(running)
    }

    /// The call that a key stands for. Closing this connection does not cancel it.
    async fn earlier(&self, row: ToolCall) -> Result<Handle, cabana_store::Error> {
        let id = row.id.clone();
        let running = self.running().get(&id).map(|running| running.done.clone());
        let done = match running {
            Some(done) => done,
            None => {
                // It may have ended since the row was read.
                let row = if row.result.is_none() { self.store.tool_call(&id).await?.unwrap_or(row) } else { row };
                watch::channel(Some(ended(&row))).1
            }
        };
        Ok(Handle { id, done, _cancel: None })
    }

    fn register(self: &Arc<Self>, id: CallId, running: Running) -> Registered {
        self.running().insert(id.clone(), Arc::new(running));
        Registered { calls: Arc::clone(self), id }
    }

    async fn keep(&self, result: &ToolResult, has_key: bool) {
        let text = match serde_json::to_string(result) {
            Ok(text) if text.len() > MAX_KEPT => {
                let data = Value::Object(serde_json::Map::new());
                let smaller = ToolResult { images: Vec::new(), data, truncated: true, ..result.clone() };
                serde_json::to_string(&smaller)
            }
            text => text,
        };
        let keep = if has_key { KEEP_KEY } else { KEEP_DETACHED };
        let text = text.unwrap_or_default();
        if let Err(error) = self.store.end_tool_call(result.call_id.clone(), text, Timestamp::now() + keep).await {
            tracing::error!(call = %result.call_id, error = chain(&error), "could not keep the result of a tool call");
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<CallId, Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn row(id: &CallId, sandbox: &SandboxId, new: &NewCall) -> ToolCall {
    let name = new.tool.spec().name;
    // The keys of an object are sorted, so equal arguments have equal texts.
    let digest = Sha256::digest(format!("{sandbox}\0{name}\0{}", new.arguments));
    let now = Timestamp::now();
    ToolCall {
        id: id.clone(),
        team: new.team.clone(),
        sandbox: sandbox.clone(),
        tool: name.to_owned(),
        key: new.key.clone(),
        digest: digest.into(),
        result: None,
        created_at: now,
        expires_at: now + if new.key.is_some() { KEEP_KEY } else { KEEP_DETACHED + LONGEST },
    }
}

/// The result of a call that does not run any more. One without a result was cut short by the end of the server.
fn ended(row: &ToolCall) -> Arc<ToolResult> {
    let kept = row.result.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let interrupted = || call::interrupted(row.id.clone(), row.tool.clone(), Some(row.sandbox.to_string()));
    Arc::new(kept.unwrap_or_else(interrupted))
}
