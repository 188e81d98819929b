//! The fake server's templates: a build does what its name says, and all requests are recorded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post, put};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::fake::{World, refuse};

pub(crate) const TEMPLATE: &str = "0123456789abcdefghij";
pub(crate) const BUILD: &str = "2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f";

/// Recorded requests.
#[derive(Default)]
pub(crate) struct Templates {
    pub(crate) requested: Mutex<Vec<Value>>,
    pub(crate) started: Mutex<Vec<Value>>,
    pub(crate) uploads: Mutex<BTreeMap<String, Bytes>>,
    pub(crate) tags: Mutex<Vec<Value>>,
    /// Changes of templates.
    pub(crate) updates: Mutex<Vec<Value>>,
    pub(crate) cancelled: AtomicU32,
    /// How often the status of the newest build was requested.
    asked: Mutex<u32>,
}

/// Routes that need a key.
pub(crate) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route("/templates", get(list))
        .route("/v3/templates", post(request))
        .route("/templates/{id}", get(one).delete(remove))
        .route("/v2/templates/{id}", patch(update))
        .route("/templates/tags", post(assign).delete(untag))
        .route("/templates/{id}/tags", get(tags))
        .route("/templates/{id}/files/{hash}", get(link))
        .route("/v2/templates/{id}/builds/{build}", post(start).delete(cancel))
        .route("/templates/{id}/builds/{build}/status", get(status))
}

/// Routes without a key: signed upload links.
pub(crate) fn uploads() -> Router<Arc<World>> {
    Router::new().route("/upload/{hash}", put(upload))
}

fn template(alias: &str) -> Value {
    json!({
        "templateID": TEMPLATE, "buildID": "00000000-0000-4000-8000-000000000000", "cpuCount": 2,
        "memoryMB": 1024, "diskSizeMB": 10240, "public": true, "aliases": [alias], "names": [alias],
        "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z", "createdBy": null,
        "lastSpawnedAt": null, "spawnCount": 0, "buildCount": 1, "envdVersion": "0.6.13", "buildStatus": "ready",
    })
}

async fn list() -> Response {
    Json(json!([template("base")])).into_response()
}

fn missing(name: &str) -> Response {
    refuse(404, "template_not_found", &format!("there is no template `{name}`"))
}

async fn one(Path(id): Path<String>) -> Response {
    if id == "nope" {
        return missing(&id);
    }
    let mut template = template(&id);
    let build = |id: &str, status: &str| {
        json!({
            "buildID": id, "status": status, "createdAt": "2026-01-02T03:04:05Z", "updatedAt": "2026-01-02T03:04:05Z",
            "cpuCount": 2, "memoryMB": 1024, "diskSizeMB": 10240, "envdVersion": "0.6.13",
        })
    };
    if id == "closed" {
        template["network"] = json!("none");
    }
    template["builds"] = json!([build(BUILD, "error"), build("00000000-0000-4000-8000-000000000000", "ready")]);
    Json(template).into_response()
}

async fn update(State(world): State<Arc<World>>, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    if id == "nope" {
        return missing(&id);
    }
    world.templates.updates.lock().expect("lock").push(body);
    Json(json!({"names": [id]})).into_response()
}

