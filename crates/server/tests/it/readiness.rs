//! Sandboxes whose template has a start or a ready command: they are returned when they are ready, or not at all.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cabana_runtime::Death;
use cabana_store::{Boot, Snapshot, SnapshotKind, SnapshotState, Store};
use cabana_types::{BuildId, Resources, TemplateId};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::eventually;
use crate::guest::Guest;
use crate::http::{Answer, send};
use crate::server::TestServer;

const START: [&str; 2] = ["serve", "--port=80"];
const READY: [&str; 3] = ["/bin/bash", "-c", "curl -f localhost"];

/// A server with a template that has both commands.
struct Scene {
    server: TestServer,
    guest: Guest,
    origin: String,
}

impl Scene {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(settings: &[(&str, &str)]) -> Self {
        let mut server = TestServer::with(settings);
        let id = server.create();
        let template = server.world.spec(&id).guest.template_id.parse().expect("template");
        server.kill(&id).is(204);
        server.stop();
        let words = |words: &[&str]| Some(words.iter().map(|w| (*w).to_owned()).collect());
        let snapshot = Snapshot {
            id: TemplateId::from_random([9; 20]),
            team: cabana_server::auth::FIRST_TEAM.parse().expect("team"),
            project: cabana_server::auth::FIRST_TEAM.parse().expect("project"),
            name: None,
            state: SnapshotState::Ready,
            kind: SnapshotKind::Disk,
            isolation: "fake".into(),
            sandbox: id.parse().expect("id"),
            template,
            build: BuildId::from_random([1; 16]),
            alias: None,
            resources: Resources { cpu_count: 2, memory_mb: 512, disk_mb: 1024, ..Resources::default() },
            boot: Boot { start: words(&START), ready: words(&READY), ..Boot::default() },
            created_at: Timestamp::now(),
        };
        let origin = snapshot.id.to_string();
        let database = server.data_dir().join("cabana.db");
        tokio::runtime::Runtime::new().expect("runtime").block_on(async {
            let store = Store::open(&database).await.expect("store");
            store.insert_snapshot(snapshot, cabana_types::quota::Limits::NONE).await.expect("snapshot");
            store.close().await;
        });
        let guest = Guest::start();
        server.world.set_guest(guest.socket());
        Self { server: server.restart(), guest, origin }
    }

    fn create(&self) -> Answer {
        self.server.post("/v2/sandboxes", json!({"templateID": self.origin}))
    }

    /// Starts a creation, waits until the guest was asked, and returns the id.
    fn begin(&self) -> (String, JoinHandle<std::io::Result<Answer>>) {
        let before = self.guest.asked().len();
        let (address, key) = (self.server.address, self.server.key.clone());
        let body = json!({"templateID": self.origin}).to_string();
        let creation = std::thread::spawn(move || {
            send(address, "POST", "/v2/sandboxes", &[("x-api-key", &key)], Some(body.as_bytes()))
        });
        eventually("the guest is asked", || self.guest.asked().len() > before);
        let ids = self.server.world.ids();
        (ids.into_iter().next().expect("the backend has it"), creation)
    }

    fn connect(&self, id: &str) -> u16 {
        self.server.post(&format!("/v2/sandboxes/{id}/connect"), json!({})).status
    }

    fn pause(&self, id: &str) {
        self.server.post(&format!("/sandboxes/{id}/pause"), json!({"memory": false})).is(204);
    }
}

fn failed() -> Value {
    json!({"ready": false, "message": "its start command ended (exit status 3)", "output": ["one", "two"], "exit_code": 3})
}

