//! A fake server with Cabana's API: sandboxes are rows, and commands are scripted by their names.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use cabana_edge::listener::{Limits, serve_tls};
use cabana_edge::tls::Tls;
use cabana_edge::{AutoResume, Edge, ResumeError, Route};
use cabana_proto::filesystem::FilesystemExt;
use cabana_proto::process::ProcessExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::fake_chats::{self, Chats};
use crate::fake_guest::{Files, Processes};
use crate::fake_services;
use crate::fake_templates::{self, Templates};

pub(crate) const KEY: &str = "e2b_0000000000000000000000000000000000000000";
pub(crate) const TOKEN: &str = "guest-token";

/// External input to a scripted command.
#[derive(Debug)]
pub(crate) enum Push {
    Input(Vec<u8>),
    Closed,
    Signal(i32),
    Resize(u32, u32),
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) sandboxes: Mutex<BTreeMap<String, Value>>,
    /// Why sandboxes ended.
    pub(crate) ended: Mutex<BTreeMap<String, String>>,
    /// Bodies of create requests.
    pub(crate) created: Mutex<Vec<Value>>,
    pub(crate) commands: Mutex<BTreeMap<u32, mpsc::UnboundedSender<Push>>>,
    pub(crate) next: AtomicU32,
    pub(crate) templates: Templates,
    pub(crate) chats: Chats,
    /// The server's URL.
    pub(crate) url: Mutex<String>,
    /// Directory that acts as the sandboxes' disk.
    pub(crate) disk: PathBuf,
}

impl World {
    pub(crate) fn end(&self, id: &str, why: &str) -> bool {
        let was = self.sandboxes.lock().expect("lock").remove(id).is_some();
        if was {
            self.ended.lock().expect("lock").insert(id.to_owned(), why.to_owned());
        }
        was
    }
}

/// Resumes nothing: no sandbox of this server is ever paused.
struct NeverResume;

impl AutoResume for NeverResume {
    fn resume<'a>(&'a self, _: &'a cabana_types::SandboxId) -> BoxFuture<'a, Result<Arc<Route>, ResumeError>> {
        Box::pin(async { Err(ResumeError::NotFound(None)) })
    }

    fn reason<'a>(&'a self, _: &'a cabana_types::SandboxId) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }
}

/// The server, its thread and its temporary disk.
pub(crate) struct Fake {
    pub(crate) url: String,
    pub(crate) world: Arc<World>,
    pub(crate) disk: tempfile::TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Fake {
    pub(crate) fn start() -> Self {
        Self::serving(None)
    }

    /// With TLS for the API only.
    pub(crate) fn start_tls(tls: Tls) -> Self {
        Self::serving(Some(tls))
    }

    fn serving(tls: Option<Tls>) -> Self {
        let disk = tempfile::tempdir().expect("temporary directory");
        let world = Arc::new(World { disk: disk.path().to_owned(), ..Default::default() });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("bind");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().expect("address"));
        world.url.lock().expect("lock").clone_from(&url);
        let app = router(Arc::clone(&world));
        runtime.spawn(async move {
            match tls {
                Some(tls) => {
                    let edge = Edge::new(Arc::default(), None, Arc::new(NeverResume));
                    serve_tls(listener, Arc::new(edge), app, &tls, Limits::default(), CancellationToken::new()).await
                }
                None => axum::serve(listener, app).await,
            }
        });
        Self { url, world, disk, _runtime: runtime }
    }

    /// Adds a running sandbox.
    pub(crate) fn sandbox(&self) -> String {
        add(&self.world, &json!({"templateID": "base"}))
    }

    pub(crate) fn live(&self) -> Vec<String> {
        self.world.sandboxes.lock().expect("lock").keys().cloned().collect()
    }
}

fn router(world: Arc<World>) -> Router {
    let guest = Arc::new(Processes(Arc::clone(&world))).register(connectrpc::Router::new());
    let guest = Arc::new(Files(Arc::clone(&world))).register(guest);
    let guest = Router::new()
        .route("/files", get(read_file).post(write_file))
        .with_state(Arc::clone(&world))
        .fallback_service(guest.into_axum_service())
        .layer(middleware::from_fn_with_state(Arc::clone(&world), edge));
    Router::new()
        .route("/v2/sandboxes", post(create).get(list))
        .route("/v2/sandboxes/{id}/connect", post(get_one))
        .route("/sandboxes/{id}", get(get_one).delete(kill))
        .route("/sandboxes/{id}/timeout", post(timeout))
        .route("/sandboxes/{id}/logs", get(logs))
        .route("/events/sandboxes", get(events))
        .route("/events/webhooks", get(webhooks).post(create_webhook))
        .route("/events/webhooks/{id}", axum::routing::delete(delete_webhook))
        .route("/events/webhooks/{id}/deliveries", get(deliveries))
        .route("/api-keys", get(keys).post(create_key))
        .route("/api-keys/{id}", axum::routing::delete(delete_key))
        .merge(fake_chats::routes())
        .merge(fake_services::routes())
        .merge(fake_templates::routes())
        .layer(middleware::from_fn(authorise))
        .merge(fake_templates::uploads())
        .with_state(world)
        .fallback_service(guest)
}

