//! Idempotency keys: the same key and request return the same sandbox.

use serde_json::{Value, json};

use crate::http::Answer;
use crate::server::TestServer;
use crate::world::Fault;

fn post(server: &TestServer, key: &str, options: Value) -> Answer {
    let mut body = options;
    body["templateID"] = "base".into();
    server.call_with("POST", "/v2/sandboxes", &[("Idempotency-Key", key)], Some(body))
}

#[test]
fn a_repeated_request_returns_the_same_sandbox() {
    let server = TestServer::with(&[("limits.max_sandboxes", "2")]);
    let first = post(&server, "key-1", json!({"metadata": {"a": "1", "b": "2"}})).is(201);
    let again = post(&server, "key-1", json!({"metadata": {"b": "2", "a": "1"}})).is(201);
    assert_eq!(first.json(), again.json());
    let other = post(&server, "key-2", json!({})).is(201);
    assert_ne!(first.member("sandboxID"), other.member("sandboxID"));
    // The server is full; a repeated request still returns its sandbox.
    assert_eq!(post(&server, "key-2", json!({})).is(201).json(), other.json());
    post(&server, "key-3", json!({})).error(429, "sandbox_capacity_unavailable");
    let message = post(&server, "key-1", json!({"metadata": {"a": "other"}})).error(422, "idempotency_mismatch");
    assert!(message.contains("key-1"), "{message}");
    // The older route creates a sandbox with other defaults.
    let body = json!({"templateID": "base"});
    let v1 = server.call_with("POST", "/sandboxes", &[("Idempotency-Key", "key-2")], Some(body));
    v1.error(422, "idempotency_mismatch");
    // It also survives a restart.
    let server = server.restart();
    assert_eq!(post(&server, "key-2", json!({})).is(201).json(), other.json());
}

#[test]
fn concurrent_repeats_create_one_sandbox() {
    let server = TestServer::start();
    server.world.on_launch(Some(Fault::Slow(std::time::Duration::from_millis(200))));
    let ids: std::collections::HashSet<String> = std::thread::scope(|scope| {
        let posts: Vec<_> =
            (0..8).map(|_| scope.spawn(|| post(&server, "k", json!({})).is(201).member("sandboxID"))).collect();
        posts.into_iter().map(|p| p.join().expect("thread")).collect()
    });
    assert_eq!(ids.len(), 1);
    assert_eq!(server.world.ids(), ids);
}

#[test]
fn a_failed_creation_can_be_retried() {
    let server = TestServer::start();
    server.world.on_launch(Some(Fault::Fail));
    post(&server, "k", json!({})).error(500, "sandbox_create_failed");
    server.world.on_launch(None);
    post(&server, "k", json!({})).is(201);
}

#[test]
fn the_key_of_an_ended_sandbox_cannot_be_reused() {
    let server = TestServer::start();
    let id = post(&server, "k", json!({})).is(201).member("sandboxID");
    server.kill(&id).is(204);
    let message = post(&server, "k", json!({})).error(409, "idempotency_conflict");
    assert!(message.contains(&id) && message.contains("was killed"), "{message}");
}

#[test]
fn invalid_keys_are_refused() {
    let server = TestServer::start();
    for wrong in ["", "UPPER", "with space", "ünïcode", &"x".repeat(256)] {
        post(&server, wrong, json!({})).error(400, "invalid_request");
    }
    post(&server, &"x".repeat(255), json!({})).is(201);
    assert_eq!(server.world.ids().len(), 1);
}
