//! Assigning, moving, removing and listing tags; publishing and deleting templates.

use serde_json::{Value, json};

use crate::build_world::{begin, ready, ready_with, requested};
use crate::server::TestServer;
use crate::tenants::{as_other, with_another_team};

fn assign(server: &TestServer, target: &str, tags: &[&str]) -> crate::http::Answer {
    server.post("/templates/tags", json!({"target": target, "tags": tags}))
}

fn remove(server: &TestServer, name: &str, tags: &[&str]) -> crate::http::Answer {
    server.call("DELETE", "/templates/tags", Some(json!({"name": name, "tags": tags})))
}

fn tags(server: &TestServer, name: &str) -> Vec<(String, String)> {
    let rows = server.get(&format!("/templates/{name}/tags")).is(200).json();
    let row = |row: &Value| {
        assert!(row["createdAt"].is_string(), "{row}");
        (row["tag"].as_str().expect("tag").to_owned(), row["buildID"].as_str().expect("build").to_owned())
    };
    rows.as_array().expect("rows").iter().map(row).collect()
}

#[test]
fn tags_are_assigned_moved_and_removed() {
    let server = TestServer::start();
    let first = ready(&server, "mine:v1");
    let second = ready_with(&server, json!({"name": "mine", "tags": ["default", "v2"]}));
    let given = assign(&server, "mine:v1", &["production", "Stable"]).is(201).json();
    assert_eq!(given, json!({"tags": ["production", "stable"], "buildID": first.build}));
    let pair = |tag: &str, build: &crate::build_world::TestBuild| (tag.to_owned(), build.build.clone());
    let all = [
        pair("default", &second),
        pair("production", &first),
        pair("stable", &first),
        pair("v1", &first),
        pair("v2", &second),
    ];
    assert_eq!(tags(&server, "mine"), all);
    assert_eq!(server.get("/templates/mine/tags/count").is(200).json(), json!({"total": 5}));
    // Rolling back, by the id of a build.
    assign(&server, &format!("mine:{}", first.build), &["default"]).is(201);
    let now = server.get("/templates/mine").is(200).json();
    assert_eq!(now["buildID"], first.build.as_str());
    assign(&server, "default/mine", &["production"]).is(201);
    assert_eq!(tags(&server, "mine")[0], pair("default", &first));

    remove(&server, "mine", &["stable", "never"]).is(204);
    let left: Vec<String> = tags(&server, &first.template).into_iter().map(|(tag, _)| tag).collect();
    assert_eq!(left, ["default", "production", "v1", "v2"]);
    assert_eq!(
        server.get("/templates/mine/tags/exists?tag=V1").is(200).json(),
        json!({"exists": true, "normalizedTag": "v1"})
    );
    assert_eq!(server.get("/templates/mine/tags/exists?tag=stable").is(200).json()["exists"], false);
}

