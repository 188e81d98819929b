//! What is done with services, for the API and for tools.

use std::sync::Arc;
use std::time::Duration;

use cabana_store::{Sandbox, Service as Row, ServicePut};
use cabana_types::sandbox::State as SandboxState;
use cabana_types::service::MAX_SERVICES;
use cabana_types::wire::{NewService, Service};
use cabana_types::{ErrorCode, SandboxId, ServiceId};

use super::{new_service, no_service};
use crate::api::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::services::{Base, StartError};

impl App {
    /// Where a client that reached the server by `own` finds services; by the console's address if that is not known.
    pub(crate) fn service_base(&self, own: Option<&str>) -> Option<Base> {
        Base::of(self.domain.as_deref(), Some(own.unwrap_or(&self.console_url)))
    }

    /// A service of the caller's team, with its sandbox, which may have ended.
    pub(crate) async fn find_service(&self, caller: &Caller, id: &ServiceId) -> Result<(Row, Sandbox), ApiError> {
        let row = self.store.service(id).await?.filter(|row| row.team == caller.team && !row.removed);
        let row = row.ok_or_else(|| no_service(id.as_str()))?;
        // The id of a sandbox that the caller may not know of is not told.
        let refused = caller.reach.check(&row.team, &row.project);
        refused.map_err(|refused| refused.or(|| no_service(id.as_str())))?;
        let sandbox = self.find_sandbox(&caller.reach, &row.sandbox).await?;
        Ok((row, sandbox))
    }

    /// The same, in a sandbox that has not ended.
    pub(super) async fn find_live_service(&self, caller: &Caller, id: &ServiceId) -> Result<(Row, Sandbox), ApiError> {
        let (row, sandbox) = self.find_service(caller, id).await?;
        match &sandbox.state {
            SandboxState::Ending { cause } | SandboxState::Ended { cause } => Err(ApiError::ended(&sandbox.id, cause)),
            _ => Ok((row, sandbox)),
        }
    }

    /// A service as it is after a while.
    pub(super) async fn service(
        &self,
        caller: &Caller,
        id: &ServiceId,
        wait: Duration,
        base: Option<&Base>,
    ) -> Result<Service, ApiError> {
        if !wait.is_zero() {
            self.services.settle(id, wait).await;
        }
        let (row, sandbox) = self.find_service(caller, id).await?;
        Ok(self.services.describe(&row, &sandbox, base).await)
    }

    /// Starts a new service, or replaces the one that has its name.
    pub(crate) async fn start_service(
        self: &Arc<Self>,
        caller: &Caller,
        sandbox: &SandboxId,
        new: NewService,
        wait: Duration,
        base: Option<&Base>,
    ) -> Result<Service, ApiError> {
        let keep_access = new.access.is_none();
        let found = self.find_usable(&caller.reach, sandbox).await?;
        let row = new_service::row(caller, &found, new)?;
        let entered = self.enter(&found).await?;
        if let Some(port) = row.port {
            self.services.check_port(&entered.route, &row.name, port).await?;
        }
        let task = {
            let app = Arc::clone(self);
            async move {
                let row = put(app.services.put(row, keep_access, MAX_SERVICES).await?)?;
                app.services.run(&row.id, &entered.route).await;
                Ok::<_, ApiError>(row.id.clone())
            }
        };
        let id = self.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
        self.service(caller, &id, wait, base).await
    }

    /// Starts a service, if it does not run; with `again`, also if it does.
    pub(crate) async fn run_service(
        self: &Arc<Self>,
        caller: &Caller,
        id: &ServiceId,
        again: bool,
        wait: Duration,
        base: Option<&Base>,
    ) -> Result<Service, ApiError> {
        let (row, _) = self.find_live_service(caller, id).await?;
        let sandbox = self.find_usable(&caller.reach, &row.sandbox).await?;
        let entered = self.enter(&sandbox).await?;
        let task = {
            let (app, id) = (Arc::clone(self), id.clone());
            async move {
                app.services.want(&id, true, again).await?;
                app.services.run(&id, &entered.route).await;
                Ok::<_, ApiError>(())
            }
        };
        self.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
        self.service(caller, id, wait, base).await
    }

    /// Stops a service.
    pub(crate) async fn stop_service(
        self: &Arc<Self>,
        caller: &Caller,
        id: &ServiceId,
        base: Option<&Base>,
    ) -> Result<Service, ApiError> {
        let (row, _) = self.find_live_service(caller, id).await?;
        let task = {
            let (app, id) = (Arc::clone(self), id.clone());
            async move {
                app.services.want(&id, false, false).await?;
                if let Some(route) = app.directory.get(&row.sandbox) {
                    app.services.run(&id, &route).await;
                }
                Ok::<_, ApiError>(())
            }
        };
        self.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed.into()))?;
        self.service(caller, id, Duration::ZERO, base).await
    }
}

/// The row, or why it is not as it was to be.
pub(super) fn put(put: ServicePut) -> Result<Row, ApiError> {
    match put {
        ServicePut::Done(row) => Ok(*row),
        ServicePut::TooMany => Err(ApiError::new(
            ErrorCode::LimitReached,
            format!("The sandbox has {MAX_SERVICES} services, as many as there may be; delete some first"),
        )),
        ServicePut::PortTaken(name) => Err(ApiError::new(
            ErrorCode::ServiceConflict,
            format!("The service {name} has this port; choose another one, or stop and delete {name}"),
        )),
        ServicePut::SlugTaken => Err(ApiError::new(
            ErrorCode::ServiceConflict,
            "Another service of this server has this slug; choose another one",
        )),
        ServicePut::Absent => Err(ApiError::new(ErrorCode::ServiceNotFound, "The service is gone")),
    }
}

impl From<StartError> for ApiError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::PortInUse { .. } => Self::new(ErrorCode::ServiceConflict, error.to_string()),
            StartError::Store(error) => error.into(),
        }
    }
}
