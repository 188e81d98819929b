//! Transitions of sandboxes. Each is one transaction: it writes the row and the event.

use std::sync::Arc;

use cabana_types::SandboxId;
use cabana_types::policy::OnTimeout;
use cabana_types::quota::Limits;
use cabana_types::sandbox::{EndCause, Kept, PauseCause, State, Transition};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::column::micros;
use crate::measured::{self, Measured};
use crate::sandbox::{detail, read};
use crate::tombstone::write_last_lines;
use crate::{Error, Sandbox, Store, event, interval, policy_text, quota, service};

/// Seconds by which the timeout of a sandbox whose service is always on is postponed: not too often, and within limits.
const LEAST_POSTPONED: i64 = 60;
const MOST_POSTPONED: i64 = 24 * 3600;

impl Store {
    /// Applies a transition that the state allows.
    pub async fn apply(&self, id: SandboxId, transition: Transition, at: Timestamp) -> Result<Sandbox, Error> {
        let noted = self.measured().clone();
        self.write(move |connection| Box::pin(async move { apply(connection, id, transition, None, &noted, at).await }))
            .await
    }

    /// Applies a transition and records a reason in its event.
    pub async fn apply_with_reason(
        &self,
        id: SandboxId,
        transition: Transition,
        reason: String,
        at: Timestamp,
    ) -> Result<Sandbox, Error> {
        let noted = self.measured().clone();
        self.write(move |connection| {
            Box::pin(async move { apply(connection, id, transition, Some(reason), &noted, at).await })
        })
        .await
    }

    /// Applies [`Transition::Resume`] if the team's quotas allow another sandbox to run.
    pub async fn resume(&self, id: SandboxId, at: Timestamp) -> Result<Sandbox, Error> {
        let noted = self.measured().clone();
        self.write(move |connection| {
            Box::pin(async move {
                let sandbox = read(connection, &id).await?;
                if !sandbox.state.uses_capacity() {
                    let wanted = quota::of_running(sandbox.resources);
                    let place = (&sandbox.team, &sandbox.project);
                    quota::check_sandboxes(connection, place, wanted, Limits::default()).await?;
                }
                apply(connection, id, Transition::Resume, None, &noted, at).await
            })
        })
        .await
    }

