//! Finds the sandbox that a path names, if it belongs to the caller's team and is in a suitable state; otherwise the error says why.

use axum::extract::{FromRequestParts, Path};
use cabana_store::Sandbox;
use cabana_types::routing::parse_sandbox_ref;
use cabana_types::sandbox::State;
use cabana_types::{ErrorCode, SandboxId};
use http::request::Parts;

use super::App;
use crate::auth::Reach;
use crate::error::ApiError;

/// The id in the path; E2B's older form `id-clientID` is accepted too.
#[derive(Debug)]
pub(super) struct SandboxRef(pub(super) SandboxId);

impl<S: Send + Sync> FromRequestParts<S> for SandboxRef {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| ApiError::invalid("The path is not well formed"))?;
        // A malformed id is treated like one that does not exist.
        parse_sandbox_ref(&text).map(Self).ok_or_else(|| ApiError::no_sandbox(&text))
    }
}

impl App {
    /// A sandbox of the team, in any state, also after its end.
    pub(super) async fn find_sandbox(&self, reach: &Reach, id: &SandboxId) -> Result<Sandbox, ApiError> {
        let no_sandbox = || ApiError::no_sandbox(id.as_str());
        let sandbox = self.store.sandbox(id).await?.ok_or_else(no_sandbox)?;
        reach.check(&sandbox.team, &sandbox.project).map_err(|refused| refused.or(no_sandbox))?;
        Ok(sandbox)
    }

    /// A running sandbox of the team.
    pub(super) async fn find_running(&self, reach: &Reach, id: &SandboxId) -> Result<Sandbox, ApiError> {
        let sandbox = self.find_usable(reach, id).await?;
        match &sandbox.state {
            State::Running => Ok(sandbox),
            _ => {
                let text = format!("Sandbox {id} is paused; resume it with POST /v2/sandboxes/{id}/connect");
                Err(ApiError::new(ErrorCode::SandboxStateConflict, text))
            }
        }
    }

    /// A sandbox of the team that is running, paused or in between.
    pub(super) async fn find_usable(&self, reach: &Reach, id: &SandboxId) -> Result<Sandbox, ApiError> {
        let sandbox = self.find_created(reach, id).await?;
        match &sandbox.state {
            State::Failed { cause } => Err(ApiError::failed(id, cause)),
            _ => Ok(sandbox),
        }
    }

    /// A sandbox of the team that was created and has not ended. It may have failed.
    pub(super) async fn find_created(&self, reach: &Reach, id: &SandboxId) -> Result<Sandbox, ApiError> {
        let sandbox = self.find_not_ended(reach, id).await?;
        match &sandbox.state {
            State::Creating => {
                let text = format!("Sandbox {id} is still being created; wait for the response to its creation");
                Err(ApiError::new(ErrorCode::SandboxStateConflict, text))
            }
            _ => Ok(sandbox),
        }
    }

    /// A sandbox of the team that has not ended. It may still be in creation.
    pub(super) async fn find_not_ended(&self, reach: &Reach, id: &SandboxId) -> Result<Sandbox, ApiError> {
        let sandbox = self.find_sandbox(reach, id).await?;
        match &sandbox.state {
            State::Ending { cause } | State::Ended { cause } => Err(ApiError::ended(id, cause)),
            _ => Ok(sandbox),
        }
    }

    /// Turns a store error of a change into an error that names the sandbox's current state.
    pub(super) async fn explain_conflict(&self, reach: &Reach, id: &SandboxId, error: cabana_store::Error) -> ApiError {
        use cabana_store::Error as E;
        if !matches!(error, E::NoSandbox(_) | E::NotRunning { .. } | E::Refused(_)) {
            return error.into();
        }
        match self.find_running(reach, id).await {
            Err(error) => error,
            Ok(_) => ApiError::new(ErrorCode::SandboxStateConflict, format!("Sandbox {id} is changing; try again")),
        }
    }
}
