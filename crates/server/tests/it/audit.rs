//! The audit log: what gets into it, who sees it, and that it cannot be changed unnoticed.

use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::eventually;
use crate::http::send;
use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};
use crate::world::Fault;

fn entries(server: &TestServer, query: &str) -> Vec<Value> {
    server.get(&format!("/audit{query}")).is(200).json()["entries"].as_array().expect("entries").clone()
}

fn actions(server: &TestServer, query: &str) -> Vec<String> {
    entries(server, query).iter().map(|entry| entry["action"].as_str().expect("action").to_owned()).collect()
}

fn intact(server: &TestServer) {
    let report = server.get("/admin/audit/verify").is(200).json();
    assert_eq!(report["problems"], json!([]), "{report}");
}

#[test]
fn what_changes_something_is_recorded_before_the_answer() {
    let server = TestServer::start();
    let id = server.create();
    server.get("/v2/sandboxes").is(200);
    server.kill(&id).is(204);
    assert_eq!(actions(&server, ""), ["kill_sandbox", "create_sandbox"]);
    let made = &entries(&server, "?action=create_sandbox")[0];
    let key = server.get("/api-keys").is(200).json()[0]["id"].clone();
    assert_eq!((&made["actor"], &made["target"], &made["teamID"]), (&key, &json!(id), &json!("default")));
    assert_eq!((&made["result"], &made["status"]), (&json!("ok"), &json!(201)));
    assert_eq!(made["details"]["sandboxID"], json!(id));
    let names = server.get("/audit").is(200).json()["names"].clone();
    assert_eq!(names[key.as_str().expect("id")], "first");
    assert_eq!(entries(&server, &format!("?target={id}")).len(), 2);
    intact(&server);
    let server = server.restart();
    assert_eq!(actions(&server, ""), ["kill_sandbox", "create_sandbox"]);
    intact(&server);
}

#[test]
fn refused_acts_are_recorded_and_secrets_are_not() {
    let server = TestServer::start();
    server.kill("inothing").error(404, "sandbox_not_found");
    server.post("/secrets", json!({"bad": "hunter2-body"})).is(400);
    let key = server.post("/api-keys", json!({"name": "reader", "scopes": ["sandboxes:read"]})).is(201);
    let (text, id) = (key.member("key"), key.member("id"));
    let headers = [("x-api-key", text.as_str()), ("user-agent", "<b>a\tb</b>")];
    send(server.address, "DELETE", "/sandboxes/iabc?token=hunter2", &headers, None).expect("answer").is(403);
    let found = entries(&server, "?result=refused");
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!((&found[0]["actor"], &found[0]["status"]), (&json!(id), &json!(403)));
    assert_eq!(found[0]["details"]["userAgent"], "<b>a\u{fffd}b</b>");
    assert_eq!(found[0]["details"]["error"], "forbidden");
    assert_eq!((&found[2]["target"], &found[2]["details"]["error"]), (&json!("inothing"), &json!("sandbox_not_found")));
    let made = &entries(&server, "?action=create_key")[0];
    assert_eq!((&made["target"], &made["details"]["name"]), (&json!(id), &json!("reader")));
    let all = server.get("/audit/export").is(200).text;
    assert!(!all.contains(&text) && !all.contains("hunter2") && !all.contains(&server.key), "{all}");
    // Nobody is named who cannot be known, and reads are no acts.
    let wrong = [("x-api-key", "e2b_0000000000000000000000000000000000000000")];
    send(server.address, "DELETE", "/sandboxes/iabc", &wrong, None).expect("answer").is(401);
    assert!(entries(&server, "?limit=200").iter().all(|entry| entry["status"] != 401));
}

#[test]
fn names_cannot_forge_lines() {
    let server = TestServer::start();
    let name = "a\"},{\"seq\":9}";
    server.post("/api-keys", json!({"name": name})).is(201);
    let path = "/sandboxes/i%0a%7b%22seq%22:1%7d%0d";
    server.call("DELETE", path, None).is(404);
    let export = server.get("/audit/export").is(200).text;
    let lines: Vec<Value> = export
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3, "{export}");
    assert!(lines[0]["chain"]["lastSeq"] == 2 && lines[1]["details"]["name"] == name, "{export}");
    assert_eq!(lines[2]["target"], "i\u{fffd}{\"seq\":1}\u{fffd}");
    let csv = server.get("/audit/export?format=csv").is(200);
    assert_eq!(csv.text.lines().filter(|line| line.starts_with(['t', '"'])).count(), 4, "{}", csv.text);
    assert!(csv.header("content-disposition").is_some_and(|value| value.starts_with("attachment")));
    intact(&server);
}

