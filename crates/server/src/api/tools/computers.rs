//! The sandboxes that calls of tools use: finding, resuming and, for MCP, creating them.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cabana_agent::computer::{Computer, ComputerError, Computers, LifecycleDone};
use cabana_store::{Group, Order, Sandbox, SandboxQuery};
use cabana_types::tool::ToolErrorCode;
use cabana_types::{ErrorCode, Permission, SandboxId};
use serde_json::Value;

use super::download::Links;
use super::{lifecycle, services};
use crate::api::App;
use crate::api::entering::{EnterError, Entered};
use crate::auth::Caller;
use crate::error::ApiError;
use crate::lifecycle::ChangeError;
use crate::tools::{SandboxComputer, unavailable};

/// Metadata under which tools find a sandbox by name.
pub(super) const NAME: &str = "name";

/// The sandboxes of a caller.
pub(crate) struct SandboxComputers {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
    /// The address that links begin with.
    pub(super) base: String,
    /// The sandbox of calls that name none; the caller's own one for MCP if unset.
    default: Option<SandboxId>,
}

impl SandboxComputers {
    pub(crate) fn new(app: Arc<App>, caller: Caller, base: String, default: Option<SandboxId>) -> Self {
        Self { app, caller, base, default }
    }

    /// The row of the sandbox that a call names by id or by name.
    pub(super) async fn row(&self, named: &str) -> Result<Sandbox, ComputerError> {
        if let Ok(id) = named.parse::<SandboxId>()
            && let Some(row) = self.app.store.sandbox(&id).await.map_err(|error| failed(error.into()))?
            && self.caller.reach.sees(&row.team, &row.project)
        {
            return self.app.find_created(&self.caller.reach, &id).await.map_err(failed);
        }
        self.by_metadata(NAME, named).await?.ok_or_else(|| {
            let named: String = named.chars().take(64).collect();
            unavailable(format!("there is no sandbox with the id or name {named:?}"))
        })
    }

    /// The newest running or paused sandbox of the team with a label.
    pub(super) async fn by_metadata(&self, name: &str, value: &str) -> Result<Option<Sandbox>, ComputerError> {
        let query = SandboxQuery {
            team: self.caller.team.clone(),
            projects: self.caller.reach.filter(),
            groups: vec![Group::Running, Group::Paused],
            metadata: BTreeMap::from([(name.to_owned(), value.to_owned())]),
            text: None,
            template: None,
            started_after: None,
            order: Order::Descending,
            after: None,
            limit: 1,
        };
        let found = self.app.store.sandboxes(&query).await.map_err(|error| failed(error.into()))?;
        Ok(found.into_iter().next())
    }

    /// Tools reach beyond the sandbox they are for: what they do there needs the permission of the route that does the same.
    fn require(&self, permission: Permission) -> Result<(), ComputerError> {
        self.caller.require(permission).map_err(failed)
    }

    /// Enters a sandbox as the edge does: resumed if it is paused, and not paused as long as the call uses it.
    async fn enter(&self, row: Sandbox) -> Result<SandboxComputer, ComputerError> {
        let app = &self.app;
        let id = row.id.clone();
        let place = app.places.take(&id).await.ok_or_else(|| ComputerError::Failed {
            code: ToolErrorCode::NoRoom,
            message: "too many calls use the sandbox at once".into(),
            hint: String::new(),
        })?;
        let entered = app.enter(&row).await.map_err(|error| match error {
            EnterError::Resume(error) => resume_failed(error),
            EnterError::PausedAgain => ComputerError::unavailable("the sandbox was paused again at once"),
            EnterError::Slow { seconds } => {
                ComputerError::unavailable(format!("the sandbox was not resumed within {seconds} s"))
            }
        })?;
        let links = Arc::new(Links::new(self.base.clone(), app.upload_key.clone()));
        let Entered { route, in_flight, restoring } = entered;
        Ok(SandboxComputer { route, links, extra_time: restoring, _in_flight: in_flight, _place: place })
    }
}

#[async_trait]
impl Computers for SandboxComputers {
    async fn open(&self, sandbox: Option<&str>) -> Result<Arc<dyn Computer>, ComputerError> {
        let row = match (sandbox.filter(|name| *name != "main"), &self.default) {
            (Some(named), _) => self.row(named).await?,
            (None, Some(id)) => self.app.find_usable(&self.caller.reach, id).await.map_err(failed)?,
            (None, None) => {
                self.require(Permission::SandboxesWrite)?;
                lifecycle::own_sandbox(self).await?
            }
        };
        Ok(Arc::new(self.enter(row).await?))
    }

    async fn lifecycle(&self, tool: &'static str, arguments: Value) -> Result<LifecycleDone, ComputerError> {
        let reads = matches!(tool, "sandbox_list" | "sandbox_info");
        self.require(if reads { Permission::SandboxesRead } else { Permission::SandboxesWrite })?;
        lifecycle::run(self, tool, arguments).await
    }

    async fn service(
        &self,
        sandbox: &str,
        tool: &'static str,
        arguments: Value,
    ) -> Result<LifecycleDone, ComputerError> {
        self.require(Permission::ServicesPublish)?;
        services::run(self, sandbox, tool, arguments).await
    }
}

/// An error of the API in the form of tools.
pub(crate) fn failed(error: ApiError) -> ComputerError {
    let code = match error.code() {
        ErrorCode::SandboxNotFound | ErrorCode::SandboxStateConflict => return unavailable(error.message()),
        ErrorCode::InvalidRequest
        | ErrorCode::NotSupported
        | ErrorCode::TemplateNotFound
        | ErrorCode::ServiceConflict
        | ErrorCode::ServiceNotFound
        | ErrorCode::TemplateNotReady => ToolErrorCode::InvalidArguments,
        ErrorCode::LimitReached | ErrorCode::QuotaExceeded | ErrorCode::SandboxCapacityUnavailable => {
            ToolErrorCode::QuotaExceeded
        }
        ErrorCode::StorageFull => ToolErrorCode::DiskFull,
        _ => return ComputerError::unavailable(error.message()),
    };
    ComputerError::Failed { code, message: error.message().to_owned(), hint: String::new() }
}

fn resume_failed(error: ChangeError) -> ComputerError {
    match error {
        ChangeError::Capacity(_) => ComputerError::Failed {
            code: ToolErrorCode::NoRoom,
            message: cabana_types::error::chain(&error),
            hint: "pause or kill sandboxes that are not needed, then try again".into(),
        },
        error => failed(error.into()),
    }
}
