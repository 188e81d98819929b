//! Timeouts: they end sandboxes, and they can be moved.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;

use crate::eventually;
use crate::server::TestServer;

fn end_at(server: &TestServer, id: &str) -> Timestamp {
    server.get(&format!("/sandboxes/{id}")).is(200).member("endAt").parse().expect("time")
}

fn seconds_left(server: &TestServer, id: &str) -> i64 {
    end_at(server, id).duration_since(Timestamp::now()).round(jiff::Unit::Second).expect("seconds").as_secs()
}

#[test]
fn a_sandbox_ends_at_its_timeout() {
    let server = TestServer::start();
    let start = Instant::now();
    let id = server.create_with(json!({"timeout": 1}));
    let other = server.create_with(json!({"timeout": 60}));
    eventually("it expires", || !server.listed().contains(&id));
    assert!(start.elapsed() >= Duration::from_millis(950), "too early: {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(5), "too late: {:?}", start.elapsed());
    eventually("nothing is left", || !server.world.ids().contains(&id));
    assert_eq!(server.end_message(&id), format!("Sandbox {id} reached its timeout and was killed; create a new one"));
    assert_eq!(server.listed(), [other]);
}

#[test]
fn a_timeout_of_zero_ends_it_at_once() {
    let server = TestServer::start();
    let id = server.create();
    server.post(&format!("/sandboxes/{id}/timeout"), json!({"timeout": 0})).is(204);
    assert!(server.end_message(&id).contains("reached its timeout"));
    assert!(server.world.ids().is_empty());
    let born_dead = server.create_with(json!({"timeout": 0}));
    eventually("it expires", || server.world.ids().is_empty());
    assert!(server.end_message(&born_dead).contains("reached its timeout"));
}

#[test]
fn timeouts_move_both_ways_and_the_rest_only_extends() {
    let server = TestServer::start();
    let id = server.create_with(json!({"timeout": 1000}));
    assert_eq!(seconds_left(&server, &id), 1000);
    server.post(&format!("/sandboxes/{id}/timeout"), json!({"timeout": 100})).is(204);
    assert_eq!(seconds_left(&server, &id), 100);
    for (path, body, status, left) in [
        (format!("/v2/sandboxes/{id}/connect"), json!({}), 200, 300),
        (format!("/v2/sandboxes/{id}/connect"), json!({"timeout": 10}), 200, 300),
        (format!("/sandboxes/{id}/connect"), json!({"timeout": 20}), 200, 300),
        (format!("/sandboxes/{id}/connect"), json!({"timeout": 400, "memory": false}), 200, 400),
        (format!("/sandboxes/{id}/refreshes"), json!({"duration": 30}), 204, 400),
        (format!("/sandboxes/{id}/refreshes"), json!({"duration": 500}), 204, 500),
        (format!("/sandboxes/{id}/refreshes"), json!({}), 204, 500),
        (format!("/v2/sandboxes/{id}/connect"), json!({"timeout": 0}), 200, 500),
    ] {
        server.post(&path, body.clone()).is(status);
        assert_eq!(seconds_left(&server, &id), left, "{path} {body}");
    }
    let bodiless = server.call("POST", &format!("/v2/sandboxes/{id}/connect"), None).is(200);
    assert_eq!(bodiless.json()["envdAccessToken"].as_str().map(str::len), Some(64));
    server.call("POST", &format!("/sandboxes/{id}/refreshes"), None).is(204);
}

#[test]
fn a_later_timeout_wins_over_the_timer() {
    let server = TestServer::start();
    let id = server.create_with(json!({"timeout": 1}));
    server.post(&format!("/sandboxes/{id}/timeout"), json!({"timeout": 600})).is(204);
    // Once a sandbox that was due later is gone, the timer has passed the first timeout.
    let witness = server.create_with(json!({"timeout": 1}));
    eventually("the witness expires", || !server.world.ids().contains(&witness));
    assert_eq!(server.listed(), [id.as_str()]);
    server.post(&format!("/sandboxes/{id}/timeout"), json!({"timeout": 1})).is(204);
    eventually("it expires", || server.world.ids().is_empty());
}

#[test]
fn bad_timeouts_are_refused() {
    let server = TestServer::start();
    let id = server.create();
    for (path, body) in [
        ("timeout", json!({})),
        ("timeout", json!({"timeout": null})),
        ("timeout", json!({"timeout": -1})),
        ("timeout", json!({"timeout": 720 * 3600 + 1})),
        ("timeout", json!({"timeout": "5"})),
        ("refreshes", json!({"duration": -1})),
        ("refreshes", json!({"duration": 3601})),
        ("connect", json!({})),
        ("connect", json!({"timeout": -5})),
    ] {
        server.post(&format!("/sandboxes/{id}/{path}"), body.clone()).error(400, "invalid_request");
    }
    assert!(seconds_left(&server, &id) > 290);
}

#[test]
fn many_expire_at_once() {
    let server = TestServer::start();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..5).for_each(|_| drop(server.create_with(json!({"timeout": 2})))));
        }
    });
    eventually("all expire", || server.world.ids().is_empty());
    let killed = || server.get("/events/sandboxes?types=sandbox.lifecycle.killed&limit=100").is(200).json();
    eventually("all are recorded", || killed().as_array().is_some_and(|e| e.len() == 40));
}
