//! Egress policies: taken, kept, replaced, inherited, and what they denied.

use cabana_types::egress::{Denial, Denials, Protocol};
use serde_json::{Value, json};

use crate::eventually;
use crate::server::TestServer;
use crate::world::Fault;

const DENY_ALL: &str = "0.0.0.0/0";

fn put(server: &TestServer, id: &str, body: Value) {
    server.call("PUT", &format!("/sandboxes/{id}/network"), Some(body)).is(204);
}

fn shown(server: &TestServer, id: &str) -> Value {
    server.get(&format!("/sandboxes/{id}")).is(200).json()["network"].clone()
}

#[test]
fn a_policy_is_kept_and_shown_without_secrets() {
    let server = TestServer::start();
    let id = server.create_with(json!({"network": {
        "allowOut": ["API.example.com", "9.9.9.9"], "denyOut": [DENY_ALL], "dnsServers": ["9.9.9.10"],
        "egressProxy": {
            "address": "proxy.example.com:1080", "username": "u", "password": "hunter2",
            "tls": {"enabled": true, "caCert": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        },
        "rules": {"api.example.com": [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.KEY}"}}}]},
    }}));
    let expected = json!({
        "allowPublicTraffic": true, "allowOut": ["api.example.com", "9.9.9.9"], "denyOut": [DENY_ALL],
        "dnsServers": ["9.9.9.10"],
        "egressProxy": {"address": "proxy.example.com:1080", "username": "u", "tls": {"enabled": true}},
        "rules": {"api.example.com": [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.key}"}}}]},
    });
    assert_eq!(shown(&server, &id), expected);
    let spec = server.world.spec(&id);
    assert_eq!(
        spec.egress.egress_proxy.as_ref().and_then(|p| p.password.as_ref()).expect("password").expose(),
        "hunter2"
    );
    let server = server.restart();
    assert_eq!(shown(&server, &id), expected);
    let status = server.get(&format!("/sandboxes/{id}/network")).is(200).json();
    assert_eq!((&status["network"], &status["preset"]), (&expected, &json!("custom")));
    assert_eq!(status["denials"], json!({"total": 0, "byRule": {}, "recent": []}));
}

#[test]
fn a_policy_is_replaced_as_a_whole() {
    let server = TestServer::start();
    let id = server.create();
    put(&server, &id, json!({"allowOut": ["a.example.com"], "denyOut": [DENY_ALL], "dnsServers": ["9.9.9.9"]}));
    assert_eq!(server.world.spec(&id).egress.dns_servers.len(), 1);
    // What is left out is cleared.
    put(&server, &id, json!({"denyOut": ["8.8.8.8"]}));
    assert_eq!(shown(&server, &id), json!({"allowPublicTraffic": true, "denyOut": ["8.8.8.8"]}));
    put(&server, &id, json!({"allow_internet_access": false}));
    assert!(server.world.spec(&id).egress.is_offline());
    assert_eq!(server.get(&format!("/sandboxes/{id}")).is(200).json()["allowInternetAccess"], false);
    put(&server, &id, json!({}));
    assert!(server.world.spec(&id).egress.is_open());
    let events = server.get(&format!("/events/sandboxes/{id}?limit=1")).is(200).json();
    assert_eq!(
        (&events[0]["type"], &events[0]["eventData"]["reason"]),
        (&json!("sandbox.lifecycle.updated"), &json!("network"))
    );
}

#[test]
fn bad_policies_change_nothing() {
    let server = TestServer::start();
    let id = server.create_with(json!({"network": {"denyOut": ["1.2.3.4"]}}));
    let path = format!("/sandboxes/{id}/network");
    let huge: Vec<String> = (0..10_000).map(|n| format!("h{n}.example.com")).collect();
    for (body, text) in [
        (
            json!({"allowOut": huge, "denyOut": [DENY_ALL]}),
            "network.allowOut has 10000 entries; at most 2048 are taken",
        ),
        (json!({"denyOut": ["example.com"]}), "invalid denied CIDR example.com"),
        (json!({"allowOut": ["example.com"]}), "When specifying allowed domains in allow out"),
        (json!({"denyOut": "all"}), "network.denyOut must be a list"),
        (json!({"allowPublicTraffic": false}), "allowPublicTraffic can only be set when a sandbox is created"),
        (json!({"preset": "open"}), "network preset must be none, registries or internet"),
        (json!({"dnsServers": ["127.0.0.1"]}), "network.dnsServers: 127.0.0.1 is closed to sandboxes"),
        (
            json!({"egressProxy": {"address": "localhost:1"}}),
            "network.egressProxy.address: 127.0.0.1 is closed to sandboxes",
        ),
    ] {
        let message = server.call("PUT", &path, Some(body)).error(400, "invalid_request");
        assert!(message.contains(text), "{message}");
    }
    server.call("PUT", &path, Some(json!({"newThing": 1}))).error(400, "not_supported");
    assert_eq!(shown(&server, &id)["denyOut"], json!(["1.2.3.4"]));
    server.call("PUT", "/sandboxes/inothing/network", Some(json!({}))).error(404, "sandbox_not_found");
    server.call("DELETE", &format!("/sandboxes/{id}"), None).is(204);
    server.call("PUT", &path, Some(json!({}))).error(404, "sandbox_not_found");
}

#[test]
fn a_policy_that_cannot_be_enforced_is_not_kept() {
    let server = TestServer::start();
    let id = server.create();
    server.world.on_egress(&[Fault::Fail]);
    let path = format!("/sandboxes/{id}/network");
    let message = server.call("PUT", &path, Some(json!({"denyOut": [DENY_ALL]}))).error(500, "sandbox_change_failed");
    assert!(message.contains("is unchanged"), "{message}");
    assert_eq!(shown(&server, &id), json!({"allowPublicTraffic": true}));
    put(&server, &id, json!({"denyOut": [DENY_ALL]}));
    assert!(server.world.spec(&id).egress.is_offline());
}

#[test]
fn paused_sandboxes_get_their_policy_when_they_are_resumed() {
    let server = TestServer::start();
    for memory in [true, false] {
        let id = server.create();
        server.post(&format!("/sandboxes/{id}/pause"), json!({"memory": memory})).is(204);
        put(&server, &id, json!({"denyOut": [DENY_ALL]}));
        server.post(&format!("/v2/sandboxes/{id}/connect"), json!({})).is(201);
        assert!(server.world.spec(&id).egress.is_offline(), "memory {memory}");
    }
}

#[test]
fn concurrent_updates_end_in_one_of_them() {
    let server = TestServer::start();
    let id = server.create();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (server, id) = (&server, &id);
            scope.spawn(move || put(server, id, json!({"denyOut": [format!("10.0.0.{n}")]})));
        }
    });
    let spec = server.world.spec(&id);
    let kept = shown(&server, &id)["denyOut"][0].as_str().expect("an entry").to_owned();
    assert_eq!(spec.egress.deny_out[0].address().to_string(), kept, "the row and the backend agree");
    assert!(server.world.collisions().is_empty());
}

