//! The tools for services, with words for models.

use std::collections::BTreeMap;
use std::time::Duration;

use cabana_agent::computer::{ComputerError, LifecycleDone};
use cabana_types::SandboxId;
use cabana_types::service::ServiceState;
use cabana_types::tool::ToolErrorCode;
use cabana_types::wire::{NewService, Service};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::computers::{SandboxComputers, failed};
use crate::services::Base;

/// How long a call waits for a service to open its port: less than a call may take.
const WAIT: Duration = Duration::from_secs(45);
/// Lines of a log.
const LOG_LINES: usize = 200;

#[derive(Deserialize)]
struct Start {
    name: Option<String>,
    command: String,
    port: Option<u16>,
    cwd: Option<String>,
    env: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Manage {
    name: String,
    action: Action,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    Status,
    Logs,
    Restart,
    Stop,
}

/// Carries out a tool for services.
pub(super) async fn run(
    computers: &SandboxComputers,
    sandbox: &str,
    tool: &'static str,
    arguments: Value,
) -> Result<LifecycleDone, ComputerError> {
    let sandbox: SandboxId = sandbox.parse().map_err(|_| ComputerError::unavailable("there is no such sandbox"))?;
    let base = computers.app.service_base(Some(&computers.base));
    match tool {
        "sandbox_start_service" => start(computers, &sandbox, parse(arguments)?, base.as_ref()).await,
        _ => manage(computers, &sandbox, parse(arguments)?, base.as_ref()).await,
    }
}

fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, ComputerError> {
    serde_json::from_value(arguments).map_err(|error| ComputerError::unavailable(error.to_string()))
}

async fn start(
    computers: &SandboxComputers,
    sandbox: &SandboxId,
    given: Start,
    base: Option<&Base>,
) -> Result<LifecycleDone, ComputerError> {
    let new = NewService {
        name: given.name,
        command: given.command,
        port: given.port,
        cwd: given.cwd,
        env: given.env.unwrap_or_default(),
        ..NewService::default()
    };
    let app = &computers.app;
    let service = app.start_service(&computers.caller, sandbox, new, WAIT, base).await.map_err(failed)?;
    running(sandbox, &service)
}

/// What was started, unless it has failed.
fn running(sandbox: &SandboxId, service: &Service) -> Result<LifecycleDone, ComputerError> {
    let done = done(sandbox, service);
    match service.state {
        ServiceState::Error => Err(ComputerError::Failed {
            code: ToolErrorCode::CommandFailed,
            message: done.output,
            hint: "the command must stay in the foreground and listen on a port; sandbox_service with action logs shows what it printed"
                .to_owned(),
        }),
        _ => Ok(done),
    }
}

async fn manage(
    computers: &SandboxComputers,
    sandbox: &SandboxId,
    given: Manage,
    base: Option<&Base>,
) -> Result<LifecycleDone, ComputerError> {
    let (app, caller) = (&computers.app, &computers.caller);
    let rows = app.store.services_of(sandbox).await.map_err(|error| failed(error.into()))?;
    let Some(row) = rows.iter().find(|row| row.name == given.name) else {
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let known = if names.is_empty() {
            "the sandbox has none".to_owned()
        } else {
            format!("there are {}", names.join(", "))
        };
        return Err(ComputerError::Failed {
            code: ToolErrorCode::InvalidArguments,
            message: format!("there is no service {:?}; {known}", given.name),
            hint: "sandbox_start_service starts one".to_owned(),
        });
    };
    match given.action {
        Action::Status => {
            let (row, found) = app.find_service(caller, &row.id).await.map_err(failed)?;
            Ok(done(sandbox, &app.services.describe(&row, &found, base).await))
        }
        Action::Logs => {
            let log = app.services.log(&row.id, LOG_LINES).await;
            let output = if log.lines.is_empty() { "(nothing was printed)".to_owned() } else { log.lines.join("\n") };
            let data = json!({"serviceId": row.id, "dropped": log.dropped});
            Ok(LifecycleDone { sandbox_id: Some(sandbox.to_string()), output, data })
        }
        Action::Restart => {
            let service = app.run_service(caller, &row.id, true, WAIT, base).await.map_err(failed)?;
            running(sandbox, &service)
        }
        Action::Stop => {
            let service = app.stop_service(caller, &row.id, base).await.map_err(failed)?;
            Ok(done(sandbox, &service))
        }
    }
}

fn done(sandbox: &SandboxId, service: &Service) -> LifecycleDone {
    let port = service.port.map(|port| format!(" on port {port}")).unwrap_or_default();
    let mut output = match service.state {
        ServiceState::Running => format!("service {} runs{port}", service.name),
        ServiceState::Starting => {
            format!(
                "service {} was started and does not listen{port} yet; look again with sandbox_service",
                service.name
            )
        }
        ServiceState::Suspended => format!("service {} is suspended: its sandbox is paused", service.name),
        ServiceState::Stopped => format!("service {} is stopped", service.name),
        ServiceState::Error => format!("service {} does not run", service.name),
    };
    if let Some(reason) = &service.reason {
        output.push_str(&format!(": {reason}"));
    }
    if let (ServiceState::Running | ServiceState::Starting, Some(url)) = (service.state, &service.url) {
        output.push_str(&format!("\nurl for people: {url}"));
    }
    if service.state == ServiceState::Error && !service.last_lines.is_empty() {
        output.push_str(&format!("\nit printed last:\n{}", service.last_lines.join("\n")));
    }
    let data = serde_json::to_value(service).unwrap_or_default();
    LifecycleDone { sandbox_id: Some(sandbox.to_string()), output, data }
}
