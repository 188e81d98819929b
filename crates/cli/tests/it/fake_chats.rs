//! Chats of the fake server. The first word of a chat's first message says what happens in it, and is part of its id.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::fake::{World, refuse};

pub(crate) const AGENT: &str = "agent_0123456789abcdefghij";
const AT: &str = "2026-01-02T03:04:05Z";

#[derive(Default)]
pub(crate) struct Chats {
    /// Chats whose question was answered, or that were stopped.
    done: Mutex<BTreeSet<String>>,
    stopped: Notify,
    /// Requests for events: the chat and the last event that was seen.
    pub(crate) read: Mutex<Vec<(String, u64)>>,
    /// Bodies of requests, with their paths.
    pub(crate) sent: Mutex<Vec<(String, Value)>>,
}

impl Chats {
    fn note(&self, path: impl Into<String>, body: Value) {
        self.sent.lock().expect("lock").push((path.into(), body));
    }

    fn is_done(&self, id: &str) -> bool {
        self.done.lock().expect("lock").contains(id)
    }
}

pub(crate) fn routes() -> Router<Arc<World>> {
    Router::new()
        .route("/chats", get(list).post(create))
        .route("/chats/{id}", get(one).delete(remove))
        .route("/chats/{id}/messages", get(messages).post(send))
        .route("/chats/{id}/events", get(events))
        .route("/chats/{id}/cancel", post(cancel))
        .route("/chats/{id}/approvals/{call}", post(approve))
        .route("/chats/{id}/tool-results", post(answer))
        .route("/attachments", post(upload))
        .route("/agents", get(agents).post(create_agent))
        .route("/agents/{id}", get(one_agent).delete(remove_agent))
        .route("/models", get(models))
        .route("/model-providers", get(providers).post(add_provider))
        .route("/model-providers/{name}", delete(remove_provider))
}

pub(crate) fn chat_id(script: &str) -> String {
    format!("chat_{script:0<20}")
}

fn script(id: &str) -> &str {
    id.strip_prefix("chat_").unwrap_or_default().trim_end_matches('0')
}

fn turn_id(id: &str) -> String {
    id.replace("chat_", "turn_")
}

fn message_id(n: u64) -> String {
    format!("msg_{n:0>20}")
}

fn call_id(n: u64) -> String {
    format!("call_{n:0>20}")
}

fn chat(id: &str, world: &World) -> Value {
    let busy = matches!(script(id), "approve" | "question") && !world.chats.is_done(id);
    json!({
        "id": id, "title": format!("About {} \u{1b}[2J", script(id)), "projectId": "default", "agentId": null,
        "model": "demo/demo", "status": if busy { "waiting" } else { "idle" }, "parentId": null, "sandboxId": null,
        "browserSandboxId": null, "sandboxes": [], "tools": [{"type": "sandbox"}, {"type": "ask"}], "access": "private",
        "usage": {"inputTokens": 1, "cachedTokens": 0, "outputTokens": 1, "costMicros": null}, "contextTokens": 1,
        "contextWindow": 1000, "turnId": if busy { json!(turn_id(id)) } else { Value::Null }, "queued": [],
        "lastEventId": 100, "metadata": {}, "createdAt": AT, "updatedAt": AT,
    })
}

fn turn(id: &str) -> Value {
    json!({
        "id": turn_id(id), "chatId": id, "messageId": message_id(0), "status": "queued", "reason": null, "steps": 0,
        "usage": {"inputTokens": 0, "cachedTokens": 0, "outputTokens": 0, "costMicros": null}, "prompt": "p",
        "createdAt": AT, "endedAt": null,
    })
}

fn message(id: &str, role: &str, text: &str, calls: Vec<Value>) -> Value {
    json!({
        "id": message_id(1), "chatId": id, "turnId": turn_id(id), "role": role, "author": null, "status": "complete",
        "content": [{"type": "text", "text": text}], "toolCalls": calls, "createdAt": AT,
    })
}

fn call(n: u64, name: &str, title: &str, arguments: &Value, status: &str) -> Value {
    json!({
        "id": call_id(n), "messageId": message_id(1), "name": name, "title": title, "arguments": arguments,
        "sandboxId": null, "status": status, "error": null, "durationMs": 1234, "data": {}, "output": "",
    })
}

/// What a chat waits for.
fn question(id: &str) -> Option<Value> {
    match script(id) {
        "approve" => Some(call(1, "sandbox_run_command", "Run rm", &json!({"command": "rm -rf x"}), "approval")),
        "question" => Some(call(1, "ask_user", "Ask", &json!({"question": "Which?", "options": ["A", "B"]}), "client")),
        _ => None,
    }
}