#[test]
fn forks_inherit_the_policy() {
    let server = TestServer::start();
    let id = server.create_with(json!({"network": {"allowOut": ["a.example.com"], "denyOut": [DENY_ALL]}}));
    let forked = server.post(&format!("/sandboxes/{id}/fork"), json!({})).is(201).json();
    let fork = forked[0]["sandbox"]["sandboxID"].as_str().expect("id");
    assert_eq!(server.world.spec(fork).egress, server.world.spec(&id).egress);
}

#[test]
fn defaults_come_from_the_template_and_the_server() {
    let server = TestServer::with(&[
        ("egress.default", "none"),
        ("egress.registries", "packages.example.org"),
        ("egress.own_registries", "false"),
    ]);
    let created = |body: Value| server.world.spec(&server.create_with(body)).egress;
    assert!(created(json!({})).is_offline());
    // Older clients always send this.
    assert!(created(json!({"allow_internet_access": true})).is_offline());
    assert!(created(json!({"network": {"preset": "internet"}})).is_open());
    server.call("PATCH", "/v2/templates/base", Some(json!({"network": "registries"}))).is(200);
    assert_eq!(server.get("/templates/base").is(200).json()["network"], "registries");
    assert_eq!(created(json!({})).allow_out[0].to_string(), "packages.example.org");
    let id = server.create_with(json!({"network": {"preset": "internet"}}));
    put(&server, &id, json!({}));
    assert_eq!(server.get(&format!("/sandboxes/{id}/network")).is(200).json()["preset"], "registries");
    server.call("PATCH", "/v2/templates/base", Some(json!({"network": "all"}))).error(400, "invalid_request");
    server.call("PATCH", "/v2/templates/base", Some(json!({"network": ""}))).is(200);
    assert!(server.get("/templates/base").is(200).json().get("network").is_none());
    assert!(created(json!({})).is_offline());
}

#[test]
fn connect_accepts_the_policy_that_a_sandbox_has() {
    let server = TestServer::start();
    let id = server.create_with(json!({"network": {"denyOut": [DENY_ALL]}}));
    let path = format!("/v2/sandboxes/{id}/connect");
    server.post(&path, json!({"network": {"denyOut": [DENY_ALL]}})).is(200);
    server.post(&path, json!({"network": {"denyOut": ["1.2.3.4"]}})).error(400, "not_supported");
}

#[test]
fn denials_are_shown_and_told_as_events() {
    let server = TestServer::with(&[("egress.event_seconds", "1")]);
    let id = server.create();
    let mut denials = Denials::default();
    denials.count("denyOut 0.0.0.0/0".into(), 6);
    denials.add(Denial {
        at: jiff::Timestamp::UNIX_EPOCH,
        protocol: Protocol::Dns,
        destination: "evil.example.com".into(),
        rule: "denyOut 0.0.0.0/0".into(),
    });
    server.world.set_denials(&id, denials.clone());
    let status = server.get(&format!("/sandboxes/{id}/network")).is(200).json();
    assert_eq!(status["denials"]["byRule"], json!({"denyOut 0.0.0.0/0": 7}));
    assert_eq!(status["denials"]["recent"][0]["destination"], "evil.example.com");
    let told = || {
        let path = format!("/events/sandboxes/{id}?types=sandbox.network.denied");
        server.get(&path).is(200).json().as_array().expect("list").clone()
    };
    eventually("an event is written", || !told().is_empty());
    let expected = json!({"denied": 7, "total": 7, "byRule": {"denyOut 0.0.0.0/0": 7}, "last": "evil.example.com"});
    assert_eq!(told()[0]["eventData"], expected);
    // Only what is new is told, in place of the event before.
    denials.count("operator only".into(), 2);
    server.world.set_denials(&id, denials);
    eventually("the event is replaced", || told()[0]["eventData"]["total"] == 9);
    assert_eq!((told().len(), &told()[0]["eventData"]["denied"]), (1, &json!(2)));
}
