//! Rows of sandboxes: inserting, reading, changing while running, and purging.

use std::collections::BTreeMap;
use std::sync::Arc;

use cabana_types::egress::EgressPolicy;
use cabana_types::quota::Limits;
use cabana_types::sandbox::State;
use cabana_types::{
    ActorId, BuildId, LifecyclePolicy, ProjectId, Resources, SandboxId, Secret, TeamId, TemplateId, Traffic,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::column::{self, Columns, micros};
use crate::{Error, Store, event, interval, policy_text, quota};

/// A sandbox, from the accepted request to its tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Its id.
    pub id: SandboxId,
    /// Its team.
    pub team: TeamId,
    /// Its project.
    pub project: ProjectId,
    /// Its template.
    pub template: TemplateId,
    /// Build that provides its root filesystem.
    pub build: BuildId,
    /// The template's alias when it was created.
    pub alias: Option<String>,
    /// Its lifecycle state.
    pub state: State,
    /// The isolation backend that it runs on.
    pub isolation: String,
    /// Its resources.
    pub resources: Resources,
    /// Metadata set by the client.
    pub metadata: BTreeMap<String, String>,
    /// Environment of its commands; deleted when it has ended.
    pub env_vars: BTreeMap<String, String>,
    /// Access token of its guest; deleted when it has ended.
    pub access_token: Option<Secret>,
    /// Whether its guest requires the token.
    pub secure: bool,
    /// Where it may connect; credentials are deleted when it has ended.
    pub egress: Arc<EgressPolicy>,
    /// Its workload identity tokens: the audience by name.
    pub iam: BTreeMap<String, String>,
    /// Access settings of its ports.
    pub traffic: Traffic,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it was last started.
    pub started_at: Option<Timestamp>,
    /// When it times out.
    pub end_at: Timestamp,
    /// When it was removed.
    pub ended_at: Option<Timestamp>,
    /// Idempotency key of its creation.
    pub idempotency: Option<Idempotency>,
    /// Its lifecycle policy.
    pub policy: LifecyclePolicy,
    /// Its boot settings.
    pub boot: Boot,
    /// When it entered its state.
    pub since: Timestamp,
    /// Generation of its last archive.
    pub archives: u32,
    /// Digest of its last complete archive.
    pub archive_digest: Option<String>,
    /// Public id of who asked for it.
    pub created_by: Option<String>,
    /// The last lines of its guest's journal, if it has failed or ended. They come from inside.
    pub last_lines: Vec<String>,
}

/// Boot settings from the template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Boot {
    /// User of commands that name none.
    pub default_user: String,
    /// Working directory of commands that name none.
    pub default_workdir: Option<String>,
    /// Environment of every command; the sandbox's own variables override it.
    pub env: BTreeMap<String, String>,
    /// Start command: a program with arguments that runs as long as the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Vec<String>>,
    /// Ready command: a program with arguments that succeeds when the sandbox is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Vec<String>>,
    /// Whether programs inside gain nothing by set-uid files, so that `sudo` does not work.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_new_privileges: bool,
}

impl Boot {
    /// Whether it has a start or ready command, so that readiness has to be awaited.
    pub fn prepares(&self) -> bool {
        [&self.start, &self.ready].into_iter().flatten().any(|command| !command.is_empty())
    }
}

impl Default for Boot {
    fn default() -> Self {
        let default_user = "user".into();
        let (default_workdir, env, start, ready) = (None, BTreeMap::new(), None, None);
        Self { default_user, default_workdir, env, start, ready, no_new_privileges: false }
    }
}

/// Identifies a repeated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// Chosen by the client.
    pub key: String,
    /// SHA-256 of the request.
    pub request: [u8; 32],
}

/// Result of inserting a sandbox.
#[derive(Debug)]
pub enum Inserted {
    /// It was inserted.
    New,
    /// The idempotency key belongs to this sandbox.
    Known(Box<Sandbox>),
}

impl Store {
    /// Inserts a sandbox unless its idempotency key is known or a quota of its team is used up. `server` are limits where neither the
    /// team nor its plan has one.
    pub async fn insert_sandbox(
        &self,
        sandbox: Sandbox,
        by: impl Into<ActorId>,
        server: Limits,
    ) -> Result<Inserted, Error> {
        let by = by.into();
        self.write(move |connection| {
            Box::pin(async move {
                if let Some(idempotency) = &sandbox.idempotency {
                    let known = sqlx::query("select * from sandboxes where team = $1 and idempotency_key = $2")
                        .bind(sandbox.team.as_str())
                        .bind(&idempotency.key)
                        .fetch_optional(&mut *connection)
                        .await
                        .map_err(|e| Error::query("look for an idempotency key", e))?;
                    if let Some(row) = known {
                        return Ok(Inserted::Known(Box::new(decode(&row)?)));
                    }
                }
                let wanted = quota::of_new(&sandbox);
                quota::check_sandboxes(connection, &sandbox.team, wanted, server).await?;
                insert(connection, &sandbox, by.as_str()).await?;
                let data = json!({ "state": sandbox.state.name(), "by": by.as_str() });
                event::insert(connection, &sandbox.id, &sandbox.team, event::REQUESTED, &data, sandbox.created_at)
                    .await?;
                Ok(Inserted::New)
            })
        })
        .await
    }

