//! Everybody, and where they belong, in memory: deciding about a request costs no query. A change is written to the store first, and
//! has effect before whoever made it gets an answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cabana_store::{MemberRow, People, Project, Team, User};
use cabana_types::{ProjectId, Role, TeamId, UserId};
use tokio_util::sync::CancellationToken;

/// What a person may reach in a team.
#[derive(Debug)]
pub struct Access {
    /// Their role in the team.
    pub role: Role,
    /// Their roles in its projects; `None`: the role of the team in all of them.
    projects: Option<BTreeMap<ProjectId, Role>>,
    /// Cancelled when it changes: what was opened with it is closed.
    pub changed: CancellationToken,
}

impl Access {
    /// Their role in a project of the team; `None` if they may not know of it.
    pub fn role_in(&self, project: &ProjectId) -> Option<Role> {
        match &self.projects {
            None => Some(self.role),
            Some(projects) => projects.get(project).copied(),
        }
    }

    /// Their roles in the projects; `None` if they have the team's in all of them.
    pub fn projects(&self) -> Option<&BTreeMap<ProjectId, Role>> {
        self.projects.as_ref()
    }

    fn is_like(&self, other: &Self) -> bool {
        self.role == other.role && self.projects == other.projects
    }
}

/// Everybody, and where they belong.
#[derive(Debug, Default)]
pub struct Directory {
    users: BTreeMap<UserId, Arc<User>>,
    teams: Vec<Team>,
    members: Vec<MemberRow>,
    projects: BTreeMap<ProjectId, Project>,
    /// The role of the project itself, which the role in the team bounds.
    project_members: BTreeMap<ProjectId, BTreeMap<UserId, Role>>,
    access: HashMap<(UserId, TeamId), Arc<Access>>,
}

impl Directory {
    /// The directory of what the store has. Access that is as it was `before` is kept; that which is not is cancelled there.
    pub(crate) fn new(people: People, before: &Self) -> Self {
        let mut new = Self {
            users: people.users.into_iter().map(|user| (user.id.clone(), Arc::new(user))).collect(),
            teams: people.teams,
            members: people.members,
            projects: people.projects.into_iter().map(|project| (project.id.clone(), project)).collect(),
            ..Self::default()
        };
        for row in people.project_members {
            new.project_members.entry(row.project).or_default().insert(row.user, row.role);
        }
        let enabled = |user: &UserId| new.users.get(user).is_some_and(|user| user.disabled_at.is_none());
        let access = new.members.iter().filter(|member| enabled(&member.user)).map(|member| {
            let access = new.access_of(member);
            let key = (member.user.clone(), member.team.clone());
            let kept = before.access.get(&key).filter(|known| known.is_like(&access)).cloned();
            (key, kept.unwrap_or_else(|| Arc::new(access)))
        });
        new.access = access.collect();
        for (key, access) in &before.access {
            if new.access.get(key).is_none_or(|kept| !Arc::ptr_eq(kept, access)) {
                access.changed.cancel();
            }
        }
        new
    }

    fn access_of(&self, member: &MemberRow) -> Access {
        let mut whole = matches!(member.role, Role::Owner | Role::Admin);
        let mut projects = BTreeMap::new();
        for project in self.projects.values().filter(|project| project.team == member.team) {
            let inside = self.project_members.get(&project.id).and_then(|members| members.get(&member.user));
            let role = match (project.id.is_default(), inside) {
                (true, _) => Some(member.role),
                (false, Some(role)) => Some(role.at_most(member.role)),
                (false, None) => None,
            };
            if let Some(role) = role {
                projects.insert(project.id.clone(), role);
            }
        }
        let all = self.projects.values().filter(|project| project.team == member.team).count();
        whole |= projects.len() == all && projects.values().all(|role| *role == member.role);
        Access { role: member.role, projects: (!whole).then_some(projects), changed: CancellationToken::new() }
    }

    /// A person, also one who is disabled.
    pub fn user(&self, id: &UserId) -> Option<&Arc<User>> {
        self.users.get(id)
    }

    /// Everybody.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// The person of an email in lower case.
    pub fn user_by_email(&self, email: &str) -> Option<&Arc<User>> {
        self.users.values().find(|user| user.email.as_deref() == Some(email))
    }

    /// What a person may reach in a team; `None` if they are no member of it, or disabled.
    pub fn access(&self, user: &UserId, team: &TeamId) -> Option<&Arc<Access>> {
        self.access.get(&(user.clone(), team.clone()))
    }

    /// A team.
    pub fn team(&self, id: &TeamId) -> Option<&Team> {
        self.teams.iter().find(|team| team.id == *id)
    }

    /// The teams of a person with their role, oldest first.
    pub fn teams_of<'d>(&'d self, user: &'d UserId) -> impl Iterator<Item = (&'d Team, Role)> {
        self.teams.iter().filter_map(|team| Some((team, self.access(user, &team.id)?.role)))
    }

    /// The members of a team, by when they came.
    pub fn members<'d>(&'d self, team: &'d TeamId) -> impl Iterator<Item = &'d MemberRow> {
        self.members.iter().filter(move |member| member.team == *team)
    }

    /// A project.
    pub fn project(&self, id: &ProjectId) -> Option<&Project> {
        self.projects.get(id)
    }

    /// The projects of a team, the default one first, then by age.
    pub fn projects<'d>(&'d self, team: &'d TeamId) -> Vec<&'d Project> {
        let mut found: Vec<_> = self.projects.values().filter(|project| project.team == *team).collect();
        found.sort_by_key(|project| (!project.id.is_default(), project.created_at));
        found
    }

    /// The people who were added to a project, with their role there.
    pub fn project_members(&self, project: &ProjectId) -> impl Iterator<Item = (&UserId, Role)> {
        self.project_members.get(project).into_iter().flatten().map(|(user, role)| (user, *role))
    }
}
