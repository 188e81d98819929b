//! Pausing, resuming, failing, copying and resizing sandboxes, with server crashes in between.

use cabana_runtime::{Death, DiskSource, Root, Stats};
use serde_json::{Value, json};

use crate::eventually;
use crate::server::TestServer;

fn detail(server: &TestServer, id: &str) -> Value {
    server.get(&format!("/sandboxes/{id}")).is(200).json()
}

fn state(server: &TestServer, id: &str) -> String {
    detail(server, id)["phase"].as_str().unwrap_or_default().to_owned()
}

fn pause(server: &TestServer, id: &str, memory: bool) {
    server.post(&format!("/sandboxes/{id}/pause"), json!({"memory": memory})).is(204);
}

fn connect(server: &TestServer, id: &str) -> u16 {
    server.post(&format!("/v2/sandboxes/{id}/connect"), json!({})).status
}

/// The backend matches the store.
fn assert_sound(server: &TestServer) {
    let differences = || server.get("/status/check").is(200).json()["differences"].clone();
    eventually("store and backend agree", || differences() == json!([]));
}

#[test]
fn pause_with_and_without_memory() {
    let server = TestServer::start();
    let id = server.create();
    pause(&server, &id, true);
    assert!(server.world.is_frozen(&id));
    assert_eq!((state(&server, &id).as_str(), &detail(&server, &id)["pauseMode"]), ("paused", &json!("full")));
    server.post(&format!("/sandboxes/{id}/pause"), json!({})).is(409);
    server.post(&format!("/sandboxes/{id}/timeout"), json!({"timeout": 10})).is(409);
    assert_sound(&server);
    assert_eq!((connect(&server, &id), connect(&server, &id)), (201, 200));
    assert!(!server.world.is_frozen(&id));

    pause(&server, &id, false);
    assert!(!server.world.ids().contains(&id) && server.world.disks().contains(&id));
    assert_eq!(detail(&server, &id)["pauseMode"], "filesystem");
    assert_sound(&server);
    assert_eq!(connect(&server, &id), 201);
    assert!(server.world.spec(&id).root.is_kept());
    server.call("DELETE", &format!("/sandboxes/{id}"), None).is(204);
    assert!(server.world.disks().is_empty());
    assert_eq!(server.world.collisions(), []);
}

#[test]
fn pauses_survive_server_restarts_and_memory_does_not_survive_reboots() {
    let mut server = TestServer::start();
    let (full, disk, up) = (server.create(), server.create(), server.create());
    pause(&server, &full, true);
    pause(&server, &disk, false);
    server.crash();
    let mut server = server.restart();
    assert_eq!([&full, &disk, &up].map(|id| state(&server, id)), ["paused", "paused", "running"]);
    assert_sound(&server);
    server.crash();
    server.world.reboot();
    let server = server.restart();
    assert_sound(&server);
    assert_eq!(detail(&server, &full)["pauseMode"], "filesystem");
    assert!(server.events(&full).contains(&"memory_lost".to_owned()));
    assert_eq!((connect(&server, &full), connect(&server, &disk)), (201, 201));
    assert!(server.end_message(&up).contains("was lost when the machine restarted; its disk is kept"));
    assert_eq!(connect(&server, &up), 404);
    server.post(&format!("/sandboxes/{up}/recover"), json!({})).is(200);
    assert_eq!(state(&server, &up), "running");
    assert_sound(&server);
}

#[test]
fn failed_sandboxes_use_no_capacity_and_can_be_killed_paused_and_replaced() {
    let server = TestServer::with(&[("limits.max_sandboxes", "1")]);
    let first = server.create();
    server.world.die(&first, Death::Died);
    eventually("it failed", || server.events(&first).last().is_some_and(|e| e == "failed"));
    let second = server.create();
    server.post(&format!("/sandboxes/{first}/recover"), json!({})).is(429);
    pause(&server, &second, true);
    pause(&server, &first, true);
    assert_eq!(detail(&server, &first)["pauseMode"], "filesystem", "only its disk was kept");
    assert_eq!((connect(&server, &first), connect(&server, &second)), (201, 429));
    for id in [&first, &second] {
        server.call("DELETE", &format!("/sandboxes/{id}"), None).is(204);
    }
    let third = server.create_with(json!({"onFailure": "replace"}));
    server.world.die(&third, Death::OutOfMemory);
    eventually("it is replaced", || server.events(&third).last().is_some_and(|e| e == "resumed"));
    assert_eq!(state(&server, &third), "running");
    assert_sound(&server);
}

