//! Commit: makes a template from a sandbox, as a build of its disk merged with its template.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use cabana_store::{BuildStatus, Sandbox, Template as Row};
use cabana_types::wire::{CommitRequest, NewTemplate, Template};
use cabana_types::{BuildId, ErrorCode, SandboxId};
use http::StatusCode;
use jiff::Timestamp;

use super::App;
use super::body::OptionalBody;
use super::sandbox_ref::SandboxRef;
use super::templates::shown;
use crate::auth::Caller;
use crate::builds::{BuildSpec, Origin, Recipe};
use crate::error::ApiError;
use crate::lifecycle::Lifecycle;

/// Make a template from a sandbox, which keeps running: its current disk merged with its template. Responds when the template is ready.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/commit", operation_id = "commit_sandbox",
    tag = "builds", request_body = Option<CommitRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 201, description = "The template", body = Template)))]
pub(super) async fn commit(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<CommitRequest>,
) -> Result<(StatusCode, Json<Template>), ApiError> {
    let task = {
        let app = Arc::clone(&app);
        async move { app.commit(&caller, &id, request).await }
    };
    // To its end, so that no copy of the disk is left behind.
    let made = app.run_to_end(task).await;
    made.unwrap_or_else(|| Err(ApiError::new(ErrorCode::Internal, "The server failed")))
        .map(|t| (StatusCode::CREATED, Json(t)))
}

impl App {
    async fn commit(&self, caller: &Caller, id: &SandboxId, request: CommitRequest) -> Result<Template, ApiError> {
        let sandbox = self.find_created(&caller.reach, id).await?;
        Lifecycle::check_snapshot(&sandbox)?;
        let name = request.alias.filter(|alias| !alias.is_empty()).unwrap_or_else(|| format!("sandbox-{id}"));
        let wanted = NewTemplate {
            name: Some(name),
            tags: request.tags,
            cpu_count: Some(sandbox.resources.cpu_count.into()),
            memory_mb: Some(sandbox.resources.memory_mb.into()),
            min_free_disk_mb: Some(sandbox.resources.disk_mb.into()),
            project_id: Some(sandbox.project.to_string()),
            ..NewTemplate::default()
        };
        let (row, build, _) = self.request_build(caller, wanted, None).await?;
        if let Err(error) = self.begin_commit(&sandbox, &row, &build).await {
            // No later request would start this build.
            self.store.fail_build(build, None, error.message().to_owned(), Timestamp::now()).await?;
            return Err(error);
        }
        self.builds.wait(&build).await;
        let ended = self.store.build(&build).await?.ok_or_else(|| ApiError::no_build(build.as_str()))?;
        if ended.status != BuildStatus::Ready {
            let why = ended.error.unwrap_or_else(|| "the build did not end".to_owned());
            let text = format!("No template could be made of sandbox {id}: {why}");
            return Err(ApiError::new(ErrorCode::BuildFailed, text));
        }
        let row = self.store.template(&row.id).await?.ok_or(cabana_store::Error::NoTemplate(row.id))?;
        Ok(Template { build_id: build, build_status: ended.status.as_str().to_owned(), ..shown(row) })
    }

    /// Copies the sandbox's disk, and starts a build from the copy.
    async fn begin_commit(&self, sandbox: &Sandbox, template: &Row, build: &BuildId) -> Result<(), ApiError> {
        let copy = self.lifecycle.temporary_snapshot(&sandbox.id).await?;
        let spec = BuildSpec {
            team: template.team.clone(),
            template: template.id.clone(),
            build: build.clone(),
            resources: sandbox.resources,
            recipe: Recipe::Steps { from: Origin::Disk { copy: copy.clone(), lent: true }, steps: Vec::new() },
            images: BTreeMap::new(),
            start: None,
            ready: None,
            force: false,
        };
        let started = self.builds.start(spec).await;
        if started.is_err() {
            self.lifecycle.remove_temporary_snapshot(&copy.id).await;
        }
        Ok(started?)
    }
}
