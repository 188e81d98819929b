//! The steps of sandboxes' lives. A step is one transaction: the row and the event about it.

use cabana_types::SandboxId;
use cabana_types::policy::OnTimeout;
use cabana_types::sandbox::{EndCause, PauseCause, Rest, State, Step};
use jiff::Timestamp;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::column::micros;
use crate::sandbox::{detail, read};
use crate::{Error, Sandbox, Store, event};

impl Store {
    /// Takes a step that the state allows.
    pub async fn step(&self, id: SandboxId, step: Step, at: Timestamp) -> Result<Sandbox, Error> {
        self.write(move |connection| Box::pin(take(connection, id, step, None, at))).await
    }

    /// The same, with a word about why, for the event.
    pub async fn step_because(
        &self,
        id: SandboxId,
        step: Step,
        reason: String,
        at: Timestamp,
    ) -> Result<Sandbox, Error> {
        self.write(move |connection| Box::pin(take(connection, id, step, Some(reason), at))).await
    }

    /// It is up, until `end_at`.
    pub async fn up(&self, id: SandboxId, at: Timestamp, end_at: Timestamp) -> Result<Sandbox, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut sandbox = take(connection, id.clone(), Step::Up, None, at).await?;
                let first = sandbox.started_at.is_none();
                sandbox.started_at = sandbox.started_at.or(Some(at));
                sandbox.end_at = end_at;
                sqlx::query("update sandboxes set started_at = $2, end_at = $3 where id = $1")
                    .bind(id.as_str())
                    .bind(sandbox.started_at.map(micros))
                    .bind(micros(end_at))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write that a sandbox is up", e))?;
                if first {
                    sqlx::query(
                        "update templates set spawn_count = spawn_count + 1, last_spawned_at = $2 where id = $1",
                    )
                    .bind(sandbox.template.as_str())
                    .bind(micros(at))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("count a start", e))?;
                }
                Ok(sandbox)
            })
        })
        .await
    }

    /// It shall end. From here on it is gone for every caller.
    pub async fn end(&self, id: SandboxId, cause: EndCause, at: Timestamp) -> Result<Sandbox, Error> {
        self.step(id, Step::End(cause), at).await
    }

    /// It shall end or sleep because its time is over, unless it got another time meanwhile; then that is in the answer.
    pub async fn expire(&self, id: SandboxId, due: Timestamp, at: Timestamp) -> Result<Sandbox, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let sandbox = read(connection, &id).await?;
                let step = match sandbox.policy.on_timeout {
                    OnTimeout::Kill => Step::End(EndCause::Expired),
                    on => Step::Pause { memory: on == OnTimeout::Pause, why: PauseCause::Timeout },
                };
                if sandbox.state != State::Running {
                    return Err(Error::NotRunning { id, state: sandbox.state.name() });
                }
                if micros(sandbox.end_at) > micros(due) {
                    return Ok(sandbox);
                }
                take(connection, id, step, None, at).await
            })
        })
        .await
    }

    /// Its disk shall go to cold storage, in an archive with a generation of its own.
    pub async fn archive(&self, id: SandboxId, whole: bool, at: Timestamp) -> Result<Sandbox, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let generation = read(connection, &id).await?.archives.saturating_add(1);
                let mut sandbox = take(connection, id.clone(), Step::Archive { whole, generation }, None, at).await?;
                sandbox.archives = generation;
                sqlx::query("update sandboxes set archives = $2 where id = $1")
                    .bind(id.as_str())
                    .bind(generation)
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("count an archive", e))?;
                Ok(sandbox)
            })
        })
        .await
    }

    /// Its archive is complete; its digest is kept here, where nobody can exchange it.
    pub async fn archived(&self, id: SandboxId, digest: String, at: Timestamp) -> Result<Sandbox, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut sandbox = take(connection, id.clone(), Step::Archived, None, at).await?;
                sqlx::query("update sandboxes set archive_digest = $2 where id = $1")
                    .bind(id.as_str())
                    .bind(&digest)
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write an archive's digest", e))?;
                sandbox.archive_digest = Some(digest);
                Ok(sandbox)
            })
        })
        .await
    }

    /// Nothing of it is left in the world; its secrets are forgotten too. A failed creation frees its idempotency key, so that the
    /// client may try again.
    pub async fn swept(&self, id: SandboxId, at: Timestamp) -> Result<Sandbox, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut sandbox = take(connection, id.clone(), Step::Swept, None, at).await?;
                sandbox.ended_at = Some(at);
                sandbox.env_vars.clear();
                sandbox.boot.env.clear();
                sandbox.access_token = None;
                sandbox.traffic.token = None;
                if matches!(sandbox.state.cause(), Some(EndCause::CreateFailed { .. })) {
                    sandbox.idempotency = None;
                }
                sqlx::query(
                    "update sandboxes set ended_at = $2, env_vars = '{}', boot = '{}', access_token = null,
                        traffic_token = null, idempotency_key = $3, idempotency_hash = $4 where id = $1",
                )
                .bind(id.as_str())
                .bind(micros(at))
                .bind(sandbox.idempotency.as_ref().map(|i| i.key.clone()))
                .bind(sandbox.idempotency.as_ref().map(|i| i.request.to_vec()))
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("forget a sandbox's secrets", e))?;
                Ok(sandbox)
            })
        })
        .await
    }
}