#[test]
fn the_timeout_pauses_if_requested() {
    let server = TestServer::start();
    let id = server.create_with(json!({"autoPause": true}));
    let other = server.create_with(json!({"autoPause": true, "autoPauseMemory": false}));
    for id in [&id, &other] {
        server.post(&format!("/sandboxes/{id}/timeout"), json!({"timeout": 0})).is(204);
    }
    assert!(server.world.is_frozen(&id) && !server.world.ids().contains(&other));
    assert_eq!(detail(&server, &id)["reason"], "reached its timeout and was paused");
    for wrong in [
        json!({"autoPauseMemory": false}),
        json!({"autoPause": true, "autoPauseMemory": false, "autoResume": {"enabled": true}}),
        json!({"idleTimeout": 0}),
        json!({"onFailure": "explode"}),
        json!({"keep": ["../x"]}),
        json!({"keep": [""]}),
    ] {
        let mut wrong = wrong;
        wrong["templateID"] = "base".into();
        server.post("/v2/sandboxes", wrong).is(400);
    }
}

#[test]
fn pauses_with_memory_are_limited_in_number() {
    let server = TestServer::with(&[("pause.max_in_memory", "2")]);
    let ids: Vec<String> = (0..2).map(|_| server.create()).collect();
    for id in &ids {
        pause(&server, id, true);
    }
    let third = server.create_with(json!({"autoPause": true}));
    let message =
        server.post(&format!("/sandboxes/{third}/pause"), json!({})).error(429, "sandbox_capacity_unavailable");
    assert!(message.contains("2 (pause.max_in_memory)") && message.contains("memory: false"), "{message}");
    assert_eq!(state(&server, &third), "running", "nothing was lost");
    assert!(!server.events(&third).contains(&"pausing".to_owned()), "nothing was begun");
    // The limit also holds after a restart, which counts again.
    let server = server.restart();
    server.post(&format!("/sandboxes/{third}/pause"), json!({})).is(429);
    // An automatic pause keeps the disk only, and says why.
    server.post(&format!("/sandboxes/{third}/timeout"), json!({"timeout": 0})).is(204);
    assert_eq!(detail(&server, &third)["pauseMode"], "filesystem");
    let message = server.get(&format!("/events/sandboxes/{third}")).is(200).json().to_string();
    assert!(
        message
            .contains("its memory was given up: the limit of sandboxes that are paused with their memory is reached"),
        "{message}"
    );
    // A sandbox that resumes, gives up its memory or ends makes room.
    assert_eq!(connect(&server, &third), 201);
    assert_eq!(connect(&server, &ids[0]), 201);
    pause(&server, &third, true);
    server.post(&format!("/sandboxes/{}/pause", ids[0]), json!({})).is(429);
    pause(&server, &third, false);
    pause(&server, &ids[0], true);
    assert_eq!(connect(&server, &third), 201);
    server.post(&format!("/sandboxes/{third}/pause"), json!({})).is(429);
    server.kill(&ids[1]).is(204);
    pause(&server, &third, true);
    assert_sound(&server);
}

#[test]
fn pauses_with_memory_are_limited_in_size() {
    let server = TestServer::with(&[("pause.max_memory_mb", "100"), ("pause.max_in_memory", "0")]);
    // Files in memory count, page cache does not.
    let held = |mib: u64| Stats {
        memory_used: (mib - 10) << 20,
        memory_cache: 1 << 40,
        memory_shared: 10 << 20,
        ..Stats::default()
    };
    let (first, second) = (server.create(), server.create());
    server.world.set_stats(held(60));
    pause(&server, &first, true);
    server.world.set_stats(held(41));
    let message =
        server.post(&format!("/sandboxes/{second}/pause"), json!({})).error(429, "sandbox_capacity_unavailable");
    assert!(message.contains("it uses 41 MiB") && message.contains("use 60 of the 100 MiB"), "{message}");
    server.world.set_stats(held(40));
    pause(&server, &second, true);
    // One that cannot be measured counts with its memory limit.
    assert_eq!((connect(&server, &first), connect(&server, &second)), (201, 201));
    server.world.on_stats(&first, Some(crate::world::Fault::Fail));
    server.post(&format!("/sandboxes/{first}/pause"), json!({})).is(429);
    server.world.on_stats(&first, None);
    pause(&server, &first, true);
    assert_sound(&server);
}

#[test]
fn sandboxes_and_snapshots_of_a_team_are_limited() {
    let server = TestServer::with(&[("limits.max_team_sandboxes", "2"), ("limits.max_team_snapshots", "2")]);
    let (first, second) = (server.create(), server.create());
    pause(&server, &first, false);
    server.world.die(&second, Death::Died);
    eventually("it failed", || server.events(&second).last().is_some_and(|e| e == "failed"));
    let refused = server.post("/v2/sandboxes", json!({"templateID": "base"}));
    let message = refused.error(429, "quota_exceeded");
    assert!(message.contains("uses 2 of 2 sandboxes") && message.contains("kill sandboxes"), "{message}");
    let made = server.post(&format!("/sandboxes/{first}/fork"), json!({})).is(201).json();
    assert_eq!(made[0]["error"]["code"], 429);
    assert_eq!((server.world.snapshot_count(), server.world.ids().len()), (0, 0), "nothing of it is left");
    server.kill(&second).is(204);
    server.create();

    for _ in 0..2 {
        server.post(&format!("/sandboxes/{first}/snapshots"), json!({"name": "same"})).is(201);
    }
    let refused = server.post(&format!("/sandboxes/{first}/snapshots"), json!({"name": "same"}));
    let message = refused.error(429, "quota_exceeded");
    assert!(message.contains("uses 2 of 2 snapshots") && message.contains("delete snapshots"), "{message}");
    assert_eq!(server.get("/snapshots?name=same").is(200).json().as_array().map(Vec::len), Some(1), "it kept its name");
    assert_eq!(server.world.snapshot_count(), 2);
    server.call("DELETE", "/templates/same", None).is(204);
    server.post(&format!("/sandboxes/{first}/snapshots"), json!({})).is(201);
    assert_sound(&server);
}

