//! Requesting builds, starting them and following them.

use cabana_store::LogLevel;
use serde_json::{Value, json};

use crate::build_world::{begin, fail, finish, ready, ready_with, requested, say};
use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};

#[test]
fn a_build_is_requested_by_name() {
    let server = TestServer::start();
    let answer = server.post("/v3/templates", json!({"name": "Mine", "cpuCount": 4, "memoryMB": 2048})).is(202).json();
    assert_eq!((&answer["names"], &answer["aliases"]), (&json!(["default/mine"]), &json!(["mine"])));
    assert_eq!((&answer["tags"], &answer["public"]), (&json!(["default"]), &json!(false)));
    let (template, build) = (answer["templateID"].as_str().expect("id"), answer["buildID"].as_str().expect("id"));

    // It is listed although no sandbox can be created from it yet.
    for path in [format!("/templates/{template}"), "/templates/mine".into(), "/templates/default%2Fmine".into()] {
        let one = server.get(&path).is(200).json();
        assert_eq!(
            (&one["templateID"], &one["buildID"], &one["buildStatus"]),
            (&json!(template), &json!(build), &json!("waiting"))
        );
        let first = &one["builds"][0];
        assert_eq!((&first["buildID"], &first["status"]), (&json!(build), &json!("waiting")));
        assert_eq!(
            (&first["cpuCount"], &first["memoryMB"], &first["finishedAt"]),
            (&json!(4), &json!(2048), &Value::Null)
        );
        for name in ["createdAt", "updatedAt"] {
            assert!(first[name].is_string(), "{name}: {first}");
        }
    }
    assert_eq!(server.get("/templates").is(200).json().as_array().map(Vec::len), Some(2));
    assert_eq!(server.get("/v2/templates").is(200).json().as_array().map(Vec::len), Some(2));
    assert_eq!(server.get("/default-templates").is(200).json().as_array().map(Vec::len), Some(1));
    let message = server.post("/v2/sandboxes", json!({"templateID": "mine"})).error(409, "template_not_ready");
    assert!(message.contains("no finished build yet"), "{message}");

    // Tags come from the name and the list, without duplicates.
    for (body, tags) in [
        (json!({"name": "mine:V1"}), json!(["v1"])),
        (json!({"name": "mine", "tags": ["v1", "Stable", "v1"]}), json!(["v1", "stable"])),
        (json!({"name": "default/mine:v2", "tags": ["stable"]}), json!(["stable", "v2"])),
        (json!({"alias": "mine", "tags": []}), json!(["default"])),
        (json!({"name": template}), json!(["default"])),
    ] {
        let again = server.post("/v3/templates", body).is(202).json();
        assert_eq!((&again["templateID"], &again["tags"]), (&json!(template), &tags));
        assert_ne!(again["buildID"], build);
    }
    assert_eq!(server.get("/templates/mine").is(200).json()["buildCount"], 6);
}

#[test]
fn older_clients_request_builds_by_alias() {
    let server = TestServer::start();
    for path in ["/v2/templates", "/templates", "/templates/mine"] {
        let answer = server.post(path, json!({"alias": "mine", "teamID": "x", "cpuCount": 1})).is(202).json();
        assert_eq!((&answer["aliases"], &answer["buildStatus"]), (&json!(["mine"]), &json!("waiting")), "{path}");
        for name in ["templateID", "buildID", "cpuCount", "memoryMB", "diskSizeMB", "envdVersion", "spawnCount"] {
            assert!(!answer[name].is_null(), "{path}: {name}");
        }
    }
    let message =
        server.post("/templates", json!({"alias": "mine", "dockerfile": "FROM x"})).error(400, "not_supported");
    assert!(message.contains("POST /v2/templates/{id}/builds/{buildID}"), "{message}");
    server.post("/templates/other", json!({})).error(404, "template_not_found");
    let build = requested(&server, json!({"name": "mine"}));
    let answer = server.post(&format!("/templates/{}/builds/{}", build.template, build.build), json!({}));
    answer.error(400, "not_supported");
}

