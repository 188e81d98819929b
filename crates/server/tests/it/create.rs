//! Creating: responses, refusals, and what the backend receives.

use serde_json::{Value, json};

use crate::http::send;
use crate::server::TestServer;
use crate::world::Fault;

#[test]
fn default_requests_of_clients_are_accepted() {
    let server = TestServer::with(&[("domain", "e2b.test:8443")]);
    // Python, JavaScript, E2B's CLI.
    for (path, body, secure) in [
        ("/v2/sandboxes", json!({"templateID": "base", "metadata": {}, "envVars": {}}), true),
        ("/v2/sandboxes", json!({"templateID": "base"}), true),
        (
            "/sandboxes",
            json!({"templateID": "base", "timeout": 300, "secure": true, "allow_internet_access": true}),
            true,
        ),
        ("/sandboxes", json!({"templateID": "base", "autoPause": false}), false),
    ] {
        let made = server.post(path, body.clone()).is(201).json();
        assert_eq!(made["clientID"], "cabana", "{made}");
        assert_eq!(made["envdVersion"], "0.6.13", "{made}");
        assert_eq!(made["alias"], "base", "{made}");
        assert_eq!(made["domain"], "e2b.test:8443", "{made}");
        assert_eq!(made["trafficAccessToken"], Value::Null, "{made}");
        assert_eq!(made["envdAccessToken"].as_str().map(str::len), secure.then_some(64), "{body}");
        assert_eq!(made["templateID"].as_str().map(str::len), Some(20));
        let spec = server.world.spec(made["sandboxID"].as_str().expect("id"));
        assert_eq!(spec.guest.access_token.is_some(), secure);
    }
}

#[test]
fn the_backend_gets_the_whole_spec() {
    let server = TestServer::start();
    let id = server.create_with(json!({
        "cpuCount": 3, "memoryMB": 256, "diskSizeMB": 100, "allow_internet_access": false,
        "envVars": {"A": "1", "FROM": "request"}, "metadata": {"k": "v"},
    }));
    let spec = server.world.spec(&id);
    assert_eq!((spec.resources.cpu_count, spec.resources.memory_mb, spec.resources.disk_mb), (3, 256, 100));
    assert!(spec.egress.is_offline());
    assert_eq!(spec.guest.env_vars["A"], "1");
    assert_eq!(spec.guest.env_vars["FROM"], "request", "the request's environment wins over the template's");
    assert_eq!(spec.guest.default_user, "user");
    assert_eq!((spec.guest.cpu_count, spec.guest.memory_bytes, spec.guest.disk_bytes), (3, 256 << 20, 100 << 20));

    let id = server.create();
    let spec = server.world.spec(&id);
    assert_eq!((spec.resources.cpu_count, spec.resources.memory_mb, spec.resources.disk_mb), (2, 512, 1024));
    assert!(spec.egress.is_open());
    assert_eq!(spec.guest.env_vars["FROM"], "template");
    let cut = server.create_with(json!({"network": {"denyOut": ["0.0.0.0/0"]}}));
    assert!(server.world.spec(&cut).egress.is_offline());
}

#[test]
fn a_sandbox_can_be_read() {
    let server = TestServer::start();
    let made =
        server.post("/v2/sandboxes", json!({"templateID": "base", "metadata": {"k": "v"}, "timeout": 60})).is(201);
    let id = made.member("sandboxID");
    let detail = server.get(&format!("/sandboxes/{id}")).is(200).json();
    assert_eq!(detail["sandboxID"], id.as_str());
    assert_eq!(detail["envdAccessToken"], made.json()["envdAccessToken"]);
    assert_eq!(detail["state"], "running");
    assert_eq!(detail["metadata"], json!({"k": "v"}));
    assert_eq!(
        (&detail["cpuCount"], &detail["memoryMB"], &detail["diskSizeMB"]),
        (&json!(2), &json!(512), &json!(1024))
    );
    assert_eq!(detail["lifecycle"], json!({"onTimeout": "kill", "autoResume": false, "onFailure": "keep"}));
    assert_eq!(detail["allowInternetAccess"], true);
    let time = |name: &str| detail[name].as_str().expect("time").parse::<jiff::Timestamp>().expect("RFC 3339");
    assert_eq!((time("endAt") - time("startedAt")).get_seconds(), 60);
    // E2B's older form of an id.
    assert_eq!(server.get(&format!("/sandboxes/{id}-cabana")).is(200).json()["sandboxID"], id.as_str());
    assert_eq!(server.events(&id), ["requested", "created"]);
}

