//! Quotas and plans over HTTP, with the fake backend.

use serde_json::{Value, json};

use crate::server::TestServer;

/// One kind of `GET /quotas`: used, limit, source.
fn state(server: &TestServer, kind: &str) -> (u64, Value, String) {
    let quotas = server.get("/quotas").is(200).json();
    let state = quotas["quotas"].as_array().expect("list").iter().find(|q| q["kind"] == kind).expect("kind").clone();
    (state["used"].as_u64().expect("used"), state["limit"].clone(), state["source"].as_str().expect("source").into())
}

fn set(server: &TestServer, limits: Value) {
    server.call("PUT", "/admin/teams/default/quotas", Some(json!({ "limits": limits }))).is(200);
}

#[test]
fn racing_creations_never_pass_a_limit() {
    let server = TestServer::start();
    set(&server, json!({"instances": 10}));
    let made = std::thread::scope(|scope| {
        let create = || {
            let answer = server.post("/v2/sandboxes", json!({"templateID": "base"}));
            if answer.status == 201 {
                return 1;
            }
            answer.error(429, "quota_exceeded");
            0
        };
        let threads: Vec<_> = (0..100).map(|_| scope.spawn(create)).collect();
        threads.into_iter().map(|thread| thread.join().expect("thread")).sum::<u32>()
    });
    assert_eq!((made, server.world.ids().len()), (10, 10));
    assert_eq!(state(&server, "instances"), (10, json!(10), "team".into()));
    let refused = server.post("/v2/sandboxes", json!({"templateID": "base"})).is(429).json();
    let details = &refused["details"];
    let numbers = ["used", "wanted", "limit"].map(|name| details[name].as_u64().expect("number"));
    assert_eq!((details["kind"].as_str(), numbers), (Some("instances"), [10, 1, 10]));
    assert_eq!(details["users"][0]["used"], 10, "{refused}");
    assert!(refused["message"].as_str().expect("text").contains("cabana quota set TEAM instances=11"), "{refused}");
}

#[test]
fn cpu_and_memory_count_while_a_sandbox_runs() {
    let server = TestServer::start();
    let first = server.create_with(json!({"cpuCount": 1, "memoryMB": 512}));
    let used = |kind| state(&server, kind).0;
    assert_eq!((used("vcpu"), used("memory_mb")), (1, 512));
    let (disk, limit, source) = state(&server, "disk_mb");
    assert_eq!((disk > 0, limit, source.as_str()), (true, Value::Null, "none"));
    server.post(&format!("/sandboxes/{first}/pause"), json!({"memory": false})).is(204);
    assert_eq!((used("vcpu"), used("memory_mb"), used("instances")), (0, 0, 1));
    set(&server, json!({"vcpu": 1}));
    let second = server.create_with(json!({"cpuCount": 1, "memoryMB": 512}));
    let refused = server.post(&format!("/sandboxes/{first}/connect"), json!({"timeout": 60}));
    let message = refused.error(429, "quota_exceeded");
    assert!(message.contains("uses 1 of 1 vCPUs") && message.contains("pause or kill"), "{message}");
    assert_eq!(server.get(&format!("/sandboxes/{first}")).is(200).json()["state"], "paused");
    server.kill(&second).is(204);
    server.post(&format!("/sandboxes/{first}/connect"), json!({"timeout": 60})).is(201);

    // A limit below what is used ends nothing, and refuses only more of the same kind.
    set(&server, json!({"vcpu": 0, "memory_mb": 512, "disk_mb": disk}));
    assert_eq!(server.get(&format!("/sandboxes/{first}")).is(200).json()["state"], "running");
    server.post(&format!("/sandboxes/{first}/timeout"), json!({"timeout": 60})).is(204);
    server.post(&format!("/sandboxes/{first}/resize"), json!({"memoryMB": 1024})).error(429, "quota_exceeded");
    assert_eq!(server.get(&format!("/sandboxes/{first}")).is(200).json()["memoryMB"], 512);
    server.post(&format!("/sandboxes/{first}/resize"), json!({"memoryMB": 256})).is(200);
    server.call("DELETE", "/admin/teams/default/quotas?kinds=memory_mb", None).is(200);
    server.post(&format!("/sandboxes/{first}/resize"), json!({"memoryMB": 1024})).is(200);
    assert_eq!(state(&server, "vcpu"), (1, json!(0), "team".into()));
}

