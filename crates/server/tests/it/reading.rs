//! Events, logs, status.

use std::io::{Read, Write};

use serde_json::{Value, json};

use crate::http::send;
use crate::server::TestServer;

#[test]
fn events_can_be_filtered_and_paged() {
    let server = TestServer::start();
    let a = server.create();
    let b = server.create();
    server.kill(&a).is(204);
    let all = server.get("/events/sandboxes?limit=100&orderAsc=true").is(200).json();
    assert_eq!(all.as_array().map(Vec::len), Some(6));
    let event = &all[1];
    assert_eq!((&event["version"], &event["type"]), (&json!("v1"), &json!("sandbox.lifecycle.created")));
    assert_eq!(event["sandboxId"], a.as_str());
    assert_eq!(event["sandboxTeamId"], "default");
    for name in ["id", "sandboxTemplateId", "sandboxBuildId", "sandboxExecutionId", "timestamp", "eventData"] {
        assert!(!event[name].is_null(), "{name}");
    }
    let first: Value = server.get("/events/sandboxes?limit=1").is(200).json();
    assert_eq!(first[0]["type"], "sandbox.lifecycle.killed", "newest first");
    assert!(first[0]["eventData"]["reason"].as_str().is_some_and(|r| r.starts_with("was killed by request")));
    let created = server.get("/events/sandboxes?types=sandbox.lifecycle.created").is(200).json();
    assert_eq!(created.as_array().map(Vec::len), Some(2));
    let second = server.get("/events/sandboxes?offset=1&limit=1&types=sandbox.lifecycle.created").is(200).json();
    assert_eq!(second[0]["sandboxId"], a.as_str());
    assert_eq!(server.events(&b), ["requested", "created"]);
    server.get("/events/sandboxes/inothing").error(404, "sandbox_not_found");
    for query in ["limit=101", "limit=0", "offset=-1", "orderAsc=perhaps"] {
        server.get(&format!("/events/sandboxes?{query}")).error(400, "invalid_request");
    }
}

#[test]
fn logs_contain_the_lifecycle_in_e2bs_formats() {
    let server = TestServer::start();
    let id = server.create();
    server.kill(&id).is(204);
    let logs = server.get(&format!("/sandboxes/{id}/logs")).is(200).json();
    let lines = logs["logs"].as_array().expect("lines");
    assert_eq!(lines.len(), 4);
    for line in lines {
        let parsed: Value = serde_json::from_str(line["line"].as_str().expect("text")).expect("a line is JSON");
        assert!(["debug", "info", "warn", "error"].contains(&parsed["level"].as_str().expect("level")), "{parsed}");
        assert_eq!(parsed["logger"], "lifecycle");
    }
    assert!(logs["logEntries"][1]["message"].as_str().is_some_and(|m| m == "Sandbox started"));
    assert!(logs["logEntries"][3]["message"].as_str().is_some_and(|m| m.contains("was killed by request")));
    let last: jiff::Timestamp = lines[3]["timestamp"].as_str().expect("time").parse().expect("time");
    let later = server.get(&format!("/sandboxes/{id}/logs?start={}", last.as_millisecond() + 1)).is(200).json();
    assert_eq!(later["logs"], json!([]));
    let few = server.get(&format!("/sandboxes/{id}/logs?limit=2")).is(200).json();
    assert_eq!(few["logs"].as_array().map(Vec::len), Some(2));

    let page = |query: &str| server.get(&format!("/v2/sandboxes/{id}/logs?{query}")).is(200).json()["logs"].clone();
    assert_eq!(page("").as_array().map(Vec::len), Some(4));
    assert_eq!(page("direction=backward&limit=1")[0]["message"], logs["logEntries"][3]["message"]);
    assert_eq!(page("search=started").as_array().map(Vec::len), Some(1));
    assert_eq!(page("level=info").as_array().map(Vec::len), Some(2));
    assert_eq!(page("level=error"), json!([]));
    for query in ["direction=up", "level=loud", "cursor=-1", "limit=1001"] {
        server.get(&format!("/v2/sandboxes/{id}/logs?{query}")).error(400, "invalid_request");
    }
    let time = |line: usize| -> i64 {
        let text = logs["logEntries"][line]["timestamp"].as_str().expect("time");
        text.parse::<jiff::Timestamp>().expect("time").as_millisecond()
    };
    let (first, last) = (time(0), time(3));
    assert_eq!(page(&format!("cursor={first}")).as_array().map(Vec::len), Some(4));
    assert_eq!(page(&format!("cursor={}", last + 1)), json!([]));
    assert_eq!(page(&format!("cursor={last}&direction=backward")).as_array().map(Vec::len), Some(4));
    assert_eq!(page(&format!("cursor={}&direction=backward", first - 1)), json!([]));
    assert_eq!(page("level=info&limit=1")[0]["message"], "Sandbox started", "the limit counts what is left");
    let umlauts = "%C3%BC".repeat(256);
    assert_eq!(page(&format!("search={umlauts}")), json!([]));
    server.get(&format!("/v2/sandboxes/{id}/logs?search={umlauts}x")).error(400, "invalid_request");
    server.get("/sandboxes/inothing/logs").error(404, "sandbox_not_found");
}

