//! A team's keys over the API: created, shown once, renamed, deleted.

use serde_json::{Value, json};

use crate::http::{Answer, send};
use crate::server::TestServer;

fn with_key(server: &TestServer, key: &str, method: &str, path: &str) -> Answer {
    send(server.address, method, path, &[("x-api-key", key)], None).expect("answer")
}

fn rows(server: &TestServer) -> Vec<Value> {
    server.get("/api-keys").is(200).json().as_array().expect("rows").clone()
}

#[test]
fn a_key_is_created_renamed_and_deleted() {
    let server = TestServer::start();
    let before = rows(&server);
    assert_eq!((before.len(), &before[0]["name"]), (1, &json!("first")));
    assert!(before[0]["lastUsed"].is_string(), "it was used just now");
    let answer = server.post("/api-keys", json!({"name": " laptop "})).is(201);
    let made = answer.json();
    let (id, key) = (answer.member("id"), answer.member("key"));
    assert!(key.starts_with("e2b_") && key.len() == 44);
    let mask =
        json!({"prefix": "e2b_", "valueLength": 40, "maskedValuePrefix": key[4..6], "maskedValueSuffix": key[40..]});
    assert_eq!((&made["name"], &made["mask"]), (&json!("laptop"), &mask));
    assert_eq!((&made["createdBy"], &made["lastUsed"]), (&Value::Null, &Value::Null));
    let form: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(form, [8, 4, 4, 4, 12], "clients read a UUID");

    let listed = server.get("/api-keys").is(200);
    assert!(!listed.text.contains(&key), "a key is shown once");
    assert_eq!(listed.json().as_array().map(Vec::len), Some(2));
    with_key(&server, &key, "GET", "/v2/sandboxes").is(200);
    server.call("PATCH", &format!("/api-keys/{id}"), Some(json!({"name": "desk"}))).is(200);
    let server = server.restart();
    let row = rows(&server).into_iter().find(|r| r["id"] == id.as_str()).expect("it survives a restart");
    assert_eq!(row["name"], "desk");
    with_key(&server, &key, "GET", "/v2/sandboxes").is(200);

    server.call("DELETE", &format!("/api-keys/{id}"), None).is(204);
    with_key(&server, &key, "GET", "/v2/sandboxes").error(401, "unauthorized");
    server.call("DELETE", &format!("/api-keys/{id}"), None).error(404, "key_not_found");
    with_key(&server.restart(), &key, "GET", "/v2/sandboxes").error(401, "unauthorized");
}

#[test]
fn the_last_key_cannot_be_deleted() {
    let server = TestServer::start();
    let first = rows(&server)[0]["id"].as_str().expect("id").to_owned();
    let message = server.call("DELETE", &format!("/api-keys/{first}"), None).error(409, "last_key");
    assert!(message.contains("Create another key"), "{message}");
    let second = server.post("/api-keys", json!({"name": "second"})).is(201);
    // Both at once: one is left.
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let delete = |key: String, id: String| {
            let address = server.address;
            scope.spawn(move || {
                send(address, "DELETE", &format!("/api-keys/{id}"), &[("x-api-key", &key)], None)
                    .expect("answer")
                    .status
            })
        };
        let both = [delete(server.key.clone(), first.clone()), delete(second.member("key"), second.member("id"))];
        both.map(|thread| thread.join().expect("thread")).to_vec()
    });
    assert_eq!(statuses.iter().filter(|s| **s == 204).count(), 1, "{statuses:?}");
}

#[test]
fn names_and_ids_are_checked() {
    let server = TestServer::start();
    let long = "x".repeat(257);
    for name in [json!(""), json!("  "), json!(long), json!("a\nb"), json!(5), json!(null)] {
        server.post("/api-keys", json!({"name": name})).error(400, "invalid_request");
    }
    server.post("/api-keys", json!({})).error(400, "invalid_request");
    for id in ["x", "00000000-0000-4000-8000-000000000000", "%ff", "..%2f"] {
        let answer = server.call("PATCH", &format!("/api-keys/{id}"), Some(json!({"name": "n"})));
        assert!([400, 404].contains(&answer.status), "{id}: {}", answer.text);
    }
    assert_eq!(rows(&server).len(), 1);
}

#[test]
fn the_machine_gets_another_key_when_its_own_was_deleted() {
    let server = TestServer::start();
    let first = rows(&server)[0]["id"].as_str().expect("id").to_owned();
    let (old, other) = (server.key.clone(), server.post("/api-keys", json!({"name": "other"})).is(201).member("key"));
    with_key(&server, &other, "DELETE", &format!("/api-keys/{first}")).is(204);
    let server = server.restart();
    assert_eq!(server.fresh_key.as_deref(), Some(server.key.as_str()));
    assert_eq!(rows(&server).len(), 2);
    with_key(&server, &old, "GET", "/api-keys").error(401, "unauthorized");
    let again = server.restart();
    assert_eq!((again.fresh_key.as_deref(), rows(&again).len()), (None, 2), "once");
}