    /// Applies [`Transition::Started`] and sets the timeout; one that is resumed runs no longer than its team's quota allows.
    pub async fn started(&self, id: SandboxId, at: Timestamp, end_at: Timestamp) -> Result<Sandbox, Error> {
        let noted = self.measured().clone();
        self.write(move |connection| {
            Box::pin(async move {
                let mut sandbox = apply(connection, id.clone(), Transition::Started, None, &noted, at).await?;
                let first = sandbox.started_at.is_none();
                sandbox.started_at = sandbox.started_at.or(Some(at));
                sandbox.end_at = end_at;
                if !first {
                    // Not the timeout of its last run, which could be later than this one may be.
                    sandbox.end_at = at;
                    sandbox.end_at = quota::bounded_end(connection, &sandbox, end_at, true).await?;
                }
                sqlx::query("update sandboxes set started_at = $2, end_at = $3 where id = $1")
                    .bind(id.as_str())
                    .bind(sandbox.started_at.map(micros))
                    .bind(micros(sandbox.end_at))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write that a sandbox is running", e))?;
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

    /// Applies [`Transition::End`]. From then on clients do not find the sandbox.
    pub async fn end(&self, id: SandboxId, cause: EndCause, at: Timestamp) -> Result<Sandbox, Error> {
        self.apply(id, Transition::End(cause), at).await
    }

    /// Ends or pauses a sandbox that reached the timeout `due`. If its timeout was changed since, returns the row unchanged; if a service
    /// in it is always on, the timeout begins again.
    pub async fn expire(&self, id: SandboxId, due: Timestamp, at: Timestamp) -> Result<Sandbox, Error> {
        let noted = self.measured().clone();
        self.write(move |connection| {
            Box::pin(async move {
                let sandbox = read(connection, &id).await?;
                let transition = match sandbox.policy.on_timeout {
                    OnTimeout::Kill => Transition::End(EndCause::Expired),
                    OnTimeout::Pause => Transition::Pause { keep: Kept::Ram, why: PauseCause::Timeout },
                    OnTimeout::PauseDisk => Transition::Pause { keep: Kept::Disk, why: PauseCause::Timeout },
                };
                if sandbox.state != State::Running {
                    return Err(Error::NotRunning { id, state: sandbox.state.name() });
                }
                if micros(sandbox.end_at) > micros(due) {
                    return Ok(sandbox);
                }
                let limit = quota::lifetime(connection, &sandbox.team).await?;
                let outlived = limit.is_some_and(|limit| sandbox.since + quota::duration(limit) <= at);
                if !outlived && service::keeps_awake(connection, &id).await? {
                    return postpone(connection, sandbox, at).await;
                }
                apply(connection, id, transition, None, &noted, at).await
            })
        })
        .await
    }

    /// Applies [`Transition::Archive`] with a new generation.
    pub async fn archive(&self, id: SandboxId, whole: bool, at: Timestamp) -> Result<Sandbox, Error> {
        let noted = self.measured().clone();
        self.write(move |connection| {
            Box::pin(async move {
                let generation = read(connection, &id).await?.archives.saturating_add(1);
                let mut sandbox =
                    apply(connection, id.clone(), Transition::Archive { whole, generation }, None, &noted, at).await?;
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

    /// Applies [`Transition::Archived`] and stores the archive's digest, which cold storage cannot forge, and its size.
    pub async fn archived(&self, id: SandboxId, digest: String, bytes: u64, at: Timestamp) -> Result<Sandbox, Error> {
        let noted = self.measured().clone();
        self.write(move |connection| {
            Box::pin(async move {
                measured::write_archive(connection, &id, bytes).await?;
                let mut sandbox = apply(connection, id.clone(), Transition::Archived, None, &noted, at).await?;
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

    /// Applies [`Transition::Removed`] and deletes the sandbox's secrets. A failed creation frees its idempotency key, so that the client
    /// can retry.
    pub async fn removed(&self, id: SandboxId, at: Timestamp) -> Result<Sandbox, Error> {
        self.removed_with_lines(id, Vec::new(), at).await
    }

    /// The same, and keeps the last lines of the sandbox's journal if there are any; else those of its failure stay.
    pub async fn removed_with_lines(&self, id: SandboxId, lines: Vec<String>, at: Timestamp) -> Result<Sandbox, Error> {
        let noted = self.measured().clone();
        self.write(move |connection| {
            Box::pin(async move {
                let mut sandbox = apply(connection, id.clone(), Transition::Removed, None, &noted, at).await?;
                sandbox.ended_at = Some(at);
                if !lines.is_empty() {
                    write_last_lines(connection, &id, &lines).await?;
                    sandbox.last_lines = lines;
                }
                sandbox.env_vars.clear();
                sandbox.boot.env.clear();
                sandbox.access_token = None;
                sandbox.traffic.token = None;
                if sandbox.egress.may_have_credentials() {
                    sandbox.egress = Arc::new(sandbox.egress.without_credentials());
                }
                if matches!(sandbox.state.cause(), Some(EndCause::CreateFailed { .. })) {
                    sandbox.idempotency = None;
                }
                sqlx::query(
                    "update sandboxes set ended_at = $2, env_vars = '{}', boot = '{}', access_token = null,
                        traffic_token = null, idempotency_key = $3, idempotency_hash = $4, egress = $5 where id = $1",
                )
                .bind(id.as_str())
                .bind(micros(at))
                .bind(sandbox.idempotency.as_ref().map(|i| i.key.clone()))
                .bind(sandbox.idempotency.as_ref().map(|i| i.request.to_vec()))
                .bind(policy_text::write(&sandbox.egress)?.as_ref())
                .execute(&mut *connection)
                .await
                .map_err(|e| Error::query("delete a sandbox's secrets", e))?;
                for sql in ["delete from authorities where sandbox = $1", "delete from placeholders where sandbox = $1"]
                {
                    sqlx::query(sql)
                        .bind(id.as_str())
                        .execute(&mut *connection)
                        .await
                        .map_err(|e| Error::query("delete what is sealed for a sandbox", e))?;
                }
                service::forget_secrets(connection, &id).await?;
                Ok(sandbox)
            })
        })
        .await
    }
}

/// Lets the timeout of a sandbox begin again.
async fn postpone(connection: &mut SqliteConnection, mut sandbox: Sandbox, at: Timestamp) -> Result<Sandbox, Error> {
    let seconds = i64::try_from(sandbox.policy.timeout).unwrap_or(i64::MAX).clamp(LEAST_POSTPONED, MOST_POSTPONED);
    let end_at = at + SignedDuration::from_secs(seconds);
    sandbox.end_at = quota::bounded_end(connection, &sandbox, end_at, true).await?;
    sqlx::query("update sandboxes set end_at = $2 where id = $1")
        .bind(sandbox.id.as_str())
        .bind(micros(sandbox.end_at))
        .execute(connection)
        .await
        .map_err(|e| Error::query("postpone a timeout", e))?;
    Ok(sandbox)
}

/// Applies a transition and writes the state, the event, and what the sandbox uses from then on.
async fn apply(
    connection: &mut SqliteConnection,
    id: SandboxId,
    transition: Transition,
    reason: Option<String>,
    noted: &Measured,
    at: Timestamp,
) -> Result<Sandbox, Error> {
    let mut sandbox = read(connection, &id).await?;
    let before = std::mem::replace(&mut sandbox.state, State::Creating);
    sandbox.state = before.apply(transition.clone())?;
    if !stays_paused(&transition) {
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
    if transition != Transition::Removed {
        interval::settle_sandbox(connection, &sandbox, Some(noted), at).await?;
    }
    let mut data = about(&sandbox.state);
    if let (Some(reason), Value::Object(map)) = (reason, &mut data) {
        map.insert("reason".into(), reason.into());
    }
    event::insert(connection, &id, &sandbox.team, kind(&before, &transition), &data, at).await?;
    Ok(sandbox)
}

/// Whether a paused sandbox stays paused, so that the time since which it is paused does not change.
fn stays_paused(transition: &Transition) -> bool {
    matches!(
        transition,
        Transition::Resume
            | Transition::ResumeFailed
            | Transition::Archive { .. }
            | Transition::Archived
            | Transition::ArchiveFailed
            | Transition::Restored
            | Transition::MemoryLost
    )
}

/// Kind of a transition's event.
fn kind(before: &State, transition: &Transition) -> &'static str {
    match transition {
        Transition::Started if *before == State::Creating => event::CREATED,
        Transition::Started => event::RESUMED,
        Transition::Pause { .. } => event::PAUSING,
        Transition::Paused => event::PAUSED,
        Transition::MemoryLost => event::MEMORY_LOST,
        Transition::Resume => event::RESUMING,
        Transition::PauseFailed | Transition::ResumeFailed | Transition::ArchiveFailed => event::UNCHANGED,
        Transition::Archive { .. } => event::ARCHIVING,
        Transition::Archived => event::ARCHIVED,
        Transition::Restored => event::RESTORED,
        Transition::Fail(_) => event::FAILED,
        Transition::End(_) => event::ENDING,
        Transition::Removed => event::KILLED,
    }
}

/// Data of the event about a transition to this state.
fn about(state: &State) -> Value {
    let name = state.name();
    match state {
        State::Ending { cause } | State::Ended { cause } | State::Failed { cause } => {
            json!({ "state": name, "cause": cause, "reason": cause.describe() })
        }
        State::Pausing { to: kept, why } | State::Paused { kept, why } => {
            json!({ "state": name, "pauseMode": mode(*kept), "cause": why, "reason": why.describe() })
        }
        State::Resuming { from, .. } => json!({ "state": name, "pauseMode": mode(*from) }),
        State::Archiving { whole, .. } => json!({ "state": name, "whole": whole }),
        State::Creating | State::Running => json!({ "state": name }),
    }
}

/// The API's name for what is kept of a paused sandbox.
fn mode(kept: Kept) -> &'static str {
    match kept {
        Kept::Ram | Kept::Checkpoint { .. } => "full",
        Kept::Disk => "filesystem",
        Kept::Archive { whole: true, .. } => "archived",
        Kept::Archive { whole: false, .. } => "recycled",
    }
}
