//! The sandbox that a path names, seen by the caller: theirs and there, or a refusal that says what became of it.

use axum::extract::{FromRequestParts, Path};
use cabana_store::Sandbox;
use cabana_types::routing::parse_sandbox_ref;
use cabana_types::sandbox::State;
use cabana_types::{ErrorCode, SandboxId, TeamId};
use http::request::Parts;

use super::App;
use crate::error::Refusal;

/// The id in the path; E2B's older `id-clientID` counts too.
#[derive(Debug)]
pub(super) struct SandboxRef(pub(super) SandboxId);

impl<S: Send + Sync> FromRequestParts<S> for SandboxRef {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Refusal::invalid("The path is not well formed"))?;
        // What cannot be an id is the id of nothing.
        parse_sandbox_ref(&text).map(Self).ok_or_else(|| Refusal::no_sandbox(&text))
    }
}

impl App {
    /// A sandbox of a team or its tombstone.
    pub(super) async fn remembered(&self, team: &TeamId, id: &SandboxId) -> Result<Sandbox, Refusal> {
        match self.store.sandbox(id).await? {
            Some(sandbox) if sandbox.team == *team => Ok(sandbox),
            _ => Err(Refusal::no_sandbox(id.as_str())),
        }
    }

    /// A sandbox of a team that is up.
    pub(super) async fn running(&self, team: &TeamId, id: &SandboxId) -> Result<Sandbox, Refusal> {
        let sandbox = self.there(team, id).await?;
        match &sandbox.state {
            State::Running => Ok(sandbox),
            _ => {
                let text = format!("Sandbox {id} is paused; resume it with POST /v2/sandboxes/{id}/connect");
                Err(Refusal::new(ErrorCode::SandboxStateConflict, text))
            }
        }
    }

    /// A sandbox of a team that is up or asleep.
    pub(super) async fn there(&self, team: &TeamId, id: &SandboxId) -> Result<Sandbox, Refusal> {
        let sandbox = self.alive(team, id).await?;
        match &sandbox.state {
            State::Failed { cause } => Err(Refusal::failed(id, cause)),
            _ => Ok(sandbox),
        }
    }

    /// A sandbox of a team that came up once and was not ended; it may have failed.
    pub(super) async fn alive(&self, team: &TeamId, id: &SandboxId) -> Result<Sandbox, Refusal> {
        let sandbox = self.mortal(team, id).await?;
        match &sandbox.state {
            State::Creating => {
                let text = format!("Sandbox {id} is still being created; wait for the answer to its creation");
                Err(Refusal::new(ErrorCode::SandboxStateConflict, text))
            }
            _ => Ok(sandbox),
        }
    }

    /// A sandbox of a team that was not ended; it may be coming up.
    pub(super) async fn mortal(&self, team: &TeamId, id: &SandboxId) -> Result<Sandbox, Refusal> {
        let sandbox = self.remembered(team, id).await?;
        match &sandbox.state {
            State::Ending { cause } | State::Ended { cause } => Err(Refusal::ended(id, cause)),
            _ => Ok(sandbox),
        }
    }

    /// The refusal for a change that came too late, or the error's own.
    pub(super) async fn too_late(&self, team: &TeamId, id: &SandboxId, error: cabana_store::Error) -> Refusal {
        use cabana_store::Error as E;
        if !matches!(error, E::NoSandbox(_) | E::NotRunning { .. } | E::Refused(_)) {
            return error.into();
        }
        match self.running(team, id).await {
            Err(refusal) => refusal,
            Ok(_) => Refusal::new(ErrorCode::SandboxStateConflict, format!("Sandbox {id} is changing; try again")),
        }
    }
}