#[test]
fn a_lifetime_bounds_timeouts() {
    let server = TestServer::start();
    set(&server, json!({"lifetime_seconds": 100}));
    let refused = server.post("/v2/sandboxes", json!({"templateID": "base", "timeout": 101}));
    assert!(refused.error(429, "quota_exceeded").contains("shorter timeout"));
    let id = server.create_with(json!({"timeout": 100}));
    server.post(&format!("/sandboxes/{id}/timeout"), json!({"timeout": 200})).error(429, "quota_exceeded");
    server.post(&format!("/sandboxes/{id}/timeout"), json!({"timeout": 50})).is(204);
    // Connecting is never refused; the sandbox runs as long as it may.
    server.post(&format!("/sandboxes/{id}/connect"), json!({"timeout": 1000})).is(200);
    let sandbox = server.get(&format!("/sandboxes/{id}")).is(200).json();
    let time = |name: &str| sandbox[name].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()).expect("time");
    let seconds = time("endAt").duration_since(time("startedAt")).as_secs();
    assert!((90..=100).contains(&seconds), "{sandbox}");
    // Nor is resuming, whatever the timeout was before the limit.
    set(&server, json!({"lifetime_seconds": 10}));
    server.post(&format!("/sandboxes/{id}/pause"), json!({})).is(204);
    server.post(&format!("/sandboxes/{id}/connect"), json!({"timeout": 1000})).is(201);
    let end: String = server.get(&format!("/sandboxes/{id}")).is(200).member("endAt");
    let end: jiff::Timestamp = end.parse().expect("time");
    assert!(end <= jiff::Timestamp::now() + jiff::SignedDuration::from_secs(10), "{end}");
}

#[test]
fn plans_and_bad_input() {
    let server = TestServer::start();
    let put = |path: &str, body: Value| server.call("PUT", path, Some(body));
    put("/admin/plans/small", json!({"name": "Small", "limits": {"instances": 1, "snapshots": 0}})).is(200);
    put("/admin/teams/default/plan", json!({"plan": "small"})).is(200);
    assert_eq!(state(&server, "instances"), (0, json!(1), "plan".into()));
    assert_eq!(state(&server, "templates").2, "server");
    let id = server.create();
    server.post("/v2/sandboxes", json!({"templateID": "base"})).error(429, "quota_exceeded");
    server.post(&format!("/sandboxes/{id}/snapshots"), json!({})).error(429, "quota_exceeded");
    server.call("DELETE", "/admin/plans/small", None).error(409, "plan_conflict");
    set(&server, json!({"instances": 2}));
    server.create();
    assert_eq!(server.get("/admin/plans/small").is(200).json()["teams"], 1);

    for limits in [json!({"instances": -1}), json!({"gpu": 1}), json!({"vcpu": 1e30}), json!({"turns": 0}), json!([])] {
        put("/admin/teams/default/quotas", json!({ "limits": limits })).error(400, "invalid_request");
        put("/admin/plans/bad", json!({ "limits": limits })).error(400, "invalid_request");
    }
    put("/admin/plans/Bad%20Id", json!({"limits": {}})).error(400, "invalid_request");
    put("/admin/plans/self-hosted", json!({"limits": {}})).error(409, "plan_conflict");
    put("/admin/teams/nobody/quotas", json!({"limits": {"vcpu": 1}})).error(404, "team_not_found");
    put("/admin/teams/nobody/plan", json!({"plan": "small"})).error(404, "team_not_found");
    put("/admin/teams/default/plan", json!({"plan": "none"})).error(404, "plan_not_found");
    server.call("DELETE", "/admin/plans/none", None).error(404, "plan_not_found");
    server.call("DELETE", "/admin/teams/default/quotas?kinds=gpu", None).error(400, "invalid_request");

    put("/admin/teams/default/plan", json!({"plan": "self-hosted"})).is(200);
    server.call("DELETE", "/admin/plans/small", None).is(204);
    server.call("DELETE", "/admin/teams/default/quotas", None).is(200);
    assert_eq!(state(&server, "instances").2, "server");
}