#[test]
fn snapshots_and_forks() {
    let server = TestServer::start();
    let id = server.create_with(json!({"metadata": {"a": "1"}}));
    let snapshot = server.post(&format!("/sandboxes/{id}/snapshots"), json!({"name": "before"})).is(201).json();
    assert_eq!(snapshot["snapshotID"], "default/before:default");
    assert!(!server.world.is_frozen(&id), "it keeps running");
    let made = server.post("/v2/sandboxes", json!({"templateID": "default/before:default"})).is(201);
    let made: String = made.member("sandboxID");
    assert!(matches!(server.world.spec(&made).root, Root::Build { disk: DiskSource::Snapshot(_), .. }));
    let forks = server.post(&format!("/sandboxes/{id}/fork"), json!({"count": 3})).is(201).json();
    let forks: Vec<_> = forks.as_array().expect("list").iter().map(|f| f["sandbox"]["sandboxID"].clone()).collect();
    assert_eq!(forks.len(), 3);
    assert_eq!(server.get("/v2/sandboxes?metadata=a%3D1").is(200).json().as_array().map(Vec::len), Some(4));
    assert_eq!(server.world.snapshot_count(), 1, "the snapshot for the forks is deleted");
    for wrong in [json!({"count": 0}), json!({"count": 21}), json!({"timeout": -1})] {
        server.post(&format!("/sandboxes/{id}/fork"), wrong).is(400);
    }
    server.post(&format!("/sandboxes/{id}/snapshots"), json!({"name": "base"})).is(409);
    server.post(&format!("/sandboxes/{id}/snapshots"), json!({"name": "a b"})).is(400);
    // The name moves to the newer one; the older one keeps its id.
    server.post(&format!("/sandboxes/{id}/snapshots"), json!({"name": "before"})).is(201);
    assert_eq!(server.get("/snapshots").is(200).json().as_array().map(Vec::len), Some(2));
    assert_eq!(server.get("/snapshots?name=before").is(200).json().as_array().map(Vec::len), Some(1));
    let server = server.restart();
    assert_sound(&server);
    server.call("DELETE", "/templates/default%2Fbefore%3Adefault", None).is(204);
    server.call("DELETE", "/templates/default%2Fbefore%3Adefault", None).is(404);
    assert_eq!(server.world.snapshot_count(), 1);
}

#[test]
fn limits_change_while_running() {
    let server = TestServer::start();
    let id = server.create_with(json!({"memoryMB": 512, "diskSizeMB": 1024, "cpuCount": 1}));
    let now =
        server.post(&format!("/sandboxes/{id}/resize"), json!({"memoryMB": 1024, "diskSizeMB": 2048})).is(200).json();
    assert_eq!((&now["memoryMB"], &now["diskSizeMB"], &now["cpuCount"]), (&json!(1024), &json!(2048), &json!(1)));
    server.post(&format!("/sandboxes/{id}/resize"), json!({"diskSizeMB": 1024})).is(400);
    server.post(&format!("/sandboxes/{id}/resize"), json!({"memoryMB": -1})).is(400);
    server.post(&format!("/sandboxes/{id}/hotplug-memory"), json!({"requested_size_mib": 1024})).is(200);
    pause(&server, &id, false);
    connect(&server, &id);
    assert_eq!(server.world.spec(&id).resources.memory_mb, 2048);
}

#[test]
fn archived_sandboxes_are_restored() {
    let server = TestServer::start();
    let id = server.create();
    server.post(&format!("/sandboxes/{id}/archive"), json!({})).is(204);
    assert_eq!(state(&server, &id), "archived");
    assert!(!server.world.disks().contains(&id));
    assert_sound(&server);
    let server = server.restart();
    assert_eq!(connect(&server, &id), 201);
    assert!(server.world.disks().contains(&id));
    server.post(&format!("/sandboxes/{id}/archive"), json!({"recycle": true})).is(204);
    assert_eq!(state(&server, &id), "recycled");
    server.call("DELETE", &format!("/sandboxes/{id}"), None).is(204);
    let left = || std::fs::read_dir(server.data_dir().join("archive")).map(Iterator::count).unwrap_or_default();
    eventually("nothing is left in the archive", || left() == 0);
}
