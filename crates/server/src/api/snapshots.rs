//! Snapshots of sandboxes, and forks. A snapshot is a copy of the disk at one instant; sandboxes created from it boot.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cabana_store::{Sandbox as Row, Snapshot, SnapshotQuery};
use cabana_types::limits::{DEFAULT_TIMEOUT_V1_SECONDS, FORKS, MAX_TEMPLATE_REF_BYTES, PAGE, within};
use cabana_types::sandbox;
use cabana_types::wire::{CloneRequest, Clones, ForkRequest, ForkResult, SnapshotInfo, SnapshotRequest};
use cabana_types::{ErrorCode, LifecyclePolicy, SandboxId, TeamId, TemplateId, Traffic};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use jiff::Timestamp;

use super::App;
use super::body::OptionalBody;
use super::new_sandbox::token;
use super::query::Query;
use super::sandbox_ref::SandboxRef;
use super::template_ref::{DEFAULT_TAG, Name, parse};
use crate::auth::{Caller, Reach};
use crate::error::{ApiError, short};
use crate::lifecycle::CreateRequest;

const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");

/// Fork a sandbox: create new ones, each with a copy of its disk.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/fork", operation_id = "fork_sandbox",
    tag = "snapshots", request_body = Option<ForkRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 201, description = "The result for each", body = Vec<ForkResult>)))]
pub(super) async fn fork(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<ForkRequest>,
) -> Result<(StatusCode, Json<Vec<ForkResult>>), ApiError> {
    let made = app.fork_sandboxes(&caller, &id, request.count, request.timeout).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Clone a sandbox, as Novita's clients do.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/clone", operation_id = "clone_sandbox",
    tag = "snapshots", request_body = Option<CloneRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 201, description = "The clones", body = Clones)))]
pub(super) async fn clone(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<CloneRequest>,
) -> Result<(StatusCode, Json<Clones>), ApiError> {
    let template = app.find_created(&caller.reach, &id).await?.template;
    let made = app.fork_sandboxes(&caller, &id, request.count, request.timeout).await?;
    let failed = made.iter().find_map(|result| result.error.clone());
    let sandboxes: Vec<_> = made.into_iter().filter_map(|result| result.sandbox).collect();
    if let Some(error) = failed.filter(|_| sandboxes.is_empty() || request.strict == Some(true)) {
        for sandbox in &sandboxes {
            let cause = cabana_types::sandbox::EndCause::Killed { by: caller.actor.to_string() };
            let _ = app.lifecycle.kill(&sandbox.sandbox_id, cause).await;
        }
        return Err(ApiError::new(error.error_code.unwrap_or(ErrorCode::SandboxCreateFailed), error.message));
    }
    Ok((StatusCode::CREATED, Json(Clones { sandboxes, snapshot_template_id: template.to_string() })))
}

/// Take a snapshot of a sandbox, which keeps running. To create a sandbox from it, use it as the template.
#[utoipa::path(post, path = "/sandboxes/{sandboxID}/snapshots", tag = "snapshots", request_body = Option<SnapshotRequest>,
    params(("sandboxID" = String, Path, description = "Its id")),
    responses((status = 201, description = "The snapshot", body = SnapshotInfo)))]
pub(super) async fn take_snapshot(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    SandboxRef(id): SandboxRef,
    OptionalBody(request): OptionalBody<SnapshotRequest>,
) -> Result<(StatusCode, Json<SnapshotInfo>), ApiError> {
    app.find_created(&caller.reach, &id).await?;
    let name = match request.name.as_deref().filter(|name| !name.is_empty()) {
        None => None,
        Some(text) => Some(app.snapshot_name(&caller.team, text).await?),
    };
    let snapshot = app.lifecycle.snapshot(&id, name).await?;
    Ok((StatusCode::CREATED, Json(info(snapshot))))
}

/// List snapshots, newest first.
#[utoipa::path(get, path = "/snapshots", tag = "snapshots",
    params(
        ("sandboxID" = Option<String>, Query, description = "Only those of this sandbox"),
        ("name" = Option<String>, Query, description = "Only the one of this name or id"),
        ("limit" = Option<u32>, Query, description = "Rows of a page, 1 to 100 (default)"),
        ("nextToken" = Option<String>, Query, description = "`x-next-token` of the page before"),
    ),
    responses((status = 200, description = "A page", body = Vec<SnapshotInfo>, headers(
        ("x-next-token" = String, description = "Where the next page goes on; absent on the last"),
    ))))]
pub(super) async fn list_snapshots(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Result<(HeaderMap, Json<Vec<SnapshotInfo>>), ApiError> {
    let limit = query.limit(*PAGE.end(), *PAGE.end())?;
    let sandbox = match query.text("sandboxID").filter(|text| !text.is_empty()) {
        None => None,
        // A malformed id has no snapshots.
        Some(text) => match cabana_types::routing::parse_sandbox_ref(text) {
            None => return Ok((HeaderMap::new(), Json(vec![]))),
            found => found,
        },
    };
    let projects = app.projects_in(&caller, query.text("project"))?;
    let after = query.text("nextToken").map(position).transpose()?;
    let name = match query.text("name").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => match app.find_snapshot(&caller.reach, text).await? {
            Some(Snapshot { name: Some(name), .. }) => Some(name),
            // One that has no name was asked for by its id.
            found => {
                let fits = |s: &Snapshot| after.is_none() && sandbox.as_ref().is_none_or(|of| *of == s.sandbox);
                return Ok((HeaderMap::new(), Json(found.into_iter().filter(fits).map(info).collect())));
            }
        },
    };
    let wanted = SnapshotQuery { team: caller.team, projects, sandbox, name, after, limit: limit + 1 };
    let mut rows = app.store.snapshots(&wanted).await?;
    let mut headers = HeaderMap::new();
    if rows.len() > limit as usize {
        rows.truncate(limit as usize);
        if let Some(last) = rows.last() {
            let text = URL_SAFE_NO_PAD.encode(format!("{}:{}", last.created_at.as_microsecond(), last.id));
            headers.extend(HeaderValue::from_str(&text).ok().map(|value| (NEXT_TOKEN, value)));
        }
    }
    Ok((headers, Json(rows.into_iter().map(info).collect())))
}

