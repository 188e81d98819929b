//! The lifecycle tools of MCP: creating, listing and changing sandboxes.

use std::collections::BTreeMap;

use cabana_agent::computer::{ComputerError, LifecycleDone};
use cabana_store::{Group, Order, Sandbox, SandboxQuery};
use cabana_types::sandbox::{EndCause, PauseCause, State};
use cabana_types::wire::{AutoResume, ListedSandbox, NewSandbox};
use http::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::computers::{NAME, SandboxComputers, failed};
use crate::api::new_sandbox::Version;
use crate::api::sandboxes::listed;
use crate::lifecycle::Pause;

/// Metadata of the sandbox that a key's MCP clients use when they name none.
const OWN: &str = "cabana.mcp";
/// Seconds without use after which that sandbox is paused.
const OWN_IDLE: i64 = 900;
/// Seconds after which a sandbox of `sandbox_create` is paused.
const TIMEOUT: i64 = 3600;
const DEFAULT_TEMPLATE: &str = "base";

/// Carries out a lifecycle tool.
pub(super) async fn run(
    computers: &SandboxComputers,
    tool: &'static str,
    arguments: Value,
) -> Result<LifecycleDone, ComputerError> {
    match tool {
        "sandbox_create" => create(computers, parse(arguments)?).await,
        "sandbox_list" => list(computers, parse(arguments)?).await,
        "sandbox_info" => info(computers, parse(arguments)?).await,
        "sandbox_pause" => pause(computers, parse(arguments)?).await,
        "sandbox_resume" => resume(computers, parse(arguments)?).await,
        "sandbox_kill" => kill(computers, parse(arguments)?).await,
        "sandbox_snapshot" => snapshot(computers, parse(arguments)?).await,
        "sandbox_fork" => fork(computers, parse(arguments)?).await,
        other => Err(ComputerError::unavailable(format!("there is no tool {other}"))),
    }
}

fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, ComputerError> {
    serde_json::from_value(arguments).map_err(|error| ComputerError::unavailable(error.to_string()))
}

#[derive(Deserialize)]
struct Create {
    template: Option<String>,
    name: Option<String>,
    cpu: Option<i64>,
    memory_mb: Option<i64>,
    timeout_seconds: Option<i64>,
    env: Option<BTreeMap<String, String>>,
}

async fn create(computers: &SandboxComputers, given: Create) -> Result<LifecycleDone, ComputerError> {
    let request = NewSandbox {
        template_id: given.template.unwrap_or_else(|| DEFAULT_TEMPLATE.into()),
        timeout: Some(given.timeout_seconds.unwrap_or(TIMEOUT)),
        auto_pause: Some(true),
        auto_resume: Some(AutoResume { enabled: true }),
        metadata: given.name.map(|name| BTreeMap::from([(NAME.to_owned(), name)])),
        env_vars: given.env,
        cpu_count: given.cpu,
        memory_mb: given.memory_mb,
        ..NewSandbox::default()
    };
    let row = new_sandbox(computers, request).await?;
    let output =
        format!("created sandbox {} from template {}", row.id, row.alias.as_deref().unwrap_or(row.template.as_str()));
    Ok(done(row, output))
}

async fn new_sandbox(computers: &SandboxComputers, request: NewSandbox) -> Result<Sandbox, ComputerError> {
    let SandboxComputers { app, caller, .. } = computers;
    let request = app.create_request(caller, &HeaderMap::new(), request, Version::V2).await.map_err(failed)?;
    app.lifecycle.create(request).await.map_err(|error| failed(error.into()))
}

/// The sandbox that a key's clients use when they name none, made on first use.
pub(super) async fn own_sandbox(computers: &SandboxComputers) -> Result<Sandbox, ComputerError> {
    let SandboxComputers { app, caller, .. } = computers;
    let key = caller.actor.to_string();
    if let Some(row) = computers.by_metadata(OWN, &key).await? {
        return Ok(row);
    }
    // Several calls of a new client may come at once.
    let _alone = app.own_sandboxes.lock().await;
    if let Some(row) = computers.by_metadata(OWN, &key).await? {
        return Ok(row);
    }
    let request = NewSandbox {
        template_id: DEFAULT_TEMPLATE.into(),
        timeout: Some(i64::try_from(app.limits.longest_timeout()).unwrap_or(TIMEOUT)),
        auto_pause: Some(true),
        auto_resume: Some(AutoResume { enabled: true }),
        idle_timeout: Some(OWN_IDLE),
        metadata: Some(BTreeMap::from([(OWN.to_owned(), key), (NAME.to_owned(), "mcp".to_owned())])),
        ..NewSandbox::default()
    };
    new_sandbox(computers, request).await
}

#[derive(Deserialize)]
struct List {
    state: Option<String>,
    limit: u32,
}

async fn list(computers: &SandboxComputers, given: List) -> Result<LifecycleDone, ComputerError> {
    let groups = match given.state.as_deref() {
        Some("running") => vec![Group::Running],
        Some("paused") => vec![Group::Paused],
        _ => vec![Group::Running, Group::Paused],
    };
    let query = SandboxQuery {
        team: computers.caller.team.clone(),
        projects: computers.caller.reach.filter(),
        groups,
        metadata: BTreeMap::new(),
        text: None,
        template: None,
        started_after: None,
        order: Order::Descending,
        after: None,
        limit: given.limit + 1,
    };
    let mut rows = computers.app.store.sandboxes(&query).await.map_err(|error| failed(error.into()))?;
    let truncated = rows.len() > given.limit as usize;
    rows.truncate(given.limit as usize);
    let sandboxes: Vec<ListedSandbox> = rows.into_iter().map(listed).collect();
    let mut output: String = sandboxes.iter().map(|sandbox| line(sandbox) + "\n").collect();
    if sandboxes.is_empty() {
        output = "[no sandboxes]".into();
    } else if truncated {
        output.push_str("[there are more]");
    }
    Ok(LifecycleDone { sandbox_id: None, output, data: json!({"sandboxes": sandboxes, "truncated": truncated}) })
}