async fn remove(Path(id): Path<String>) -> Response {
    match id.as_str() {
        "nope" => missing(&id),
        "used" => refuse(400, "template_in_use", "2 sandboxes were started from it; kill them first"),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn assign(State(world): State<Arc<World>>, Json(body): Json<Value>) -> Response {
    if body["target"].as_str().is_some_and(|target| target.ends_with(":v9")) {
        return refuse(404, "build_not_found", "it has no such tag");
    }
    world.templates.tags.lock().expect("lock").push(body.clone());
    (StatusCode::CREATED, Json(json!({"tags": body["tags"], "buildID": BUILD}))).into_response()
}

async fn untag(State(world): State<Arc<World>>, Json(body): Json<Value>) -> Response {
    world.templates.tags.lock().expect("lock").push(body);
    StatusCode::NO_CONTENT.into_response()
}

async fn tags() -> Response {
    let tag = |tag: &str| json!({"tag": tag, "buildID": BUILD, "createdAt": "2026-01-02T03:04:05Z"});
    Json(json!([tag("default"), tag("v1")])).into_response()
}

async fn request(State(world): State<Arc<World>>, Json(body): Json<Value>) -> Response {
    let name = body["name"].as_str().unwrap_or_default().split(':').next().unwrap_or_default().to_owned();
    world.templates.requested.lock().expect("lock").push(body);
    let answer = json!({
        "templateID": TEMPLATE, "buildID": BUILD, "public": false, "names": [name], "tags": ["default"], "aliases": [name],
    });
    (StatusCode::ACCEPTED, Json(answer)).into_response()
}

async fn link(State(world): State<Arc<World>>, Path((_, hash)): Path<(String, String)>) -> Response {
    let present = world.templates.uploads.lock().expect("lock").contains_key(&hash);
    let url = format!("{}/upload/{hash}", world.url.lock().expect("lock"));
    (StatusCode::CREATED, Json(json!({"present": present, "url": url}))).into_response()
}

async fn upload(
    State(world): State<Arc<World>>,
    Path(hash): Path<String>,
    headers: axum::http::HeaderMap,
    body: Bytes,
) -> Response {
    assert!(headers.get("x-api-key").is_none(), "a link is good without a key");
    assert_eq!(headers["content-length"].to_str().ok(), Some(body.len().to_string().as_str()));
    if body.len() > 1024 * 1024 {
        return refuse(413, "body_too_large", "The archive is larger than the 1 MiB that are taken");
    }
    world.templates.uploads.lock().expect("lock").insert(hash, body);
    StatusCode::OK.into_response()
}

async fn start(State(world): State<Arc<World>>, Json(body): Json<Value>) -> Response {
    *world.templates.asked.lock().expect("lock") = 0;
    world.templates.started.lock().expect("lock").push(body);
    StatusCode::ACCEPTED.into_response()
}

async fn cancel(State(world): State<Arc<World>>) -> StatusCode {
    world.templates.cancelled.fetch_add(1, Ordering::Relaxed);
    StatusCode::NO_CONTENT
}

/// Reports "building" twice, then ends according to its name.
async fn status(
    State(world): State<Arc<World>>,
    Path((_, build)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    if build != BUILD {
        return refuse(404, "build_not_found", "there is no such build");
    }
    let requested = world.templates.requested.lock().expect("lock").last().cloned().unwrap_or_default();
    let name = requested["name"].as_str().unwrap_or_default().to_owned();
    let asked = {
        let mut asked = world.templates.asked.lock().expect("lock");
        *asked += 1;
        *asked
    };
    if name == "deleted" && asked > 2 {
        return refuse(404, "template_not_found", "there is no such template");
    }
    let fails = name != "works";
    let entry = |step: &str, message: &str| json!({"timestamp": "2026-01-02T03:04:05Z", "level": "info", "message": message, "step": step});
    let mut log = vec![
        entry("base", "FROM the template base"),
        entry("1", "CACHED [1/2] RUN echo one"),
        entry("2", "[2/2] RUN echo two"),
        entry("2", "two \u{1b}[2J"),
    ];
    let ended = asked > 2 && name != "endless";
    if !ended {
        log.truncate(2);
    }
    let offset: usize = query["logsOffset"].parse().expect("offset");
    let mut answer = json!({
        "templateID": TEMPLATE, "buildID": BUILD, "logs": [],
        "status": match (ended, fails) { (false, _) => "building", (true, false) => "ready", (true, true) => "error" },
        "logEntries": log.into_iter().skip(offset).collect::<Vec<_>>(),
    });
    if ended && fails {
        answer["reason"] = json!({
            "step": "2", "logEntries": [],
            "message": "Dockerfile line 3: failed to run command 'echo two': exit status 7\nIts last lines:\ntwo\nHint: try again",
        });
    }
    Json(answer).into_response()
}