async fn authorise(request: Request, next: Next) -> Response {
    match request.headers().get("x-api-key") {
        Some(key) if key == KEY => next.run(request).await,
        _ => refuse(401, "unauthorized", "this API key is not valid"),
    }
}

/// Checks of the real edge before a request reaches the guest.
async fn edge(State(world): State<Arc<World>>, request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let id = header("e2b-sandbox-id").to_owned();
    if header("e2b-sandbox-port") != "49983" || header("x-access-token") != TOKEN {
        return refuse(401, "unauthorized", "no token or port");
    }
    if !world.sandboxes.lock().expect("lock").contains_key(&id) {
        let body = json!({"sandboxId": id, "message": "The sandbox was not found", "code": 502});
        return (StatusCode::BAD_GATEWAY, Json(body)).into_response();
    }
    next.run(request).await
}

pub(crate) fn refuse(status: u16, code: &str, message: &str) -> Response {
    let body = json!({"code": status, "message": message, "error_code": code});
    (StatusCode::from_u16(status).expect("status"), Json(body)).into_response()
}

fn add(world: &World, request: &Value) -> String {
    let id = format!("ifake{}", world.next.fetch_add(1, Ordering::Relaxed));
    let row = json!({
        "templateID": request["templateID"], "alias": "base", "sandboxID": id, "clientID": "cabana",
        "envdVersion": "0.6.13", "envdAccessToken": TOKEN, "state": "running",
        "startedAt": "2026-01-02T03:04:05Z", "endAt": "2026-01-02T03:09:05Z",
        "cpuCount": request.get("cpuCount").cloned().unwrap_or_else(|| json!(2)), "memoryMB": 1024, "diskSizeMB": 10240,
        "metadata": request.get("metadata").cloned().unwrap_or_else(|| json!({})),
        "lifecycle": {"onTimeout": "kill", "autoResume": false},
    });
    world.sandboxes.lock().expect("lock").insert(id.clone(), row);
    id
}

async fn create(State(world): State<Arc<World>>, Json(request): Json<Value>) -> Response {
    if request["templateID"] == "nope" {
        return refuse(404, "template_not_found", "there is no template `nope`");
    }
    world.created.lock().expect("lock").push(request.clone());
    let id = add(&world, &request);
    let row = world.sandboxes.lock().expect("lock")[&id].clone();
    (StatusCode::CREATED, Json(row)).into_response()
}

/// Two rows per page, so that paging is tested.
async fn list(State(world): State<Arc<World>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let rows: Vec<_> = world.sandboxes.lock().expect("lock").values().cloned().collect();
    let from: usize = query.get("nextToken").map_or(0, |t| t.parse().expect("token"));
    let page: Vec<_> = rows.iter().skip(from).take(2).cloned().collect();
    let mut headers = HeaderMap::new();
    if from + 2 < rows.len() {
        headers.insert("x-next-token", (from + 2).to_string().parse().expect("header"));
    }
    (headers, Json(page)).into_response()
}

async fn get_one(State(world): State<Arc<World>>, Path(id): Path<String>) -> Response {
    match world.sandboxes.lock().expect("lock").get(&id) {
        Some(row) => Json(row.clone()).into_response(),
        None => missing(&world, &id),
    }
}

fn missing(world: &World, id: &str) -> Response {
    let ended = world.ended.lock().expect("lock");
    let message = ended.get(id).map_or_else(|| format!("there is no sandbox {id}"), Clone::clone);
    refuse(404, "sandbox_not_found", &message)
}

async fn kill(State(world): State<Arc<World>>, Path(id): Path<String>) -> Response {
    if world.end(&id, "it was killed") { StatusCode::NO_CONTENT.into_response() } else { missing(&world, &id) }
}

async fn timeout(State(world): State<Arc<World>>, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    if body["timeout"].as_i64().is_none_or(|t| t > 2_592_000) {
        return refuse(400, "invalid_request", "Timeout cannot be greater than 720 hours");
    }
    if world.sandboxes.lock().expect("lock").contains_key(&id) {
        StatusCode::NO_CONTENT.into_response()
    } else {
        missing(&world, &id)
    }
}