fn line(sandbox: &ListedSandbox) -> String {
    let name = sandbox.metadata.get(NAME).map(|name| format!(" {name:?}")).unwrap_or_default();
    let template = sandbox.alias.as_deref().unwrap_or(&sandbox.template_id);
    format!("{}{name} {} template {template}, started {}", sandbox.sandbox_id, sandbox.phase, sandbox.started_at)
}

#[derive(Deserialize)]
struct One {
    sandbox: String,
}

async fn info(computers: &SandboxComputers, One { sandbox }: One) -> Result<LifecycleDone, ComputerError> {
    let row = computers.row(&sandbox).await?;
    let shown = listed(row.clone());
    let output = format!(
        "{}\n{} CPUs, {} MiB of memory, {} MiB of disk, until {}{}",
        line(&shown),
        shown.cpu_count,
        shown.memory_mb,
        shown.disk_size_mb,
        shown.end_at,
        shown.reason.as_deref().map(|reason| format!("\nthe sandbox {reason}")).unwrap_or_default(),
    );
    Ok(done(row, output))
}

async fn pause(computers: &SandboxComputers, One { sandbox }: One) -> Result<LifecycleDone, ComputerError> {
    let row = computers.row(&sandbox).await?;
    if row.state.is_paused() {
        let output = format!("sandbox {} is paused already", row.id);
        return Ok(done(row, output));
    }
    let why = PauseCause::Asked { by: computers.caller.actor.to_string() };
    let pause = Pause { memory: true, require_healthy: false, why };
    let row = computers.app.lifecycle.pause(&row.id, pause).await.map_err(|error| failed(error.into()))?;
    let output = format!("paused sandbox {}; the next call that uses it resumes it", row.id);
    Ok(done(row, output))
}

async fn resume(computers: &SandboxComputers, One { sandbox }: One) -> Result<LifecycleDone, ComputerError> {
    let row = computers.row(&sandbox).await?;
    let seconds = row.policy.auto_resume_seconds();
    let resumed = match row.state {
        State::Failed { .. } => {
            let why = PauseCause::Asked { by: computers.caller.actor.to_string() };
            computers.app.lifecycle.recover_sandbox(&row.id, why).await
        }
        _ => computers.app.lifecycle.resume(&row.id, seconds, false).await.map(|(row, _)| row),
    };
    let row = resumed.map_err(|error| failed(error.into()))?;
    let output = format!("sandbox {} is running", row.id);
    Ok(done(row, output))
}

async fn kill(computers: &SandboxComputers, One { sandbox }: One) -> Result<LifecycleDone, ComputerError> {
    let row = computers.row(&sandbox).await?;
    let cause = EndCause::Killed { by: computers.caller.actor.to_string() };
    computers.app.lifecycle.kill(&row.id, cause).await.map_err(|error| failed(error.into()))?;
    let id = row.id.to_string();
    Ok(LifecycleDone { output: format!("killed sandbox {id}"), data: json!({"sandboxId": id}), sandbox_id: Some(id) })
}

async fn snapshot(computers: &SandboxComputers, One { sandbox }: One) -> Result<LifecycleDone, ComputerError> {
    let row = computers.row(&sandbox).await?;
    let taken = computers.app.lifecycle.snapshot(&row.id, None).await.map_err(|error| failed(error.into()))?;
    let snapshot = taken.id.to_string();
    let output =
        format!("snapshot {snapshot} of sandbox {}; sandbox_create with template {snapshot} starts from it", row.id);
    let data = json!({"sandboxId": row.id, "snapshotId": snapshot});
    Ok(LifecycleDone { sandbox_id: Some(row.id.to_string()), output, data })
}

#[derive(Deserialize)]
struct Fork {
    sandbox: String,
    count: i64,
}

async fn fork(computers: &SandboxComputers, Fork { sandbox, count }: Fork) -> Result<LifecycleDone, ComputerError> {
    let row = computers.row(&sandbox).await?;
    let SandboxComputers { app, caller, .. } = computers;
    let made = app.fork_sandboxes(caller, &row.id, Some(count), Some(TIMEOUT)).await.map_err(failed)?;
    let (mut ids, mut output) = (Vec::new(), String::new());
    for result in made {
        match (result.sandbox, result.error) {
            (Some(sandbox), _) => {
                output.push_str(&format!("{}\n", sandbox.sandbox_id));
                ids.push(sandbox.sandbox_id);
            }
            (None, Some(error)) => output.push_str(&format!("[one was not made: {}]\n", error.message)),
            (None, None) => {}
        }
    }
    let data = json!({"sandboxId": row.id, "sandboxIds": ids});
    Ok(LifecycleDone { sandbox_id: Some(row.id.to_string()), output, data })
}

fn done(row: Sandbox, output: String) -> LifecycleDone {
    let id = row.id.to_string();
    let mut data = json!(listed(row));
    if let Some(fields) = data.as_object_mut() {
        fields.insert("sandboxId".into(), id.clone().into());
    }
    LifecycleDone { sandbox_id: Some(id), output, data }
}