impl App {
    /// The snapshot that a name or id refers to, if there is one.
    pub(super) async fn find_snapshot(&self, reach: &Reach, text: &str) -> Result<Option<Snapshot>, ApiError> {
        let team = &reach.team;
        if text.len() > MAX_TEMPLATE_REF_BYTES {
            return Ok(None);
        }
        let lower = text.trim().to_ascii_lowercase();
        let Some(Name { namespace, alias, tag }) = parse(&lower) else { return Ok(None) };
        if tag.is_some_and(|tag| tag != DEFAULT_TAG) || namespace.is_some_and(|n| n != team.as_str()) {
            return Ok(None);
        }
        let found = match namespace {
            None => self.store.snapshot_by_id_or_name(team, alias).await?,
            Some(_) => self.store.snapshot_by_name(team, alias).await?,
        };
        Ok(found.filter(|snapshot| reach.sees(&snapshot.team, &snapshot.project)))
    }

    /// Checks a name for a new snapshot. It must not be the name of a template.
    async fn snapshot_name(&self, team: &TeamId, text: &str) -> Result<String, ApiError> {
        let lower = text.trim().to_ascii_lowercase();
        let wrong = || {
            let text = format!("{:?} is not a name for a snapshot: use a-z, 0-9, - and _", short(text));
            ApiError::invalid(text)
        };
        let name = parse(&lower).filter(|_| lower.len() <= MAX_TEMPLATE_REF_BYTES).ok_or_else(wrong)?;
        if name.tag.is_some_and(|tag| tag != DEFAULT_TAG) || name.namespace.is_some_and(|n| n != team.as_str()) {
            return Err(wrong());
        }
        if name.alias.parse::<TemplateId>().is_ok() {
            return Err(ApiError::invalid("A snapshot's name must not look like an id"));
        }
        if self.store.template_by_alias(team, None, name.alias).await?.is_some() {
            let text = format!("{:?} is the name of a template; choose another", name.alias);
            return Err(ApiError::new(ErrorCode::SandboxStateConflict, text));
        }
        Ok(name.alias.to_owned())
    }

    /// Creates sandboxes with copies of another's disk.
    pub(super) async fn fork_sandboxes(
        &self,
        caller: &Caller,
        id: &SandboxId,
        count: Option<i64>,
        timeout: Option<i64>,
    ) -> Result<Vec<ForkResult>, ApiError> {
        let row = self.find_created(&caller.reach, id).await?;
        let count = within("count", count.unwrap_or(1), FORKS)?;
        let timeout = match timeout {
            Some(seconds) => self.limits.timeout("timeout", seconds).map_err(ApiError::invalid)?,
            None => DEFAULT_TIMEOUT_V1_SECONDS,
        };
        let requests = (0..count).map(|_| fork_request(&row, caller, timeout)).collect();
        let made = self.lifecycle.fork(id, requests).await?;
        let result = |made| match made {
            Ok(sandbox) => ForkResult { sandbox: Some(self.sandbox_response(sandbox)), error: None },
            Err(error) => ForkResult { sandbox: None, error: Some(ApiError::from(error).body()) },
        };
        Ok(made.into_iter().map(result).collect())
    }
}

/// A request for a sandbox like another, with its own id and tokens.
pub(super) fn fork_request(row: &Row, caller: &Caller, timeout: u64) -> CreateRequest {
    let now = Timestamp::now();
    CreateRequest {
        sandbox: Row {
            id: SandboxId::from_random(rand::random()),
            state: sandbox::State::Creating,
            access_token: row.secure.then(token),
            traffic: Traffic { token: row.traffic.token.is_some().then(token), ..row.traffic.clone() },
            created_at: now,
            started_at: None,
            end_at: now + std::time::Duration::from_secs(timeout),
            ended_at: None,
            idempotency: None,
            policy: LifecyclePolicy { timeout, ..row.policy.clone() },
            since: now,
            archives: 0,
            archive_digest: None,
            created_by: None,
            last_lines: vec![],
            ..row.clone()
        },
        by: caller.actor.clone(),
        // Lifecycle replaces this with the snapshot.
        disk: cabana_runtime::DiskSource::New,
        timeout,
    }
}

fn info(snapshot: Snapshot) -> SnapshotInfo {
    let names: Vec<String> =
        snapshot.name.iter().map(|name| format!("{}/{name}:{DEFAULT_TAG}", snapshot.team)).collect();
    SnapshotInfo {
        snapshot_id: names.first().cloned().unwrap_or_else(|| format!("{}:{DEFAULT_TAG}", snapshot.id)),
        names,
        memory: false,
        sandbox_id: Some(snapshot.sandbox),
        created_at: Some(snapshot.created_at),
    }
}

fn position(token: &str) -> Result<(Timestamp, String), ApiError> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
        let (time, id) = text.split_once(':')?;
        let id = id.parse::<TemplateId>().ok()?;
        Some((Timestamp::from_microsecond(time.parse().ok()?).ok()?, id.to_string()))
    };
    read().ok_or_else(|| ApiError::invalid("nextToken is not one of this server's; begin again without it"))
}