    /// A sandbox of any team, or its tombstone.
    pub async fn sandbox(&self, id: &SandboxId) -> Result<Option<Sandbox>, Error> {
        let row = sqlx::query("select * from sandboxes where id = $1")
            .bind(id.as_str())
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("read a sandbox", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// The sandbox that a team created with an idempotency key.
    pub async fn sandbox_by_idempotency_key(&self, team: &TeamId, key: &str) -> Result<Option<Sandbox>, Error> {
        let row = sqlx::query("select * from sandboxes where team = $1 and idempotency_key = $2")
            .bind(team.as_str())
            .bind(key)
            .fetch_optional(self.reader())
            .await
            .map_err(|e| Error::query("look for an idempotency key", e))?;
        row.as_ref().map(decode).transpose()
    }

    /// Every sandbox that has not ended.
    pub async fn live_sandboxes(&self) -> Result<Vec<Sandbox>, Error> {
        let rows = sqlx::query("select * from sandboxes where state <> 'ended' order by id")
            .fetch_all(self.reader())
            .await
            .map_err(|e| Error::query("list sandboxes", e))?;
        rows.iter().map(decode).collect()
    }

    /// Sets the timeout of a running sandbox; with `extend`, never to an earlier time, and as far as the team's quota allows.
    pub async fn set_end_at(
        &self,
        id: SandboxId,
        end_at: Timestamp,
        extend: bool,
        at: Timestamp,
    ) -> Result<Sandbox, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut sandbox = read(connection, &id).await?;
                if sandbox.state != State::Running {
                    return Err(Error::NotRunning { id, state: sandbox.state.name() });
                }
                if micros(sandbox.end_at) == micros(end_at) || (extend && sandbox.end_at > end_at) {
                    return Ok(sandbox);
                }
                sandbox.end_at = quota::bounded_end(connection, &sandbox, end_at, extend).await?;
                sqlx::query("update sandboxes set end_at = $2 where id = $1")
                    .bind(id.as_str())
                    .bind(micros(sandbox.end_at))
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write a sandbox's timeout", e))?;
                let details = json!({ "endAt": sandbox.end_at.to_string() });
                event::updated(connection, &id, &sandbox.team, "timeout", details, at).await?;
                Ok(sandbox)
            })
        })
        .await
    }

    /// Changes a sandbox's resources, within its team's quotas.
    pub async fn resize(&self, id: SandboxId, resources: Resources, at: Timestamp) -> Result<Sandbox, Error> {
        self.write(move |connection| {
            Box::pin(async move {
                let mut sandbox = read(connection, &id).await?;
                quota::check_resize(connection, &sandbox, resources).await?;
                sandbox.resources = resources;
                sqlx::query("update sandboxes set cpu_count = $2, memory_mb = $3, disk_mb = $4 where id = $1")
                    .bind(id.as_str())
                    .bind(resources.cpu_count)
                    .bind(resources.memory_mb)
                    .bind(resources.disk_mb)
                    .execute(&mut *connection)
                    .await
                    .map_err(|e| Error::query("write a sandbox's limits", e))?;
                let details = json!({
                    "cpuCount": resources.cpu_count, "memoryMB": resources.memory_mb, "diskSizeMB": resources.disk_mb,
                });
                event::updated(connection, &id, &sandbox.team, "resize", details, at).await?;
                interval::settle_sandbox(connection, &sandbox, None, at).await?;
                Ok(sandbox)
            })
        })
        .await
    }
}

pub(crate) async fn read(connection: &mut SqliteConnection, id: &SandboxId) -> Result<Sandbox, Error> {
    let row = sqlx::query("select * from sandboxes where id = $1")
        .bind(id.as_str())
        .fetch_optional(connection)
        .await
        .map_err(|e| Error::query("read a sandbox", e))?;
    decode(&row.ok_or_else(|| Error::NoSandbox(id.clone()))?)
}