/// Takes a step and writes the state and the event.
async fn take(
    connection: &mut SqliteConnection,
    id: SandboxId,
    step: Step,
    reason: Option<String>,
    at: Timestamp,
) -> Result<Sandbox, Error> {
    let mut sandbox = read(connection, &id).await?;
    let before = std::mem::replace(&mut sandbox.state, State::Creating);
    sandbox.state = before.take(step.clone())?;
    if !leaves_asleep(&step) {
        sandbox.since = at;
    }
    sqlx::query("update sandboxes set state = $2, detail = $3, since = $4 where id = $1")
        .bind(id.as_str())
        .bind(sandbox.state.name())
        .bind(detail(&sandbox.state)?)
        .bind(micros(sandbox.since))
        .execute(&mut *connection)
        .await
        .map_err(|e| Error::query("write a sandbox's state", e))?;
    let mut data = about(&sandbox.state);
    if let (Some(reason), Value::Object(map)) = (reason, &mut data) {
        map.insert("reason".into(), reason.into());
    }
    event::insert(connection, &id, &sandbox.team, kind(&before, &step), &data, at).await?;
    Ok(sandbox)
}

/// Whether a sandbox that slept before the step sleeps after it, so that it has slept since the same time.
fn leaves_asleep(step: &Step) -> bool {
    matches!(
        step,
        Step::Resume | Step::SleepOn | Step::Archive { .. } | Step::Archived | Step::Restored | Step::MemoryLost
    )
}

/// What the event of a step is called.
fn kind(before: &State, step: &Step) -> &'static str {
    match step {
        Step::Up if *before == State::Creating => event::CREATED,
        Step::Up => event::RESUMED,
        Step::Pause { .. } => event::PAUSING,
        Step::Rested => event::PAUSED,
        Step::MemoryLost => event::MEMORY_LOST,
        Step::Resume => event::RESUMING,
        Step::StayUp | Step::SleepOn => event::UNCHANGED,
        Step::Archive { .. } => event::ARCHIVING,
        Step::Archived => event::ARCHIVED,
        Step::Restored => event::RESTORED,
        Step::Fail(_) => event::FAILED,
        Step::End(_) => event::ENDING,
        Step::Swept => event::KILLED,
    }
}

/// What an event says about the state that a step led to.
fn about(state: &State) -> Value {
    let name = state.name();
    match state {
        State::Ending { cause } | State::Ended { cause } | State::Failed { cause } => {
            json!({ "state": name, "cause": cause, "reason": cause.describe() })
        }
        State::Pausing { to: rest, why } | State::Paused { rest, why } => {
            json!({ "state": name, "pauseMode": mode(*rest), "cause": why, "reason": why.describe() })
        }
        State::Resuming { from, .. } => json!({ "state": name, "pauseMode": mode(*from) }),
        State::Archiving { whole, .. } => json!({ "state": name, "whole": whole }),
        State::Creating | State::Running => json!({ "state": name }),
    }
}

/// How a sandbox is kept, in the words of the API.
fn mode(rest: Rest) -> &'static str {
    match rest {
        Rest::Memory => "full",
        Rest::Disk => "filesystem",
        Rest::Archive { whole: true, .. } => "archived",
        Rest::Archive { whole: false, .. } => "recycled",
    }
}
