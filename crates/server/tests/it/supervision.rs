//! Supervised tasks that panic: each is restarted, or the server stops and says why.

use serde_json::json;

use crate::eventually;
use crate::receiver::Receiver;
use crate::server::TestServer;

/// Makes a task panic, and waits until it is started again.
fn panic(server: &TestServer, task: &str) {
    let before = server.supervisor.restarts(task);
    server.panic(task);
    eventually(&format!("{task} is started again"), || server.supervisor.restarts(task) > before);
}

#[test]
fn without_the_store_writer_the_server_ends_with_the_reason() {
    let mut server = TestServer::start();
    let id = server.create();
    server.panic("store writer");
    let Err(error) = server.ended() else { panic!("it keeps running without its writer") };
    let reason = "the task \"store writer\" failed and the server cannot run without it: panicked: injected by a test";
    assert_eq!(error.to_string(), reason);
    let server = server.restart();
    server.get(&format!("/sandboxes/{id}")).is(200);
}

#[test]
fn events_are_delivered_after_a_panic_of_the_dispatcher() {
    let server = TestServer::with(&[("webhooks.allow_private", "true"), ("webhooks.retry_seconds", "1")]);
    let receiver = Receiver::start(&[]);
    let webhook =
        json!({"name": "w", "url": receiver.url(), "events": ["sandbox.lifecycle.created"], "signatureSecret": "s"});
    server.post("/events/webhooks", webhook).is(201);
    panic(&server, "webhook dispatcher");
    server.create();
    assert_eq!(receiver.wait(1).len(), 1);
}

#[test]
fn sandboxes_end_at_their_timeout_after_a_panic_of_the_timers() {
    let server = TestServer::start();
    panic(&server, "sandbox timers");
    let id = server.create_with(json!({"timeout": 1}));
    eventually("it ends", || server.listed().iter().all(|listed| *listed != id));
    let before = server.create_with(json!({"timeout": 1}));
    panic(&server, "sandbox timers");
    eventually("its timeout outlives the panic", || server.listed().iter().all(|listed| *listed != before));
}

#[test]
fn housekeeping_tasks_are_restarted() {
    let server = TestServer::start();
    for task in ["metering", "maintenance", "build sweeper", "API key uses"] {
        panic(&server, task);
    }
    server.get("/sandboxes").is(200);
}
