//! Projects of a team, and which of them a request means.

use cabana_types::{ErrorCode, ProjectId, TeamId};

use super::App;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// What a team's default project may be called instead of its id.
const DEFAULT: &str = "default";

impl App {
    /// The project of something new: the one that the request names, else that of the caller, else the default one.
    pub(super) async fn project_for(&self, caller: &Caller, text: Option<&str>) -> Result<ProjectId, ApiError> {
        let named = text.map(|text| parse(&caller.team, text)).transpose()?;
        let Some(named) = named else {
            return Ok(caller.project.clone().unwrap_or_else(|| ProjectId::default_of(&caller.team)));
        };
        let known = self.store.project(&named).await?.is_some_and(|project| project.team == caller.team);
        if known && caller.project.as_ref().is_none_or(|only| *only == named) {
            Ok(named)
        } else {
            Err(no_project(named.as_str()))
        }
    }

    /// The projects of a listing: the one that the request names, or all of the caller's (`None`: of the team's).
    pub(super) fn projects_in(&self, caller: &Caller, text: Option<&str>) -> Result<Option<Vec<ProjectId>>, ApiError> {
        let Some(text) = text else { return Ok(caller.project.clone().map(|only| vec![only])) };
        let named = parse(&caller.team, text)?;
        Ok(Some(if caller.project.as_ref().is_none_or(|only| *only == named) { vec![named] } else { Vec::new() }))
    }
}

/// Reads an id, or `default`.
pub(super) fn parse(team: &TeamId, text: &str) -> Result<ProjectId, ApiError> {
    if text == DEFAULT {
        return Ok(ProjectId::default_of(team));
    }
    // A malformed id is treated like one that does not exist.
    text.parse().map_err(|_| no_project(text))
}

/// There is no such project, or the caller may not know of it.
pub(super) fn no_project(id: &str) -> ApiError {
    let text = format!("Project {:?} was not found", short(id));
    ApiError::new(ErrorCode::ProjectNotFound, text)
}