/// All events that have happened.
fn history(id: &str, world: &World) -> Vec<(u64, &'static str, Value)> {
    let delta = |text: &str| json!({"messageId": message_id(1), "delta": {"text": text}});
    let said = |text: &str| json!({"message": message(id, "assistant", text, vec![]), "stopReason": "end"});
    let running = call(2, "sandbox_run_command", "Run make", &json!({}), "running");
    let end = |status: &str, reason: Value| json!({"status": status, "reason": reason});
    let result = json!({
        "toolCallId": call_id(2), "name": "sandbox_run_command", "status": "success", "output": "", "data": {},
        "error": null, "truncated": false, "durationMs": 1234, "attachments": [],
    });
    let begun = (101, "turn.started", json!({"turn": turn(id)}));
    match script(id) {
        "fail" => vec![
            begun,
            (102, "error", json!({"code": "x", "message": "no money", "hint": "pay", "retryable": false})),
            (103, "turn.complete", end("failed", json!("model_failed"))),
        ],
        "approve" | "question" => {
            let asked = json!({"toolCall": question(id)});
            let mut all = vec![begun, (102, "tool.call", asked), (103, "turn.complete", end("waiting", Value::Null))];
            if world.chats.is_done(id) {
                all.push((104, "turn.started", json!({})));
                all.push((105, "message.complete", said("Thanks.")));
                all.push((106, "turn.complete", end("complete", Value::Null)));
            }
            all
        }
        "hang" if world.chats.is_done(id) => vec![begun, (103, "turn.complete", end("cancelled", Value::Null))],
        "hang" => vec![begun, (102, "message.delta", delta("I am "))],
        _ => vec![
            begun,
            (102, "message.delta", delta("Hello ")),
            (103, "message.delta", delta("world \u{1b}[2J.")),
            (104, "message.complete", said("Hello world \u{1b}[2J.")),
            (105, "tool.call", json!({"toolCall": running})),
            (
                106,
                "tool.output",
                json!({"toolCallId": call_id(2), "stream": "stdout", "text": "cc -o x\n", "dropped": 0}),
            ),
            (107, "tool.message", result),
            (108, "turn.complete", end("complete", Value::Null)),
        ],
    }
}

fn frame(id: &str, (number, kind, data): &(u64, &str, Value)) -> String {
    let mut data = data.clone();
    for (name, value) in
        [("type", json!(kind)), ("chatId", json!(id)), ("turnId", json!(turn_id(id))), ("at", json!(AT))]
    {
        data[name] = value;
    }
    format!("id: {number}\nevent: {kind}\ndata: {data}\n\n")
}

async fn events(State(world): State<Arc<World>>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok()).unwrap_or(0);
    world.chats.read.lock().expect("lock").push((id.clone(), last));
    let mut all = history(&id, &world);
    // The first connection breaks, and the second one repeats a little.
    match (script(&id), last < 103) {
        ("cut", true) => all.truncate(3),
        ("cut", false) => all.retain(|(number, ..)| *number >= 102),
        _ => all.retain(|(number, ..)| *number > last),
    }
    let mut text: String = all.iter().map(|event| frame(&id, event)).collect();
    text.insert_str(0, "event: ping\ndata: {}\n\n");
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    if script(&id) != "hang" || world.chats.is_done(&id) {
        return (kind, text).into_response();
    }
    let first = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from(text))]);
    let rest = futures_util::stream::once(async move {
        world.chats.stopped.notified().await;
        Ok(Bytes::from(frame(&id, &(103, "turn.complete", json!({"status": "cancelled", "reason": null})))))
    });
    (kind, Body::from_stream(first.chain(rest))).into_response()
}

async fn create(State(world): State<Arc<World>>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    assert!(headers.contains_key("idempotency-key"));
    let prompt = body["prompt"].as_str().unwrap_or_default();
    let id = chat_id(prompt.split_whitespace().next().unwrap_or_default());
    world.chats.note("chats", body);
    if script(&id) == "nomodel" {
        return refuse(400, "model_not_found", "there is no such model");
    }
    (StatusCode::CREATED, Json(json!({"chat": chat(&id, &world), "turn": turn(&id)}))).into_response()
}

async fn send(State(world): State<Arc<World>>, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    world.chats.note("messages", body);
    (StatusCode::ACCEPTED, Json(json!({"chat": chat(&id, &world), "turn": turn(&id)}))).into_response()
}

/// One chat per page.
async fn list(State(world): State<Arc<World>>, Query(query): Query<BTreeMap<String, String>>) -> Response {
    world.chats.note("list", json!(query));
    let chats = ["hello", "approve"].map(|script| chat(&chat_id(script), &world));
    let first = !query.contains_key("cursor");
    let page = json!({"chats": [chats[usize::from(!first)]], "nextCursor": first.then_some("2")});
    Json(page).into_response()
}