#[test]
fn wrong_requests_are_refused() {
    let server = TestServer::start();
    let long = "x".repeat(257);
    for name in ["", "a b", "a:", ":v1", "a/b/c", "a.b", "ä", "a:b:c", "aaaaaaaaaaaaaaaaaaaa", &long] {
        server.post("/v3/templates", json!({"name": name})).error(400, "invalid_request");
    }
    let build = "00000000-0000-4000-8000-000000000000";
    let long = "x".repeat(129);
    for tag in ["", "a b", "a:b", "a/b", "ä", build, &long] {
        server.post("/v3/templates", json!({"name": "mine", "tags": [tag]})).error(400, "invalid_request");
    }
    for body in [
        json!({}),
        json!({"name": format!("mine:{build}")}),
        json!({"name": "mine", "cpuCount": 9}),
        json!({"name": "mine", "memoryMB": 127}),
        json!({"name": "mine", "minFreeDiskMb": -1}),
        json!({"name": "mine", "alias": "a b"}),
        json!({"name": "mine", "tags": (0..101).map(|n| n.to_string()).collect::<Vec<_>>()}),
    ] {
        server.post("/v3/templates", body).error(400, "invalid_request");
    }
    let message = server.post("/v3/templates", json!({"name": "other/mine"})).error(403, "forbidden");
    assert!(message.contains("default"), "{message}");
    assert_eq!(server.get("/templates").is(200).json().as_array().map(Vec::len), Some(1), "nothing was made");
    server.post("/v3/templates", json!({"name": "mine", "minFreeDiskMb": 0})).is(202);
    let id = server.create();
    server.post(&format!("/sandboxes/{id}/snapshots"), json!({"name": "shot"})).is(201);
    server.post("/v3/templates", json!({"name": "shot"})).error(409, "sandbox_state_conflict");
}

#[test]
fn builds_in_progress_are_limited_per_team() {
    let server = TestServer::start();
    for n in 0..20 {
        requested(&server, json!({"name": format!("t{}", n % 3)}));
    }
    let answer = server.post("/v3/templates", json!({"name": "more"}));
    let message = answer.error(429, "limit_reached");
    assert!(message.contains("20 builds") && answer.header("should-retry") == Some("false"), "{message}");
    let first = server.get("/templates/t0").is(200).json()["builds"][0]["buildID"].as_str().expect("id").to_owned();
    let build = crate::build_world::TestBuild { template: "t0".into(), build: first };
    fail(&server, &build, "base", "no");
    server.post("/v3/templates", json!({"name": "more"})).is(202);
}

