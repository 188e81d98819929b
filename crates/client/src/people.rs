//! Teams, their members and projects, and people of a server, one method for each call.

use cabana_types::wire::{
    Invitation, MadeInvitation, MadeTeam, Member, MemberRole, NewInvitation, Project, ProjectName, ServerUser, Team,
    TeamForOthers, TeamOverview, UserPage, UserUpdate,
};
use cabana_types::{InvitationId, Role, UserId};
use http::Method;

use crate::api::{Client, to_json};
use crate::error::Result;

impl Client {
    /// The team of the key.
    pub async fn teams(&self) -> Result<Vec<Team>> {
        self.fetch("list teams", "/teams").await
    }

    /// The members of a team.
    pub async fn members(&self, team: &str) -> Result<Vec<Member>> {
        self.fetch("list members", &format!("/teams/{team}/members")).await
    }

    /// Gives a member another role.
    pub async fn set_role(&self, team: &str, user: &UserId, role: Role) -> Result<()> {
        let action = "change the role";
        let body = to_json(action, &MemberRole { role })?;
        let path = format!("/teams/{team}/members/{user}");
        self.call_empty(action, self.request(Method::PATCH, &path, Some(body))?).await
    }

    /// Removes a member.
    pub async fn remove_member(&self, team: &str, user: &UserId) -> Result<()> {
        let path = format!("/teams/{team}/members/{user}");
        self.call_empty("remove the member", self.request(Method::DELETE, &path, None)?).await
    }

    /// The invitations of a team that can still be accepted.
    pub async fn invitations(&self, team: &str) -> Result<Vec<Invitation>> {
        self.fetch("list invitations", &format!("/teams/{team}/invitations")).await
    }

    /// Invites somebody. Only this answer contains the link.
    pub async fn invite(&self, team: &str, new: &NewInvitation) -> Result<MadeInvitation> {
        let action = "make an invitation";
        let body = to_json(action, new)?;
        self.call(action, self.request(Method::POST, &format!("/teams/{team}/invitations"), Some(body))?).await
    }

    /// Revokes an invitation.
    pub async fn revoke_invitation(&self, team: &str, id: &InvitationId) -> Result<()> {
        let path = format!("/teams/{team}/invitations/{id}");
        self.call_empty("revoke the invitation", self.request(Method::DELETE, &path, None)?).await
    }

    /// The projects of the team that the key reaches.
    pub async fn projects(&self) -> Result<Vec<Project>> {
        self.fetch("list projects", "/projects").await
    }

    /// Makes a project.
    pub async fn create_project(&self, name: &str) -> Result<Project> {
        let action = "make the project";
        let body = to_json(action, &ProjectName { name: name.to_owned() })?;
        self.call(action, self.request(Method::POST, "/projects", Some(body))?).await
    }

    /// Deletes a project that has nothing any more.
    pub async fn delete_project(&self, id: &str) -> Result<()> {
        self.call_empty("delete the project", self.request(Method::DELETE, &format!("/projects/{id}"), None)?).await
    }

    /// Adds a person to a project, or changes their role there.
    pub async fn set_project_role(&self, project: &str, user: &UserId, role: Role) -> Result<()> {
        let action = "change the role";
        let body = to_json(action, &MemberRole { role })?;
        let path = format!("/projects/{project}/members/{user}");
        self.call_empty(action, self.request(Method::PUT, &path, Some(body))?).await
    }

    /// Removes a person from a project.
    pub async fn remove_from_project(&self, project: &str, user: &UserId) -> Result<()> {
        let path = format!("/projects/{project}/members/{user}");
        self.call_empty("remove the person", self.request(Method::DELETE, &path, None)?).await
    }

    /// A page of the people of the server.
    pub async fn users(&self, after: Option<&UserId>) -> Result<UserPage> {
        let cursor = after.map(|after| format!("?cursor={after}")).unwrap_or_default();
        self.fetch("list people", &format!("/admin/users{cursor}")).await
    }

    /// Disables or enables a person, or makes them an admin of the server.
    pub async fn update_user(&self, user: &UserId, update: &UserUpdate) -> Result<ServerUser> {
        let action = "change the person";
        let body = to_json(action, update)?;
        self.call(action, self.request(Method::PATCH, &format!("/admin/users/{user}"), Some(body))?).await
    }

    /// All teams of the server.
    pub async fn all_teams(&self) -> Result<Vec<TeamOverview>> {
        self.fetch("list teams", "/admin/teams").await
    }

    /// Makes a team for somebody, who is invited to be its owner.
    pub async fn create_team(&self, name: &str, owner: &str) -> Result<MadeTeam> {
        let action = "make the team";
        let body = to_json(action, &TeamForOthers { name: name.to_owned(), owner: owner.to_owned() })?;
        self.call(action, self.request(Method::POST, "/admin/teams", Some(body))?).await
    }
}