#[test]
fn status_describes_the_server() {
    let server = TestServer::start();
    server.create();
    let status = server.get("/status").is(200).json();
    assert_eq!((&status["backend"], &status["running"]), (&json!("fake"), &json!(1)));
    let can = json!({"diskQuota": true, "pauseMemory": true, "memoryOutlivesReboot": false, "copies": true});
    assert_eq!(status["capabilities"], can);
    let health = send(server.address, "GET", "/health", &[], None).expect("answer");
    assert_eq!((health.status, health.text.as_str()), (204, ""));
}

#[test]
fn unsupported_routes_say_so() {
    let server = TestServer::start();
    let id = server.create();
    for (method, path, what) in [
        ("POST", format!("/sandboxes/{id}/reset"), "Resetting"),
        ("POST", format!("/sandboxes/{id}/volume-mounts"), "volume"),
        ("DELETE", format!("/sandboxes/{id}/volume-mounts"), "volume"),
        ("GET", "/volumes".to_owned(), "volumes"),
        ("POST", "/volumes".to_owned(), "volumes"),
        ("DELETE", "/volumes/v".to_owned(), "volumes"),
    ] {
        let message = server.call(method, &path, None).error(400, "not_supported");
        assert!(
            message.contains(what) && message.ends_with("is not available on this server yet"),
            "{path}: {message}"
        );
    }
    server.post(&format!("/sandboxes/{id}/resume"), json!({"timeout": 5})).error(409, "sandbox_state_conflict");
    server.post("/sandboxes/inothing/resume", json!({})).error(404, "sandbox_not_found");
    // The built-in template cannot be deleted.
    server.call("DELETE", "/templates/base", None).error(400, "invalid_request");
    server.post("/v3/templates", json!({"name": "base"})).error(400, "invalid_request");
    // Missing resources are 404: clients use these routes to check.
    server.post("/sandboxes/inothing/pause", json!({})).error(404, "sandbox_not_found");
    server.call("DELETE", "/templates/nothing", None).error(404, "template_not_found");
    server.call("DELETE", "/templates/default%2Fsnap%3Av1", None).error(404, "template_not_found");
    server.call("PUT", "/volumes", None).error(405, "method_not_allowed");
    server.get("/nothing").error(404, "route_not_found");
}

#[test]
fn a_refusal_leaves_the_connection_usable() {
    let server = TestServer::start();
    let id = server.create();
    let mut stream = std::net::TcpStream::connect(server.address).expect("connect");
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("timeout");
    let (reset, resume, key) =
        (format!("/sandboxes/{id}/reset"), format!("/sandboxes/{id}/resume"), server.key.as_str());
    for (path, key) in [
        (reset.as_str(), key),
        (&resume, key),
        ("/volumes", key),
        ("/nothing", key),
        ("/sandboxes/x/timeout", key),
        ("/sandboxes", "e2b_00"),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\ncontent-length: 2\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("write");
        // The body is sent in its own packet, as by most clients.
        std::thread::sleep(std::time::Duration::from_millis(50));
        stream.write_all(b"{}").expect("write");
        let mut answer = String::new();
        while !answer.contains("error_code") {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).expect("read");
            assert!(count > 0, "the connection is closed: {path}: {answer}");
            answer.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        assert!(answer.starts_with("HTTP/1.1 4") && !answer.contains("connection: close"), "{answer}");
    }
}