#[test]
fn a_sandbox_is_returned_when_it_is_ready() {
    let scene = Scene::new();
    let server = &scene.server;
    server.create();
    assert_eq!(scene.guest.asked(), [""; 0], "without the commands the guest is not asked");
    let plain = server.listed();
    server.kill(&plain[0]).is(204);

    let (id, creation) = scene.begin();
    assert_eq!(scene.guest.asked(), ["/ready?seconds=60"]);
    let spec = server.world.spec(&id);
    assert_eq!(spec.guest.start.as_deref(), Some(&START.map(str::to_owned)[..]));
    assert_eq!(spec.guest.ready.as_deref(), Some(&READY.map(str::to_owned)[..]));
    assert!(server.listed().is_empty(), "it is not up yet");
    server.get(&format!("/sandboxes/{id}")).error(409, "sandbox_state_conflict");
    scene.guest.say(&json!({"ready": true}));
    let made = creation.join().expect("thread").expect("answer").is(201);
    assert_eq!(made.member("sandboxID"), id);
    assert_eq!(server.listed(), [id.as_str()]);

    // Resuming with memory runs no ready command; booting does.
    server.post(&format!("/sandboxes/{id}/pause"), json!({})).is(204);
    assert_eq!((scene.connect(&id), scene.guest.asked().len()), (201, 1));
    scene.pause(&id);
    assert_eq!((scene.connect(&id), scene.guest.asked().len()), (201, 2));
}

#[test]
fn one_that_does_not_become_ready_says_why_and_leaves_nothing() {
    let scene = Scene::new();
    scene.guest.say(&failed());
    let answer = scene.create();
    let message = answer.error(500, "sandbox_not_ready");
    assert!(message.ends_with("its start command ended (exit status 3); its last output:\none\ntwo"), "{message}");
    assert_ne!(answer.header("should-retry"), Some("true"));
    assert!(scene.server.world.ids().is_empty() && scene.server.world.disks().is_empty());
    let killed = scene.server.get("/events/sandboxes?types=sandbox.lifecycle.killed&limit=1").is(200).json();
    let id = killed[0]["sandboxId"].as_str().expect("id");
    let end_message = scene.server.end_message(id);
    assert!(end_message.contains("could not be created: its start command ended (exit status 3)"), "{end_message}");
    assert_eq!(scene.server.events(id), ["requested", "ending", "killed"]);
    scene.guest.say(&json!({"ready": true}));
    scene.create().is(201);
}

#[test]
fn invalid_and_oversized_guest_responses_are_errors() {
    let scene = Scene::new();
    for nonsense in [&b"true"[..], b"{}", b"{\"ready\": 1}", b"\xff\xfe", &vec![b' '; 10 << 20]] {
        scene.guest.say_bytes(nonsense);
        let message = scene.create().error(500, "sandbox_not_ready");
        assert!(message.contains("does not say whether it is ready"), "{message}");
    }
    let lines: Vec<String> = (0..19).map(|_| "\u{1b}x".repeat(500)).collect();
    scene.guest.say(&json!({"ready": false, "message": "y".repeat(10_000), "output": lines}));
    let message = scene.create().error(500, "sandbox_not_ready");
    assert!(message.len() < 8192 && !message.contains('\u{1b}'), "{message}");
    assert!(scene.server.world.ids().is_empty());
}

#[test]
fn a_silent_guest_times_out() {
    let scene = Scene::with(&[("limits.ready_seconds", "1")]);
    let begun = Instant::now();
    scene.create().error(500, "sandbox_not_ready");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(scene.guest.asked(), ["/ready?seconds=1"]);
    assert!(scene.server.world.ids().is_empty());
}

#[test]
fn a_guest_that_dies_before_it_is_ready() {
    let scene = Scene::new();
    let (id, creation) = scene.begin();
    scene.server.world.die(&id, Death::OutOfMemory);
    let message = creation.join().expect("thread").expect("answer").error(500, "sandbox_not_ready");
    assert!(message.ends_with("it ran out of memory and was killed"), "{message}");
    assert!(scene.server.world.ids().is_empty());
}