async fn logs(State(world): State<Arc<World>>, Path(id): Path<String>) -> Response {
    if !world.sandboxes.lock().expect("lock").contains_key(&id) {
        return missing(&world, &id);
    }
    let entry =
        json!({"timestamp": "2026-01-02T03:04:05Z", "message": "created \u{1b}[2J", "level": "info", "fields": {}});
    Json(json!({"logs": [], "logEntries": [entry]})).into_response()
}

async fn events() -> Response {
    Json(json!([{
        "version": "v1", "id": "e1", "type": "sandbox.lifecycle.killed", "eventData": {"reason": "asked"},
        "sandboxId": "ifake0", "sandboxTemplateId": "base", "sandboxBuildId": "00000000-0000-4000-8000-000000000000",
        "sandboxExecutionId": "ifake0", "sandboxTeamId": "default", "timestamp": "2026-01-02T03:04:05Z",
    }]))
    .into_response()
}

const KEY_ID: &str = "2f1c4a0e-5b7d-4c3f-9e8a-1d2b3c4d5e6f";

fn a_key() -> serde_json::Value {
    json!({
        "id": KEY_ID, "name": "laptop", "createdAt": "2026-01-02T03:04:05Z", "createdBy": null, "lastUsed": null,
        "mask": {"prefix": "e2b_", "valueLength": 40, "maskedValuePrefix": "01", "maskedValueSuffix": "6789"},
    })
}

async fn keys() -> Response {
    Json(json!([a_key()])).into_response()
}

async fn create_key(Json(body): Json<serde_json::Value>) -> Response {
    let mut key = a_key();
    key["name"] = body["name"].clone();
    key["key"] = json!("e2b_0123");
    (StatusCode::CREATED, Json(key)).into_response()
}

async fn delete_key(Path(id): Path<String>) -> Response {
    if id == KEY_ID { StatusCode::NO_CONTENT.into_response() } else { refuse(409, "last_key", "the last key stays") }
}

fn a_webhook() -> serde_json::Value {
    json!({
        "id": KEY_ID, "teamId": "default", "name": "alarms", "createdAt": "2026-01-02T03:04:05Z", "enabled": true,
        "url": "https://example.com/hook", "pending": 2, "dropped": 0,
        "events": ["sandbox.lifecycle.created", "sandbox.lifecycle.killed"],
    })
}

async fn webhooks() -> Response {
    Json(json!([a_webhook()])).into_response()
}

async fn create_webhook(State(world): State<Arc<World>>, Json(body): Json<serde_json::Value>) -> Response {
    world.created.lock().expect("lock").push(body);
    (StatusCode::CREATED, Json(a_webhook())).into_response()
}

async fn delete_webhook(Path(id): Path<String>) -> Response {
    if id == KEY_ID {
        StatusCode::OK.into_response()
    } else {
        refuse(404, "webhook_not_found", "there is no such webhook")
    }
}

async fn deliveries() -> Response {
    let delivery = |kind: &str, status: &str| {
        json!({
            "eventId": "e1", "eventType": format!("sandbox.lifecycle.{kind}"), "timestamp": "2026-01-02T03:04:05Z",
            "sandboxId": "ifake0", "status": status, "tries": 1, "deliveryId": null, "lastStatus": null,
            "lastError": null, "nextTryAt": null, "finishedAt": null,
        })
    };
    let mut failing = delivery("killed", "pending");
    failing["lastError"] = json!("answered with \u{1b}[2J status 500");
    failing["nextTryAt"] = json!("2026-01-02T03:05:00Z");
    Json(json!([failing, delivery("created", "delivered")])).into_response()
}

async fn read_file(State(world): State<Arc<World>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    let path = world.disk.join(query["path"].trim_start_matches('/'));
    match std::fs::read(&path) {
        Ok(bytes) => bytes.into_response(),
        Err(_) => {
            let message = format!("path '{}' does not exist", query["path"]);
            (StatusCode::NOT_FOUND, Json(json!({"code": 404, "message": message}))).into_response()
        }
    }
}

async fn write_file(
    State(world): State<Arc<World>>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Response {
    assert_eq!(request.headers()["content-type"], "application/octet-stream");
    let path = world.disk.join(query["path"].trim_start_matches('/'));
    let bytes = axum::body::to_bytes(request.into_body(), usize::MAX).await.expect("body");
    std::fs::create_dir_all(path.parent().expect("parent")).expect("directories");
    std::fs::write(&path, &bytes).expect("write");
    Json(json!([{"name": "x", "path": query["path"], "type": "file"}])).into_response()
}