#[test]
fn out_of_range_values_are_refused_with_the_range() {
    let server = TestServer::start();
    let long = "x".repeat(257);
    let many: serde_json::Map<String, Value> = (0..257).map(|n| (n.to_string(), json!("v"))).collect();
    let heavy: serde_json::Map<String, Value> = (0..20).map(|n| (n.to_string(), json!("v".repeat(40_000)))).collect();
    for (options, expected) in [
        (json!({"timeout": -1}), "timeout must be between 0 and"),
        (json!({"timeout": 720 * 3600 + 1}), "Timeout cannot be greater than 720 hours"),
        (json!({"timeout": i64::MAX}), "Timeout cannot be greater than 720 hours"),
        (json!({"timeout": 1e30}), "The body is not what this route takes"),
        (json!({"timeout": "60"}), "The body is not what this route takes"),
        (json!({"timeout": 1.5}), "The body is not what this route takes"),
        (json!({"cpuCount": 0}), "cpuCount must be between 1 and 8, not 0"),
        (json!({"cpuCount": -4}), "cpuCount must be between 1 and 8, not -4"),
        (json!({"cpuCount": 9}), "cpuCount must be between 1 and 8, not 9"),
        (json!({"memoryMB": 127}), "memoryMB must be between 128 and 8192, not 127"),
        (json!({"memoryMB": i64::MAX}), "memoryMB must be between 128 and 8192"),
        (json!({"diskSizeMB": 1}), "diskSizeMB must be between 64 and"),
        (json!({"metadata": {"a": 1}}), "The body is not what this route takes"),
        (json!({"metadata": {"a": null}}), "The body is not what this route takes"),
        (json!({"metadata": []}), "The body is not what this route takes"),
        (json!({"metadata": {"": "v"}}), "metadata: a name has 1 to 256 bytes"),
        (json!({"metadata": {long: "v"}}), "metadata: a name has 1 to 256 bytes"),
        (json!({"metadata": many}), "metadata has 257 entries"),
        (json!({"envVars": heavy}), "envVars has "),
        (json!({"envVars": {"A": "v".repeat(65 * 1024)}}), "the value of \"A\" has 66560 bytes"),
        (json!({"envVars": {"A=B": "v"}}), "must not contain = or NUL"),
        (json!({"envVars": {"A": "a\0b"}}), "must not contain NUL"),
        (json!({"secure": "yes"}), "The body is not what this route takes"),
        (json!({"network": 5}), "network must be an object"),
    ] {
        let mut body = options.clone();
        body["templateID"] = "base".into();
        let message = server.post("/v2/sandboxes", body).error(400, "invalid_request");
        assert!(message.contains(expected), "{options}: {message}");
    }
    assert!(server.world.ids().is_empty());
    assert_eq!(server.get("/events/sandboxes").is(200).json(), json!([]), "nothing was recorded");
}

