//! Sandboxes that run out of memory, or end by themselves.

use cabana_runtime::Death;
use serde_json::json;

use crate::eventually;
use crate::server::TestServer;

#[test]
fn a_death_is_detected_and_reported() {
    let server = TestServer::start();
    for (death, expected) in
        [(Death::OutOfMemory, "ran out of memory and was killed"), (Death::Died, "ended because its guest daemon died")]
    {
        let id = server.create();
        server.world.die(&id, death);
        eventually("nothing is left", || !server.world.ids().contains(&id));
        eventually("it is recorded", || server.events(&id).last().is_some_and(|e| e == "failed"));
        assert!(
            server.end_message(&id).starts_with(&format!("Sandbox {id} {expected}; its disk is kept")),
            "{}",
            server.end_message(&id)
        );
        assert!(server.world.disks().contains(&id));
        let logs = server.get(&format!("/v2/sandboxes/{id}/logs?level=error")).is(200).json();
        assert!(logs["logs"][0]["message"].as_str().is_some_and(|m| m.contains(expected)), "{logs}");
    }
    assert!(server.listed().is_empty());
}

#[test]
fn oom_kills_inside_are_reported() {
    let server = TestServer::start();
    let id = server.create();
    server.world.vitals(&id, |v| v.oom_kills = 2);
    let noted = || {
        let events = server.get(&format!("/events/sandboxes/{id}?types=sandbox.lifecycle.updated")).is(200).json();
        events.as_array().and_then(|e| e.first().cloned()).map(|e| e["eventData"].clone())
    };
    eventually("it is noted", || noted().is_some());
    assert_eq!(noted(), Some(json!({"oomKills": 2, "oomKillsTotal": 2, "reason": "oom"})));
    assert_eq!(server.listed(), [id.as_str()], "the sandbox itself keeps running");
    server.world.vitals(&id, |v| v.oom_kills = 3);
    eventually("the next one too", || noted().is_some_and(|n| n["oomKillsTotal"] == 3));
    // After a restart the old ones are not reported again.
    let server = server.restart();
    assert_eq!(server.events(&id), ["requested", "created", "updated"]);
}

#[test]
fn a_death_while_the_server_was_down() {
    let mut server = TestServer::start();
    let id = server.create();
    server.crash();
    server.world.die(&id, Death::Died);
    let server = server.restart();
    eventually("nothing is left", || server.world.ids().is_empty());
    eventually("it is recorded", || server.end_message(&id).contains("guest daemon died"));
}