async fn one(State(world): State<Arc<World>>, Path(id): Path<String>) -> Response {
    match script(&id) {
        "" => refuse(404, "chat_not_found", "there is no such chat"),
        _ => Json(chat(&id, &world)).into_response(),
    }
}

async fn remove(
    State(world): State<Arc<World>>,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    world.chats.note("delete", json!({"id": id, "query": query}));
    if script(&id).is_empty() {
        refuse(404, "chat_not_found", "there is no such chat")
    } else {
        StatusCode::NO_CONTENT.into_response()
    }
}

async fn messages(State(world): State<Arc<World>>, Path(id): Path<String>) -> Response {
    let calls = match question(&id) {
        Some(call) if !world.chats.is_done(&id) => vec![call],
        Some(_) => vec![],
        None => vec![call(2, "sandbox_run_command", "Run make", &json!({}), "success")],
    };
    let asked = message(&id, "user", "make it\nplease", vec![]);
    let answered = message(&id, "assistant", "Hello \u{1b}[2J.", calls);
    Json(json!({"messages": [asked, answered], "more": false, "lastEventId": 103})).into_response()
}

async fn cancel(State(world): State<Arc<World>>, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    world.chats.note("cancel", body);
    if script(&id) == "hello" {
        return refuse(409, "turn_not_running", "nothing runs");
    }
    world.chats.done.lock().expect("lock").insert(id.clone());
    world.chats.stopped.notify_waiters();
    Json(turn(&id)).into_response()
}

async fn approve(
    State(world): State<Arc<World>>,
    Path((id, _)): Path<(String, String)>,
    Json(body): Json<Value>,
) -> Response {
    world.chats.note("approval", body);
    world.chats.done.lock().expect("lock").insert(id.clone());
    Json(question(&id)).into_response()
}

async fn answer(State(world): State<Arc<World>>, Path(id): Path<String>, Json(body): Json<Value>) -> Response {
    world.chats.note("answer", body);
    world.chats.done.lock().expect("lock").insert(id.clone());
    Json(json!({"toolCalls": [question(&id)]})).into_response()
}

async fn upload(State(world): State<Arc<World>>, body: Bytes) -> Response {
    world.chats.note("upload", json!(String::from_utf8_lossy(&body).contains("some data")));
    let attachment = json!({
        "id": "att_0123456789abcdefghij", "chatId": null, "kind": "upload", "name": "a", "mediaType": "text/plain", "size": 1,
        "sha256": "0", "status": "pending", "path": null, "error": null, "createdAt": AT,
    });
    (StatusCode::CREATED, Json(json!({"attachments": [attachment]}))).into_response()
}

fn agent() -> Value {
    json!({
        "id": AGENT, "name": "reviewer", "description": "Reads \u{1b}[2Jcode", "kind": "loop", "model": null,
        "system": "", "tools": [{"type": "sandbox", "template": "web"}], "limits": {"maxSteps": 1, "maxMinutes": 1,
        "maxCostMicros": null}, "suggestions": [], "createdAt": AT, "updatedAt": AT,
    })
}

async fn agents() -> Response {
    Json(json!({"agents": [agent()]})).into_response()
}

async fn create_agent(State(world): State<Arc<World>>, Json(body): Json<Value>) -> Response {
    world.chats.note("agents", body);
    (StatusCode::CREATED, Json(agent())).into_response()
}

async fn one_agent() -> Response {
    Json(agent()).into_response()
}

async fn remove_agent() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

async fn models() -> Response {
    let model = |id: &str, demo: bool| {
        json!({
            "id": id, "provider": "p", "name": "n", "demo": demo, "default": demo, "contextWindow": 200_000,
            "priced": false,
        })
    };
    let models = [model("demo/demo", true), model("local/llama", false)];
    Json(json!({"models": models, "suggestions": []})).into_response()
}

fn provider(name: &Value) -> Value {
    json!({
        "name": name, "kind": "openai", "baseUrl": null, "hasKey": true, "models": ["a", "b"], "scope": "team",
        "createdAt": AT,
    })
}

async fn providers() -> Response {
    Json(json!({"providers": [provider(&json!("local"))]})).into_response()
}

async fn add_provider(State(world): State<Arc<World>>, Json(body): Json<Value>) -> Response {
    let added = provider(&body["name"]);
    world.chats.note("providers", body);
    (StatusCode::CREATED, Json(added)).into_response()
}

async fn remove_provider(Path(name): Path<String>) -> Response {
    if name == "local" {
        StatusCode::NO_CONTENT.into_response()
    } else {
        refuse(404, "provider_not_found", "there is none")
    }
}
