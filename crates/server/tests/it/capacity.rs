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
