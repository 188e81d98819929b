//! The next server continues what a crash interrupted: running sandboxes survive, and nothing is left over.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cabana_types::SandboxId;
use jiff::Timestamp;
use serde_json::json;

use crate::eventually;
use crate::http::send;
use crate::server::TestServer;
use crate::world::Fault;

/// The backend matches the store, and every sandbox is running or has ended.
fn assert_consistent(server: &TestServer) {
    eventually("the backend matches the listing", || {
        server.listed().into_iter().collect::<HashSet<_>>() == server.world.ids()
    });
    let settled = || {
        let rows = server.get("/events/sandboxes?limit=100").is(200).json();
        let ids: HashSet<String> =
            rows.as_array().expect("rows").iter().map(|e| e["sandboxId"].as_str().expect("id").to_owned()).collect();
        ids.iter().all(|id| {
            matches!(
                server.events(id).last().map(String::as_str),
                Some("created" | "killed" | "updated" | "failed" | "resumed")
            )
        })
    };
    eventually("every sandbox is up or ended", settled);
}

/// Starts a creation without waiting for the response, and returns when the request is recorded.
fn create_and_forget(server: &TestServer) -> String {
    let (address, key) = (server.address, server.key.clone());
    std::thread::spawn(move || {
        let _ = send(address, "POST", "/v2/sandboxes", &[("x-api-key", &key)], Some(br#"{"templateID":"base"}"#));
    });
    let mut id = String::new();
    eventually("the request is recorded", || {
        let rows = server.get("/events/sandboxes?types=sandbox.lifecycle.requested&limit=1").is(200).json();
        id = rows[0]["sandboxId"].as_str().unwrap_or_default().to_owned();
        !id.is_empty()
    });
    id
}

#[test]
fn running_sandboxes_outlive_the_server() {
    let mut server = TestServer::start();
    let made: Vec<String> = (0..5).map(|_| server.create()).collect();
    let before = server.get(&format!("/sandboxes/{}", made[0])).is(200).json();
    server.stop();
    assert_eq!(server.world.ids().len(), 5, "an orderly stop leaves them");
    let server = server.restart();
    assert_eq!(server.get(&format!("/sandboxes/{}", made[0])).is(200).json(), before, "nothing about them changed");
    let server = server.restart();
    assert_eq!(server.get("/status").is(200).json()["running"], 5, "they are reachable again");
    for id in &made {
        assert_eq!(server.events(id), ["requested", "created"]);
        server.kill(id).is(204);
    }
    assert_consistent(&server);
}

#[test]
fn a_crash_during_creation() {
    for fault in [Fault::HangBefore, Fault::HangAfter] {
        let server = TestServer::start();
        server.world.on_launch(Some(fault.clone()));
        let id = create_and_forget(&server);
        if fault == Fault::HangAfter {
            eventually("the backend has it", || server.world.ids().contains(&id));
        }
        let server = server.restart();
        assert_consistent(&server);
        assert!(server.world.ids().is_empty());
        assert_eq!(
            server.end_message(&id),
            format!("Sandbox {id} could not be created: the server was restarted; create a new one")
        );
    }
}

#[test]
fn a_crash_during_removal() {
    for fault in [Fault::HangBefore, Fault::HangAfter] {
        let server = TestServer::start();
        let id = server.create();
        let other = server.create();
        server.world.on_destroy(std::slice::from_ref(&fault));
        let (address, key, path) = (server.address, server.key.clone(), format!("/sandboxes/{id}"));
        std::thread::spawn(move || {
            let _ = send(address, "DELETE", &path, &[("x-api-key", &key)], None);
        });
        eventually("the intent is recorded", || server.events(&id).contains(&"ending".to_owned()));
        if fault == Fault::HangAfter {
            eventually("the backend has removed it", || !server.world.ids().contains(&id));
        }
        let server = server.restart();
        assert_consistent(&server);
        assert_eq!(server.listed(), [other]);
        assert!(server.end_message(&id).contains("was killed by request"), "the first cause stays");
        assert_eq!(server.events(&id), ["requested", "created", "ending", "killed"]);
    }
}

#[test]
fn sandboxes_fail_when_the_machine_was_restarted() {
    let mut server = TestServer::start();
    let id = server.create();
    server.crash();
    server.world.reboot();
    let server = server.restart();
    assert_consistent(&server);
    let expected = format!("Sandbox {id} was lost when the machine restarted; its disk is kept");
    eventually("it is recorded", || server.end_message(&id).starts_with(&expected));
    server.post(&format!("/sandboxes/{id}/recover"), json!({})).is(200);
    assert_eq!(server.listed(), [id]);
}

#[test]
fn a_reboot_brings_running_sandboxes_back() {
    let mut server = TestServer::start();
    let (ran, paused) = (server.create(), server.create());
    server.post(&format!("/sandboxes/{paused}/pause"), json!({})).is(204);
    eventually("the boot is known", || server.file("boot-id").exists());
    server.crash();
    server.world.reboot();
    std::fs::write(server.file("boot-id"), "another boot").expect("write");
    let server = server.restart();
    eventually("it runs again", || server.listed().contains(&ran));
    assert_eq!(server.get(&format!("/sandboxes/{paused}")).is(200).member("state"), "paused");
    assert_ne!(std::fs::read_to_string(server.file("boot-id")).expect("read"), "another boot");
}

#[test]
fn expired_sandboxes_end_at_the_next_start() {
    let mut server = TestServer::start();
    let id = server.create_with(json!({"timeout": 1}));
    let other = server.create_with(json!({"timeout": 100}));
    let end = server.get(&format!("/sandboxes/{id}")).is(200).member("endAt").parse::<Timestamp>().expect("time");
    server.crash();
    eventually("its time is over", || Timestamp::now() > end);
    let server = server.restart();
    eventually("it expires", || !server.world.ids().contains(&id));
    eventually("it is recorded", || server.end_message(&id).contains("reached its timeout"));
    assert_eq!(server.listed(), [other]);
}

#[test]
fn unknown_sandboxes_are_removed() {
    let mut server = TestServer::start();
    let id = server.create();
    let mut spec = server.world.spec(&id);
    spec.id = SandboxId::from_random([5; 20]);
    server.crash();
    server.world.add_stranger(spec);
    let server = server.restart();
    assert_consistent(&server);
    assert_eq!(server.listed(), [id]);
}

#[test]
fn a_failed_takeover_is_retried() {
    let server = TestServer::start();
    let id = server.create();
    let world = std::sync::Arc::clone(&server.world);
    let server = server.restart_with(|| world.on_adopt(&[Fault::Fail, Fault::Fail]));
    assert_eq!(server.listed(), [id.as_str()], "it is not given up");
    eventually("it is reachable again", || server.get("/status").is(200).json()["running"] == 1);
    assert_consistent(&server);
    server.kill(&id).is(204);
}

#[test]
fn a_second_server_is_refused() {
    let server = TestServer::start();
    let error = cabana_server::DataDir::take(&server.data_dir()).expect_err("taken");
    assert!(error.to_string().contains("another Cabana server is using"), "{error}");
}

#[test]
fn crashes_at_any_moment_under_load() {
    let mut server = TestServer::with(&[("limits.max_sandboxes", "30")]);
    for round in 0..6u64 {
        let done = AtomicBool::new(false);
        let (address, key) = (server.address, server.key.clone());
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (done, key) = (&done, &key);
                scope.spawn(move || {
                    let mut own = vec![];
                    while !done.load(Ordering::Relaxed) {
                        let headers = [("x-api-key", key.as_str())];
                        let path = "/v2/sandboxes";
                        let Ok(made) = send(address, "POST", path, &headers, Some(br#"{"templateID":"base"}"#)) else {
                            return;
                        };
                        if made.status == 201 {
                            own.push(made.member("sandboxID"));
                        }
                        if own.len() > worker {
                            let id = own.remove(0);
                            if send(address, "DELETE", &format!("/sandboxes/{id}"), &headers, None).is_err() {
                                return;
                            }
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(60 + round * 37));
            server.crash();
            done.store(true, Ordering::Relaxed);
        });
        server = server.restart();
        eventually("the backend matches the listing", || {
            server.listed().into_iter().collect::<HashSet<_>>() == server.world.ids()
        });
    }
    for id in server.listed() {
        server.kill(&id).is(204);
    }
    assert!(server.world.ids().is_empty());
}