#[test]
fn sign_ins_and_refused_keys_are_recorded() {
    let server = TestServer::start();
    let origin = format!("http://{}", server.address);
    let headers = [("origin", origin.as_str()), ("content-type", "application/json")];
    let sign_in = |key: &str| {
        let body = json!({"apiKey": key}).to_string();
        send(server.address, "POST", "/auth/sign-in", &headers, Some(body.as_bytes())).expect("answer")
    };
    sign_in("e2b_0000000000000000000000000000000000000000").is(401);
    sign_in(&server.key).is(200);
    let far = server.post("/api-keys", json!({"name": "far", "cidrs": ["10.0.0.0/8"]})).is(201);
    sign_in(&far.member("key")).is(403);
    let key = far.member("key");
    send(server.address, "GET", "/teams", &[("x-api-key", key.as_str())], None).expect("answer").is(403);
    let own = entries(&server, "");
    let seen: Vec<_> = own.iter().map(|entry| (entry["action"].clone(), entry["result"].clone())).collect();
    let expected = [("key_refused", "refused"), ("sign_in", "refused"), ("create_key", "ok"), ("sign_in", "ok")];
    assert_eq!(seen, expected.map(|(action, result)| (json!(action), json!(result))), "{own:?}");
    assert!(own[0]["actor"] == own[1]["actor"] && own[0]["actor"] == json!(far.member("id")));
    assert!(own[3]["actor"].as_str().is_some_and(|actor| actor.starts_with("usr_")), "{}", own[3]);
    let all = server.get("/admin/audit?result=refused&action=sign_in").is(200).json();
    let nobody = &all["entries"][1];
    assert!(nobody["teamID"].is_null() && nobody["actor"].is_null() && nobody["status"] == 401, "{all}");
    intact(&server);
}

#[test]
fn each_team_sees_its_own() {
    let server = with_another_team();
    server.create();
    as_other(&server, "GET", "/audit", None).error(403, "forbidden");
    as_other(&server, "POST", "/v2/sandboxes", Some(r#"{"templateID":"nothing"}"#)).is(404);
    server.call("PUT", "/admin/teams/other/quotas", Some(json!({"limits": {"instances": 5}}))).is(200);
    server.call("PUT", "/admin/teams/nobody/quotas", Some(json!({"limits": {"instances": 5}}))).is(404);
    let teams = |query: &str| -> Vec<Value> {
        let page = server.get(&format!("/admin/audit{query}")).is(200).json();
        page["entries"].as_array().expect("entries").iter().map(|entry| entry["teamID"].clone()).collect()
    };
    // What an operator does to a team, the team sees; what failed stays with the server.
    assert_eq!(teams(""), [json!(null), json!("other"), json!("other"), json!("default")]);
    assert_eq!(teams("?team=other"), [json!("other"), json!("other")]);
    assert_eq!(actions(&server, ""), ["create_sandbox"]);
    server.get("/admin/audit?team=%20").error(404, "team_not_found");
    assert!(!server.get("/audit/export").is(200).text.contains("other"));
    assert!(server.get("/admin/audit/export").is(200).text.contains("set_quotas"));
    // Exports are acts as well.
    assert_eq!(actions(&server, ""), ["export_audit", "create_sandbox"]);
}

#[test]
fn pages_and_bad_filters() {
    let server = TestServer::start();
    for _ in 0..7 {
        server.kill("inothing").is(404);
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/audit?limit=3{cursor}")).is(200).json();
        seen.extend(
            page["entries"].as_array().expect("entries").iter().map(|entry| entry["seq"].as_u64().expect("seq")),
        );
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
    let long = "x".repeat(129);
    for wrong in
        ["limit=0", "limit=201", "cursor=x", "cursor=0", "result=good", "from=yesterday", &format!("actor={long}")]
    {
        server.get(&format!("/audit?{wrong}")).error(400, "invalid_request");
    }
    server.get("/audit/export?format=xml").error(400, "invalid_request");
    assert_eq!(entries(&server, "?until=2020-01-01T00:00:00Z").len(), 0);
    server
        .post("/admin/audit/prune", json!({"before": jiff::Timestamp::now().to_string()}))
        .error(400, "invalid_request");
    assert_eq!(
        server.post("/admin/audit/prune", json!({"before": "2020-01-01T00:00:00Z"})).is(200).json()["entries"],
        0
    );
}

#[test]
fn a_client_that_goes_away_is_recorded_too() {
    let server = TestServer::start();
    let body = r#"{"templateID":"base"}"#;
    server.world.on_launch(Some(Fault::Slow(std::time::Duration::from_millis(500))));
    let mut stream = TcpStream::connect(server.address).expect("connect");
    let head = format!(
        "POST /v2/sandboxes HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.address,
        server.key,
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("write");
    eventually("the sandbox is being made", || server.get("/events/sandboxes").text.contains("requested"));
    drop(stream);
    eventually("the request is recorded", || !entries(&server, "?action=create_sandbox").is_empty());
    let entry = &entries(&server, "?action=create_sandbox")[0];
    assert_eq!((&entry["result"], &entry["status"]), (&json!("interrupted"), &json!(0)));
    intact(&server);
}
