//! Templates: by id, alias, namespace and tag.

use serde_json::json;

use crate::server::TestServer;

#[test]
fn a_template_is_found_by_its_names() {
    let server = TestServer::start();
    let all = server.get("/templates").is(200).json();
    assert_eq!(all.as_array().map(Vec::len), Some(1));
    let base = &all[0];
    assert_eq!((&base["aliases"], &base["names"]), (&json!(["base"]), &json!(["default/base"])));
    assert_eq!(
        (&base["public"], &base["buildStatus"], &base["buildCount"]),
        (&json!(true), &json!("ready"), &json!(1))
    );
    for name in ["templateID", "buildID", "cpuCount", "memoryMB", "diskSizeMB", "createdAt", "updatedAt", "envdVersion"]
    {
        assert!(!base[name].is_null(), "{name}");
    }
    for name in ["createdBy", "lastSpawnedAt"] {
        assert!(base.get(name).is_some_and(serde_json::Value::is_null), "{name} is there and null");
    }
    let id = base["templateID"].as_str().expect("id");
    for name in ["base", "BASE", "base:default", "default/base", "default/base:default", id] {
        server.post("/v2/sandboxes", json!({"templateID": name})).is(201);
    }
    for name in ["base%3Adefault", "default%2Fbase", id] {
        let one = server.get(&format!("/templates/{name}")).is(200).json();
        assert_eq!((&one["templateID"], &one["builds"][0]["status"]), (&json!(id), &json!("ready")));
        assert_eq!((&one["spawnCount"], one["lastSpawnedAt"].is_string()), (&json!(6), true));
    }
    let alias = server.get("/templates/aliases/base").is(200).json();
    assert_eq!(alias, json!({"templateID": id, "public": true}));
    server.get("/templates/aliases/other").error(404, "template_not_found");
    assert_eq!(server.get("/v2/templates?limit=1").is(200).json().as_array().map(Vec::len), Some(1));
    assert_eq!(server.get("/default-templates").is(200).json()[0]["templateID"], id);
    server.get("/v2/templates?nextToken=nope").error(400, "invalid_request");
}

#[test]
fn unknown_templates_are_refused_with_what_there_is() {
    let server = TestServer::start();
    for name in ["unknown-v1", "other/base", "aaaaaaaaaaaaaaaaaaaa"] {
        let message = server.post("/v2/sandboxes", json!({"templateID": name})).error(404, "template_not_found");
        assert!(message.contains("was not found; there are: base; build it with "), "{message}");
    }
    let message = server.post("/v2/sandboxes", json!({"templateID": "base:v2"})).error(404, "template_not_found");
    assert_eq!(message, "Template base with tag \"v2\" was not found; its tags are: default");
    let long = "x".repeat(257);
    for name in ["", ":", "a b", "../x", "base:", "a/b/c", "base\n", &long] {
        let answer = server.post("/v2/sandboxes", json!({"templateID": name}));
        if name != "base\n" {
            answer.error(400, "invalid_request");
        }
    }
}

#[test]
fn a_build_that_waits_can_be_ended() {
    let server = TestServer::start();
    let asked = server.post("/v3/templates", json!({"name": "web"})).is(202).json();
    let (template, build) = (asked["templateID"].as_str().expect("id"), asked["buildID"].as_str().expect("id"));
    let path = format!("/v2/templates/{template}/builds/{build}");
    for _ in 0..2 {
        server.call("DELETE", &path, None).is(204);
    }
    let status = server.get(&format!("/templates/{template}/builds/{build}/status")).is(200).json();
    assert_eq!((&status["status"], &status["reason"]["message"]), (&json!("error"), &json!("it was cancelled")));
    server.post(&path, json!({"fromTemplate": "base"})).error(409, "build_state_conflict");
    let unknown = "/v2/templates/web/builds/00000000-0000-4000-8000-000000000000";
    server.call("DELETE", unknown, None).error(404, "build_not_found");
}

#[test]
fn curated_templates_are_listed_and_say_why_they_cannot_be_built() {
    let server = TestServer::start();
    let cards = server.get("/templates/gallery").is(200).json();
    let redis = cards.as_array().expect("list").iter().find(|card| card["name"] == "redis").expect("redis");
    assert_eq!((&redis["state"], &redis["ports"]), (&json!("absent"), &json!([6379])));
    assert_eq!(&server.get("/templates/gallery/redis").is(200).json(), redis);
    server.get("/templates/gallery/nothing").error(404, "template_not_found");
    server.post("/templates/gallery/nothing", json!({})).error(404, "template_not_found");
    // This server was not given the program.
    let message = server.post("/templates/gallery/code-interpreter-v1", json!({})).error(400, "not_supported");
    assert!(message.contains("does not contain cabana-interpreter"), "{message}");
    server.post("/v2/sandboxes", json!({"templateID": "code-interpreter-v1"})).error(400, "not_supported");
    // A namespace or a tag means a template of a team.
    for name in ["default/redis", "redis:v1"] {
        server.post("/v2/sandboxes", json!({"templateID": name})).error(404, "template_not_found");
    }
}
