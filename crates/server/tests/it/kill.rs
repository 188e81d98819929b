//! Killing: a sandbox is gone at once, removed in the end, and later requests say why.

use serde_json::json;

use crate::eventually;
use crate::server::TestServer;
use crate::world::Fault;

#[test]
fn a_killed_sandbox_is_gone_and_says_why() {
    let server = TestServer::start();
    let id = server.create();
    server.kill(&id).is(204);
    assert!(server.world.ids().is_empty());
    assert!(server.listed().is_empty());
    let message = server.end_message(&id);
    assert!(message.starts_with(&format!("Sandbox {id} was killed by request of API key ")), "{message}");
    assert_eq!(server.events(&id), ["requested", "created", "ending", "killed"]);
    for (method, path, body) in [
        ("DELETE", format!("/sandboxes/{id}"), None),
        ("POST", format!("/sandboxes/{id}/timeout"), Some(json!({"timeout": 5}))),
        ("POST", format!("/sandboxes/{id}/refreshes"), Some(json!({"duration": 5}))),
        ("POST", format!("/sandboxes/{id}/connect"), Some(json!({"timeout": 5}))),
        ("POST", format!("/v2/sandboxes/{id}/connect"), Some(json!({}))),
        ("GET", format!("/sandboxes/{id}/metrics"), None),
        ("POST", format!("/sandboxes/{id}/pause"), Some(json!({}))),
    ] {
        let message = server.call(method, &path, body).error(404, "sandbox_not_found");
        assert!(message.contains("was killed by request"), "{method} {path}: {message}");
    }
}

#[test]
fn unknown_sandboxes_are_not_found() {
    let server = TestServer::start();
    for id in ["inothing", "non-existing-sandbox", "A", "%00", "a%2Fb", "%ff", &"x".repeat(1000)] {
        let answer = server.kill(id);
        assert!(matches!(answer.status, 404 | 400), "{id}: {}", answer.text);
        assert_eq!(answer.json()["code"], answer.status, "{id}: {}", answer.text);
    }
    server.kill("inothing").error(404, "sandbox_not_found");
}

#[test]
fn one_of_many_concurrent_kills_succeeds() {
    let server = TestServer::start();
    let id = server.create();
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let kills: Vec<_> = (0..8).map(|_| scope.spawn(|| server.kill(&id).status)).collect();
        kills.into_iter().map(|k| k.join().expect("thread")).collect()
    });
    assert_eq!(answers.iter().filter(|s| **s == 204).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|s| matches!(s, 204 | 404)), "{answers:?}");
    assert_eq!(server.events(&id), ["requested", "created", "ending", "killed"]);
}

#[test]
fn a_failed_removal_is_retried() {
    let server = TestServer::start();
    let id = server.create();
    server.world.on_destroy(&[Fault::Fail, Fault::Fail]);
    server.kill(&id).is(204);
    assert!(server.end_message(&id).contains("was killed"), "gone for callers, even if not removed yet");
    assert!(server.listed().is_empty());
    eventually("nothing is left", || server.world.ids().is_empty());
    eventually("it is recorded", || server.events(&id).last().is_some_and(|e| e == "killed"));
}

#[test]
fn a_removal_that_hangs_does_not_block_the_caller() {
    let server = TestServer::start();
    let id = server.create();
    server.world.on_destroy(&[Fault::HangBefore]);
    let start = std::time::Instant::now();
    server.kill(&id).is(204);
    assert!(start.elapsed() < std::time::Duration::from_secs(15));
    assert!(server.end_message(&id).contains("was killed"));
    assert_eq!(server.events(&id), ["requested", "created", "ending"]);
    // Others are not delayed.
    let other = server.create();
    server.kill(&other).is(204);
    assert!(!server.world.ids().contains(&other));
    // The next server finishes it.
    let again = server.restart();
    eventually("nothing is left", || again.world.ids().is_empty());
    eventually("it is recorded", || again.events(&id).last().is_some_and(|e| e == "killed"));
}

#[test]
fn a_removal_that_panics_is_retried() {
    let server = TestServer::start();
    let id = server.create();
    server.world.on_destroy(&[Fault::Panic]);
    server.kill(&id).is(204);
    eventually("nothing is left", || server.world.ids().is_empty());
    eventually("it is recorded", || server.events(&id).last().is_some_and(|e| e == "killed"));
}