#[test]
fn a_build_is_followed_to_its_end() {
    let server = TestServer::start();
    let build = requested(&server, json!({"name": "mine"}));
    let status = |query: &str| server.get(&build.path(&format!("status{query}"))).is(200).json();
    let waiting = status("");
    assert_eq!(
        waiting,
        json!({
            "templateID": build.template, "buildID": build.build, "status": "waiting", "logs": [], "logEntries": []
        })
    );
    begin(&server, &build);
    let texts: Vec<String> = (0..250).map(|n| format!("line {n}")).collect();
    let level = |n: usize| if n.is_multiple_of(2) { LogLevel::Info } else { LogLevel::Debug };
    let lines: Vec<_> = (1000..).zip(&texts).enumerate().map(|(n, (at, text))| (at, level(n), text.as_str())).collect();
    say(&server, &build, &lines);
    assert_eq!(status("?limit=1")["status"], "building");
    finish(&server, &build, cabana_server::Boot::default());
    // As E2B's clients read it: from an offset, until there is nothing more.
    let (mut read, mut pages) = (vec![], vec![]);
    loop {
        let page = status(&format!("?logsOffset={}", read.len()));
        assert_eq!(page["status"], "ready");
        let entries = page["logEntries"].as_array().expect("entries").clone();
        pages.push(entries.len());
        if entries.is_empty() {
            break;
        }
        read.extend(entries);
    }
    assert_eq!(pages, [100, 100, 50, 0]);
    let messages: Vec<&str> = read.iter().map(|e| e["message"].as_str().expect("message")).collect();
    assert_eq!(messages, texts);
    assert_eq!((&read[1]["level"], &read[1]["step"]), (&json!("debug"), &json!("1")));
    assert_eq!(read[0]["timestamp"], "1970-01-01T00:00:01Z");
    let info = status("?level=info&logsOffset=100&limit=100");
    assert_eq!(info["logEntries"].as_array().map(Vec::len), Some(25));
    for wrong in ["?limit=0", "?limit=101", "?logsOffset=-1", "?logsOffset=x", "?level=loud"] {
        server.get(&build.path(&format!("status{wrong}"))).error(400, "invalid_request");
    }

    let logs = |query: &str| {
        let page = server.get(&build.path(&format!("logs{query}"))).is(200).json();
        let entries = page["logs"].as_array().expect("logs").clone();
        entries.iter().map(|e| e["message"].as_str().expect("message").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(logs("?limit=2&source=persistent"), ["line 0", "line 1"]);
    assert_eq!(logs("?cursor=1248&direction=forward"), ["line 248", "line 249"]);
    assert_eq!(logs("?cursor=1002&direction=backward&level=info"), ["line 2", "line 0"]);
    assert_eq!(logs("?direction=backward&limit=1"), ["line 249"]);
    assert_eq!(logs("?cursor=9999"), Vec::<String>::new());
    for wrong in ["?limit=101", "?direction=up", "?source=x", "?cursor=-1", "?level=x"] {
        server.get(&build.path(&format!("logs{wrong}"))).error(400, "invalid_request");
    }
}

#[test]
fn a_failure_says_where_and_why() {
    let server = TestServer::start();
    let before = ready(&server, "mine");
    let build = requested(&server, json!({"name": "mine"}));
    begin(&server, &build);
    let texts: Vec<String> = (0..15).map(|n| format!("line {n}")).collect();
    let lines: Vec<_> = (0..).zip(&texts).map(|(at, text)| (at, LogLevel::Error, text.as_str())).collect();
    say(&server, &build, &lines);
    fail(&server, &build, "3", "the command exited with 1");
    let status = server.get(&build.path("status")).is(200).json();
    assert_eq!((&status["status"], &status["reason"]["step"]), (&json!("error"), &json!("3")));
    assert_eq!(status["reason"]["message"], "the command exited with 1");
    let last = status["reason"]["logEntries"].as_array().expect("entries");
    assert_eq!((last.len(), &last[0]["message"], &last[9]["message"]), (10, &json!("line 5"), &json!("line 14")));
    // The previous build is unchanged.
    assert_eq!(server.get("/templates/mine").is(200).json()["buildID"], before.build.as_str());
    let id = server.post("/v2/sandboxes", json!({"templateID": "mine"})).is(201).member("sandboxID");
    assert_eq!(server.world.spec(&id).root.build(), Some(&before.id()));
}

#[test]
fn build_specifications_are_validated() {
    let server = TestServer::start();
    ready(&server, "parent");
    requested(&server, json!({"name": "unfinished"}));
    let build = requested(&server, json!({"name": "mine"}));
    let refused = |body: Value, words: &str| {
        let message = server.post(&build.start_path(), body.clone()).error(400, "invalid_request");
        assert!(message.contains(words), "{message:?} for {body}");
    };
    let step =
        |kind: &str, args: &[&str]| json!({"steps": [{"type": "RUN", "args": ["true"]}, {"type": kind, "args": args}]});
    for two in [
        json!({"fromImage": "a", "fromTemplate": "parent"}),
        json!({"fromImage": "a", "dockerfile": "FROM b"}),
        json!({"fromTemplate": "parent", "dockerfile": "FROM b"}),
    ] {
        refused(two, "exactly one of fromImage, fromTemplate and dockerfile");
    }
    refused(json!({"fromImage": "Not An Image"}), "fromImage");
    refused(
        json!({"dockerfile": "FROM a", "steps": [{"type": "RUN", "args": ["x"]}]}),
        "steps do not go with dockerfile",
    );
    refused(json!({"fromImage": "a", "context": "abc"}), "go with dockerfile only");
    refused(json!({"fromImage": "a", "buildArgs": {"A": "1"}}), "go with dockerfile only");
    refused(json!({"dockerfile": "FROM a", "context": "abc"}), "context: the files abc are not uploaded");
    refused(json!({"dockerfile": "x".repeat(1024 * 1024 + 1)}), "at most 1048576");
    refused(json!({"dockerfile": "FROM a\u{0}"}), "NUL");
    refused(json!({"startCmd": "x".repeat(65 * 1024)}), "startCmd");
    refused(step("FETCH", &["x"]), "Step 2: \"FETCH\" is not one of");
    refused(step("run", &["x"]), "Step 2: \"run\" is not one of");
    refused(step("RUN", &[]), "Step 2: RUN takes 1 to 2 arguments, not 0");
    refused(step("USER", &["a", "b"]), "Step 2: USER takes 1 argument, not 2");
    refused(step("ENV", &["a"]), "names and values in pairs");
    refused(step("COPY", &["a", "b", "", ""]), "Step 2: COPY needs filesHash");
    let copy = json!({"steps": [{"type": "COPY", "args": ["a", "b"], "filesHash": "abc"}]});
    refused(copy, "Step 1: filesHash: the files abc are not uploaded; GET /templates/{id}/files/{hash}");
    refused(step("RUN", &["a\u{0}b"]), "NUL");
    refused(json!({"steps": vec![json!({"type": "RUN", "args": ["true"]}); 501]}), "at most 500");
    refused(json!({"fromTemplate": "parent", "fromImageRegistry": {"type": "registry"}}), "not with fromTemplate");
    for wrong in [json!({"type": "registry", "username": "a"}), json!({"type": "ftp", "password": "hunter2"})] {
        let message = server.post(&build.start_path(), json!({"fromImage": "a", "fromImageRegistry": wrong}));
        let message = message.error(400, "invalid_request");
        assert!(message.contains("serviceAccountJson") && !message.contains("hunter2"), "{message}");
    }
    server.post(&build.start_path(), json!({"fromTemplate": "none"})).error(404, "template_not_found");
    server.post(&build.start_path(), json!({"fromTemplate": "parent:none"})).error(404, "template_not_found");
    server.post(&build.start_path(), json!({"fromTemplate": "unfinished"})).error(409, "template_not_ready");
    assert_eq!(server.get(&build.path("status")).is(200).json()["status"], "waiting", "and it can still be started");

    for path in [
        format!("/v2/templates/{}/builds/{}", build.template, "00000000-0000-4000-8000-000000000000"),
        format!("/v2/templates/parent/builds/{}", build.build),
        format!("/v2/templates/{}/builds/nonsense", build.template),
    ] {
        server.post(&path, json!({})).error(404, "build_not_found");
    }
    begin(&server, &build);
    let message = server.post(&build.start_path(), json!({})).error(409, "build_state_conflict");
    assert!(message.contains("is building"), "{message}");
}

#[test]
fn a_tag_selects_the_build_of_a_new_sandbox() {
    let server = TestServer::start();
    let first = ready_with(&server, json!({"name": "mine:v1", "cpuCount": 1, "memoryMB": 256}));
    let message = server.post("/v2/sandboxes", json!({"templateID": "mine"})).error(409, "template_not_ready");
    assert!(message.contains("name one of its tags: v1"), "{message}");
    let second = ready_with(&server, json!({"name": "mine", "cpuCount": 4}));
    let made = |name: &str| {
        let id = server.post("/v2/sandboxes", json!({"templateID": name})).is(201).member("sandboxID");
        let spec = server.world.spec(&id);
        (spec.root.build().cloned(), spec.resources.cpu_count, spec.guest.env_vars["FROM"].clone())
    };
    let (old, new) = ((Some(first.id()), 1, "mine:v1".to_owned()), (Some(second.id()), 4, "mine".to_owned()));
    for name in ["mine:v1", "Default/Mine:V1", &format!("mine:{}", first.build), &format!("{}:v1", first.template)] {
        assert_eq!(made(name), old, "{name}");
    }
    for name in ["mine", "mine:default", &format!("mine:{}", second.build)] {
        assert_eq!(made(name), new, "{name}");
    }
    let message = server.post("/v2/sandboxes", json!({"templateID": "mine:v9"})).error(404, "template_not_found");
    assert!(message.ends_with("its tags are: default, v1"), "{message}");
    let base = server.get("/templates/base").is(200).json()["buildID"].as_str().expect("id").to_owned();
    let foreign = json!({"templateID": format!("mine:{base}")});
    server.post("/v2/sandboxes", foreign).error(404, "template_not_found");
    let waiting = requested(&server, json!({"name": "mine:v3"}));
    let name = format!("mine:{}", waiting.build);
    server.post("/v2/sandboxes", json!({"templateID": name})).error(409, "template_not_ready");
}

#[test]
fn another_teams_builds_are_not_found() {
    let server = with_another_team();
    let build = ready(&server, "mine");
    let waiting = requested(&server, json!({"name": "mine"}));
    for (method, path) in [
        ("GET", build.path("status")),
        ("GET", build.path("logs")),
        ("POST", waiting.start_path()),
        ("GET", format!("/templates/{}/files/abc", build.template)),
        ("POST", format!("/templates/{}", build.template)),
    ] {
        as_other(&server, method, &path, Some("{}")).error(404, "template_not_found");
    }
    // A public one may be used, not changed.
    server.call("PATCH", "/v2/templates/mine", Some(json!({"public": true}))).is(200);
    as_other(&server, "GET", &build.path("status"), None).error(403, "forbidden");
    as_other(&server, "POST", &waiting.start_path(), Some("{}")).error(403, "forbidden");
    let theirs = as_other(&server, "POST", "/v3/templates", Some(r#"{"name":"mine"}"#)).is(202).json();
    assert_eq!(theirs["names"], json!(["other/mine"]));
    assert_ne!(theirs["templateID"], build.template.as_str(), "the same alias in its own namespace");
}
