//! What of a team a caller reaches: all of it, or some of its projects. Unknown and out of reach are the same to the caller.

use std::collections::BTreeMap;

use super::keys::Known;
use cabana_accounts::Access;
use cabana_types::{Permission, Permissions, ProjectId, Role, TeamId};

/// What a caller reaches.
#[derive(Debug, Clone)]
pub struct Reach {
    /// The team that the request acts for.
    pub team: TeamId,
    /// What the caller may do in which projects.
    projects: Projects,
    /// What the route of the request needs.
    needs: Option<Permission>,
}

#[derive(Debug, Clone)]
enum Projects {
    /// The same in all of the team.
    All(Permissions),
    Some(BTreeMap<ProjectId, Permissions>),
}

/// Why something is refused to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The caller may not know that it exists.
    Unknown,
    /// The caller may not do this with it.
    Forbidden(Permission),
}

impl Reach {
    /// All of a team.
    pub(crate) fn team(team: TeamId, permissions: Permissions) -> Self {
        Self { team, projects: Projects::All(permissions), needs: None }
    }

    /// One project.
    pub(crate) fn project(team: TeamId, project: ProjectId, permissions: Permissions) -> Self {
        Self { team, projects: Projects::Some([(project, permissions)].into()), needs: None }
    }

    /// What a key reaches.
    pub(crate) fn of_key(key: &Known) -> Self {
        match &key.project {
            None => Self::team(key.team.clone(), key.scopes),
            Some(project) => Self::project(key.team.clone(), project.clone(), key.scopes),
        }
    }

    /// What a person reaches.
    pub(crate) fn of_person(team: TeamId, access: Option<&Access>) -> Self {
        let Some(access) = access else { return Self::team(team, Permissions::NONE) };
        let projects = match access.projects() {
            None => Projects::All(access.role.permissions()),
            Some(roles) => Projects::Some(roles.iter().map(|(id, role)| (id.clone(), role.permissions())).collect()),
        };
        Self { team, projects, needs: None }
    }

    /// The same for a route that needs a permission.
    pub(super) fn for_route(&mut self, needs: Permission) {
        self.needs = Some(needs);
    }

    /// Whether it is all of the team.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.projects, Projects::All(_))
    }

    /// The project, if it is only one.
    pub(crate) fn only(&self) -> Option<&ProjectId> {
        match &self.projects {
            Projects::Some(projects) if projects.len() == 1 => projects.keys().next(),
            _ => None,
        }
    }

    /// What the caller may do in a project; `None` if they may not know of it.
    pub(crate) fn permissions_in(&self, team: &TeamId, project: &ProjectId) -> Option<Permissions> {
        if *team != self.team {
            return None;
        }
        match &self.projects {
            Projects::All(permissions) => Some(*permissions),
            Projects::Some(projects) => projects.get(project).copied(),
        }
    }

    /// Whether the caller may know of what is in a project.
    pub(crate) fn sees(&self, team: &TeamId, project: &ProjectId) -> bool {
        self.permissions_in(team, project).is_some()
    }

    /// Whether the caller may do in a project what the route is for.
    pub(crate) fn check(&self, team: &TeamId, project: &ProjectId) -> Result<(), Refused> {
        match (self.permissions_in(team, project), self.needs) {
            (None, _) => Err(Refused::Unknown),
            (Some(permissions), Some(needs)) if !permissions.has(needs) => Err(Refused::Forbidden(needs)),
            (Some(_), _) => Ok(()),
        }
    }

    /// Whether the caller may do something in a project.
    pub(crate) fn may(&self, team: &TeamId, project: &ProjectId, permission: Permission) -> bool {
        self.permissions_in(team, project).is_some_and(|permissions| permissions.has(permission))
    }

    /// The projects of a listing: those in which the caller may do what the route is for; `None` is all of the team.
    pub(crate) fn filter(&self) -> Option<Vec<ProjectId>> {
        match &self.projects {
            Projects::All(_) => None,
            Projects::Some(projects) => {
                let may = |permissions: &Permissions| self.needs.is_none_or(|needs| permissions.has(needs));
                Some(projects.iter().filter(|(_, own)| may(own)).map(|(id, _)| id.clone()).collect())
            }
        }
    }
}

/// Texts of roles for errors.
pub(super) fn role_text(role: Option<Role>) -> &'static str {
    role.map_or("no role", |role| role.as_str())
}