async fn insert(connection: &mut SqliteConnection, sandbox: &Sandbox, by: &str) -> Result<(), Error> {
    sqlx::query(
        "insert into sandboxes (id, team, template, build, alias, state, detail, cpu_count, memory_mb, disk_mb, pids, metadata,
            env_vars, access_token, secure, egress, created_at, started_at, end_at, ended_at, idempotency_key, idempotency_hash,
            traffic_token, mask_host, https_ports, policy, boot, since, archives, isolation, iam, created_by, project)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
            $26, $27, $28, $29, $30, $31, $32, $33)",
    )
    .bind(sandbox.id.as_str())
    .bind(sandbox.team.as_str())
    .bind(sandbox.template.as_str())
    .bind(sandbox.build.as_str())
    .bind(&sandbox.alias)
    .bind(sandbox.state.name())
    .bind(detail(&sandbox.state)?)
    .bind(sandbox.resources.cpu_count)
    .bind(sandbox.resources.memory_mb)
    .bind(sandbox.resources.disk_mb)
    .bind(sandbox.resources.pids)
    .bind(column::json("metadata", &sandbox.metadata)?)
    .bind(column::json("env_vars", &sandbox.env_vars)?)
    .bind(sandbox.access_token.as_ref().map(|token| token.expose().to_owned()))
    .bind(sandbox.secure)
    .bind(policy_text::write(&sandbox.egress)?.as_ref())
    .bind(micros(sandbox.created_at))
    .bind(sandbox.started_at.map(micros))
    .bind(micros(sandbox.end_at))
    .bind(sandbox.ended_at.map(micros))
    .bind(sandbox.idempotency.as_ref().map(|i| i.key.clone()))
    .bind(sandbox.idempotency.as_ref().map(|i| i.request.to_vec()))
    .bind(sandbox.traffic.token.as_ref().map(|token| token.expose().to_owned()))
    .bind(&sandbox.traffic.mask_host)
    .bind(column::json("https_ports", &sandbox.traffic.https_ports)?)
    .bind(column::json("policy", &sandbox.policy)?)
    .bind(column::json("boot", &sandbox.boot)?)
    .bind(micros(sandbox.since))
    .bind(sandbox.archives)
    .bind(&sandbox.isolation)
    .bind(column::json("iam", &sandbox.iam)?)
    .bind(by)
    .bind(sandbox.project.as_str())
    .execute(connection)
    .await
    .map_err(|e| Error::query("write a sandbox", e))?;
    Ok(())
}

pub(crate) fn decode(row: &SqliteRow) -> Result<Sandbox, Error> {
    let row = Columns(row);
    let state = state(&row.text("state")?, row.text_or_none("detail")?.as_deref())?;
    let idempotency = match (row.text_or_none("idempotency_key")?, row.hash_or_none("idempotency_hash")?) {
        (Some(key), Some(request)) => Some(Idempotency { key, request }),
        _ => None,
    };
    Ok(Sandbox {
        id: row.id("id")?,
        team: row.id("team")?,
        project: row.id("project")?,
        template: row.id("template")?,
        build: row.id("build")?,
        alias: row.text_or_none("alias")?,
        state,
        isolation: row.text("isolation")?,
        resources: Resources {
            cpu_count: row.number("cpu_count")?,
            memory_mb: row.number("memory_mb")?,
            disk_mb: row.number("disk_mb")?,
            pids: row.number("pids")?,
        },
        metadata: row.json("metadata")?,
        env_vars: row.json("env_vars")?,
        access_token: row.text_or_none("access_token")?.map(Secret::new),
        secure: row.flag("secure")?,
        egress: policy_text::read(row.borrowed("egress")?)?,
        iam: row.json("iam")?,
        traffic: Traffic {
            token: row.text_or_none("traffic_token")?.map(Secret::new),
            mask_host: row.text_or_none("mask_host")?,
            https_ports: row.json("https_ports")?,
        },
        created_at: row.time("created_at")?,
        started_at: row.time_or_none("started_at")?,
        end_at: row.time("end_at")?,
        ended_at: row.time_or_none("ended_at")?,
        idempotency,
        policy: row.json("policy")?,
        boot: row.json("boot")?,
        since: row.time("since")?,
        archives: row.number("archives")?,
        archive_digest: row.text_or_none("archive_digest")?,
        created_by: row.text_or_none("created_by")?,
        last_lines: match row.text_or_none("last_lines")? {
            Some(text) => serde_json::from_str(&text).map_err(|e| Error::decode("last_lines", e))?,
            None => Vec::new(),
        },
    })
}

/// The fields of a state besides its name, as JSON.
pub(crate) fn detail(state: &State) -> Result<Option<String>, Error> {
    let mut value = serde_json::to_value(state).map_err(|e| Error::decode("detail", e))?;
    let map = value.as_object_mut().ok_or_else(|| Error::decode("detail", "not an object"))?;
    map.remove("state");
    if map.is_empty() { Ok(None) } else { column::json("detail", &value).map(Some) }
}

fn state(name: &str, detail: Option<&str>) -> Result<State, Error> {
    let read = || {
        let mut map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(detail.unwrap_or("{}"))?;
        map.insert("state".into(), name.into());
        serde_json::from_value(map.into())
    };
    read().map_err(|e: serde_json::Error| Error::decode("state", format!("{name}: {e}")))
}