#[test]
fn invalid_tags_are_refused() {
    let server = TestServer::start();
    ready(&server, "mine");
    let build = requested(&server, json!({"name": "mine:next"}));
    for target in [":v1", "mine:", "", "a b", "mine:a:b"] {
        assign(&server, target, &["x"]).error(400, "invalid_request");
    }
    let id = "00000000-0000-4000-8000-000000000000";
    for tag in ["", ":x", "mine:", "a b", "a/b", id] {
        assign(&server, "mine", &[tag]).error(400, "invalid_request");
        remove(&server, "mine", &[tag]).error(400, "invalid_request");
    }
    assign(&server, "mine", &[]).error(400, "invalid_request");
    assign(&server, "none", &["x"]).error(404, "template_not_found");
    assign(&server, "mine:none", &["x"]).error(404, "template_not_found");
    assign(&server, &format!("mine:{id}"), &["x"]).error(404, "template_not_found");
    assign(&server, &format!("mine:{}", build.build), &["x"]).error(409, "template_not_ready");
    remove(&server, "none", &["x"]).error(404, "template_not_found");
    let message = remove(&server, "mine", &["default"]).error(400, "invalid_request");
    assert!(message.contains("default cannot be removed"), "{message}");
    server.get("/templates/mine/tags/exists").error(400, "invalid_request");
    server.get("/templates/mine/tags/exists?tag=a%20b").error(400, "invalid_request");
    for path in ["tags", "tags/count", "tags/exists?tag=x", "tags/groups", "tags/x/assignments"] {
        server.get(&format!("/templates/none/{path}")).error(404, "template_not_found");
    }
    let many: Vec<String> = (0..99).map(|n| format!("t{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assign(&server, "mine", &many).is(201);
    let message = assign(&server, "mine", &["one-more"]).error(429, "limit_reached");
    assert!(message.contains("100 tags"), "{message}");
}

#[test]
fn the_history_of_tags_is_paged() {
    let server = TestServer::start();
    let first = ready_with(&server, json!({"name": "mine", "tags": ["default", "a"]}));
    let second = ready_with(&server, json!({"name": "mine", "tags": ["default", "b"]}));
    assign(&server, &format!("mine:{}", first.build), &["default"]).is(201);
    let page = server.get("/templates/mine/tags/default/assignments?limit=2").is(200).json();
    let builds = |page: &Value| -> Vec<String> {
        page["data"].as_array().expect("data").iter().map(|a| a["buildId"].as_str().expect("id").to_owned()).collect()
    };
    assert_eq!(builds(&page), [&*first.build, &*second.build]);
    for name in ["assignmentId", "assignedAt", "buildCreatedAt", "buildFinishedAt"] {
        assert!(page["data"][0][name].is_string(), "{name}");
    }
    let cursor = page["nextCursor"].as_str().expect("cursor");
    let rest = server.get(&format!("/templates/mine/tags/default/assignments?cursor={cursor}")).is(200).json();
    assert_eq!((builds(&rest), &rest["nextCursor"]), (vec![first.build.clone()], &Value::Null));
    let none = server.get("/templates/mine/tags/never/assignments").is(200).json();
    assert_eq!(none, json!({"data": [], "nextCursor": null}));
    server.get("/templates/mine/tags/default/assignments?cursor=x").error(400, "invalid_request");

    let groups = |query: &str| server.get(&format!("/templates/mine/tags/groups{query}")).is(200).json();
    let names = |page: &Value| -> Vec<String> {
        page["tags"].as_array().expect("tags").iter().map(|g| g["tag"].as_str().expect("tag").to_owned()).collect()
    };
    assert_eq!(names(&groups("")), ["default", "b", "a"], "the latest first");
    assert_eq!(names(&groups("?sort=latest_asc")), ["a", "b", "default"]);
    assert_eq!(names(&groups("?sort=name_asc")), ["a", "b", "default"]);
    assert_eq!(names(&groups("?sort=name_desc")), ["default", "b", "a"]);
    assert_eq!(names(&groups("?search=EF")), ["default"]);
    let one = groups("?tagsLimit=1&assignmentLimit=1");
    assert_eq!(
        (&one["tags"][0]["hasMore"], one["tags"][0]["assignments"].as_array().map(Vec::len)),
        (&json!(true), Some(1))
    );
    assert_eq!(one["nextCursor"], "default");
    let rest = groups("?tagsCursor=default");
    assert_eq!((names(&rest), &rest["nextCursor"]), (vec!["b".to_owned(), "a".to_owned()], &Value::Null));
    for wrong in ["?sort=x", "?tagsLimit=0", "?assignmentLimit=101", "?tagsCursor=none"] {
        server.get(&format!("/templates/mine/tags/groups{wrong}")).error(400, "invalid_request");
    }
}

#[test]
fn whether_a_name_is_taken() {
    let server = with_another_team();
    let build = ready(&server, "mine");
    assert_eq!(
        server.get("/templates/aliases/mine").is(200).json(),
        json!({"templateID": build.template, "public": false})
    );
    let ask = |name: &str| as_other(&server, "GET", &format!("/templates/aliases/{name}"), None);
    ask("mine").error(404, "template_not_found");
    ask("default%2Fmine").error(403, "forbidden");
    ask(&build.template).error(403, "forbidden");
    ask("default%2Fother").error(404, "template_not_found");
    server.call("PATCH", "/v2/templates/mine", Some(json!({"public": true}))).is(200);
    assert_eq!(ask("mine").is(200).json()["public"], true);
    server.get("/templates/aliases/mine%3Anone").error(404, "template_not_found");
    server.get("/templates/aliases/a%20b").error(400, "invalid_request");
}

#[test]
fn a_template_is_published_and_hidden() {
    let server = with_another_team();
    let build = ready(&server, "mine");
    for (path, public) in [("/v2/templates/mine", true), ("/templates/mine", false)] {
        let answer = server.call("PATCH", path, Some(json!({"public": public}))).is(200).json();
        assert_eq!(answer, json!({"names": ["default/mine"]}));
        assert_eq!(server.get("/templates/mine").is(200).json()["public"], public);
        let seen = as_other(&server, "GET", &format!("/templates/{}", build.template), None);
        assert_eq!(seen.status == 200, public);
        let made = as_other(&server, "POST", "/v2/sandboxes", Some(r#"{"templateID":"default/mine"}"#));
        assert_eq!(made.status == 201, public, "{}", made.text);
    }
    server.call("PATCH", "/v2/templates/mine", Some(json!({}))).is(200);
    server.call("PATCH", "/v2/templates/mine", Some(json!({"public": "yes"}))).error(400, "invalid_request");
    server.call("PATCH", "/v2/templates/none", Some(json!({}))).error(404, "template_not_found");
    as_other(&server, "PATCH", "/v2/templates/default%2Fbase", Some(r#"{"public":false}"#)).error(403, "forbidden");
    as_other(&server, "DELETE", "/templates/base", None).error(403, "forbidden");
    as_other(&server, "POST", "/templates/tags", Some(r#"{"target":"base","tags":["x"]}"#)).error(403, "forbidden");
}

#[test]
fn an_unused_template_is_deleted() {
    let server = TestServer::start();
    let build = ready(&server, "mine");
    let under_way = requested(&server, json!({"name": "mine:next"}));
    begin(&server, &under_way);
    let delete = |name: &str| server.call("DELETE", &format!("/templates/{name}"), None);
    let id = server.post("/v2/sandboxes", json!({"templateID": "mine"})).is(201).member("sandboxID");
    server.post(&format!("/sandboxes/{id}/snapshots"), json!({"name": "shot"})).is(201);
    let message = delete("mine").error(400, "template_in_use");
    assert!(message.contains("1 sandboxes and 1 snapshots"), "{message}");
    server.kill(&id).is(204);
    delete("mine").error(400, "template_in_use");
    assert_eq!(
        server.get(&under_way.path("status")).is(200).json()["status"],
        "building",
        "a refused request cancels nothing"
    );
    delete("shot").is(204);
    let message = delete("mine%3Adefault2").error(404, "template_not_found");
    assert!(message.contains("default2"), "{message}");
    assign(&server, "mine", &["v1"]).is(201);
    delete("mine%3Av1").error(400, "invalid_request");
    delete("mine").is(204);
    delete("mine").error(404, "template_not_found");
    server.get(&build.path("status")).error(404, "template_not_found");
    server.post("/v2/sandboxes", json!({"templateID": "mine"})).error(404, "template_not_found");
    // The name now refers to a new template.
    let again = requested(&server, json!({"name": "mine"}));
    assert_ne!(again.template, build.template);
}