#[test]
fn invalid_bodies_are_refused() {
    let server = TestServer::start();
    let key = [("x-api-key", server.key.as_str())];
    let post = |body: &[u8]| send(server.address, "POST", "/v2/sandboxes", &key, Some(body)).expect("answer");
    for body in
        [&b""[..], b"  ", b"{", b"[]", b"null", b"7", b"{}", b"\xff\xfe", b"{\"templateID\": 5}", b"{\"templateID\"}"]
    {
        post(body).error(400, "invalid_request");
    }
    let deep = format!("{{\"templateID\":\"base\",\"mcp\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    post(deep.as_bytes()).error(400, "invalid_request");
    let huge = format!("{{\"templateID\":\"base\",\"x\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
    post(huge.as_bytes()).error(413, "body_too_large");
    assert!(server.world.ids().is_empty());
}

#[test]
fn unsupported_options_are_refused_by_name() {
    let server = TestServer::start();
    for (field, value) in [
        ("volumeMounts", json!([{"name": "v", "path": "/v"}])),
        ("network.somethingNew", json!({"somethingNew": ["1.1.1.1"]})),
    ] {
        let name = field.split('.').next().expect("field");
        let mut body = json!({"templateID": "base"});
        body[name] = value;
        let message = server.post("/v2/sandboxes", body).error(400, "not_supported");
        assert!(message.starts_with(field), "{field}: {message}");
    }
    // Empty values are accepted.
    server.create_with(json!({
        "autoPause": false, "autoPauseMemory": true, "autoResume": {"enabled": false}, "volumeMounts": [], "mcp": {},
        "iam": {"tokens": {}}, "network": {"allowOut": [], "denyOut": null, "allowPublicTraffic": true}, "unknown": 7,
    }));
}

#[test]
fn mcp_servers_are_left_to_the_sdk() {
    let server = TestServer::start();
    for mcp in [json!({"browserbase": {"apiKey": "k"}}), json!({"duckduckgo": {}}), json!({}), json!(null)] {
        server.create_with(json!({"mcp": mcp}));
    }
    let many: serde_json::Map<_, _> = (0..257).map(|n| (n.to_string(), json!({}))).collect();
    for (mcp, expected) in [
        (json!(["exa"]), "mcp must be an object"),
        (json!("exa"), "mcp must be an object"),
        (json!({"exa": 7}), "the options of \"exa\" must be an object"),
        (json!(many), "mcp names 257 servers"),
        (json!({"exa": {"key": "x".repeat(64 * 1024)}}), "at most 65536 are taken"),
    ] {
        let message =
            server.post("/v2/sandboxes", json!({"templateID": "base", "mcp": mcp})).error(400, "invalid_request");
        assert!(message.contains(expected), "{message}");
    }
    let gateway = json!({"templateID": "mcp-gateway", "mcp": {"duckduckgo": {}}});
    let message = server.post("/v2/sandboxes", gateway).error(404, "template_not_found");
    assert!(message.contains("cabana template build"), "{message}");
}

#[test]
fn backend_failures_are_reported_and_leave_nothing() {
    let server = TestServer::start();
    for (fault, status, code, expected) in [
        (Fault::Fail, 500, "sandbox_create_failed", "on purpose"),
        (Fault::Full, 429, "sandbox_capacity_unavailable", "All 7 sandboxes"),
        (Fault::NoBuild, 409, "template_not_ready", "root filesystem"),
        (Fault::DiskFull, 507, "storage_full", "disk is full"),
    ] {
        server.world.on_launch(Some(fault));
        let message = server.post("/v2/sandboxes", json!({"templateID": "base"})).error(status, code);
        assert!(message.contains(expected), "{message}");
    }
    server.world.on_launch(None);
    assert!(server.world.ids().is_empty());
    assert_eq!(server.world.destroyed(), 4, "what failed was removed");
    let events = server.get("/events/sandboxes?types=sandbox.lifecycle.killed&limit=100").is(200).json();
    assert_eq!(events.as_array().expect("events").len(), 4);
    let id = events[3]["sandboxId"].as_str().expect("id");
    assert!(server.end_message(id).contains("could not be created: launching"), "{}", server.end_message(id));
    server.create();
}

#[test]
fn a_panic_in_the_backend_is_an_error_and_leaves_nothing() {
    let server = TestServer::start();
    server.world.on_launch(Some(Fault::Panic));
    let answer = server.post("/v2/sandboxes", json!({"templateID": "base"}));
    answer.error(500, "internal_server_error");
    server.world.on_launch(None);
    let events = || server.get("/events/sandboxes?types=sandbox.lifecycle.killed").is(200).json();
    crate::eventually("it is removed", || events().as_array().is_some_and(|e| e.len() == 1));
    server.create();
}

#[test]
fn a_client_that_disconnects_leaves_a_complete_sandbox() {
    use std::io::Write;
    let server = TestServer::start();
    server.world.on_launch(Some(Fault::Slow(std::time::Duration::from_millis(300))));
    let body = r#"{"templateID":"base"}"#;
    let mut stream = std::net::TcpStream::connect(server.address).expect("connect");
    let head = format!(
        "POST /v2/sandboxes HTTP/1.1\r\nhost: localhost\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n{body}",
        server.key,
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("write");
    let requested = || server.get("/events/sandboxes").is(200).json().as_array().is_some_and(|e| e.len() == 1);
    crate::eventually("the request is recorded", requested);
    drop(stream);
    crate::eventually("it is up", || server.listed().len() == 1);
    assert_eq!(server.listed().into_iter().collect::<std::collections::HashSet<_>>(), server.world.ids());
}

#[test]
fn a_sandbox_that_does_not_start_in_time_fails() {
    let server = TestServer::with(&[("limits.start_seconds", "1")]);
    server.world.on_launch(Some(Fault::Slow(std::time::Duration::from_secs(3))));
    let message = server.post("/v2/sandboxes", json!({"templateID": "base"})).error(500, "sandbox_create_failed");
    assert!(message.contains("was not up within 1 s"), "{message}");
    server.world.on_launch(None);
    let killed = || server.get("/events/sandboxes?types=sandbox.lifecycle.killed").is(200).json();
    crate::eventually("what came up too late is removed", || killed().as_array().is_some_and(|e| e.len() == 1));
    assert!(server.world.ids().is_empty());
    server.create();
}