#[test]
fn it_can_be_killed_before_it_is_ready() {
    let scene = Scene::new();
    let (id, creation) = scene.begin();
    let begun = Instant::now();
    scene.server.kill(&id).is(204);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(scene.server.world.ids().is_empty(), "nothing is left");
    let message = creation.join().expect("thread").expect("answer").error(404, "sandbox_not_found");
    assert!(message.contains("was killed by request"), "{message}");
    eventually("it is recorded", || scene.server.events(&id) == ["requested", "ending", "killed"]);

    // The same while it boots from its disk.
    scene.guest.say(&json!({"ready": true}));
    let id = scene.create().is(201).member("sandboxID");
    scene.pause(&id);
    scene.guest.be_silent();
    let asked = scene.guest.asked().len();
    std::thread::scope(|scope| {
        let resumed = scope.spawn(|| scene.connect(&id));
        eventually("the guest is asked", || scene.guest.asked().len() > asked);
        scene.server.kill(&id).is(204);
        assert_eq!(resumed.join().expect("thread"), 404);
    });
    assert!(scene.server.world.ids().is_empty() && scene.server.world.disks().is_empty());
}

#[test]
fn a_stopping_server_does_not_wait() {
    let mut scene = Scene::new();
    let (id, creation) = scene.begin();
    let begun = Instant::now();
    scene.server.stop();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let answered = creation.join().expect("thread");
    assert!(answered.is_err() || answered.is_ok_and(|a| a.status == 503));
    assert!(scene.server.world.ids().is_empty(), "it was not returned to its caller, so it is removed");
    let server = scene.server.restart();
    assert!(
        server.end_message(&id).contains("could not be created: the server is shutting down"),
        "{}",
        server.end_message(&id)
    );
}

#[test]
fn a_server_crash_before_a_sandbox_is_ready() {
    let scene = Scene::new();
    let (id, _creation) = scene.begin();
    let server = scene.server.restart();
    eventually("nothing is left", || server.world.ids().is_empty() && server.world.disks().is_empty());
    assert!(server.end_message(&id).contains("could not be created: the server was restarted"));

    // One that boots from its disk boots again.
    let scene = Scene { server, ..scene };
    scene.guest.say(&json!({"ready": true}));
    let id = scene.create().is(201).member("sandboxID");
    scene.pause(&id);
    scene.guest.be_silent();
    let asked = scene.guest.asked().len();
    let (address, key) = (scene.server.address, scene.server.key.clone());
    let path = format!("/v2/sandboxes/{id}/connect");
    std::thread::spawn(move || send(address, "POST", &path, &[("x-api-key", &key)], Some(b"{}")));
    eventually("the guest is asked", || scene.guest.asked().len() > asked);
    let server = scene.server.restart();
    scene.guest.say(&json!({"ready": true}));
    eventually("it is up", || server.listed() == [id.as_str()]);
    let logs = server.get(&format!("/v2/sandboxes/{id}/logs?level=error")).is(200).json();
    assert_eq!(logs["logs"], json!([]), "{logs}");
}

#[test]
fn booting_from_disk_succeeds_even_if_the_start_command_fails() {
    let scene = Scene::new();
    scene.guest.say(&json!({"ready": true}));
    let id = scene.create().is(201).member("sandboxID");
    scene.pause(&id);
    scene.guest.say(&failed());
    assert_eq!(scene.connect(&id), 201);
    assert_eq!(scene.server.listed(), [id.as_str()]);
    let logs = scene.server.get(&format!("/v2/sandboxes/{id}/logs?level=error")).is(200).json();
    let message = logs["logs"][0]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Sandbox is up, but not ready: its start command ended (exit status 3)"), "{logs}");
    let path = format!("/events/sandboxes/{id}?types=sandbox.lifecycle.updated");
    assert_eq!(scene.server.get(&path).is(200).json()[0]["eventData"]["reason"], "not_ready");
}

#[test]
fn a_repeated_request_waits_too() {
    let scene = Scene::new();
    let create = || {
        let body = json!({"templateID": scene.origin});
        scene.server.call_with("POST", "/v2/sandboxes", &[("idempotency-key", "once")], Some(body))
    };
    let made: Vec<String> = std::thread::scope(|scope| {
        let first = scope.spawn(create);
        eventually("the guest is asked", || scene.guest.asked().len() == 1);
        let second = scope.spawn(create);
        scene.guest.say(&json!({"ready": true}));
        [first, second].map(|made| made.join().expect("thread").is(201).member("sandboxID")).to_vec()
    });
    assert_eq!(made[0], made[1]);
    assert_eq!(scene.guest.asked().len(), 1);
}
