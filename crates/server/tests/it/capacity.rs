//! The limit on the number of sandboxes.

use serde_json::json;

use crate::eventually;
use crate::http::send;
use crate::server::TestServer;
use crate::world::Fault;

#[test]
fn the_limit_holds_under_concurrent_creations() {
    let server = TestServer::with(&[("limits.max_sandboxes", "5")]);
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| server.post("/v2/sandboxes", json!({"templateID": "base"})).status))
            .collect();
        posts.into_iter().map(|p| p.join().expect("thread")).collect()
    });
    assert_eq!(answers.iter().filter(|s| **s == 201).count(), 5, "{answers:?}");
    assert_eq!(answers.iter().filter(|s| **s == 429).count(), 7, "{answers:?}");
    assert_eq!(server.world.ids().len(), 5);
    let refused = server.post("/v2/sandboxes", json!({"templateID": "base"}));
    let message = refused.error(429, "sandbox_capacity_unavailable");
    assert!(message.contains("All 5 sandboxes"), "{message}");
    assert_eq!(refused.header("should-retry"), Some("false"));
    let id = server.listed().remove(0);
    server.kill(&id).is(204);
    server.create();
}

#[test]
fn sandboxes_being_removed_count_towards_the_limit() {
    let server = TestServer::with(&[("limits.max_sandboxes", "1")]);
    let id = server.create();
    server.world.on_destroy(&[Fault::Fail]);
    server.kill(&id).is(204);
    let status = server.post("/v2/sandboxes", json!({"templateID": "base"})).status;
    assert!(matches!(status, 201 | 429), "{status}");
    eventually("there is room again", || {
        server.listed().len() == 1 || server.post("/v2/sandboxes", json!({"templateID": "base"})).status == 201
    });
    assert_eq!(server.world.ids().len(), 1);
}

#[test]
fn a_failed_creation_releases_its_capacity() {
    let server = TestServer::with(&[("limits.max_sandboxes", "1")]);
    server.world.on_launch(Some(Fault::Fail));
    for _ in 0..3 {
        server.post("/v2/sandboxes", json!({"templateID": "base"})).error(500, "sandbox_create_failed");
    }
    server.world.on_launch(None);
    let id = server.create();
    // A repeated request succeeds even at the limit.
    let again = server.restart();
    assert_eq!(again.listed(), [id]);
    let refused =
        send(again.address, "POST", "/v2/sandboxes", &[("x-api-key", &again.key)], Some(br#"{"templateID":"base"}"#));
    refused.expect("answer").error(429, "sandbox_capacity_unavailable");
}

#[test]
fn memory_limits_add_up_to_what_is_allowed() {
    let server = TestServer::with(&[("limits.memory_overcommit", "1"), ("limits.max_sandboxes", "1000")]);
    let capacity = |field: &str| server.get("/status").is(200).json()["capacity"][field].as_u64().expect("a number");
    let limit = capacity("memoryLimitMB");
    // As large as they may be, and a last one that takes the rest.
    let create = |memory: u64| server.post("/v2/sandboxes", json!({"templateID": "base", "memoryMB": memory}));
    let size = 8192.min(limit / 2);
    let mut ids = Vec::new();
    while capacity("memoryMB") + size <= limit {
        ids.push(create(size).is(201).json()["sandboxID"].as_str().expect("an id").to_owned());
    }
    let refused = create(size);
    let message = refused.error(429, "sandbox_capacity_unavailable");
    assert!(message.contains("of memory together") && message.contains("limits.memory_overcommit"), "{message}");
    assert_eq!(refused.header("retry-after"), Some("30"));
    assert_eq!(server.world.ids().len(), ids.len(), "nothing is left of the refused one");
    // A paused one does not count, and must fit again when it is resumed.
    let id = ids.pop().expect("one");
    server.post(&format!("/sandboxes/{id}/pause"), json!({"memory": false})).is(204);
    create(size).is(201);
    let refused = server.post(&format!("/v2/sandboxes/{id}/connect"), json!({}));
    refused.error(429, "sandbox_capacity_unavailable");
    server.kill(&ids[0]).is(204);
    server.post(&format!("/v2/sandboxes/{id}/connect"), json!({})).is(201);
}

#[test]
fn a_factor_of_zero_is_no_limit() {
    let server = TestServer::with(&[("limits.memory_overcommit", "0"), ("limits.disk_overcommit", "0")]);
    for _ in 0..20 {
        server.post("/v2/sandboxes", json!({"templateID": "base", "memoryMB": 8192})).is(201);
    }
    let status = server.get("/status").is(200).json();
    assert_eq!(status["capacity"]["memoryLimitMB"], 0);
    assert_eq!(status["capacity"]["memoryMB"], 20 * 8192);
}
