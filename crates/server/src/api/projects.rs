//! Projects of a team, their members, and which of them a request means.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use cabana_accounts::Directory;
use cabana_store::{Project as Row, ProjectMemberSet, ProjectRemoval};
use cabana_types::wire::{Member, MemberRole, Project, ProjectName};
use cabana_types::{ErrorCode, ProjectId, Role, TeamId, UserId};
use http::StatusCode;
use jiff::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::Body;
use super::keys::check_name;
use super::members::{member, no_member, role_of};
use super::team_acts::listed;
use crate::auth::Caller;
use crate::error::{ApiError, short};

/// Projects of one team.
const MAX_PROJECTS: u32 = 1000;
/// What a team's default project may be called instead of its id.
const DEFAULT: &str = "default";

/// The routes.
pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .routes(routes!(list_projects, create_project))
        .routes(routes!(get_project, rename_project, delete_project))
        .routes(routes!(list_project_members))
        .routes(routes!(set_project_member, remove_project_member))
}

/// List the projects of the team that the caller reaches.
#[utoipa::path(get, path = "/projects", tag = "projects",
    responses((status = 200, description = "Projects, the default one first", body = Vec<Project>)))]
pub(super) async fn list_projects(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Json<Vec<Project>> {
    let directory = app.accounts.directory();
    let seen = |row: &&Row| caller.reach.sees(&row.team, &row.id) && !caller.permissions.is_empty();
    Json(directory.projects(&caller.team).into_iter().filter(seen).map(|row| shown(&directory, &caller, row)).collect())
}

/// Make a project. Owners and admins of the team reach it at once; others must be added.
#[utoipa::path(post, path = "/projects", tag = "projects", request_body = ProjectName,
    responses((status = 201, description = "The project", body = Project)))]
pub(super) async fn create_project(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Body(ProjectName { name }): Body<ProjectName>,
) -> Result<(StatusCode, Json<Project>), ApiError> {
    let name = check_name(&name)?.to_owned();
    let id = ProjectId::from_random(rand::random());
    let row = Row { id, team: caller.team.clone(), name, created_at: Timestamp::now() };
    let task = {
        let (app, row) = (Arc::clone(&app), row.clone());
        async move { app.accounts.change(app.store.create_project(row, MAX_PROJECTS)).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        true => Ok((StatusCode::CREATED, Json(shown(&app.accounts.directory(), &caller, &row)))),
        false => Err(name_taken(&row.name)),
    }
}

/// A project.
#[utoipa::path(get, path = "/projects/{projectID}", tag = "projects",
    params(("projectID" = String, Path, description = "Its id, or `default`")),
    responses((status = 200, description = "The project", body = Project)))]
pub(super) async fn get_project(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Project>, ApiError> {
    let row = app.project_of(&caller, id)?;
    Ok(Json(shown(&app.accounts.directory(), &caller, &row)))
}

/// Rename a project.
#[utoipa::path(patch, path = "/projects/{projectID}", tag = "projects", request_body = ProjectName,
    params(("projectID" = String, Path, description = "Its id")),
    responses((status = 200, description = "The project", body = Project)))]
pub(super) async fn rename_project(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
    Body(ProjectName { name }): Body<ProjectName>,
) -> Result<Json<Project>, ApiError> {
    let row = app.project_of(&caller, id)?;
    check_not_default(&row)?;
    let row = Row { name: check_name(&name)?.to_owned(), ..row };
    let task = {
        let (app, row) = (Arc::clone(&app), row.clone());
        async move { app.accounts.change(app.store.rename_project(row)).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        true => Ok(Json(shown(&app.accounts.directory(), &caller, &row))),
        false => Err(name_taken(&row.name)),
    }
}

/// Delete a project. Its sandboxes, templates, snapshots, chats and keys must be deleted before.
#[utoipa::path(delete, path = "/projects/{projectID}", tag = "projects",
    params(("projectID" = String, Path, description = "Its id")),
    responses((status = 204, description = "The project is gone")))]
pub(super) async fn delete_project(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let row = app.project_of(&caller, id)?;
    check_not_default(&row)?;
    let task = {
        let (app, id) = (Arc::clone(&app), row.id.clone());
        async move { app.accounts.change(app.store.remove_project(id)).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        ProjectRemoval::Removed => Ok(StatusCode::NO_CONTENT),
        ProjectRemoval::Unknown => Err(no_project(row.id.as_str())),
        ProjectRemoval::InUse { sandboxes, templates, snapshots, chats, keys } => {
            let lists = [
                ("sandboxes", &sandboxes),
                ("templates", &templates),
                ("snapshots", &snapshots),
                ("chats", &chats),
                ("API keys", &keys),
            ];
            let text = format!("The project still has {}; delete them first", listed(&lists));
            Err(ApiError::new(ErrorCode::ProjectConflict, text))
        }
    }
}

/// List the people who were added to a project, with their role there. Owners and admins of the team are not among them.
#[utoipa::path(get, path = "/projects/{projectID}/members", tag = "projects",
    params(("projectID" = String, Path, description = "Its id")),
    responses((status = 200, description = "People", body = Vec<Member>)))]
