//! The same key with the same request: the same sandbox.

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
fn a_repeated_request_finds_its_sandbox() {
    let server = TestServer::with(&[("limits.max_sandboxes", "2")]);
    let first = post(&server, "key-1", json!({"metadata": {"a": "1", "b": "2"}})).is(201);
    let again = post(&server, "key-1", json!({"metadata": {"b": "2", "a": "1"}})).is(201);
    assert_eq!(first.json(), again.json());
    let other = post(&server, "key-2", json!({})).is(201);
    assert_ne!(first.member("sandboxID"), other.member("sandboxID"));
    // The server is full now; a repeated request still finds its sandbox.
    assert_eq!(post(&server, "key-2", json!({})).is(201).json(), other.json());
    post(&server, "key-3", json!({})).error(429, "sandbox_capacity_unavailable");
    let told = post(&server, "key-1", json!({"metadata": {"a": "other"}})).error(422, "idempotency_mismatch");
    assert!(told.contains("key-1"), "{told}");
    // The older route makes another kind of sandbox.
    let body = json!({"templateID": "base"});
    let v1 = server.call_with("POST", "/sandboxes", &[("Idempotency-Key", "key-2")], Some(body));
    v1.error(422, "idempotency_mismatch");
    // It also survives a restart.
    let server = server.restart();
    assert_eq!(post(&server, "key-2", json!({})).is(201).json(), other.json());
}

#[test]
fn concurrent_repeats_make_one() {
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
fn a_failed_creation_may_be_tried_again() {
    let server = TestServer::start();
    server.world.on_launch(Some(Fault::Fail));
    post(&server, "k", json!({})).error(500, "sandbox_create_failed");
    server.world.on_launch(None);
    post(&server, "k", json!({})).is(201);
}

#[test]
fn the_key_of_a_sandbox_that_is_gone_is_spent() {
    let server = TestServer::start();
    let id = post(&server, "k", json!({})).is(201).member("sandboxID");
    server.kill(&id).is(204);
    let told = post(&server, "k", json!({})).error(409, "idempotency_conflict");
    assert!(told.contains(&id) && told.contains("was killed"), "{told}");
}

#[test]
fn keys_have_a_form() {
    let server = TestServer::start();
    for wrong in ["", "UPPER", "with space", "ünïcode", &"x".repeat(256)] {
        post(&server, wrong, json!({})).error(400, "invalid_request");
    }
    post(&server, &"x".repeat(255), json!({})).is(201);
    assert_eq!(server.world.ids().len(), 1);
}
