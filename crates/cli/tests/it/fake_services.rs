//! Services of the fake server: one that runs, and one whose command has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::fake::{World, refuse};

pub(crate) const WEB: &str = "svc_0123456789abcdefghij";
pub(crate) const BROKEN: &str = "svc_brokenbrokenbroken00";
pub(crate) const LINK: &str = "grt_0123456789abcdefghij";

pub(crate) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route("/sandboxes/{id}/services", get(list).post(create))
        .route("/services/{id}", delete(remove))
        .route("/services/{id}/stop", post(one))
        .route("/services/{id}/restart", post(one))
        .route("/services/{id}/logs", get(logs))
        .route("/services/{id}/open", post(open))
        .route("/services/{id}/links", get(links).post(create_link))
        .route("/services/{id}/links/{link}", delete(remove_link))
}

fn web(sandbox: &str) -> Value {
    json!({
        "id": WEB, "sandboxId": sandbox, "chatId": null, "name": "web", "command": "npm run dev", "cwd": null,
        "envKeys": ["A"], "port": 3000, "state": "running", "since": "2026-01-02T03:04:05Z", "exitCode": null,
        "reason": null, "lastLines": [], "restarts": 0, "onWake": "restart", "alwaysOn": false, "access": "private",
        "slug": null, "hostMode": "local", "bridge": true, "url": format!("http://3000-{sandbox}.localhost:3000"),
        "createdAt": "2026-01-02T03:04:05Z",
    })
}

fn broken(sandbox: &str) -> Value {
    let mut service = web(sandbox);
    let last = json!(["Error: \u{1b}[2Jno such file", "    at main.js:1"]);
    for (key, value) in [
        ("id", json!(BROKEN)),
        ("name", json!("broken")),
        ("state", json!("error")),
        ("port", Value::Null),
        ("url", Value::Null),
        ("reason", json!("exit status 1")),
        ("exitCode", json!(1)),
        ("lastLines", last),
    ] {
        service[key] = value;
    }
    service
}

fn named(id: &str) -> Option<Value> {
    [web("ifake0"), broken("ifake0")].into_iter().find(|service| service["id"] == id)
}

fn missing() -> Response {
    refuse(404, "service_not_found", "there is no such service")
}

async fn list(State(world): State<Arc<World>>, Path(id): Path<String>) -> Response {
    if !world.sandboxes.lock().expect("lock").contains_key(&id) {
        return refuse(404, "sandbox_not_found", "there is no such sandbox");
    }
    // Only the first sandbox has services.
    let services = if id == "ifake0" { vec![web(&id), broken(&id)] } else { vec![] };
    Json(services).into_response()
}

async fn create(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    Json(body): Json<Value>,
) -> Response {
    let mut service = if body["command"] == "false" { broken(&id) } else { web(&id) };
    if query["waitSeconds"] == "0" {
        (service["state"], service["url"]) = (json!("starting"), Value::Null);
    }
    world.created.lock().expect("lock").push(body);
    (StatusCode::CREATED, Json(service)).into_response()
}

async fn one(Path(id): Path<String>) -> Response {
    named(&id).map_or_else(missing, |service| Json(service).into_response())
}

async fn remove(Path(id): Path<String>) -> Response {
    if named(&id).is_some() { StatusCode::NO_CONTENT.into_response() } else { missing() }
}

async fn logs(Path(id): Path<String>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    if named(&id).is_none() {
        return missing();
    }
    let first = json!({"lines": [format!("tail {}", query["tail"]), "ready \u{1b}[2J"], "dropped": 17});
    if query.get("follow").is_none_or(|follow| follow != "true") {
        return Json(first).into_response();
    }
    let more = json!({"lines": ["GET /"], "dropped": 0});
    let end = json!({"state": "error", "reason": "exit status 1"});
    let end = if id == WEB { format!("event: end\ndata: {end}\n\n") } else { String::new() };
    let text = format!("event: lines\ndata: {first}\n\n: ping\n\nevent: lines\ndata: {more}\n\n{end}");
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}

async fn open(Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    let Some(service) = named(&id) else { return missing() };
    let origin = service["url"].as_str().unwrap_or_default();
    let url = format!("{origin}{}", body["path"].as_str().unwrap_or("/"));
    Json(json!({"url": url, "origin": origin})).into_response()
}

fn link(revoked: bool) -> Value {
    json!({
        "id": LINK, "serviceId": WEB, "createdAt": "2026-01-02T03:04:05Z", "expiresAt": "2026-01-02T04:04:05Z",
        "opened": 2, "lastOpenedAt": "2026-01-02T03:05:05Z",
        "revokedAt": if revoked { json!("2026-01-02T03:06:05Z") } else { Value::Null },
    })
}

async fn links() -> Response {
    let mut valid = link(false);
    valid["expiresAt"] = json!("2999-01-02T03:04:05Z");
    Json(json!([valid, link(false), link(true)])).into_response()
}

async fn create_link(State(world): State<Arc<World>>, Json(body): Json<Value>) -> Response {
    world.created.lock().expect("lock").push(body);
    let mut link = link(false);
    link["url"] = json!(format!("http://p{}.localhost:3000/", "a".repeat(26)));
    (StatusCode::CREATED, Json(link)).into_response()
}

async fn remove_link(Path((_, link)): Path<(String, String)>) -> Response {
    if link == LINK { StatusCode::NO_CONTENT.into_response() } else { missing() }
}