pub(super) async fn list_project_members(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Vec<Member>>, ApiError> {
    let row = app.project_of(&caller, id)?;
    let directory = app.accounts.directory();
    let shown = |(id, role): (&UserId, Role)| {
        let team_role = role_of(&directory, &row.team, id)?;
        Some(member(directory.user(id)?, role.at_most(team_role), None, None))
    };
    Ok(Json(directory.project_members(&row.id).filter_map(shown).collect()))
}

/// Add a person of the team to a project as developer or viewer, or change their role there. It is at most the role in the team.
#[utoipa::path(put, path = "/projects/{projectID}/members/{userID}", tag = "projects", request_body = MemberRole,
    params(
        ("projectID" = String, Path, description = "Its id"),
        ("userID" = String, Path, description = "The person"),
    ),
    responses((status = 204, description = "The person has the role")))]
pub(super) async fn set_project_member(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<(String, String)>, PathRejection>,
    Body(MemberRole { role }): Body<MemberRole>,
) -> Result<StatusCode, ApiError> {
    if !matches!(role, Role::Developer | Role::Viewer) {
        return Err(ApiError::invalid("role must be developer or viewer: in a project there is nothing else to do"));
    }
    set(&app, &caller, path, Some(role)).await
}

/// Remove a person from a project. What they have open is closed.
#[utoipa::path(delete, path = "/projects/{projectID}/members/{userID}", tag = "projects",
    params(
        ("projectID" = String, Path, description = "Its id"),
        ("userID" = String, Path, description = "The person"),
    ),
    responses((status = 204, description = "The person is removed")))]
pub(super) async fn remove_project_member(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    set(&app, &caller, path, None).await
}

async fn set(
    app: &Arc<App>,
    caller: &Caller,
    path: Result<Path<(String, String)>, PathRejection>,
    role: Option<Role>,
) -> Result<StatusCode, ApiError> {
    let Path((project, user)) = path.map_err(|_| ApiError::invalid("The path is not well formed"))?;
    let row = app.find_project(caller, &project)?;
    if row.id.is_default() {
        let text = "In the default project everybody works with their role in the team; make another project";
        return Err(ApiError::new(ErrorCode::ProjectConflict, text));
    }
    let id: UserId = user.parse().map_err(|_| no_member(&user))?;
    let task = {
        let app = Arc::clone(app);
        async move { app.accounts.change(app.store.set_project_member(row, id, role, Timestamp::now())).await }
    };
    match app.run_to_end(task).await.unwrap_or(Err(cabana_store::Error::Closed))? {
        ProjectMemberSet::Done => Ok(StatusCode::NO_CONTENT),
        ProjectMemberSet::Unknown => Err(no_member(&user)),
        ProjectMemberSet::AboveTeamRole(own) => {
            Err(ApiError::invalid(format!("The person is {own} in the team, and can be no more in a project")))
        }
    }
}

impl App {
    /// A project that the caller reaches.
    pub(super) fn find_project(&self, caller: &Caller, text: &str) -> Result<Row, ApiError> {
        let id = parse(&caller.team, text)?;
        let unknown = || no_project(text);
        let directory = self.accounts.directory();
        let row = directory.project(&id).ok_or_else(unknown)?;
        caller.reach.check(&row.team, &row.id).map_err(|refused| refused.or(unknown))?;
        Ok(row.clone())
    }

    pub(super) fn project_of(&self, caller: &Caller, id: Result<Path<String>, PathRejection>) -> Result<Row, ApiError> {
        let Path(text) = id.map_err(|_| ApiError::invalid("The path is not well formed"))?;
        self.find_project(caller, &text)
    }

    /// The project of something new: the one that the request names, else that of the caller, else the default one.
    pub(super) fn project_for(&self, caller: &Caller, text: Option<&str>) -> Result<ProjectId, ApiError> {
        let named = text.map(|text| parse(&caller.team, text)).transpose()?;
        let project = match (named, caller.reach.only()) {
            (Some(named), _) => named,
            (None, Some(only)) => only.clone(),
            (None, None) => ProjectId::default_of(&caller.team),
        };
        let unknown = || no_project(project.as_str());
        let directory = self.accounts.directory();
        directory.project(&project).filter(|found| found.team == caller.team).ok_or_else(unknown)?;
        caller.reach.check(&caller.team, &project).map_err(|refused| refused.or(unknown))?;
        Ok(project)
    }

    /// The projects of a listing: the one that the request names, or all of the caller's (`None`: of the team's).
    pub(super) fn projects_in(&self, caller: &Caller, text: Option<&str>) -> Result<Option<Vec<ProjectId>>, ApiError> {
        let own = caller.reach.filter();
        let Some(text) = text else { return Ok(own) };
        let named = parse(&caller.team, text)?;
        Ok(Some(if own.is_none_or(|own| own.contains(&named)) { vec![named] } else { Vec::new() }))
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
    let text = format!("Project {:?} was not found; list yours with GET /projects", short(id));
    ApiError::new(ErrorCode::ProjectNotFound, text)
}

fn shown(directory: &Directory, caller: &Caller, row: &Row) -> Project {
    let access = caller.person().and_then(|person| directory.access(person, &row.team));
    Project {
        id: row.id.clone(),
        name: row.name.clone(),
        is_default: row.id.is_default(),
        role: access.and_then(|access| access.role_in(&row.id)),
        created_at: row.created_at,
    }
}

fn check_not_default(row: &Row) -> Result<(), ApiError> {
    if !row.id.is_default() {
        return Ok(());
    }
    let text = "The default project belongs to the team: it can be neither renamed nor deleted";
    Err(ApiError::new(ErrorCode::ProjectConflict, text))
}

fn name_taken(name: &str) -> ApiError {
    let text = format!("Another project of the team has the name {:?}; choose another", short(name));
    ApiError::new(ErrorCode::ProjectConflict, text)
}
