//! Killing: gone at once, removed in the end, and told why.

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
    let told = server.epitaph(&id);
    assert!(told.starts_with(&format!("Sandbox {id} was killed by request of API key ")), "{told}");
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
        let told = server.call(method, &path, body).error(404, "sandbox_not_found");
        assert!(told.contains("was killed by request"), "{method} {path}: {told}");
    }
}

#[test]
fn sandboxes_that_never_were() {
    let server = TestServer::start();
    for id in ["inothing", "non-existing-sandbox", "A", "%00", "a%2Fb", "%ff", &"x".repeat(1000)] {
        let answer = server.kill(id);
        assert!(matches!(answer.status, 404 | 400), "{id}: {}", answer.text);
        assert_eq!(answer.json()["code"], answer.status, "{id}: {}", answer.text);
    }
    server.kill("inothing").error(404, "sandbox_not_found");
}

#[test]
fn of_many_kills_one_wins() {
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
fn a_removal_that_fails_is_tried_again() {
    let server = TestServer::start();
    let id = server.create();
    server.world.on_destroy(&[Fault::Fail, Fault::Fail]);
    server.kill(&id).is(204);
    assert!(server.epitaph(&id).contains("was killed"), "gone for callers, whatever is left of it");
    assert!(server.listed().is_empty());
    eventually("nothing is left", || server.world.ids().is_empty());
    eventually("that is written", || server.events(&id).last().is_some_and(|e| e == "killed"));
}

#[test]
fn a_removal_that_hangs_does_not_hold_the_caller_for_ever() {
    let server = TestServer::start();
    let id = server.create();
    server.world.on_destroy(&[Fault::HangBefore]);
    let start = std::time::Instant::now();
    server.kill(&id).is(204);
    assert!(start.elapsed() < std::time::Duration::from_secs(15));
    assert!(server.epitaph(&id).contains("was killed"));
    assert_eq!(server.events(&id), ["requested", "created", "ending"]);
    // Others are not held up.
    let other = server.create();
    server.kill(&other).is(204);
    assert!(!server.world.ids().contains(&other));
    // The next server finishes it.
    let again = server.restart();
    eventually("nothing is left", || again.world.ids().is_empty());
    eventually("that is written", || again.events(&id).last().is_some_and(|e| e == "killed"));
}

#[test]
fn a_removal_that_panics_is_tried_again() {
    let server = TestServer::start();
    let id = server.create();
    server.world.on_destroy(&[Fault::Panic]);
    server.kill(&id).is(204);
    eventually("nothing is left", || server.world.ids().is_empty());
    eventually("that is written", || server.events(&id).last().is_some_and(|e| e == "killed"));
}
